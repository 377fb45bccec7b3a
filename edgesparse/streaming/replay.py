"""A signal, from a file or as it comes, through a plan: what `edgesparse stream` does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.signals.annotations import Annotations
from edgesparse.signals.resample import SAME, resampled
from edgesparse.signals.signal import Signal
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Event, SignalState, StateChange
from edgesparse.streaming.samples import PlanInput


def at_plan_rate(signal: Signal, wanted: PlanInput, resample: bool) -> Signal:
    """The signal at the rate of a plan, resampled if that is allowed and needed.

    Raises BadInput where resampling is asked for and the plan states no rate.
    """
    if resample and not wanted.rate_hz:
        raise BadInput(
            f"{signal.name}: --resample, but the plan states no rate to resample to; convert the "
            "model with rate=HZ or frontend=ecg360 in --stream")
    same = not wanted.rate_hz or math.isclose(signal.rate_hz, wanted.rate_hz, rel_tol=SAME)
    return signal if same or not resample else resampled(signal, wanted.rate_hz)


def cut(arrays: Iterable[Array], size: int, limit: int | None = None) -> Iterator[Array]:
    """The samples of arrays [n] in chunks of at most `size`, up to `limit` of them in all."""
    left = limit
    for array in arrays:
        part = array if left is None else array[:left]
        for start in range(0, len(part), size):
            yield part[start : start + size]
        if left is not None:
            left -= len(part)
            if left == 0:
                return


@dataclass
class Pace:
    """Waits until the last of so many samples would have been measured.

    worst_late  seconds by which a chunk was asked for after that
    """

    rate_hz: float
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    worst_late: float = 0.0
    _start: float | None = None

    def wait(self, samples: int) -> None:
        """samples  counted from the start, which is the first call's."""
        if self._start is None:
            self._start = self.clock()
        ahead = self._start + samples / self.rate_hz - self.clock()
        if ahead > 0:
            self.sleep(ahead)
        else:
            self.worst_late = max(self.worst_late, -ahead)


class Pushed(Protocol):
    """What is used of a stream, wherever it runs."""

    plan: Plan
    hop: int
    classes: int

    @property
    def samples(self) -> int: ...
    @property
    def runs(self) -> int: ...
    @property
    def missing(self) -> int: ...
    @property
    def overruns(self) -> int: ...
    @property
    def worst_seconds(self) -> float: ...
    @property
    def signal(self) -> SignalState: ...
    def budget(self, seconds: float) -> None: ...
    def push(self, samples: Array) -> list[Event]: ...
    def flush(self) -> list[Event]: ...


class Times:
    """How long runs took, in memory that does not grow: counts in steps of 2 %, 100 ns to 100 s."""

    LOWEST, STEP, STEPS = 1e-7, 1.02, 1047

    def __init__(self) -> None:
        self.max = 0.0
        self._counts = np.zeros(self.STEPS, np.int64)

    def add(self, seconds: float) -> None:
        self.max = max(self.max, seconds)
        at = math.ceil(math.log(max(seconds, self.LOWEST) / self.LOWEST, self.STEP))
        self._counts[min(at, self.STEPS - 1)] += 1

    def percentile(self, percent: float) -> float:
        """Seconds that this share did not exceed, at most 2 % more than exact; 0 without any."""
        total = int(self._counts.sum())
        if total == 0:
            return 0.0
        rank = max(1, math.ceil(total * percent / 100))
        at = int(np.searchsorted(np.cumsum(self._counts), rank))
        return float(min(self.LOWEST * self.STEP**at, self.max))


@dataclass(frozen=True)
class OutputRange:
    """An output over all runs: real values, of the columns that count.

    shape  of a run
    count  of values; without any, low, mean and high are 0
    """

    name: str
    shape: tuple[int, ...]
    count: int = 0
    low: float = 0.0
    mean: float = 0.0
    high: float = 0.0

    def with_run(self, stored: Array, io: IoInfo) -> OutputRange:
        """And one more run's values [any shape] int8."""
        if not stored.size:
            return self
        real = (stored.astype(np.float64) - io.zero_point) * io.scale
        low, high, count = float(real.min()), float(real.max()), self.count + real.size
        if self.count:
            low, high = min(low, self.low), max(high, self.high)
        mean = self.mean + (float(real.mean()) - self.mean) * real.size / count
        return replace(self, count=count, low=low, mean=mean, high=high)


