"""convert --budget: does a plan keep to a time, and if not, what would.

On a target with an NPU the bound of emulated cycles is held against it, on a Cortex-M core the
predicted instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from edgesparse.convert import Options, convert_model
from edgesparse.cortex.estimate import estimate
from edgesparse.cortex.twin import BLOCKS, pruned_instructions
from edgesparse.errors import BadInput
from edgesparse.npu.options import RESIDENT_FROM, NpuOptions, wants_resident
from edgesparse.plan.plan import Plan
from edgesparse.profiling.bound import bound_of
from edgesparse.profiling.twin import options_of, pruned_run
from edgesparse.target import Target, load_target, target_names

SECONDS = {"us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1)}
HERTZ = {"khz": 10**3, "mhz": 10**6, "ghz": 10**9}
NUMBER = r"(\d{1,18}(?:\.\d{1,18})?)"
TIME = re.compile(rf"{NUMBER}(us|ms|s)@{NUMBER}(khz|mhz|ghz)", re.IGNORECASE)
AMOUNT = re.compile(r"(cycles|instructions)=(\d{1,18})", re.IGNORECASE)
CLOCK = re.compile(rf"{NUMBER}(khz|mhz|ghz)", re.IGNORECASE)
SHOWN = 5
"""Layers that are listed, those that cost most."""
PRUNED = (0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Budget:
    """What a run may take, or a hop of a stream.

    text          as the user said it
    cycles        emulated ones of an NPU, or those of a core; 0: given in instructions
    hz            of the clock; None: not given as a time
    instructions  0: given in cycles
    """

    text: str
    cycles: int
    hz: int | None = None
    instructions: int = 0

    def allows(self, target: Target) -> int:
        """Emulated cycles on an NPU, instructions on a core."""
        if target.npu is not None or self.instructions:
            return self.instructions or self.cycles
        return int(self.cycles / Fraction(str(target.cycles_per_instruction)))

    def time_text(self, cost: int, target: Target) -> str:
        """", 1.23 ms at 64 MHz", on a core with what that assumes; nothing without a clock."""
        if self.hz is None:
            return ""
        each = target.cycles_per_instruction if target.npu is None else 1.0
        text = f", {1000 * cost * each / self.hz:.4g} ms at {self.hz / 1e6:g} MHz"
        return text if target.npu is not None else f"{text} and {assumed_cycles(target)}"


def assumed_cycles(target: Target) -> str:
    return f"{target.cycles_per_instruction:g} cycles an instruction (assumed)"


@dataclass(frozen=True)
class Alternative:
    """Something else that was tried, and what it would cost."""

    what: str
    cost: int


@dataclass(frozen=True)
class Verdict:
    """The cost of a plan against a budget.

    target        of the plan: with an NPU costs are emulated cycles, `cost` their bound; on a core
                  they are instructions, and predicted
    allowed       by the budget, in the same unit
    costly        (layer, cost) of the layers that cost most
    on_cpu        names of the steps beside an NPU, which are not in its cost
    alternatives  what else was tried when the budget is missed, the nearest first
    """

    budget: Budget
    target: Target
    cost: int
    allowed: int
    costly: tuple[tuple[str, int], ...]
    on_cpu: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def met(self) -> bool:
        return self.cost <= self.allowed


def parse_budget(text: str) -> Budget:
    """20ms@64MHz, cycles=N or instructions=N. Raises BadInput for anything else."""
    if found := AMOUNT.fullmatch(text):
        in_cycles, amount = found[1].lower() == "cycles", int(found[2])
        return _checked(
            Budget(text, amount) if in_cycles else Budget(text, 0, instructions=amount))
    if found := TIME.fullmatch(text):
        hertz = Fraction(found[3]) * HERTZ[found[4].lower()]
        seconds = Fraction(found[1]) * SECONDS[found[2].lower()]
        return _checked(Budget(text, int(seconds * hertz), int(hertz)))
    raise BadInput(
        f"--budget {text}: a time in us, ms or s at a clock in kHz, MHz or GHz, such as "
        "20ms@64MHz, or cycles=N is allowed, on a Cortex-M target instructions=N too")


def split_target(text: str) -> tuple[str, str]:
    """A budget that ends with @ and a target: (the budget, the target or nothing).

    Raises BadInput where a whole budget is followed by what is no target.
    """
    head, _, last = text.rpartition("@")
    if TIME.fullmatch(head) or AMOUNT.fullmatch(head):
        load_target(last)
    return (head, last) if head and last in target_names() else (text, "")


def parse_clock(text: str) -> int:
    """64MHz -> Hz. Raises BadInput for anything else."""
    found = CLOCK.fullmatch(text)
    hertz = int(Fraction(found[1]) * HERTZ[found[2].lower()]) if found else 0
    if not hertz:
        raise BadInput(f"--clock {text}: a number above 0 and kHz, MHz or GHz is allowed, such as "
                       "64MHz")
    return hertz


def _checked(budget: Budget) -> Budget:
    if not budget.cycles and not budget.instructions:
        raise BadInput(f"--budget {budget.text}: this is no cycle; 1 or more is allowed")
    return budget


def check_target(name: str, budget: Budget) -> None:
    """Raises BadInput for a target whose cost nobody knows, or that has another unit."""
    target = load_target(name)
    if target.npu is not None and budget.instructions:
        raise BadInput(
            f"--budget {budget.text}: {name} is bounded in emulated cycles; a time or cycles=N is "
            "allowed")
    if target.npu is None and target.instructions is None:
        known = [load_target(other) for other in target_names()]
        npus = ", ".join(t.name for t in known if t.npu)
        cores = ", ".join(t.name for t in known if t.instructions)
        raise BadInput(
            f"--budget: nothing is known of the time that target {name} takes; name one of {npus} "
            f"(bound in cycles) or {cores} (predicted instructions), with --target or as in "
            "20ms@64MHz@cortex-m4")
    if budget.allows(target) < 1:
        raise BadInput(
            f"--budget {budget.text}: less than one instruction at {assumed_cycles(target)}")


def judge(plan: Plan, budget: Budget, model: Path, options: Options) -> Verdict:
    """Hold `plan`, converted from `model` with `options`, against the budget.

    When it is missed, a few other ways are tried; with an NPU that takes some time.
    """
    target = load_target(plan.model.target)
    names = [layer.name for layer in plan.layers]
    if target.npu is not None:
        bound = bound_of(plan)
        verdict = Verdict(
            budget, target, bound.cycles, budget.allows(target), _most(names, bound.steps),
            bound.on_cpu)
        if verdict.met:
            return verdict
        return _with(verdict, (*_elsewhere(plan, model, options), *_pruned(plan)))
    assert target.instructions is not None
    found = estimate(plan.model, target.instructions)
    verdict = Verdict(budget, target, found.instructions, budget.allows(target), _most(
        [*names, "front end and decoder" if plan.model.stream is not None else "the run itself"],
        (*found.steps, found.rest)))
    return verdict if verdict.met else _with(verdict, _pruned_on_core(plan, target))


def _most(names: Iterable[str], costs: Iterable[int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(zip(names, costs, strict=True), key=lambda pair: -pair[1])[:SHOWN])


def _with(verdict: Verdict, tried: Iterable[Alternative]) -> Verdict:
    return replace(verdict, alternatives=tuple(sorted(tried, key=lambda a: a.cost)))


def _pruned_on_core(plan: Plan, target: Target) -> Iterator[Alternative]:
    """With more zeros in the weights, in the blocks that suit this net best."""
    for share in (share for share in PRUNED if share > _zeros(plan)):
        tried = [(pruned_instructions(plan.model, target, blocks, share), blocks)
                 for blocks in BLOCKS]
        cost, (rows, cols) = min(tried)
        yield Alternative(f"{100 * share:.0f} % of weights zero in {rows}x{cols} blocks", cost)


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
