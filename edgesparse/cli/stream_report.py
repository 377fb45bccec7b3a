"""What edgesparse stream reports: events and the summary, as JSON objects and for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from edgesparse.cli.console import Cell, say, shape, table
from edgesparse.cli.stream_source import Feed
from edgesparse.cli.stream_view import styled
from edgesparse.demo.ecg import TRAINED_NOTE
from edgesparse.plan.plan import Plan
from edgesparse.streaming.events import Beat, Event, Run
from edgesparse.streaming.replay import Summary, class_names
from edgesparse.wording import counted

LONG_SATURATED = 0.1
"""Share of the signal from which on its gain or baseline may be the reason."""


@dataclass(frozen=True)
class Where:
    """Who ran the plan, in the words of the summary.

    run      after "the longest took N ms"
    latency  what is in a latency
    speed    after "N times real time"
    """

    run: str
    latency: tuple[str, str]
    speed: str


HERE = Where(
    "in the core, which is what the budget counts",
    ("a push of one run's samples", "front end, run in the core and handing over the results"),
    "on this computer")
ON_THE_DEVICE = Where(
    "on the device, by its clock and with its budget",
    ("a push of one chunk", "over the link there, its runs, results back"),
    "through the link")


def event_json(plan: Plan, event: Event, rate_hz: float) -> dict[str, Any]:
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


def summary_json(
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


def show_summary(
    summary: Summary, feed: Feed, plan: Plan, late: float | None, where: Where, trained: bool
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
    say(f"        the longest took {1000 * summary.worst_s:.3f} ms {where.run}")
    if summary.latency_s is not None:
        p50, p99, worst = (f"{1000 * s:.3f}" for s in summary.latency_s)
        say(f"latency p50 {p50}, p99 {p99}, max {worst} ms {where.latency[0]}:")
        say(f"        {where.latency[1]}")
    if late is not None:
        say(f"pace    {1000 * late:.1f} ms behind the clock at most")
    if summary.times_real_time is not None:
        say(f"speed   {summary.times_real_time:,.0f} times real time, {where.speed}")


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