@dataclass(frozen=True)
class Summary:
    """What a stream gave.

    beats          class -> how many
    signal         state -> seconds
    runs           of the network; overruns: of them over the budget of budget_s, worst_s the
                   longest
    wall_s         time spent in the plan, on this computer
    latency_s      p50, p99, max of the time to take a run's samples and give its results, where
                   runs (or pushes) were timed; waiting for a chunk to fill is not in it
    outputs        of a plan that reports runs
    """

    rate_hz: float
    samples: int
    missing: int
    beats: dict[str, int]
    signal: dict[str, float]
    runs: int
    overruns: int
    budget_s: float
    worst_s: float
    wall_s: float
    latency_s: tuple[float, float, float] | None
    outputs: tuple[OutputRange, ...] = ()

    @property
    def seconds(self) -> float:
        return self.samples / self.rate_hz

    @property
    def per_minute(self) -> float | None:
        """Beats of a minute, on average; None without samples."""
        return 60 * sum(self.beats.values()) / self.seconds if self.samples else None

    @property
    def times_real_time(self) -> float | None:
        return self.seconds / self.wall_s if self.wall_s > 0 else None


def class_names(classes: int) -> tuple[str, ...]:
    """N, S, V of the ECG nets; numbers for any other count."""
    if classes == len(ECG360_CLASSES):
        return ECG360_CLASSES
    return tuple(str(number) for number in range(classes))


@dataclass
class Replay:
    """A stream and the account of it.

    rate_hz      of the samples
    budget_s     time a run may take; None: the signal time of its samples
    time_runs    push at most one run's samples at a time, so that each is timed by itself
    time_pushes  time pushes as they come
    """

    stream: Pushed
    rate_hz: float
    budget_s: float | None = None
    time_runs: bool = False
    time_pushes: bool = False
    wall_s: float = 0.0
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        if self.budget_s is None:
            self.budget_s = self.stream.hop / self.rate_hz
        self.stream.budget(self.budget_s)
        self.classes = class_names(self.stream.classes)
        self._counts = [0] * len(self.classes)
        self._states = [0] * len(SignalState)  # samples in each state before _since
        self._state, self._since = SignalState.GOOD, 0
        self._ios = () if self.classes else self.stream.plan.outputs
        self._outputs = tuple(OutputRange(io.name, io.shape) for io in self._ios)

    def push(self, samples: Array) -> list[Event]:
        """[n] int16; what they gave."""
        if not self.time_runs:
            before = self.wall_s
            found = self._timed(samples)
            if self.time_pushes:
                self.times.add(self.wall_s - before)
            return self._account(found)
        events: list[Event] = []
        at = 0
        while at < len(samples):
            hop, runs = self.stream.hop, self.stream.runs
            end = at + hop - self.stream.samples % hop
            part, before = samples[at:end], self.wall_s
            events += self._timed(part)
            if self.stream.runs > runs:
                self.times.add(self.wall_s - before)
            at = end
        return self._account(events)

    def finish(self) -> list[Event]:
        """The record ends here; the beats that were not final yet."""
        samples = self.stream.samples
        # The end is repeated to decide the last beats: what is found there is not of the record.
        return self._account(
            [event for event in self._timed(None)
             if (event.position if isinstance(event, Beat) else event.sample) < samples])

    def summary(self) -> Summary:
        states = [*self._states]
        states[self._state] += self.stream.samples - self._since
        latency = None
        if self.time_runs or self.time_pushes:
            latency = (self.times.percentile(50), self.times.percentile(99), self.times.max)
        return Summary(
            self.rate_hz, self.stream.samples, self.stream.missing,
            dict(zip(self.classes, self._counts)),
            {state.name.lower(): states[state] / self.rate_hz
             for state in SignalState if states[state] or state is SignalState.GOOD},
            self.stream.runs, self.stream.overruns, self.budget_s or 0.0,
            self.stream.worst_seconds, self.wall_s, latency, self._outputs)

    def _timed(self, samples: Array | None) -> list[Event]:
        """What pushing gives, or, without samples, the end."""
        start = time.perf_counter()
        events = self.stream.flush() if samples is None else self.stream.push(samples)
        self.wall_s += time.perf_counter() - start
        return events

    def _account(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Beat):
                self._counts[event.kind] += 1
            elif isinstance(event, StateChange):
                self._states[self._state] += event.sample - self._since
                self._state, self._since = event.state, event.sample
            elif self._outputs:
                self._outputs = tuple(
                    out.with_run(y[:, event.skip :] if event.skip else y, io)
                    for out, y, io in zip(self._outputs, event.outputs, self._ios))
        return events


def beat_annotations(
    name: str, beats: Iterable[Beat], rate_hz: float, record_rate_hz: float, length: int
) -> Annotations:
    """Beats of class N, S, V as annotations in samples of the record.

    rate_hz, record_rate_hz  of the stream, and of the record it was resampled from
    length                   samples of the record that were streamed
    """
    found = sorted(beats, key=lambda beat: beat.position)
    at = np.array([beat.position for beat in found], np.float64) * record_rate_hz / rate_hz
    samples = np.minimum(np.rint(at), length - 1).astype(np.int64)
    return Annotations(
        name, samples, tuple(ECG360_CLASSES[beat.kind] for beat in found), record_rate_hz)
