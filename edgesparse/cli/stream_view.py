"""The live view of edgesparse stream: the last seconds of the trace, and how the plan keeps up."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from types import TracebackType

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from edgesparse.cli.console import printable, shows_braille
from edgesparse.demo.ecg import Beats
from edgesparse.demo.ecg_picture import STYLES, draw_strip, in_ascii
from edgesparse.graph.ir import Array
from edgesparse.signals.signal import MISSING
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Event, SignalState
from edgesparse.streaming.replay import Replay

SHOWN_S = 8
RATE_BEATS = 8
"""The rate is over the intervals between so many beats."""
WIDEST = 100


def styled(name: str) -> Text:
    """A class in its colour."""
    known = name in ECG360_CLASSES
    return Text(name, STYLES[ECG360_CLASSES.index(name)] if known else "")


class LiveView:
    """Context manager; show() after each chunk."""

    def __init__(self, console: Console, replay: Replay, name: str) -> None:
        self.replay = replay
        self.name = printable(name)
        self.braille = shows_braille(console)
        self.width = max(20, min(console.width - 1, WIDEST))
        self._trace = np.zeros(0, np.int16)
        self._last = 0  # the newest sample that was not missing
        self._end = 0  # samples shown so far
        self._beats: deque[Beat] = deque(maxlen=64)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, chunk: Array, events: Sequence[Event]) -> None:
        """chunk  [n] int16, the samples that were just pushed"""
        self.take(chunk, events)
        self._live.update(self.picture(), refresh=True)

    def take(self, chunk: Array, events: Sequence[Event]) -> None:
        known = np.maximum.accumulate(np.where(chunk != MISSING, np.arange(len(chunk)), -1))
        filled = np.where(known < 0, self._last, chunk[np.maximum(known, 0)]).astype(np.int16)
        keep = round(SHOWN_S * self.replay.rate_hz)
        self._trace = np.concatenate((self._trace, filled))[-keep:]
        if len(filled):
            self._last = int(filled[-1])
        self._end += len(chunk)
        self._beats.extend(event for event in events if isinstance(event, Beat))

    def picture(self) -> Group:
        replay, rate = self.replay, self.replay.rate_hz
        summary = replay.summary()
        state = replay.stream.signal
        ok = state is SignalState.GOOD
        per_minute = self._per_minute()
        beats = Text("  ").join(
            Text.assemble(styled(name), f" {count:,}") for name, count in summary.beats.items())
        p50, p99, worst = (1000 * t for t in summary.latency_s or (0.0, 0.0, 0.0))
        # A push over a link is of a whole chunk, the budget that of a run.
        allowed = "" if replay.time_pushes else f" of {1000 * summary.budget_s:.4g} ms"
        lines = [Text(f"{self.name}  {self._end / rate:,.1f} s", "bold")]
        if len(self._trace):
            strip = draw_strip(
                self._trace, self._marks(), self._end - len(self._trace), rate, self.width)
            lines.append(strip if self.braille else in_ascii(strip))
        lines += [
            Text.assemble("beats   ", beats, f"   {per_minute:.0f} a minute" if per_minute else ""),
            Text.assemble("signal  ", (state.name.lower(), "green" if ok else "bold red"),
                          f", missing samples: {summary.missing:,}"),
            Text(f"latency p50 {p50:.3f}, p99 {p99:.3f}, max {worst:.3f} ms{allowed}"),
            Text(f"missed  {summary.overruns:,} of {summary.runs:,} deadlines",
                 "bold red" if summary.overruns else ""),
        ]
        return Group(*lines)

    def _marks(self) -> Beats:
        shown = [b for b in self._beats if b.kind < len(STYLES)]
        return Beats(np.array([b.position for b in shown], np.int64),
                     np.array([b.kind for b in shown], np.int64))

    def _per_minute(self) -> float | None:
        """Of the last beats; None when there are none of late."""
        last = sorted(b.position for b in islice(reversed(self._beats), RATE_BEATS))
        if len(last) < 2 or self._end - last[-1] > SHOWN_S * self.replay.rate_hz:
            return None
        return 60 * self.replay.rate_hz * (len(last) - 1) / (last[-1] - last[0])
