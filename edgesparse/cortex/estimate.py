"""Instructions of a run or a hop on a Cortex-M core, foretold without one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgesparse.cortex.rows import Work, cost_of
from edgesparse.cortex.work import hop_work, work_of
from edgesparse.plan import model as pm
from edgesparse.target import InstructionCosts


@dataclass(frozen=True)
class Estimate:
    """QEMU instructions, predicted; not cycles.

    steps  of each step
    rest   of a run or a hop besides: front end and decoder of a stream
    """

    steps: tuple[int, ...]
    rest: int

    @property
    def instructions(self) -> int:
        """Of a run, or a hop of a stream."""
        return sum(self.steps) + self.rest


def estimate(plan: pm.PlanModel, costs: InstructionCosts) -> Estimate:
    return Estimate(
        tuple(round(cost_of(work, costs)) for work in work_of(plan)),
        round(cost_of(rest_work(plan), costs)))


def rest_work(plan: pm.PlanModel) -> Work:
    """Of a run or a hop besides its steps."""
    work: Work = Counter({"runs": 1})
    return work if plan.stream is None else work + hop_work(plan, plan.stream)
