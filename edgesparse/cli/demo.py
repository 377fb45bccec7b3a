"""edgesparse demo: real signals through real models, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from edgesparse.cli.console import (
    amount,
    emit,
    percent,
    progress,
    say,
    shows_braille,
    stderr,
    stdout,
    table,
)
from edgesparse.cli.files import check_writable
from edgesparse.cli.layers import totals
from edgesparse.demo.ecg import (
    SAMPLE_RATE_HZ,
    TRAINED_NOTE,
    EcgResult,
    chunk_count,
    packaged_plan,
    packaged_recording,
    read_recording,
    run_ecg,
)
from edgesparse.demo.ecg_picture import STYLES, draw_picture, in_ascii, liveliest, terminal_strip
from edgesparse.files import write_whole
from edgesparse.streaming.beats import ECG360_CLASSES as CLASSES

NAMES = {"N": "normal", "S": "supraventricular early", "V": "ventricular early"}
STRIP_S = 10
STRIP_WIDTH = 76

demo = typer.Typer(no_args_is_help=True, help="Real signals through real models.")


@demo.callback()
def _only_groups() -> None:
    """Real signals through real models."""


@demo.command()
def ecg(
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the whole recording into this PNG.")] = None,
    no_picture: Annotated[
        bool, typer.Option("--no-picture", help="No strip in the terminal either.")] = False,
    record: Annotated[
        str | None, typer.Option(help="A WFDB record at 360 Hz instead of the packaged ECG.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Where the files of --record are.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Find and classify the heart beats of a real ECG with a 75 % sparse network."""
    if picture is not None:
        check_writable(picture, "--picture")
    recording = packaged_recording() if record is None else read_recording(data, record)
    with stderr().status("converting the model"):
        adc = recording.signal.adc
        plan = packaged_plan(adc.gain if adc is not None else 200.0)
    with progress("streaming", chunk_count(recording)) as advance:
        result = run_ecg(recording, plan, advance)
    if picture is not None:
        write_whole(picture, lambda file: draw_picture(
            file, recording.lead_mv, result.beats, _title(result)))
    if as_json:
        emit(_json(result, picture))
        return
    _show(result)
    if not no_picture:
        length = min(STRIP_S * SAMPLE_RATE_HZ, len(recording.lead_mv))
        start = liveliest(result.beats, len(recording.lead_mv), length)
        say()
        strip = terminal_strip(recording.lead_mv, result.beats, start, length, STRIP_WIDTH)
        console = stdout()
        console.print(strip if shows_braille(console) else in_ascii(strip),
                      crop=False, no_wrap=True)
    if picture is not None:
        say(f"picture: {picture}")


def _title(result: EcgResult) -> str:
    recording = result.recording
    minutes, seconds = divmod(round(recording.seconds), 60)
    database = "MIT-BIH record" if recording.trained else "record"
    return (f"{database} {recording.name}, {recording.part}: {minutes} min {seconds:02d} s, "
            f"{SAMPLE_RATE_HZ} Hz")


def _show(result: EcgResult) -> None:
    layers = totals(result.plan.layers)
    say(_title(result), "bold")
    if result.recording.trained:
        say(TRAINED_NOTE)
    say("Not a medical device.", "bold")
    say()
    minutes = result.recording.seconds / 60
    table(
        ("beats", "", "found>", "per minute>"),
        [*((Text(name, style), NAMES[name], result.counts[name],
            f"{result.counts[name] / minutes:.1f}") for name, style in zip(CLASSES, STYLES)),
         ("all", "", len(result.beats), f"{result.per_minute:.1f}")])
    say()
    say(f"zeros   {percent(layers['zeros'])} of {layers['dense_bytes']:,} weights: a run of 44 ms "
        f"takes {amount(layers['macs_stored'])} of {amount(layers['macs'])} MACs")
    say(f"RAM     {result.plan.ram_bytes:,} bytes")
    say(f"flash   {result.plan.flash_bytes:,} bytes")
    used = 1000 * result.total_seconds / max(1, result.runs)
    say(f"time    {used:.3f} ms a run, front end and decoder included; its budget is "
        f"{1000 * result.hop_seconds:.1f} ms:")
    say(f"        {result.headroom:,.0f} times faster than needed, on this computer (portable C)")
    say(f"delay   a beat is reported at most {_delay_s(result):.2f} s after its R peak")


def _delay_s(result: EcgResult) -> float:
    assert result.plan.model.stream is not None
    return result.plan.model.stream.delay / SAMPLE_RATE_HZ


def _json(result: EcgResult, picture: Path | None) -> dict[str, Any]:
    return {
        "record": result.recording.name,
        "part": result.recording.part,
        "seconds": result.recording.seconds,
        "training_record": result.recording.trained,
        "medical_device": False,
        "beats": len(result.beats),
        "counts": result.counts,
        "beats_per_minute": result.per_minute,
        "positions": [int(p) for p in result.beats.position],
        "classes": [CLASSES[kind] for kind in result.beats.kind],
        "runs": result.runs,
        "delay_seconds": _delay_s(result),
        "hop_seconds": result.hop_seconds,
        "budget_over_time": result.headroom,
        "ram_bytes": result.plan.ram_bytes,
        "flash_bytes": result.plan.flash_bytes,
        **totals(result.plan.layers),
        "picture": None if picture is None else str(picture),
    }
