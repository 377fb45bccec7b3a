"""Noise for ECG, made here: there is no recorded one among the data.

Gaussian, its spectrum flat within a band and nothing outside, scaled to a signal-to-noise ratio as
the noise stress test of MIT-BIH defines it: S is an eighth of the square of the mean peak-to-peak
amplitude of a normal QRS, N the power of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.signals import MISSING

RATE_HZ = 360
LOWEST, HIGHEST = -1024, 1023
"""What the ADC of MIT-BIH gives, without its offset."""
QRS_HALF = 18
"""50 ms: a QRS is looked at this far on both sides of its marked peak."""
TAIL = 0.05
"""Share of smallest and of largest amplitudes that the mean leaves out."""


@dataclass(frozen=True)
class Band:
    """Of a kind of noise, Hz."""

    low_hz: float
    high_hz: float


WANDER = Band(0.05, 0.7)
MUSCLE = Band(20, 150)


def band_noise(band: Band, count: int, rng: np.random.Generator) -> Array:
    """[count] float64, power 1."""
    spectrum = np.fft.rfft(rng.normal(size=count))
    hz = np.fft.rfftfreq(count, 1 / RATE_HZ)
    spectrum[(hz < band.low_hz) | (hz > band.high_hz)] = 0
    noise = np.fft.irfft(spectrum, count)
    scaled: Array = noise / np.sqrt(np.mean(noise**2))
    return scaled


def qrs_power(samples: Array, peaks: Array) -> float:
    """S, squared ADC units.

    samples  [n] int16; peaks  [beats] int, marked normal beats
    """
    inside = peaks[(peaks >= QRS_HALF) & (peaks < len(samples) - QRS_HALF)]
    around = samples[inside[:, None] + np.arange(-QRS_HALF, QRS_HALF + 1)].astype(np.int64)
    heights = np.sort(np.ptp(around, axis=1))
    cut = int(TAIL * len(heights))
    return float(heights[cut : len(heights) - cut].mean()) ** 2 / 8


def with_noise(samples: Array, noise: Array, power: float) -> Array:
    """Samples [n] int16 and noise [n] of power 1, scaled to `power`, as the ADC would give them."""
    loud = np.rint(samples + np.sqrt(power) * noise)
    measured: Array = np.clip(loud, LOWEST, HIGHEST).astype(np.int16)
    return measured


def noise_power(signal_power: float, snr_db: float) -> float:
    return signal_power / 10 ** (snr_db / 10)


def with_gaps(samples: Array, share: float, rng: np.random.Generator) -> Array:
    """Samples missing here and there, each by chance."""
    holed: Array = np.where(rng.random(len(samples)) < share, MISSING, samples).astype(np.int16)
    return holed
