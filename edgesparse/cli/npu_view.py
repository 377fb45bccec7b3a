"""What inspect shows of a plan's program for the NPU."""

from __future__ import annotations

from typing import Any

from edgesparse.cli.console import say
from edgesparse.cli.names import short_names
from edgesparse.errors import BadInput
from edgesparse.npu.isa import INSTRUCTION_BYTES
from edgesparse.npu.listing import host_steps, listing
from edgesparse.plan.plan import Plan


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
    }


def show_npu(plan: Plan) -> None:
    """Nothing where the plan has no program."""
    told = npu_json(plan)
    if told is None:
        return
    host = short_names(told["host_steps"]) if told["host_steps"] else []
    say(f"NPU: configuration {told['config']} ({plan.model.target}), {told['instructions']:,} "
        f"instructions ({told['prologue']:,} of them at a reset), {told['scratchpad_bytes']:,} "
        f"bytes of scratchpad; on the CPU: {', '.join(host) or 'nothing'}")


def asm_lines(plan: Plan) -> list[str]:
    """The program line by line. Raises BadInput when the plan has none."""
    npu = plan.model.npu
    if npu is None:
        raise BadInput(
            "--asm: the plan has no program for an NPU; convert the model with --target esn-s")
    return [*listing(npu, short_names([layer.name for layer in plan.layers]))]
