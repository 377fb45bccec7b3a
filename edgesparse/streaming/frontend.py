"""The front end: int16 samples -> the model's int8 input, in integer arithmetic.

Definition of PLAN_FORMAT.md section "Streams"; native/src/stream/front_end.c computes the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.plan.stream_model import FrontEnd

MISSING = -32768
"""A pushed sample of this value says that there was none."""

ECG360_RATE_MHZ = 360_000
ECG360_TAPS_Q15 = (
    *(-95, 32, 373, 235, -1192, -1819, 2179, 9772),
    13798,
    *(9772, 2179, -1819, -1192, 235, 373, 32, -95),
)
"""Hamming window, 17 taps, corner 75.6 Hz at 360 Hz, the sum exactly 2^15."""


@dataclass(frozen=True)
class AdcInput:
    """What the int8 input of a model means, and what the ADC gives.

    scale           of the input, physical units (mV) per step
    zero_point      stored value of 0
    units_per_step  ADC units per physical unit
    """

    scale: float
    zero_point: int
    units: float = 200.0


def rounded(value: int, bits: int) -> int:
    """value / 2^bits, halves up."""
    return (value + (1 << bits >> 1)) >> bits


def ecg360(adc: AdcInput) -> FrontEnd:
    """360 Hz -> 180 Hz, 1/16 ADC unit, DC blocker with a corner of 0.45 Hz.

    Raises BadInput for a scale that is no positive number or out of range.
    """
    multiplier, shift = scale_to_input(adc, fraction_bits=4)
    return FrontEnd(
        taps=np.array(ECG360_TAPS_Q15, np.int16), tap_bits=15, fraction_bits=4, decimation=2,
        dc_shift=6, multiplier=multiplier, shift=shift)


def scale_to_input(adc: AdcInput, fraction_bits: int) -> tuple[int, int]:
    """(multiplier, shift): input = zero_point + rounded(y * multiplier, shift).

    y has `fraction_bits` fraction bits of an ADC unit; multiplier is 2^30 .. 2^31 - 1.
    Raises BadInput where no shift of 1 .. 62 does it.
    """
    if not (math.isfinite(adc.scale * adc.units) and adc.scale > 0 and adc.units > 0):
        raise BadInput(
            f"input scale {adc.scale} and {adc.units} ADC units per unit: both must be above 0")
    mantissa, exponent = math.frexp(1.0 / (adc.scale * adc.units * (1 << fraction_bits)))
    multiplier, shift = round(mantissa * (1 << 31)), 31 - exponent
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift - 1
    if not 1 <= shift <= 62:
        raise BadInput(
            f"input scale {adc.scale} with {adc.units} ADC units per unit is out of range; "
            "check the gain of the ADC")
    return multiplier, shift


class FrontEndState:
    """The front end of one stream, sample by sample."""

    def __init__(self, front_end: FrontEnd, zero_point: int) -> None:
        self.front_end = front_end
        self.zero_point = zero_point
        self._taps = [int(t) for t in front_end.taps]
        self._past = [0] * len(self._taps)  # newest first
        self._phase = 0
        self._mean = 0
        self._steady = False

    def settle(self, x: int) -> None:
        """Go on as if `x` had stood there for ever."""
        self._past = [x] * len(self._taps)
        self._steady = False

    def push(self, x: int) -> int | None:
        """One sample; the next value of the model's input, where one is due."""
        spec = self.front_end
        self._past = [x, *self._past[:-1]]
        phase, self._phase = self._phase, (self._phase + 1) % spec.decimation
        if phase != 0:
            return None
        total = sum(t * past for t, past in zip(self._taps, self._past, strict=True))
        y = self._blocked(rounded(total, spec.tap_bits - spec.fraction_bits))
        q = rounded(y * spec.multiplier, spec.shift) + self.zero_point
        return max(-128, min(127, q))

    def _blocked(self, d: int) -> int:
        """The DC blocker: m is 2^dc_shift times the mean that is taken away."""
        shift = self.front_end.dc_shift
        if shift == 0:
            return d
        if not self._steady:
            self._mean = d << shift
            self._steady = True
        y = d - rounded(self._mean, shift)
        self._mean += y
        return y
