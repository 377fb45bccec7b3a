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
    budget = verdict.budget
    return {
        "text": budget.text, "emulated_cycles": budget.cycles, "clock_hz": budget.hz,
        "bound_emulated_cycles": verdict.bound.cycles, "met": verdict.met,
        "on_cpu": list(verdict.bound.on_cpu),
        "costly": [{"name": name, "emulated_cycles": cycles} for name, cycles in verdict.costly],
        "alternatives": [
            {"what": other.what, "emulated_cycles": other.cycles,
             "meets": other.cycles <= budget.cycles} for other in verdict.alternatives],
    }


def show_budget(verdict: Verdict | None, plan: Plan) -> None:
    """Nothing without a budget."""
    if verdict is None:
        return
    budget, bound = verdict.budget, verdict.bound
    run = "hop" if plan.model.stream is not None else "run"
    figures = (f"the bound is {bound.cycles:,} emulated cycles a {run}"
               f"{budget.time_text(bound.cycles)}; the budget {budget.text} is "
               f"{budget.cycles:,}")
    say()
    if verdict.met:
        say(f"budget {figures}: met", "green")
    else:
        fail(f"budget missed, no plan was written: {figures}")
        _show_ways(verdict)
    if bound.on_cpu:
        say(f"not in the bound, on the CPU: {', '.join(short_names(bound.on_cpu))}", "yellow")


def _show_ways(verdict: Verdict) -> None:
    """What costs most, and what would meet the budget or come nearest."""
    budget, total = verdict.budget.cycles, verdict.bound.cycles
    names = short_names([name for name, _ in verdict.costly])
    table(("costs most", "cycles>", "of bound>"),
          [(name, cycles, f"{100 * cycles / total:.0f}%")
           for name, (_, cycles) in zip(names, verdict.costly)])
    say()
    table(("instead", "bound>", "budget"),
          [(other.what, other.cycles, "met" if other.cycles <= budget else "missed")
           for other in verdict.alternatives])
    if all(other.cycles > budget for other in verdict.alternatives):
        say("none of these meets it: a smaller model, or a longer budget")
