"""Fit what a Cortex-M core takes for each kind of work, from counts on the emulated core.

    python tools/fit_instructions.py --data-root ../shared --write

Every plan of fitted() in benchmarks/instruction_models.py runs in QEMU, step by step; non-negative
least squares of the relative errors give the instructions of each kind of work
(edgesparse/cortex/work.py). Then the plans of judged(), none of them in the fit, are counted and
predicted. --write puts the costs into edgesparse/targets/; without it, those that stand there are
judged. Both cores take a minute, more where the machine is busy (--workers). Exit code 1: a plan is
predicted with an error above 15 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from device_instructions import checked, count_steps, firmware, plugin, samples
from instruction_models import Case, fitted, judged
from records import markdown

from edgesparse.cortex.estimate import estimate, rest_work
from edgesparse.cortex.rows import Work
from edgesparse.cortex.work import work_of
from edgesparse.errors import DoesNotFit
from edgesparse.plan.plan import Plan
from edgesparse.target import InstructionCosts, load_target

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("cortex-m4", "cortex-m55")
MOST_ERROR = 0.15
SMALL = 400
"""Instructions below which an error of a step hardly counts."""
WHOLE = 4.0
"""Weight of a whole run beside that of a step."""
WORKERS = 2
"""Plans that are counted at the same time; QEMU takes a core for each."""
MARK = "[instructions]"


@dataclass(frozen=True)
class Counted:
    """A plan, the instructions of each step and of a run or hop: the mean of many."""

    name: str
    plan: Plan
    steps: tuple[int, ...]
    run: float

    def rows(self, kernels: str) -> list[tuple[Work, float, float]]:
        """(work, instructions, weight) of each step, of the rest, and of all."""
        works = [*work_of(self.plan.model, kernels), rest_work(self.plan.model)]
        amounts = [*map(float, self.steps), self.run - sum(self.steps)]
        whole: Work = Work()
        for work in works:
            whole.update(work)
        return [(w, n, 1.0) for w, n in zip(works, amounts)] + [(whole, self.run, WHOLE)]


def counted(target: str, cases: Iterable[Case], workers: int = WORKERS) -> list[Counted]:
    """All that fit the target, in order."""
    firmware(target)  # built once, before anyone needs it
    plugin()
    with ThreadPoolExecutor(workers) as pool:
        found = pool.map(partial(_count, target), cases)
        return [plan for plan in found if plan is not None]


def _count(target: str, case: Case) -> Counted | None:
    try:
        plan = case.make(target)
    except DoesNotFit as refused:
        print(f"{target} {case.name}: {refused}", file=sys.stderr)
        return None
    if not case.chunk:
        run = checked(target, plan, steps=True)
        return Counted(case.name, plan, run.steps, run.regions[-1])
    run = count_steps(target, plan, samples().tobytes(), case.chunk)
    hops = run.regions[len(run.regions) // 2:]
    return Counted(case.name, plan, run.steps, sum(hops) / len(hops))


def fit(kernels: str, plans: Sequence[Counted]) -> dict[str, float]:
    """Work -> instructions of one; work that takes none is left out."""
    rows = [row for plan in plans for row in plan.rows(kernels)]
    names = sorted({name for work, _, _ in rows for name in work})
    matrix = np.array([[work[name] for name in names] for work, _, _ in rows], float)
    wanted = np.array([amount for _, amount, _ in rows])
    weight = np.array([weight for _, _, weight in rows]) / (np.abs(wanted) + SMALL)
    matrix *= weight[:, None]
    size = np.linalg.norm(matrix, axis=0)
    found, _ = nnls(matrix / size, wanted * weight, maxiter=100 * len(names))
    return {name: float(f"{cost:.5g}") for name, cost in zip(names, found / size) if cost > 0}


def report(target: str, costs: InstructionCosts, plans: Sequence[Counted]) -> float:
    """Print a table; the largest error."""
    rows, errors = [], []
    for plan in plans:
        told = estimate(plan.plan.model, costs)
        error = told.instructions / plan.run - 1
        errors.append(abs(error))
        rows.append((plan.name, f"{plan.run:,.0f}", f"{told.instructions:,}", f"{error:+.1%}"))
    print(markdown((f"{target}", "counted", "predicted", "error"), rows))
    print(f"\n{len(rows)} plans; errors: mean {np.mean(errors):.1%}, most {max(errors):.1%}\n")
    return max(errors)


def write(target: str, costs: InstructionCosts, plans: int) -> None:
    """Replace the section of the target's file."""
    path = ROOT / "edgesparse" / "targets" / f"{target}.toml"
    head, _, _ = path.read_text(encoding="utf-8").partition(MARK)
    lines = [MARK,
             "# QEMU instructions of each kind of work (edgesparse/cortex/work.py), fitted to "
             f"{plans} plans by",
             "# python tools/fit_instructions.py --data-root ../shared --write",
             *(f'"{name}" = {cost:g}' for name, cost in costs.each.items())]
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: both")
    parser.add_argument("--write", action="store_true", help="fit, and write targets/*.toml")
    parser.add_argument("--workers", type=int, default=WORKERS, help="QEMU at the same time")
    parser.add_argument("--steps", action="store_true", help="list the worst steps too")
    args = parser.parse_args()
    most = 0.0
    for target in args.target or TARGETS:
        costs = load_target(target).instructions
        assert costs is not None
        if args.write:
            plans = counted(target, fitted(args.data_root), args.workers)
            costs = replace(costs, each=fit(costs.kernels, plans))
            write(target, costs, len(plans))
            load_target.cache_clear()  # the others are converted with these costs
            report(f"{target}, fitted", costs, plans)
        others = counted(target, judged(args.data_root), args.workers)
        most = max(most, report(target, costs, others))
        if args.steps:
            show_steps(costs, [*plans, *others] if args.write else others)
    return int(most > MOST_ERROR)


def show_steps(costs: InstructionCosts, plans: Sequence[Counted]) -> None:
    """The steps that are off by most instructions."""
    rows = []
    for plan in plans:
        told = estimate(plan.plan.model, costs)
        for layer, counted, predicted in zip(plan.plan.layers, plan.steps, told.steps):
            share = abs(predicted - counted) / plan.run
            rows.append((share, plan.name, layer.kind, layer.inputs, layer.outputs,
                         "+".join(layer.stages), [e.encoding for e in layer.encodings],
                         counted, predicted))
    rows.sort(key=lambda row: -row[0])
    for row in rows[:40]:
        print(f"{row[0]:.1%}", *row[1:], file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
