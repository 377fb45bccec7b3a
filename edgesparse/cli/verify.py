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
from edgesparse.comparison import OUTPUT, Compared, Report, StreamReport, VerifyOptions
from edgesparse.streaming.reference import REFERENCE
from edgesparse.verify import verify as compare
from edgesparse.verify_stream import RUNS

SHOWN = 10
"""Differing tensors that are listed."""


def verify(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    against: Annotated[Path, typer.Option(help="The .tflite model the plan was made from.")],
    inputs: Annotated[int, typer.Option(min=1, help="How many runs to compare, or windows of a "
                                        "stream.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs.")] = 0,
    backend: Annotated[str, typer.Option(help="What executes the plan.")] = "portable",
    calibrate: Annotated[
        Path | None, typer.Option(help="What a float model was converted with."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare outputs and every intermediate result with the oracle. Exit code 1: they differ.

    A stream is given samples in chunks of any size; its runs are compared with the plain reference
    of streams, and with whole windows from the oracle.
    """
    loaded = open_plan(plan)
    calibration = calibration_of(against, calibrate)
    with progress(f"comparing {plan.name}", inputs) as advance:
        report = compare(loaded, against, VerifyOptions(
            inputs=inputs, seed=seed, backend=backend, calibration=calibration,
            progress=advance))
    if as_json:
        emit({**asdict(report), "passed": report.passed, "differing": report.differing})
    elif isinstance(report, StreamReport):
        _show_stream(report)
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
    where = f"layer {first.layer}" if first.layer != OUTPUT else "the output"
    _first(f"tensor {first.tensor} of {where}: run", "the judge", first)
    wrong = [c for c in report.tensors if c.differing]
    table(("tensor", "elements>", "differing>"),
          [(c.tensor, c.elements, c.differing) for c in wrong[:SHOWN]])
    if len(wrong) > SHOWN:
        say(f"... and {len(wrong) - SHOWN} more")


def _show_stream(report: StreamReport) -> None:
    say(f"{report.model}: a stream of {report.samples:,} samples in {report.chunks:,} chunks on "
        f"{report.backend}: {report.runs:,} runs, {report.beats:,} beats", "bold")
    for note in report.notes:
        say(f"note: {note}", "yellow")
    say(f"judged by the plain reference of streams, and in {report.windows} windows by "
        f"{report.judge}")
    table(("", "compared>", "differing>"),
          [(_part(part), part.elements, part.differing) for part in report.parts])
    if report.self_test is not None:
        say(f"self test {'passed' if report.self_test else 'failed'}",
            "green" if report.self_test else "bold red")
    if report.first is not None:
        part = report.first
        _first(f"{_part(part)}: number", part.layer, part)
    elif report.passed:
        say("every byte is equal", "green")


def _part(part: Compared) -> str:
    if part.layer != REFERENCE:
        return f"windows: {part.tensor}"
    return "runs: bytes of outputs" if part.tensor == RUNS else part.tensor


def _first(place: str, judge: str, compared: Compared) -> None:
    """Where the first difference is, and what both sides have there."""
    difference = compared.first
    assert difference is not None
    say(f"first difference: {place} {difference.run}, element {list(difference.index)} is "
        f"{difference.ours:g}, {judge} has {difference.theirs:g}", "bold red")


def _row(what: str, compared: list[Compared]) -> tuple[str, int, int, int]:
    return (what, len(compared), sum(c.elements for c in compared),
            sum(c.differing for c in compared))
