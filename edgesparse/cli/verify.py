"""edgesparse verify: a plan against the model it came from, byte for byte."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgesparse.cli.console import emit, progress, say, table
from edgesparse.cli.convert import calibration_of
from edgesparse.cli.files import open_plan
from edgesparse.cli.names import short_names
from edgesparse.verify import OUTPUT, Compared, Report, VerifyOptions
from edgesparse.verify import verify as compare

SHOWN = 10
"""Differing tensors that are listed."""


def verify(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    against: Annotated[Path, typer.Option(help="The .tflite model the plan was made from.")],
    inputs: Annotated[int, typer.Option(min=1, help="How many runs to compare.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs.")] = 0,
    backend: Annotated[str, typer.Option(help="What executes the plan.")] = "portable",
    calibrate: Annotated[
        Path | None, typer.Option(help="What a float model was converted with."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare outputs and every intermediate result with the oracle. Exit code 1: they differ."""
    loaded = open_plan(plan)
    calibration = calibration_of(against, calibrate)
    with progress(f"comparing {plan.name}", inputs) as advance:
        report = compare(loaded, against, VerifyOptions(
            inputs=inputs, seed=seed, backend=backend, calibration=calibration,
            progress=advance))
    if as_json:
        emit({**asdict(report), "passed": report.passed, "differing": report.differing})
    else:
        _show(report)
    if not report.passed:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    say(f"{report.model}: {report.inputs} inputs on {report.backend}, judged by {report.judge}",
        "bold")
    for note in report.notes:
        say(f"note: {note}", "yellow")
    inner = [c for c in report.tensors if c.layer != OUTPUT]
    ends = [c for c in report.tensors if c.layer == OUTPUT]
    table(
        ("", "compared>", "elements>", "differing>"),
        [_row("intermediate tensors", inner), _row("outputs", ends)])
    if report.not_compared:
        say(f"{len(report.not_compared)} results of the plan are not tensors of the model: "
            f"{', '.join(short_names(report.not_compared)[:3])}"
            f"{' ...' if len(report.not_compared) > 3 else ''}")
    if report.not_seen:
        say(f"{len(report.not_seen)} results of {report.backend} are not in the arena after a run; "
            "what is computed from them is compared")
    for output, sqnr in report.sqnr_db.items():
        say(f"output {output}: {sqnr:.1f} dB against float over the calibration data")
    first = report.first
    if first is None:
        say("every byte is equal", "green")
        return
    difference = first.first
    assert difference is not None
    where = f"layer {first.layer}" if first.layer != OUTPUT else "the output"
    say(f"first difference: tensor {first.tensor} of {where}: run {difference.run}, element "
        f"{list(difference.index)} is {difference.ours:g}, the judge has {difference.theirs:g}",
        "bold red")
    wrong = [c for c in report.tensors if c.differing]
    table(("tensor", "elements>", "differing>"),
          [(c.tensor, c.elements, c.differing) for c in wrong[:SHOWN]])
    if len(wrong) > SHOWN:
        say(f"... and {len(wrong) - SHOWN} more")


def _row(what: str, compared: list[Compared]) -> tuple[str, int, int, int]:
    return (what, len(compared), sum(c.elements for c in compared),
            sum(c.differing for c in compared))
