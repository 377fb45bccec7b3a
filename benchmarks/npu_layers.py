"""What the NPU benchmarks share: a layer of a model by itself on the NPU, and its counters.

Cycles are emulated (docs/NPU.md), energy is an estimate from constants; neither is
measured on a device.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from edgesparse.convert import Conversion, Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.npu.lower import lower_npu
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.profiling.energy import EnergyModel, energy_of
from edgesparse.runtime.npu import Counters, NpuKnobs, NpuMachine
from edgesparse.sparsity.formats import Format, decode_weights
from edgesparse.target import NpuConfig, load_target
from npu_run import machine_of
from plan_builder import PlanBuilder

ROOT = Path(__file__).resolve().parent.parent


def npu_of(target: str) -> NpuConfig:
    npu = load_target(target).npu
    assert npu is not None
    return npu


def converted(model: Path, target: str, options: Options | None = None) -> Conversion:
    return convert_model(model, target, options or Options(golden=False))


@dataclass(frozen=True, eq=False)
class Layer:
    """A Mac step of a plan and what it reads there.

    inputs  [runs, columns, channels] int8
    """

    name: str
    plan: pm.PlanModel
    number: int
    inputs: Array

    @property
    def mac(self) -> pm.Mac:
        source = self.plan.steps[self.number].source
        assert isinstance(source, pm.Mac)
        return source

    @property
    def weights(self) -> Array:
        """[rows, K] int8."""
        return decode_weights(self.mac.weights)

    @property
    def zero_point(self) -> int:
        return self.plan.tensors[self.plan.steps[self.number].input].place.zero_point


def layers_of(done: Conversion, feeds: list[Array]) -> list[Layer]:
    """Every Mac step with the activations that the model gives it; feeds: its inputs, int8."""
    plan = done.plan.model
    interpreter = Interpreter(done.plan.data)
    read: list[dict[int, Array]] = []
    for feed in feeds:
        interpreter.reset()
        read.append(interpreter.run_read([feed]))
    return [Layer(layer.name, plan, number, np.stack([run[number] for run in read]))
            for number, (step, layer) in enumerate(zip(plan.steps, done.plan.layers))
            if isinstance(step.source, pm.Mac)]


def alone(
    layer: Layer, weights: Array, form: Format, between: bool = True
) -> pm.PlanModel:
    """The layer with other weights [rows, K] as a plan of its own, without its second operands.

    between  a step that copies before and after it, so that transfers from and to the arena are
             theirs
    """
    step, mac = layer.plan.steps[layer.number], layer.mac
    g = mac.geometry
    read, written = (layer.plan.tensors[t].place for t in (step.input, step.branches[0].output))
    b = PlanBuilder()
    shape = g.in_h, g.in_w, g.in_c
    x = b.input(*shape, zero_point=read.zero_point)
    stored = pm.Weights(rows=g.rows, cols=weights.shape[1], groups=(form.row_group(weights),))
    source = replace(mac, weights=stored)
    out = written.columns, written.channels
    stages = tuple(s for s in step.branches[0].stages if not isinstance(s, (pm.Add, pm.Mul)))
    if not between:
        b.tail(source, x, b.output(*out, zero_point=written.zero_point), *stages)
        return b.plan()
    here, there = (b.tensor(*shape, zero_point=read.zero_point),
                   b.tensor(*out, zero_point=written.zero_point))
    b.tail(pm.Load(), x, here)
    b.tail(source, here, there, *stages)
    b.tail(pm.Load(), there, b.output(*out, zero_point=written.zero_point))
    return b.plan()


def machine(plan: pm.PlanModel, npu: NpuConfig, options: NpuOptions) -> NpuMachine:
    return machine_of(plan, lower_npu(plan, npu, options), npu)


def counted(
    plan: pm.PlanModel, on: NpuMachine, inputs: Array, knobs: NpuKnobs, step: int | None = 1
) -> Counters:
    """Sums over the runs: of the step, or of everything (None)."""
    place = plan.tensors[plan.inputs[0].tensor].place
    total: Counters = {}
    for x in inputs:
        arena = np.zeros(plan.arena_bytes, np.int8)
        arena[place.offset : place.offset + x.size] = x.ravel()
        run = on.run(arena, knobs)
        found = run.counters if step is None else run.marks[step]
        total = {name: total.get(name, 0) + value for name, value in found.items()}
    return total


def picojoules(c: Counters) -> float:
    """An estimate with the constants of edgesparse/profiling/energy.py."""
    return energy_of(c, EnergyModel()).total
