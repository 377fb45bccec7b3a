"""Every result that is left after a run of an NPU program, against the oracle of the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgesparse.comparison import Tally
from edgesparse.convert import Conversion, Options, int8_graph
from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.oracle import judge_of
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.npu import Counters, NpuKnobs, cycle_bound
from edgesparse.stimuli import stimuli
from edgesparse.target import NpuConfig
from edgesparse.verify import _as_users_get, _counterparts, _judged, _stored
from npu_run import check_identities, machine_of, survivors


@dataclass(frozen=True)
class AgainstOracle:
    """Sums over the runs; cycles of the slowest run.

    tensors    whose bytes were compared, outputs included
    unknown    surviving tensors that the model does not have
    """

    tensors: int
    elements: int
    differing: int
    unknown: int
    counters: Counters
    bound: int


def against_oracle(
    done: Conversion, path: Path, npu: NpuConfig, runs: int = 4, knobs: NpuKnobs | None = None
) -> AgainstOracle:
    """Run the program that convert() made; identities and bound are asserted on the way.

    Raises AssertionError.
    """
    knobs = knobs or NpuKnobs()
    plan, lowered = done.plan, done.npu
    assert lowered is not None
    data, imported = path.read_bytes(), import_tflite(path.read_bytes(), path.name)
    graph, _ = int8_graph(data, path.name, Options())
    known = {t: t for t, tensor in imported.tensors.items() if tensor.data is None}
    counterparts = _counterparts(plan, graph, known)
    theirs = _judged(plan, judge_of(data, path.name).judge, imported, counterparts)
    machine = machine_of(plan.model, lowered, npu)
    bound = cycle_bound(npu, machine.program, knobs).counters["cycles"]
    tallies: dict[object, Tally] = {}
    unknown: set[int] = set()
    most: Counters = {}
    for run, feeds in enumerate(stimuli(plan.inputs, runs, np.random.default_rng(0))):
        native = NativeSession(NativePlan(plan.data))
        for buffer, values in zip(native.inputs, _stored(feeds, plan.inputs), strict=True):
            buffer[:] = values.ravel()
        machine.reset()
        counters = machine.run(native.arena, knobs, native.run_step).counters
        check_identities(plan.model, lowered, machine, counters)
        assert counters["cycles"] <= bound
        most = max(most, counters, key=lambda c: c.get("cycles", 0))
        expected, outputs = theirs(feeds)
        found: dict[object, tuple[Array, Array]] = {}
        for tensor, values in survivors(machine, lowered):
            if tensor in expected:
                found[tensor] = values, expected[tensor]
            else:
                unknown.add(tensor)
        stored = [y.copy() for y in native.outputs]
        for io, y, z in zip(plan.outputs, _as_users_get(stored, plan.outputs), outputs):
            found[io.name] = y, z
        for name, (ours, wanted) in found.items():
            tallies.setdefault(name, Tally(str(name), "")).add(
                run, ours, wanted.reshape(ours.shape))
    return AgainstOracle(
        len(tallies), sum(t.elements for t in tallies.values()),
        sum(t.differing for t in tallies.values()), len(unknown), most, bound)
