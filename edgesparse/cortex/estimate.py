"""Instructions of a run or a hop on a Cortex-M core, foretold without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from edgesparse.cortex.regular import Whole
from edgesparse.cortex.rows import Work, cost_of, rows_as, sweep_of
from edgesparse.cortex.work import KERNELS, hop_work, tiles_work, work_of
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.sparsity.formats import Format
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
        tuple(round(cost_of(work, costs)) for work in work_of(plan, costs.kernels)),
        round(cost_of(rest_work(plan), costs)))


def format_cost(costs: InstructionCosts, columns: int) -> Callable[[Format, Array], float]:
    """(format, w [rows, K]) -> instructions of a layer with so many output columns, where a kernel
    takes it whole if one can: gathering its inputs, sums, scaling."""
    sweep = sweep_of(columns)

    def cost(form: Format, w: Array) -> float:
        rows = rows_as(form, w)
        shape = pm.Geometry(in_w=columns, in_c=rows.cols, out_w=columns, rows=rows.rows)
        whole = KERNELS[costs.kernels](Whole(shape, rows))
        return cost_of(whole if whole is not None else tiles_work(shape, rows, sweep), costs)

    return cost


def rest_work(plan: pm.PlanModel) -> Work:
    """Of a run or a hop besides its steps."""
    work: Work = Counter({"runs": 1})
    return work if plan.stream is None else work + hop_work(plan, plan.stream)
