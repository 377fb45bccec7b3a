"""Another sampling rate, when it is asked for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.signals.signal import HIGHEST, LOWEST, MISSING, Signal, check_rate

SAME = 1e-9
"""Relative difference up to which two rates are one."""
LARGEST_FACTOR = 10_000
"""Rates whose ratio is no fraction of numbers up to this are not resampled."""


def at_rate(signal: Signal, rate_hz: float, resample: bool = False) -> Signal:
    """The signal at the rate a plan was made for.

    Raises BadInput when it has another one, unless `resample` asks to change it.
    """
    if math.isclose(signal.rate_hz, rate_hz, rel_tol=SAME):
        return signal
    if not resample:
        raise BadInput(f"{signal.name}: {signal.rate_hz:g} Hz, needed are {rate_hz:g} Hz: ask for "
                       "resampling, or take a plan made for this rate")
    return resampled(signal, rate_hz)


def resampled(signal: Signal, rate_hz: float) -> Signal:
    """ceil(n * ratio) samples through a polyphase low pass (zero phase), ends held.

    A gap is bridged by a straight line for the filter; what lies in it stays missing.

    Raises BadInput for a ratio of the rates that is no small fraction.
    """
    from scipy.signal import resample_poly  # a second to import

    check_rate(rate_hz, signal.name)
    exact = rate_hz / signal.rate_hz
    ratio = Fraction(exact).limit_denominator(LARGEST_FACTOR)
    if ratio.numerator > LARGEST_FACTOR or not math.isclose(float(ratio), exact, rel_tol=SAME):
        raise BadInput(f"{signal.name}: {signal.rate_hz:g} Hz to {rate_hz:g} Hz is no ratio of "
                       f"whole numbers up to {LARGEST_FACTOR}")
    missing = signal.missing
    if missing.all():
        values = np.zeros(len(signal))
    else:
        there = np.flatnonzero(~missing)
        values = np.interp(np.arange(len(signal)), there, signal.samples[there].astype(np.float64))
    out = resample_poly(values, ratio.numerator, ratio.denominator, padtype="edge")
    # Output k lies at k * down / up of the input, between these two samples.
    at = np.arange(len(out)) * ratio.denominator
    before, after = at // ratio.numerator, -(-at // ratio.numerator)
    gap = missing[before] | missing[np.minimum(after, len(signal) - 1)]
    if signal.in_mv:
        samples = np.where(gap, np.nan, out).astype(np.float32)
    else:
        # The filter overshoots at steep edges; an ADC would saturate there.
        samples = np.where(gap, MISSING, np.clip(np.rint(out), LOWEST, HIGHEST)).astype(np.int16)
    return Signal(samples, rate_hz, signal.adc, signal.name, signal.lead)
