"""One channel of a recording, whatever file it came from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array

MISSING = -(2**15)
"""int16 value of a sample that was not measured; the lowest measured value is one above."""
HIGHEST = 2**15 - 1
LOWEST = -HIGHEST


@dataclass(frozen=True)
class Adc:
    """What an ADC made of a voltage: integer = rint(mV * gain + baseline).

    gain      ADC units per mV, > 0
    baseline  ADC value at 0 mV (WFDB: baseline, or ADC zero where that is left out)
    """

    gain: float
    baseline: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.gain) and self.gain > 0):
            raise BadInput(f"ADC gain {self.gain} per mV; a finite number above 0 is needed")


@dataclass(frozen=True, eq=False)
class Signal:
    """One channel.

    samples  [n >= 1] int16, ADC units, MISSING where nothing was measured;
             or [n >= 1] float32, mV, NaN where nothing was measured
    rate_hz  samples per second, finite, > 0
    adc      of int16 samples; None where the file says nothing about volts, and for float32
    name     of the record or file, for messages
    lead     name of the channel, "" where it has none

    Raises BadInput when a field breaks this.
    """

    samples: Array
    rate_hz: float
    adc: Adc | None
    name: str
    lead: str = ""

    def __post_init__(self) -> None:
        dtype = self.samples.dtype
        if self.samples.ndim != 1 or dtype not in (np.dtype(np.int16), np.dtype(np.float32)):
            raise BadInput(
                f"{self.name}: samples are {dtype} {list(self.samples.shape)}; one channel of "
                "int16 (ADC units) or float32 (mV) is needed")
        if len(self.samples) == 0:
            raise BadInput(f"{self.name}: holds no samples; at least one is needed")
        check_rate(self.rate_hz, self.name)
        if self.in_mv and self.adc is not None:
            raise BadInput(f"{self.name}: float samples are mV and have no ADC gain")
        if self.in_mv and np.isinf(self.samples).any():
            at = int(np.flatnonzero(np.isinf(self.samples))[0])
            raise BadInput(f"{self.name}: sample {at} is infinite; write nan for a missing one")

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def in_mv(self) -> bool:
        return self.samples.dtype == np.float32

    @property
    def seconds(self) -> float:
        return len(self) / self.rate_hz

    @property
    def missing(self) -> Array:
        """[n] bool."""
        found: Array = np.isnan(self.samples) if self.in_mv else self.samples == MISSING
        return found

    def centred(self) -> Array:
        """[n] int16, ADC units with the value at 0 mV taken away, saturated; gaps stay MISSING.

        Raises BadInput for mV: digitize() them first.
        """
        if self.in_mv:
            raise BadInput(f"{self.name}: samples are mV, ADC units are needed; digitize them")
        raw = self.samples.astype(np.int32)
        moved = np.clip(raw - (self.adc.baseline if self.adc is not None else 0), LOWEST, HIGHEST)
        return np.where(raw == MISSING, MISSING, moved).astype(np.int16)

    def millivolts(self) -> Array:
        """[n] float64, NaN where missing. Raises BadInput for integers without a gain."""
        if self.in_mv:
            return self.samples.astype(np.float64)
        if self.adc is None:
            raise BadInput(f"{self.name}: the ADC gain is unknown, so there are no mV; give it")
        mv = (self.samples.astype(np.float64) - self.adc.baseline) / self.adc.gain
        mv[self.missing] = np.nan
        return mv


def check_rate(rate_hz: float, name: str) -> None:
    """Raises BadInput for a sampling rate that is none."""
    if not (math.isfinite(rate_hz) and rate_hz > 0):
        raise BadInput(f"{name}: sampling rate {rate_hz}; a finite number of Hz above 0 is needed")


def as_float32(values: Array) -> Array:
    """Numbers as samples in mV; what float32 does not hold is infinite, which no Signal takes."""
    with np.errstate(over="ignore"):
        samples: Array = values.astype(np.float32)
    return samples


def as_int16(values: Array, name: str) -> Array:
    """Integers as int16 samples; MISSING stays.

    values  [n] any integer dtype

    Raises BadInput for a value that int16 does not hold: scaling it would change the gain.
    """
    outside = (values > HIGHEST) | (values < MISSING)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise BadInput(
            f"{name}: sample {at} is {int(values[at])}; allowed are {LOWEST} .. {HIGHEST} "
            f"({MISSING} = missing): divide the values and the gain first")
    return values.astype(np.int16)


def digitize(signal: Signal, adc: Adc) -> Signal:
    """Millivolts as an ADC would give them: rounded half to even, NaN becomes MISSING.

    Raises BadInput for a value that int16 does not hold at this gain.
    """
    scaled = np.rint(signal.millivolts() * adc.gain + adc.baseline)
    outside = (scaled > HIGHEST) | (scaled < LOWEST)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise BadInput(
            f"{signal.name}: sample {at} is {scaled[at]:.0f} at {adc.gain:g} units per mV; allowed "
            f"are {LOWEST} .. {HIGHEST}: give a smaller gain")
    scaled[np.isnan(scaled)] = MISSING
    return Signal(scaled.astype(np.int16), signal.rate_hz, adc, signal.name, signal.lead)
