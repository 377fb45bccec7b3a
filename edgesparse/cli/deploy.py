"""edgesparse deploy: a plan onto a device, tested there before it stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from edgesparse.cli.console import INTERRUPTED, bar, emit, fail, say
from edgesparse.cli.core_view import note_made_for_host
from edgesparse.cli.files import open_plan
from edgesparse.cli.port import (
    BAUD,
    PORT_HELP,
    Baud,
    device_text,
    hash_text,
    image_json,
    image_text,
    opened_link,
)
from edgesparse.errors import DeviceRefused, LinkError, LinkRefused
from edgesparse.link.deploy import Course, Deployed, Outcome, Stage, running
from edgesparse.link.deploy import deploy as run_deploy
from edgesparse.plan.plan import Plan

WITH_KERNELS = ("dsp", "mve")
"""Of Cortex-M: plans for a host may be slow there."""


def deploy(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    port: Annotated[str, typer.Option(help=PORT_HELP)],
    baud: Baud = BAUD,
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Keep the plan once its self test has "
                           "passed; without, the next reset brings the old one back.")] = True,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for the device to come back after a reset.")
    ] = 20.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Upload a plan to a device, try it, test it there and confirm it. A plan whose self test fails
    is taken back. What is cut short goes on with the same command."""
    loaded = open_plan(plan)
    course = Course()
    start = time.monotonic()
    with _going_on(course, loaded, f"{plan.name} on {port}"), opened_link(port, baud) as link, \
            bar(f"deploying {plan.name}", len(loaded.data)) as show:
        course.watch = lambda now: show(now.sent)
        done = run_deploy(link, loaded, confirm, timeout, course)
    seconds = time.monotonic() - start
    if as_json:
        emit(_json(done, plan, port, seconds))
    else:
        _show(done, loaded, plan.name, seconds)
    if done.outcome is Outcome.REVERTED:
        if not as_json:
            fail(f"{plan.name} was taken back: {done.why}; {_verdict(done)}")
        raise typer.Exit(1)


@contextmanager
def _going_on(course: Course, plan: Plan, where: str) -> Iterator[None]:
    """Says where it was and how to go on after Ctrl-C, a refusal or a failure of the link."""
    try:
        yield
    except KeyboardInterrupt:
        fail(f"{where}: interrupted while {course.stage.value}: {_how_to_go_on(course, plan)}")
        raise typer.Exit(INTERRUPTED) from None
    except DeviceRefused as refused:
        raise DeviceRefused(f"{where}: {refused}", refused.code) from refused
    except LinkRefused as refused:
        raise LinkError(f"{where}: {refused}") from refused
    except LinkError as error:
        raise LinkError(
            f"{where}: {error}; it was {course.stage.value}: {_how_to_go_on(course, plan)}"
        ) from error


def _how_to_go_on(course: Course, plan: Plan) -> str:
    if course.stage is Stage.ASK:
        return "nothing was changed on the device"
    if course.stage is Stage.UPLOAD and course.sent < len(plan.data):
        return (f"the device has {course.sent:,} of {len(plan.data):,} bytes and runs what it ran; "
                "the same command goes on there, or anew after a reset of the device")
    if course.stage in (Stage.UPLOAD, Stage.REQUEST):
        return ("the device has all of the plan and runs what it ran; the same command goes on "
                "with the trial")
    if course.stage is Stage.REVERT:
        return "the next reset of the device ends the trial"
    unsure = ", or confirmed by now" if course.stage is Stage.CONFIRM else ""
    return (f"the plan is on trial{unsure}; the same command tests and confirms it, a reset of the "
            "device without that ends the trial")


def _verdict(done: Deployed) -> str:
    now = running(done.now)
    if now is None:
        return "the device runs no plan, it had none before"
    return f"the old plan {hash_text(now.hash)} runs again"


def _show(done: Deployed, plan: Plan, name: str, seconds: float) -> None:
    say(f"device  {device_text(done.device)}")
    before = running(done.before)
    say(f"before  {image_text(before) if before else 'no plan runs'}")
    if done.device.isa in WITH_KERNELS:
        note_made_for_host(plan)
    if done.outcome is Outcome.NOTHING_TO_DO:
        say(f"{name} runs there already, confirmed: nothing to do", "green")
        return
    if done.uploaded:
        resumed = f", from byte {done.resumed:,} on" if done.resumed else ""
        say(f"upload  {len(plan.data):,} bytes{resumed}; in flash is plan "
            f"{hash_text(done.digest)}")
    else:
        say(f"upload  not needed, the device has plan {hash_text(done.digest)}")
    if done.test_us is not None:
        say(f"test    passed on the device, in {done.test_us / 1000:,.3f} ms by its clock")
    elif not done.why:
        say("test    none: the plan has no test vector", "yellow")
    for image in done.now:
        say(f"now     {image_text(image)}")
    if done.outcome is Outcome.CONFIRMED:
        say(f"{name} runs, confirmed, after {seconds:.1f} s", "green")
    elif done.outcome is Outcome.ON_TRIAL:
        say(f"{name} runs until the next reset of the device; deploy it again without "
            "--no-confirm to keep it", "yellow")


def _json(done: Deployed, plan: Path, port: str, seconds: float) -> dict[str, Any]:
    return {
        "plan": str(plan), "port": port, "sha256": done.digest.hex(),
        "outcome": done.outcome.name.lower(), "why": done.why or None,
        "device": {"isa": done.device.isa, "ram_bytes": done.device.ram_bytes,
                   "slot_bytes": done.device.slot_bytes},
        "uploaded": done.uploaded, "resumed_at": done.resumed, "self_test_us": done.test_us,
        "seconds": seconds,
        "before": [image_json(image) for image in done.before],
        "now": [image_json(image) for image in done.now],
    }
