"""What convert says about a budget."""

from __future__ import annotations

from typing import Any

from edgesparse.cli.console import fail, say, table
from edgesparse.cli.names import short_names
from edgesparse.plan.plan import Plan
from edgesparse.profiling.budget import Verdict


def budget_json(verdict: Verdict | None) -> dict[str, Any] | None:
    """None: there was no budget."""
    if verdict is None:
        return None
    budget, unit = verdict.budget, _unit(verdict)
    cost = {"bound_emulated_cycles": verdict.cost} if verdict.target.npu is not None else {
        "predicted_instructions": verdict.cost,
        "assumed_cycles_per_instruction": verdict.target.cycles_per_instruction}
    return {
        "text": budget.text, unit: verdict.allowed, "clock_hz": budget.hz, **cost,
        "met": verdict.met, "on_cpu": list(verdict.on_cpu),
        "costly": [{"name": name, unit: cost} for name, cost in verdict.costly],
        "alternatives": [
            {"what": other.what, unit: other.cost, "meets": other.cost <= verdict.allowed}
            for other in verdict.alternatives],
    }


def _unit(verdict: Verdict) -> str:
    return "emulated_cycles" if verdict.target.npu is not None else "instructions"


def show_budget(verdict: Verdict | None, plan: Plan) -> None:
    """Nothing without a budget."""
    if verdict is None:
        return
    budget, target, cost = verdict.budget, verdict.target, verdict.cost
    run = "hop" if plan.model.stream is not None else "run"
    told = (f"the bound is {cost:,} emulated cycles" if target.npu is not None else
            f"predicted are {cost:,} QEMU instructions")
    figures = (f"{told} a {run}{budget.time_text(cost, target)}; the budget {budget.text} is "
               f"{verdict.allowed:,}")
    say()
    if verdict.met:
        say(f"budget {figures}: met", "green")
    else:
        fail(f"budget missed, no plan was written: {figures}")
        _show_ways(verdict)
    if verdict.on_cpu:
        say(f"not in the bound, on the CPU: {', '.join(short_names(verdict.on_cpu))}", "yellow")


def _show_ways(verdict: Verdict) -> None:
    """What costs most, and what would meet the budget or come nearest."""
    npu = verdict.target.npu is not None
    unit, total = ("cycles", "bound") if npu else ("instructions", "predicted")
    names = short_names([name for name, _ in verdict.costly])
    table(("costs most", f"{unit}>", f"of {total}>"),
          [(name, cost, f"{100 * cost / verdict.cost:.0f}%")
           for name, (_, cost) in zip(names, verdict.costly)])
    say()
    if verdict.alternatives:
        table(("instead", f"{total}>", "budget"),
              [(other.what, other.cost, "met" if other.cost <= verdict.allowed else "missed")
               for other in verdict.alternatives])
    if all(other.cost > verdict.allowed for other in verdict.alternatives):
        say("none of these meets it: a smaller model, or a longer budget")
