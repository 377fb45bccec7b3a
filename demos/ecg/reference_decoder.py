"""Front end and beat decoder of the ECG demo in floating point, in NumPy and SciPy only.

What they should do; reference_integer.py is what a device computes, and what training reads.
MODEL_CARD.md, "Front end and decoding", has both in words. Three clocks occur:

    sample  360 Hz, index r   the recording (and the annotations)
    input   180 Hz, index n   what the model reads; input n is computed from samples 2n-16 .. 2n
    step    22.5 Hz, index t  what the model writes; step t is computed from inputs up to 8t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

SAMPLE_RATE_HZ = 360.0
FIR_TAPS = 17
FIR_CUTOFF_HZ = 75.6
FIR_DELAY_SAMPLES = (FIR_TAPS - 1) // 2
DECIMATION = 2
DC_POLE = 1.0 - 2.0**-6
"""At 180 Hz: corner 0.451 Hz. A power of two, for reference_integer.py."""

INPUTS_PER_STEP = 8
SAMPLES_PER_STEP = DECIMATION * INPUTS_PER_STEP
LABEL_DELAY_STEPS = 16
DECIDE_STEPS = 2
"""Steps after its own that a local maximum needs before it is certain."""
FLUSH_SAMPLES = (LABEL_DELAY_STEPS + DECIDE_STEPS) * SAMPLES_PER_STEP
"""Samples to add after the end of a recording so that its last beats come out."""
POSITION_OFFSET_SAMPLES = (
    (SAMPLES_PER_STEP - 1) / 2 - FIR_DELAY_SAMPLES - LABEL_DELAY_STEPS * SAMPLES_PER_STEP
)
"""R peak minus 16 * step: +7.5 (middle of the step) - 8 (FIR) - 256 (label delay) = -256.5."""

THRESHOLD = 1.0
"""On the sum of three beat probabilities, that is, a mean of 1/3."""
REFRACTORY_SAMPLES = 72.0
CLASSES = ("N", "S", "V")


def fir_taps() -> NDArray[np.float64]:
    """Low-pass taps: Hamming-windowed sinc with the gain at 0 Hz set to 1.

    returns  [17] float64, symmetric
    """
    k = np.arange(FIR_TAPS) - FIR_DELAY_SAMPLES
    window = 0.54 + 0.46 * np.cos(np.pi * k / FIR_DELAY_SAMPLES)
    taps = window * np.sinc(2.0 * FIR_CUTOFF_HZ / SAMPLE_RATE_HZ * k)
    return np.asarray(taps / taps.sum())


def front_end(lead_mv: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Causal low pass, decimation by two (even samples stay), DC blocker; no normalisation.

    lead_mv  [samples] float, mV at 360 Hz
    returns  [ceil(samples / 2)] float32, mV at 180 Hz

    Both filters start settled, as if the first sample had stood there for ever.
    """
    x = np.asarray(lead_mv, np.float64)
    if x.size == 0:
        return np.zeros(0, np.float32)
    padded = np.concatenate([np.full(FIR_TAPS - 1, x[0]), x])
    low = np.convolve(padded, fir_taps(), "valid")[::DECIMATION]
    blocked = lfilter([1.0, -1.0], [1.0, -DC_POLE], low, zi=[-low[0]])[0]
    return np.asarray(blocked, np.float32)


def flushed(lead: NDArray[Any]) -> NDArray[Any]:
    """The recording and FLUSH_SAMPLES times its last sample, so that its last beats are decided.

    lead  [samples] at 360 Hz, in any unit
    """
    return np.concatenate([lead, np.full(FLUSH_SAMPLES, lead[-1], lead.dtype)])


@dataclass(frozen=True)
class Beats:
    """Decoded beats in order of time.

    position  [beats] float64, R peak in samples at 360 Hz
    kind      [beats] int64, index into CLASSES
    strength  [beats] float64, sum of three beat probabilities, 1 .. 3
    vote      [beats, 3] float64, sum of three class probabilities weighted by them
    step      [beats] int64, the middle one of the three
    """

    position: NDArray[np.float64]
    kind: NDArray[np.int64]
    strength: NDArray[np.float64]
    vote: NDArray[np.float64]
    step: NDArray[np.int64]


def _maxima(strength: NDArray[np.float64]) -> NDArray[np.int64]:
    """Steps above the threshold, above the step before, not below the step after.

    strength  [steps]; of a plateau the first step counts
    """
    left = np.concatenate([[-np.inf], strength[:-1]])
    right = np.concatenate([strength[1:], [-np.inf]])
    return np.flatnonzero((strength > THRESHOLD) & (strength > left) & (strength >= right))


def _after_refractory(position: NDArray[np.float64], strength: NDArray[np.float64]) -> list[int]:
    """Indices that stay when the stronger of two too close neighbours wins (the first if equal)."""
    kept: list[int] = []
    for i in range(len(position)):
        if kept and position[i] - position[kept[-1]] < REFRACTORY_SAMPLES:
            if strength[i] > strength[kept[-1]]:
                kept[-1] = i
        else:
            kept.append(i)
    return kept


def decode(logits: NDArray[np.floating[Any]]) -> Beats:
    """Turn the model's output into beats.

    logits  [steps, 4] float: beat, N, S, V (dequantized)
    """
    z = np.asarray(logits, np.float64)
    p = np.pad(1.0 / (1.0 + np.exp(-z[:, 0])), 2)
    share = np.exp(z[:, 1:] - z[:, 1:].max(axis=1, keepdims=True))
    share = np.pad(share / share.sum(axis=1, keepdims=True), ((2, 2), (0, 0)))
    strength = p[1:-3] + p[2:-2] + p[3:-1]
    steps = _maxima(strength)

    around = steps[:, None] + np.arange(5)
    centre = steps + (p[around] * np.arange(-2, 3)).sum(axis=1) / p[around].sum(axis=1)
    position = centre * SAMPLES_PER_STEP + POSITION_OFFSET_SAMPLES
    near = around[:, 1:4]
    vote = (p[near][:, :, None] * share[near]).sum(axis=1)
    kept = np.asarray(_after_refractory(position, strength[steps]), np.int64)
    kept = kept[position[kept] >= 0.0]
    kind, step = vote[kept].argmax(axis=1), steps[kept]
    return Beats(position[kept], kind, strength[step], vote[kept], step)
