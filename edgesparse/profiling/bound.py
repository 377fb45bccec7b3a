"""The static bound of a plan: emulated cycles of a run in which no activation is zero."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.errors import WrongMachine
from edgesparse.npu.listing import host_steps
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.npu import Counters, NpuKnobs, NpuRun, cycle_bound
from edgesparse.runtime.npu_plan import program_of
from edgesparse.target import Target, load_target, target_names


@dataclass(frozen=True)
class CycleBound:
    """What no run exceeds, in emulated cycles.

    cycles  of a run, or of a hop of a stream: launch included, steps of the CPU not
    steps   of each step in that run. A run reaches the end of no step later than the sum so far
            says; a single step may take longer, waiting for what it had less time to load
    on_cpu  names of the steps that are not in it
    """

    cycles: int
    steps: tuple[int, ...]
    on_cpu: tuple[str, ...]


def npu_target(plan: Plan) -> Target:
    """The target whose configuration the program of `plan` was made for.

    Raises WrongMachine when the plan has no program, or one for a configuration unknown here.
    """
    targets = [load_target(name) for name in target_names()]
    found = [t for t in targets if t.npu is not None and t.config == plan.model.config]
    if plan.model.npu is None or not found:
        made_for = f"for configuration {plan.model.config}" if plan.model.npu else "for an NPU"
        raise WrongMachine(
            f"the plan has no program {made_for} that is known here; convert the model with "
            f"--target {' or '.join(t.name for t in targets if t.npu)}")
    return found[0]


def bound_of(plan: Plan, knobs: NpuKnobs | None = None) -> CycleBound:
    """Raises WrongMachine as npu_target(); NpuRefused when the program is not sound."""
    bound = bound_run(plan, knobs)
    assert plan.model.npu is not None
    names = [layer.name for layer in plan.layers]
    return CycleBound(
        bound.counters["cycles"], tuple(step_cycles(mark) for mark in bound.marks),
        tuple(names[step] for step in host_steps(plan.model.npu)))


def bound_run(plan: Plan, knobs: NpuKnobs | None = None) -> NpuRun:
    """All counters of the run whose cycles are the bound. Raises as bound_of()."""
    config = npu_target(plan).npu
    assert config is not None
    return cycle_bound(config, program_of(plan, NativePlan(plan.data)), knobs)


def step_cycles(mark: Counters) -> int:
    """Cycles of a step: the launch is counted before the first one and belongs to none."""
    return mark["cycles"] - mark["launch_cyc"]
