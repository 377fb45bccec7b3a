"""convert --budget: does the bound of a plan keep to a time, and if not, what would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from edgesparse.convert import Options, convert_model
from edgesparse.errors import BadInput
from edgesparse.npu.options import RESIDENT_FROM, NpuOptions, wants_resident
from edgesparse.plan.plan import Plan
from edgesparse.profiling.bound import CycleBound, bound_of
from edgesparse.profiling.twin import options_of, pruned_run
from edgesparse.target import load_target, target_names

SECONDS = {"us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1)}
HERTZ = {"khz": 10**3, "mhz": 10**6, "ghz": 10**9}
NUMBER = r"(\d{1,18}(?:\.\d{1,18})?)"
TIME = re.compile(rf"{NUMBER}(us|ms|s)@{NUMBER}(khz|mhz|ghz)", re.IGNORECASE)
CLOCK = re.compile(rf"{NUMBER}(khz|mhz|ghz)", re.IGNORECASE)
CYCLES = re.compile(r"cycles=(\d{1,18})", re.IGNORECASE)
SHOWN = 5
"""Layers that are listed, those that cost most."""
PRUNED = (0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Budget:
    """Emulated cycles a run may take, or a hop of a stream.

    text  as the user said it
    hz    of the clock; None: given in cycles
    """

    text: str
    cycles: int
    hz: int | None = None

    def time_text(self, cycles: int) -> str:
        """", 1.23 ms at 64 MHz"; nothing without a clock."""
        if self.hz is None:
            return ""
        return f", {1000 * cycles / self.hz:.4g} ms at {self.hz / 1e6:g} MHz"


@dataclass(frozen=True)
class Alternative:
    """Something else that was tried, and its bound."""

    what: str
    cycles: int


@dataclass(frozen=True)
class Verdict:
    """A bound against a budget.

    costly        (layer, cycles) of the layers that cost most
    alternatives  what else was tried when the budget is missed, the nearest first
    """

    budget: Budget
    bound: CycleBound
    costly: tuple[tuple[str, int], ...]
    alternatives: tuple[Alternative, ...] = ()

    @property
    def met(self) -> bool:
        return self.bound.cycles <= self.budget.cycles


def parse_budget(text: str) -> Budget:
    """20ms@64MHz or cycles=N. Raises BadInput for anything else."""
    if found := CYCLES.fullmatch(text):
        return _checked(Budget(text, int(found[1])))
    if found := TIME.fullmatch(text):
        hertz = Fraction(found[3]) * HERTZ[found[4].lower()]
        seconds = Fraction(found[1]) * SECONDS[found[2].lower()]
        return _checked(Budget(text, int(seconds * hertz), int(hertz)))
    raise BadInput(
        f"--budget {text}: a time in us, ms or s at a clock in kHz, MHz or GHz, such as "
        "20ms@64MHz, or cycles=N is allowed")


def parse_clock(text: str) -> int:
    """64MHz -> Hz. Raises BadInput for anything else."""
    found = CLOCK.fullmatch(text)
    hertz = int(Fraction(found[1]) * HERTZ[found[2].lower()]) if found else 0
    if not hertz:
        raise BadInput(f"--clock {text}: a number above 0 and kHz, MHz or GHz is allowed, such as "
                       "64MHz")
    return hertz


def _checked(budget: Budget) -> Budget:
    if not budget.cycles:
        raise BadInput(f"--budget {budget.text}: this is no cycle; 1 or more is allowed")
    return budget


def check_target(target: str) -> None:
    """Raises BadInput for a target whose cycles nobody can bound."""
    if load_target(target).npu is None:
        bounded = [name for name in target_names() if load_target(name).npu]
        raise BadInput(
            f"--budget: there is no bound of cycles for target {target}; with one are "
            f"{', '.join(bounded)}")


def judge(plan: Plan, budget: Budget, model: Path, options: Options) -> Verdict:
    """Compare the bound of `plan`, converted from `model` with `options`, with the budget.

    When it is missed, a few other ways are lowered and bounded; that takes some time.
    """
    bound = bound_of(plan)
    names = [layer.name for layer in plan.layers]
    costs = sorted(zip(names, bound.steps), key=lambda cost: -cost[1])
    verdict = Verdict(budget, bound, tuple(costs[:SHOWN]))
    if verdict.met:
        return verdict
    tried = [*_elsewhere(plan, model, options), *_pruned(plan)]
    return replace(verdict, alternatives=tuple(sorted(tried, key=lambda a: a.cycles)))


def _elsewhere(plan: Plan, model: Path, options: Options) -> Iterator[Alternative]:
    """On the targets of products, weights loaded in every run or once."""
    resident_now = _resident(plan)
    for name in target_names():
        npu = load_target(name).npu
        if npu is None or npu.scratchpad_bytes >= RESIDENT_FROM:
            continue
        for resident in (False, True):
            if name == plan.model.target and resident_now == resident:
                continue
            changed = replace(
                options, golden=False, dump_after=(),
                npu=replace(options.npu or NpuOptions(), resident=resident))
            other = convert_model(model, name, changed).plan
            what = f"--target {name}" + (" --npu-resident" if resident else "")
            yield Alternative(what, bound_of(other).cycles)


def _pruned(plan: Plan) -> Iterator[Alternative]:
    """With more zeros in the weights, as training would have to put them."""
    npu = load_target(plan.model.target).npu
    assert npu is not None
    used, resident_now = options_of(plan.model), _resident(plan)
    for resident in dict.fromkeys((resident_now, True)):
        also = " --npu-resident" if resident != resident_now else ""
        for share in (share for share in PRUNED if share > _zeros(plan)):
            run = pruned_run(plan.model, npu, share, replace(used, resident=resident))
            yield Alternative(
                f"{100 * share:.0f} % of weights zero in {npu.lanes}x1 blocks{also}",
                run.counters["cycles"])


def _zeros(plan: Plan) -> float:
    """Share of all weights that are zero."""
    zeros = sum(layer.zeros * layer.dense_bytes for layer in plan.layers)
    return zeros / max(1, sum(layer.dense_bytes for layer in plan.layers))


def _resident(plan: Plan) -> bool:
    npu = load_target(plan.model.target).npu
    return npu is not None and wants_resident(options_of(plan.model), npu)
