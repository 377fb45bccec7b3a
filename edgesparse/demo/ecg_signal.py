"""From millivolts to model inputs, and from logits to heart beats.

demos/ecg/MODEL_CARD.md, "Front end and decoding", defines both. Three clocks occur:

    sample  360 Hz, index r   the recording
    input   180 Hz, index n   what the model reads; input n is computed from samples 2n-16 .. 2n
    step    22.5 Hz, index t  what the model writes; step t is computed from inputs up to 8t
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array

SAMPLE_RATE_HZ = 360
FIR_TAPS = 17
FIR_DELAY = FIR_TAPS // 2
FIR_CUTOFF_HZ = 75.6
DECIMATION = 2
DC_CORNER_HZ = 0.5

INPUTS_PER_STEP = 8
SAMPLES_PER_STEP = DECIMATION * INPUTS_PER_STEP
LABEL_DELAY_STEPS = 16
DECISION_STEPS = 2
"""Steps after its own that a local maximum needs before it is certain."""
FLUSH_SAMPLES = (LABEL_DELAY_STEPS + DECISION_STEPS) * SAMPLES_PER_STEP
POSITION_OFFSET = (SAMPLES_PER_STEP - 1) / 2 - FIR_DELAY - LABEL_DELAY_STEPS * SAMPLES_PER_STEP
"""R peak minus 16 * step: middle of the step, delay of the filter, delay of the labels."""

THRESHOLD = 1.0
"""On the sum of three beat probabilities."""
REFRACTORY_SAMPLES = 72.0
CLASSES = ("N", "S", "V")


@dataclass(frozen=True, eq=False)
class Beats:
    """Heart beats in order of time.

    position  [beats] float64, R peak in samples at 360 Hz
    kind      [beats] int64, index into CLASSES
    """

    position: Array
    kind: Array

    def __len__(self) -> int:
        return len(self.position)

    def before(self, samples: int) -> Beats:
        """Those whose peak lies before the end of a recording of `samples` samples."""
        inside = self.position < samples
        return Beats(self.position[inside], self.kind[inside])


def front_end(lead_mv: Array) -> Array:
    """Causal low pass, decimation by two (even samples stay), DC blocker; no normalisation.

    lead_mv  [samples] float, mV at 360 Hz
    returns  [ceil(samples / 2)] float32, mV at 180 Hz

    Both filters start as if the first sample had stood there for ever.
    """
    x = np.asarray(lead_mv, np.float64)
    taps = np.sinc(2 * FIR_CUTOFF_HZ / SAMPLE_RATE_HZ * (np.arange(FIR_TAPS) - FIR_DELAY))
    taps *= np.hamming(FIR_TAPS)
    padded = np.concatenate([np.full(FIR_TAPS - 1, x[0]), x])
    low = np.convolve(padded, taps / taps.sum(), "valid")[::DECIMATION]
    return _dc_blocked(low).astype(np.float32)


def _dc_blocked(low: Array) -> Array:
    """y[n] = d[n] - d[n-1] + a * y[n-1], from rest at the first value.

    A loop: scipy.signal has this as lfilter, but takes a second to import.
    """
    pole = math.exp(-2 * math.pi * DC_CORNER_HZ * DECIMATION / SAMPLE_RATE_HZ)
    out, carried = [], -float(low[0])
    for value in low.tolist():
        out.append(value + carried)
        carried = pole * out[-1] - value
    return np.array(out)


def flushed(lead_mv: Array) -> Array:
    """The recording with its last sample repeated until its last beats are decided."""
    return np.concatenate([lead_mv, np.full(FLUSH_SAMPLES, lead_mv[-1])])


def decode(logits: Array) -> Beats:
    """Find and classify beats.

    logits  [steps, 4] float: beat, N, S, V
    """
    z = np.asarray(logits, np.float64)
    p = np.pad(1 / (1 + np.exp(-z[:, 0])), 2)
    share = np.exp(z[:, 1:] - z[:, 1:].max(axis=1, keepdims=True))
    share = np.pad(share / share.sum(axis=1, keepdims=True), ((2, 2), (0, 0)))

    strength = p[1:-3] + p[2:-2] + p[3:-1]
    before, after = np.r_[-np.inf, strength[:-1]], np.r_[strength[1:], -np.inf]
    peaks = np.flatnonzero((strength > THRESHOLD) & (strength > before) & (strength >= after))

    around = peaks[:, None] + np.arange(5)  # steps t-2 .. t+2, in the padded arrays
    shift = p[around] @ np.arange(-2.0, 3.0) / p[around].sum(axis=1)
    position = (peaks + shift) * SAMPLES_PER_STEP + POSITION_OFFSET
    near = around[:, 1:4]
    kind = (p[near][:, :, None] * share[near]).sum(axis=1).argmax(axis=1)

    kept = np.array(_refractory(position, strength[peaks]), np.int64)
    kept = kept[position[kept] >= 0]
    return Beats(position[kept], kind[kept])


def _refractory(position: Array, strength: Array) -> list[int]:
    """Indices that stay when of two neighbours within 200 ms the stronger wins."""
    kept: list[int] = []
    for i in range(len(position)):
        if not kept or position[i] - position[kept[-1]] >= REFRACTORY_SAMPLES:
            kept.append(i)
        elif strength[i] > strength[kept[-1]]:
            kept[-1] = i
    return kept
