"""edgesparse inspect: what a plan holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from edgesparse.cli.console import emit, say, table
from edgesparse.cli.core_view import core_json, show_core
from edgesparse.cli.files import open_plan
from edgesparse.cli.layers import io_text, layer_json, layer_table, plan_json
from edgesparse.cli.names import short_names
from edgesparse.cli.npu_view import asm_lines, npu_json, show_npu
from edgesparse.cli.stream_option import show_stream, stream_json
from edgesparse.footprint import flash_of, memory_map
from edgesparse.plan.plan import Plan


def inspect(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    steps: Annotated[
        bool, typer.Option("--steps", help="Every step with full names and stages.")] = False,
    asm: Annotated[
        bool, typer.Option("--asm", help="The program for the NPU, instruction by instruction."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Show what a plan does and what its flash and RAM are spent on."""
    loaded = open_plan(plan)
    lines = asm_lines(loaded) if asm else []
    if as_json:
        emit(_json(loaded, plan) | ({"asm": lines} if asm else {}))
    elif asm:
        for line in lines:
            say(line, "bold" if line.startswith(";") else "")
    else:
        _show(loaded, plan, steps)


def _show(plan: Plan, path: Path, steps: bool) -> None:
    model = plan.model
    name = f" from {model.names.model}" if model.names and model.names.model else ""
    say(f"{path}{name} for {model.target}, made by {model.producer or 'unknown'}", "bold")
    say(f"SHA-256 {plan.digest}")
    for what, ios in (("in ", plan.inputs), ("out", plan.outputs)):
        for io in ios:
            say(f"{what} {io_text(io)}")
    show_stream(model.stream)
    show_npu(plan)
    show_core(plan)
    say(f"self test: {'yes' if model.golden else 'none stored'}")
    say()
    if steps:
        _show_steps(plan)
    else:
        layer_table(plan.layers, f"{len(plan.layers)} steps")
    say()
    flash = flash_of(plan)
    table(
        ("flash", "bytes>"),
        [*asdict(flash).items(), ("in all", plan.flash_bytes)])
    say()
    regions = memory_map(plan)
    names = short_names([region.name for region in regions])
    table(
        ("RAM", "kind", "offset>", "bytes>", "lives"),
        [*((name, r.kind, r.offset, r.bytes, _life(r.first, r.last, len(model.steps)))
           for name, r in zip(names, regions)),
         ("in all", "", "", plan.ram_bytes, "")])


def _show_steps(plan: Plan) -> None:
    for number, layer in enumerate(plan.layers):
        groups = ", ".join(
            f"{g.encoding} ({g.rows} rows, {g.bytes:,} B)" for g in layer.encodings)
        shapes = " + ".join(str(list(dims)) for dims in layer.inputs)
        results = " + ".join(str(list(dims)) for dims in layer.outputs)
        say(f"{number}: {layer.name}", "bold")
        say(f"   {layer.kind} {shapes} -> {results} {layer.layout}"
            + (f", then {', '.join(layer.stages)}" if layer.stages else ""))
        if groups:
            say(f"   weights {groups}; {layer.macs_stored:,} of {layer.macs:,} MACs")


def _life(first: int, last: int, steps: int) -> str:
    start = "caller" if first < 0 else f"step {first}"
    end = "caller" if last >= steps else f"step {last}"
    return start if start == end != "caller" else f"{start} .. {end}"


def _json(plan: Plan, path: Path) -> dict[str, Any]:
    sha = plan.model.source_sha256
    return {
        "plan": str(path),
        **plan_json(plan),
        "source_sha256": sha.hex() if sha else None,
        "self_test": plan.model.golden is not None,
        "stream": stream_json(plan.model.stream),
        "npu": npu_json(plan),
        "core": core_json(plan),
        "flash": asdict(flash_of(plan)),
        "layers": layer_json(plan.layers),
        "memory_map": [asdict(region) for region in memory_map(plan)],
    }
