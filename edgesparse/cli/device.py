"""edgesparse device: emulated boards that run until they are stopped, and resets of any device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from edgesparse.cli.console import emit, say, shortened, stderr, table
from edgesparse.cli.files import check_writable, open_plan
from edgesparse.cli.port import BAUD, PORT_HELP, Baud, image_json, image_text, opened_link
from edgesparse.device import registry
from edgesparse.device.boards import BOARDS
from edgesparse.device.qemu import ICOUNT
from edgesparse.device.registry import Entry, Wanted
from edgesparse.errors import BadInput
from edgesparse.link.images import images

FLASH = 24
"""Characters of a file that are listed."""

device = typer.Typer(
    no_args_is_help=True, help="Emulated Cortex-M boards as devices; reset of any device.")


@device.command()
def start(
    cpu: Annotated[str, typer.Option(help=f"One of {', '.join(BOARDS)}.")] = "cortex-m4",
    plan: Annotated[
        Path | None, typer.Option(help="Install this plan in its flash; it runs at once.")] = None,
    flash: Annotated[
        Path | None,
        typer.Option(help="File of its flash, kept and used again; made if there is none.")
    ] = None,
    icount: Annotated[
        bool, typer.Option("--icount", help="Time is counted in instructions: it repeats exactly."
                           )] = False,
    name: Annotated[str | None, typer.Option(help="To stop it by; else its cpu.")] = None,
    firmware: Annotated[
        Path | None, typer.Option(help="An ELF file instead of the firmware that is built.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Start an emulated board and leave it running."""
    if plan is not None:
        open_plan(plan)
    if flash is not None:
        check_writable(flash, "--flash")
    with stderr().status("building the firmware"):
        entry = registry.start(
            Wanted(cpu, flash, ICOUNT if icount else None, plan, firmware), name)
    if as_json:
        emit(asdict(entry))
        return
    say(f"{entry.name} runs on {entry.port}")
    say(f"flash  {entry.flash if entry.keeps_flash else 'temporary: it goes with the device'}")
    say(f"stop   edgesparse device stop {entry.name}")


@device.command("list")
def list_devices(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List the devices that were started. One that has ended is listed once more, and forgotten."""
    found = registry.entries()
    for entry in found:
        if not entry.alive:
            registry.forget(entry)
    if as_json:
        emit({"devices": [asdict(entry) for entry in found]})
    elif not found:
        say("no devices")
    else:
        table(("name", "cpu", "state", "port", "flash"), [_row(entry) for entry in found])


def _row(entry: Entry) -> tuple[str | Text, ...]:
    flash = shortened(Text(entry.flash), FLASH) if entry.keeps_flash else "temporary"
    return entry.name, entry.cpu, "runs" if entry.alive else "ended", entry.port, flash


@device.command()
def stop(
    name: Annotated[str | None, typer.Argument(help="As device list has it.")] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All devices.")] = False,
) -> None:
    """Stop a device."""
    if (name is None) != all_of_them:
        raise BadInput("stop which? give the NAME of a device, or --all")
    for entry in registry.entries() if name is None else (registry.find(name),):
        registry.stop(entry)
        say(f"{entry.name} stopped" if entry.alive else f"{entry.name} had ended already")


@device.command()
def reset(
    port: Annotated[str, typer.Option(help=PORT_HELP)],
    baud: Baud = BAUD,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Restart a device over the link. A plan on trial ends with that, the confirmed one runs."""
    with stderr().status(f"resetting {port}"), opened_link(port, baud) as link:
        link.reset()
        now = images(link)
    if as_json:
        emit({"port": port, "now": [image_json(image) for image in now]})
        return
    say(f"{port} was reset")
    for image in now:
        say(f"now     {image_text(image)}")
    if not any(image.active for image in now):
        say("now     no plan runs")
