"""The state of the signal: is there one, and can it be believed.

Definition of PLAN_FORMAT.md section "Streams"; native/src/stream/quality.c computes the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.plan.stream_model import Quality
from edgesparse.streaming.events import SignalState

NEVER = (1 << 63) - 1


ECG360_QUALITY = Quality(
    flat_range=2, flat_samples=360, saturation=1000, saturated_samples=72, missing_run=36,
    missing_window=360, missing_most=72, noise_samples=180, noise_limit=200, recover_samples=72,
    settle_samples=360, guard_samples=54, noise_margin=50, missing_margin=36)
"""For 360 Hz and 200 units per mV. Over the 22 records of DS1 (MLII): the longest run within
2 units is 62 samples, but for 267 in record 116, whose lead was off; the noisiest half second
has a mean absolute second difference of 35 units; only record 116 reaches 1000 units, for 279.
Muscle noise 6 dB under the QRS (benchmarks/noise.py) has 70 to 150 units in most of these records
and hides few beats, so that a limit of 100 silenced records in which beats were found. The margin
is three times the spread of half seconds of even noise, 8 % of their mean. Where one sample in
five is lost by chance, their number in a second has a spread of 8: its margin is four times that
and more."""


@dataclass(frozen=True)
class Change:
    """What one sample did: a new state, or None; whether the front end starts again."""

    state: SignalState | None = None
    settle: bool = False


class SignalQuality:
    """The state of one stream, sample by sample.

    delay  samples until every beat is decided at the latest (Stream.delay)
    """

    def __init__(self, quality: Quality, delay: int) -> None:
        self.quality = quality
        self.delay = delay
        self.state = SignalState.GOOD
        self._mute = (0, 0)  # beats in [from, to) are not reported
        self._samples = 0
        self._flat = self._saturated = self._missing = self._calm = 0
        self._anchor = 0
        self._before = (0, 0)  # the last sample, the one before
        self._noise = self._noise_count = 0
        self._noisy = self._sparse = False
        self._lost = [False] * quality.missing_window
        self._lost_count = 0

    def mutes(self, position: int) -> bool:
        """Whether a beat at this sample is not to be believed."""
        return self._mute[0] <= position < self._mute[1]

    def push(self, x: int, missing: bool) -> Change:
        """One sample; x is the last one there was where it is missing."""
        if self._samples == 0:
            self._anchor, self._before = x, (x, x)
        self._measure_missing(missing)
        self._measure_level(x)
        self._measure_noise(x)
        change = self._judge(self._samples)
        self._samples += 1
        return change

    def _measure_missing(self, missing: bool) -> None:
        self._missing = self._missing + 1 if missing else 0
        if self._lost:
            slot = self._samples % len(self._lost)
            self._lost_count += missing - self._lost[slot]
            self._lost[slot] = missing
            limit = self.quality.missing_most - self._sparse * self.quality.missing_margin
            self._sparse = self._lost_count > limit

    def _measure_level(self, x: int) -> None:
        """How long x has stayed where it is, and at the end of its range."""
        if abs(x - self._anchor) <= self.quality.flat_range:
            self._flat += 1
        else:
            self._anchor, self._flat = x, 1
        self._saturated = self._saturated + 1 if abs(x) >= self.quality.saturation else 0

    def _measure_noise(self, x: int) -> None:
        one, two = self._before
        self._before = (x, one)
        samples = self.quality.noise_samples
        if not samples:
            return
        self._noise += abs(x - 2 * one + two)
        self._noise_count += 1
        if self._noise_count == samples:
            limit = self.quality.noise_limit - self._noisy * self.quality.noise_margin
            self._noisy = self._noise > limit * samples
            self._noise = self._noise_count = 0

    def _active(self) -> tuple[SignalState, int]:
        """The state this sample asks for, and for how many samples it has been so."""
        q = self.quality
        if q.missing_run and self._missing > q.missing_run:
            return SignalState.MISSING, self._missing
        if self._sparse:
            return SignalState.MISSING, q.missing_window
        if q.saturated_samples and self._saturated >= q.saturated_samples:
            return SignalState.SATURATED, self._saturated
        if q.flat_samples and self._flat >= q.flat_samples:
            return SignalState.FLAT, self._flat
        if self._noisy:
            return SignalState.NOISY, q.noise_samples
        return SignalState.GOOD, 0

    def _judge(self, now: int) -> Change:
        active, since = self._active()
        if active is SignalState.GOOD:
            return self._recover(now)
        self._calm = 0
        if active is self.state:
            return Change()
        start = now + 1 - since - self.quality.guard_samples
        old_start, old_end = self._mute
        # Beats before the end of an earlier bad time may still be undecided.
        if old_end > 0 and now <= old_end + self.delay:
            start = min(start, old_start)
        self._mute = (start, NEVER)
        self.state = active
        return Change(active)

    def _recover(self, now: int) -> Change:
        if self.state is SignalState.GOOD:
            return Change()
        self._calm += 1
        if self._calm < self.quality.recover_samples:
            return Change()
        self.state = SignalState.GOOD
        self._mute = (self._mute[0], now + self.quality.settle_samples)
        return Change(SignalState.GOOD, settle=True)
