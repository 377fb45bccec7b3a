"""What inspect shows of a plan's program for the NPU."""

from __future__ import annotations

from typing import Any

from edgesparse.cli.console import say
from edgesparse.cli.names import short_names
from edgesparse.errors import BadInput, NpuRefused, WrongMachine
from edgesparse.npu.isa import INSTRUCTION_BYTES
from edgesparse.npu.listing import host_steps, listing
from edgesparse.plan.plan import Plan
from edgesparse.profiling.bound import bound_of


def npu_json(plan: Plan) -> dict[str, Any] | None:
    """None: the plan has no program."""
    npu = plan.model.npu
    if npu is None:
        return None
    return {
        "config": npu.config,
        "scratchpad_bytes": npu.scratchpad_bytes,
        "instructions": len(npu.commands) // INSTRUCTION_BYTES,
        "prologue": npu.prologue,
        "blobs": len(npu.blobs),
        "host_steps": [
            plan.layers[step].name for step in host_steps(npu) if step < len(plan.layers)],
        **_bound_json(plan),
    }


def _bound_json(plan: Plan) -> dict[str, Any]:
    """Without a bound, why: a plan is of use on the portable core even so."""
    try:
        bound = bound_of(plan)
    except (NpuRefused, WrongMachine) as refused:
        return {"bound_emulated_cycles": None, "no_bound": str(refused)}
    return {"bound_emulated_cycles": bound.cycles, "no_bound": None}


def show_npu(plan: Plan) -> None:
    """Nothing where the plan has no program."""
    told = npu_json(plan)
    if told is None:
        return
    host = short_names(told["host_steps"]) if told["host_steps"] else []
    say(f"NPU: configuration {told['config']} ({plan.model.target}), {told['instructions']:,} "
        f"instructions ({told['prologue']:,} of them at a reset), {told['scratchpad_bytes']:,} "
        f"bytes of scratchpad; on the CPU: {', '.join(host) or 'nothing'}")
    if told["no_bound"]:
        say(f"NPU: no bound of cycles: {told['no_bound']}", "yellow")
    else:
        run = "hop" if plan.model.stream is not None else "run"
        say(f"NPU: at most {told['bound_emulated_cycles']:,} emulated cycles a {run}, launch and "
            "instruction fetch included")


def asm_lines(plan: Plan) -> list[str]:
    """The program line by line. Raises BadInput when the plan has none."""
    npu = plan.model.npu
    if npu is None:
        raise BadInput(
            "--asm: the plan has no program for an NPU; convert the model with --target esn-s")
    return [*listing(npu, short_names([layer.name for layer in plan.layers]))]
