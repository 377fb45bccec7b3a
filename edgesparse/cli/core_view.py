"""What a plan for a Cortex-M core is predicted to cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgesparse.cli.console import note, say, table
from edgesparse.cli.names import short_names
from edgesparse.plan.plan import Plan
from edgesparse.profiling.predicted import Predicted, cores, predict


def core_json(plan: Plan) -> dict[str, Any] | None:
    """None: the plan is for another kind of machine."""
    if plan.model.target not in cores():
        return None
    return {"predicted_instructions": predict(plan, plan.model.target).instructions}


def show_core(plan: Plan) -> None:
    """Nothing for a plan for another kind of machine."""
    if plan.model.target in cores():
        found = predict(plan, plan.model.target)
        say(f"core: predicted {found.instructions:,} QEMU instructions a {_run(found)}")


def note_made_for_host(plan: Plan) -> None:
    """For who brings a plan to a Cortex-M; nothing where it was made for one."""
    if plan.model.target == "host":
        note("the plan was made for host: there may be no kernels on a Cortex-M for the way its "
             "weights are stored; convert with --target cortex-m4 or cortex-m55 for those")


def predicted_json(found: Predicted, plan: Plan, clock_hz: int) -> dict[str, Any]:
    """What profile says, of a core without a device."""
    return {
        "kind": "edgesparse prediction", "on": found.on,
        "model": plan.model.names.model if plan.model.names else "", "plan_digest": plan.digest,
        "stream": found.stream, "predicted_instructions": found.instructions,
        "assumed_cycles_per_instruction": found.cycles_per_instruction,
        "clock_hz": clock_hz, "milliseconds": _milliseconds(found, clock_hz),
        "rest": found.rest, "layers": [asdict(layer) for layer in found.layers],
    }


def show_predicted(found: Predicted, plan: Plan, clock_hz: int, title: str) -> None:
    total = max(1, found.instructions)
    say(f"{title} on {found.on}: QEMU instructions a {_run(found)}, predicted, not run", "bold")
    rows = [(name, layer.kind, cost.instructions)
            for name, layer, cost in zip(
                short_names([layer.name for layer in plan.layers]), plan.layers, found.layers)]
    rest = "front end, decoder" if found.stream else "the run itself"
    table(("layer", "kind", "instructions>", "share>"),
          [(name, kind, n, f"{100 * n / total:.1f}%") for name, kind, n in (
              *rows, (rest, "", found.rest), ("in all", "", found.instructions))])
    say(f"{found.cycles_per_instruction:g} cycles an instruction are assumed for times: "
        f"{_milliseconds(found, clock_hz):.4g} ms at {clock_hz / 1e6:g} MHz")


def _milliseconds(found: Predicted, clock_hz: int) -> float:
    return 1000 * found.instructions * found.cycles_per_instruction / clock_hz


def _run(found: Predicted) -> str:
    return "hop" if found.stream else "run"
