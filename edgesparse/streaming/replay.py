"""A signal, from a file or as it comes, through a plan: what `edgesparse stream` does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.quantize.fixedpoint import round_half_away
from edgesparse.runtime.stream import Stream
from edgesparse.signals.annotations import Annotations
from edgesparse.signals.resample import SAME, resampled
from edgesparse.signals.signal import MISSING, Adc, Signal, digitize
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Event, SignalState, StateChange

SAME_GAIN = 1e-6
"""Relative difference up to which two gains are one: a plan holds 31 bits of it."""


@dataclass(frozen=True)
class PlanInput:
    """What a stream plan takes.

    rate_hz  of its samples; 0 is unknown
    units    ADC units per mV; None without a front end: then samples are stored input values,
             real = (stored - zero_point) * scale
    """

    rate_hz: float
    units: float | None
    scale: float
    zero_point: int

    def check(self, name: str, rate_hz: float, adc: Adc | None) -> None:
        """Raises BadInput for a signal of another rate or gain; `adc` None: not known."""
        if self.rate_hz and not math.isclose(rate_hz, self.rate_hz, rel_tol=SAME):
            raise BadInput(
                f"{name}: {rate_hz:g} Hz, the plan takes {self.rate_hz:g} Hz: resample it "
                "(--resample, of a file), or take a plan for this rate")
        if self.units is None or adc is None:
            return
        if not math.isclose(adc.gain, self.units, rel_tol=SAME_GAIN):
            raise BadInput(
                f"{name}: {adc.gain:g} ADC units per mV, the plan takes {self.units:.6g}: convert "
                f"the model with units={adc.gain:g} in --stream")

    def samples(self, signal: Signal) -> Array:
        """[n] int16 to push; gaps stay marked.

        mV are digitized as the plan's ADC would, the value at 0 mV is taken away from integers.
        Raises BadInput as check(), and for mV that int16 does not hold.
        """
        self.check(signal.name, signal.rate_hz, signal.adc)
        if self.units is not None:
            return (digitize(signal, Adc(self.units)) if signal.in_mv else signal).centred()
        if signal.adc is None and not signal.in_mv:
            return signal.centred()
        real = np.nan_to_num(signal.millivolts())
        stored = np.clip(round_half_away(real / self.scale) + self.zero_point, -128, 127)
        return np.where(signal.missing, MISSING, stored).astype(np.int16)


def plan_input(plan: Plan) -> PlanInput:
    """Raises BadInput for a plan that is no stream of one channel."""
    table = plan.model.stream
    if table is None:
        raise BadInput(
            "the plan takes windows, not samples; convert the model with --stream hop=N, or use "
            "edgesparse run")
    source, front = plan.inputs[0], table.front_end
    if source.shape[-1] != 1:
        raise BadInput(f"the plan takes {source.shape[-1]} channels a sample; plans of one channel "
                       "are streamed here, es.Stream takes any")
    units = None
    if front is not None:
        # The inverse of scale_to_input(), which made multiplier and shift.
        step = source.scale * (1 << front.fraction_bits) * front.multiplier
        units = (1 << front.shift) / step
    return PlanInput(table.rate_mhz / 1000, units, source.scale, source.zero_point)


def at_plan_rate(signal: Signal, wanted: PlanInput, resample: bool) -> Signal:
    """The signal at the rate of a plan, resampled if that is allowed and needed."""
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
class Summary:
    """What a stream gave.

    beats          class -> how many
    signal         state -> seconds
    runs           of the network; overruns: of them over the budget of budget_s, worst_s the
                   longest
    wall_s         time spent in the plan, on this computer
    latency_s      p50, p99, max of the time to take a run's samples and give its results, where
                   runs were timed one by one; waiting for a chunk to fill is not in it
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

    rate_hz    of the samples
    budget_s   time a run may take; None: the signal time of its samples
    time_runs  push at most one run's samples at a time, so that each is timed by itself
    """

    stream: Stream
    rate_hz: float
    budget_s: float | None = None
    time_runs: bool = False
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

    def push(self, samples: Array) -> list[Event]:
        """[n] int16; what they gave."""
        if not self.time_runs:
            return self._account(self._timed(samples))
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
        if self.time_runs:
            latency = (self.times.percentile(50), self.times.percentile(99), self.times.max)
        return Summary(
            self.rate_hz, self.stream.samples, self.stream.missing,
            dict(zip(self.classes, self._counts)),
            {state.name.lower(): states[state] / self.rate_hz
             for state in SignalState if states[state] or state is SignalState.GOOD},
            self.stream.runs, self.stream.overruns, self.budget_s or 0.0,
            self.stream.worst_seconds, self.wall_s, latency)

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
