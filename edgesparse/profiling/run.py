"""es.profile: run a plan and say where its time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.npu.listing import host_steps
from edgesparse.plan.plan import Plan
from edgesparse.profiling.bound import bound_run, step_cycles
from edgesparse.profiling.device import CLOCK_HZ, QEMU, DeviceProfile, profile_emulated
from edgesparse.profiling.predicted import cores
from edgesparse.profiling.profile import (
    CPU,
    MERGED,
    NPU,
    HostLayer,
    HostProfile,
    LayerProfile,
    Profile,
    Tally,
)
from edgesparse.profiling.twin import dense_run
from edgesparse.runtime.npu import Counters, NpuKnobs, NpuRun
from edgesparse.runtime.npu_backend import PORTABLE, backends
from edgesparse.runtime.npu_plan import check_configuration, check_program
from edgesparse.runtime.session import Inputs, Session
from edgesparse.runtime.stream import Stream
from edgesparse.stimuli import pulses, sample_span
from edgesparse.target import load_target

HOST = "host"
RUNS = 8
HOPS = 200
"""So many runs, or hops of a stream, without inputs from the user."""
ROUNDS = 9
"""On the host, where other programs take time too."""


@dataclass(frozen=True)
class ProfileOptions:
    """How to profile.

    seed      of the inputs where the user gives none
    knobs     of an emulated NPU
    trace     keep the events of the last run
    clock_hz  of an emulated core, for milliseconds
    """

    seed: int = 0
    knobs: NpuKnobs = field(default_factory=NpuKnobs)
    trace: bool = False
    clock_hz: int = CLOCK_HZ


def profile(
    plan: Plan, x: Inputs | None = None, on: str = "esn-s",
    options: ProfileOptions | None = None,
) -> Profile | HostProfile | DeviceProfile:
    """Run a plan and count, layer by layer.

    x   as Session.run() takes it, one run or several; of a stream the samples, as Stream.push()
        does. None: uniform int8; of a stream bumps as of a heart, 72 a minute, in a little noise
    on  "host", the portable core; a target with an emulated NPU; or qemu:CPU, an emulated board
    Raises BadInput for an unknown machine or inputs that do not fit, WrongMachine when the plan was
    made for another machine, NpuRefused when its program is not sound, and for a board as
    profile_emulated().
    """
    options = options or ProfileOptions()
    if on.startswith(QEMU):
        return profile_emulated(plan, x, on, options.seed, options.clock_hz)
    machines = (HOST, *backends()[1:])
    if on not in machines:
        raise BadInput(
            f"on {on!r}: {', '.join(machines)} or {QEMU}CPU is allowed, and for the command "
            f"{', '.join(cores())}, predicted")
    if on == HOST:
        return _on_host(plan, x, options)
    check_program(plan)
    check_configuration(plan, on)
    return _on_npu(plan, x, on, options)


# ---- running


def _opened(plan: Plan, backend: str) -> Session | Stream:
    return Session(plan, backend) if plan.model.stream is None else Stream(plan, backend)


def _feed(opened: Session | Stream, x: Inputs | None, seed: int) -> int:
    """Run all of it; how many runs that were.

    Raises BadInput when samples are too few for a run.
    """
    rng = np.random.default_rng(seed)
    if isinstance(opened, Session):
        given = x if x is not None else [
            rng.integers(-128, 128, (RUNS, *io.shape)).astype(np.int8)
            for io in opened.plan.inputs]
        return _runs(opened.run(given), opened.plan)
    samples = _samples(opened.plan, rng) if x is None else x
    if not isinstance(samples, np.ndarray):
        raise BadInput(f"samples are a {type(samples).__name__}; an array [n] or [n, channels] is "
                       "allowed")
    opened.push(samples)
    if not opened.runs:
        raise BadInput(f"{len(samples)} samples: too few for a run, which takes {opened.hop} after "
                       "the filters of the front end have filled")
    return opened.runs


def _runs(y: Array | tuple[Array, ...], plan: Plan) -> int:
    first = y[0] if isinstance(y, tuple) else y
    return len(first) if first.ndim > len(plan.outputs[0].shape) else 1


def _samples(plan: Plan, rng: np.random.Generator) -> Array:
    """[n, channels] int16 for HOPS runs."""
    table = plan.model.stream
    assert table is not None
    span, each = sample_span(plan)
    shape = (HOPS * table.hop * each, plan.inputs[0].shape[-1])
    return pulses(shape, span, rng)


def _on_host(plan: Plan, x: Inputs | None, options: ProfileOptions) -> HostProfile:
    opened = _opened(plan, PORTABLE)
    rounds, times, runs = [], [0] * len(plan.layers), 0
    for _ in range(ROUNDS):
        opened.reset()
        opened.native.count()
        runs = _feed(opened, x, options.seed)
        times, seconds = map(list, zip(*opened.native.counts()))
        rounds.append(seconds)
    typical = np.median(rounds, axis=0)
    shares = typical / (typical.sum() or 1.0)
    return HostProfile(
        tuple(HostLayer(step, layer.name, times[step], float(shares[step]))
              for step, layer in enumerate(plan.layers)),
        isinstance(opened, Stream), runs, ROUNDS)


def _on_npu(plan: Plan, x: Inputs | None, on: str, options: ProfileOptions) -> Profile:
    config = load_target(on).npu
    assert config is not None
    opened = _opened(plan, on)
    assert opened.npu is not None
    tally = Tally(len(plan.model.steps))
    opened.npu.knobs, opened.npu.trace = options.knobs, options.trace
    opened.npu.watch = lambda run: tally.add(run.counters, run.marks)
    reset = opened.npu.reset()
    _feed(opened, x, options.seed)
    last = opened.npu.last
    assert last is not None
    bound = bound_run(plan, options.knobs)
    dense = dense_run(plan.model, config, options.knobs)
    return Profile(
        on, config, options.knobs, _layers(plan, tally, bound, dense),
        _total(tally, bound.counters, dense.counters), isinstance(opened, Stream), reset,
        dense.counters, last.trace, last.marks)


def _total(tally: Tally, bound: Counters, dense: Counters) -> LayerProfile:
    same = dense["host_steps"] == bound["host_steps"]
    return LayerProfile(
        -1, "in all", NPU, tally.total, tally.runs, tally.most_in_all, bound["cycles"],
        dense["cycles"] if same else 0)


def _layers(
    plan: Plan, tally: Tally, bound: NpuRun, dense: NpuRun
) -> tuple[LayerProfile, ...]:
    assert plan.model.npu is not None
    places = _places(len(plan.layers), host_steps(plan.model.npu), tally.steps)
    return tuple(
        LayerProfile(step, layer.name, where, tally.steps[step], tally.runs, tally.most[step],
                     step_cycles(bound.marks[step]), _dense_cycles(dense.marks[step], where))
        for step, (layer, where) in enumerate(zip(plan.layers, places)))


def _dense_cycles(mark: Counters, where: str) -> int:
    """0 where the dense twin leaves to the CPU what the plan does not."""
    return 0 if mark["host_steps"] and where != CPU else step_cycles(mark)


def _places(count: int, on_cpu: Sequence[int], marks: Sequence[Counters]) -> list[str]:
    """A step without a MARK was computed with the one before."""
    return [CPU if step in on_cpu else NPU if marks[step]["insns"] else MERGED
            for step in range(count)]
