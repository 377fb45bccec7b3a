"""edgesparse export: a plan becomes a C project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgesparse.cli.console import emit, say
from edgesparse.cli.core_view import note_made_for_host
from edgesparse.cli.files import open_plan
from edgesparse.export import CPUS, export_plan


def export(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The directory to make.")],
    cpu: Annotated[
        str | None,
        typer.Option(metavar="|".join(CPUS), help="The Cortex-M it is built for; that of the "
                     "plan's target when left out."),
    ] = None,
    check_on_device: Annotated[
        bool,
        typer.Option("--check-on-device", help="The core checks each plan that it opens, and not "
                     "only that it is this one: 15 to 25 KB of flash more."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an earlier export.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write a C project around a plan: the plan, a core with what it needs, a program, CMake."""
    loaded = open_plan(plan)
    made = export_plan(loaded, output, cpu, trusted=not check_on_device, force=force)
    if as_json:
        emit({
            "plan": str(plan), "folder": str(made.folder), "cpu": made.cpu,
            "files": list(made.files), "features": list(made.features),
            "trusted": not check_on_device, "plan_bytes": loaded.flash_bytes,
            "ram_bytes": loaded.ram_bytes})
        return
    say(f"{plan} -> {output} for {made.cpu}: {len(made.files)} files", "bold")
    say(f"flash  {loaded.flash_bytes:,} bytes for the plan, and the code")
    say(f"RAM    {loaded.ram_bytes:,} bytes, and the stack")
    say(f"core   {', '.join(name.lower() for name in made.features)}")
    say(f"next   {output}/README.txt has the commands that build it")
    note_made_for_host(loaded)
