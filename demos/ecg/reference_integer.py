"""Front end and beat decoder in integer arithmetic: the definition that a device computes exactly.

MODEL_CARD.md, "Front end and decoding", says the same in words. Clocks as in reference_decoder.py:
sample 360 Hz (r), input 180 Hz (n), step 22.5 Hz (t). NumPy only. `>>` is a floor of the quotient,
also for negative numbers; `rounded` rounds halves up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TAPS_Q15 = (
    *(-95, 32, 373, 235, -1192, -1819, 2179, 9772),
    13798,
    *(9772, 2179, -1819, -1192, 235, 373, 32, -95),
)
"""reference_decoder.fir_taps() * 2^15 rounded, the middle one set so that the sum is 2^15."""
TAP_BITS = 15
FRACTION_BITS = 4
"""Fraction bits of the signal after the low pass: 1/16 of an ADC unit."""
DC_SHIFT = 6
"""Pole 1 - 2^-6: corner 180 / (2 pi) * -ln(1 - 2^-6) = 0.451 Hz."""
DECIMATION = 2
ADU_PER_MV = 200

SAMPLES_PER_STEP = 16
POSITION_SHIFT = -288
"""Of a beat, in samples: -256 (label delay of 16 steps) - 32 (taps of the centre start at t - 2).
The half samples of reference_decoder.POSITION_OFFSET_SAMPLES (-256.5) are the floor's rounding."""
P_BITS = 15
THRESHOLD = 1 << P_BITS
"""On the sum of three beat probabilities in Q15: a mean above 1/3."""
REFRACTORY_SAMPLES = 72


def rounded(value: Any, bits: int) -> Any:
    """value / 2^bits, halves up."""
    return (value + (1 << (bits - 1))) >> bits


def low_pass(samples: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """FIR at 360 Hz, of which every second output is computed.

    samples  [samples] int16 range, ADC units, zero offset removed
    returns  [ceil(samples / 2)] 1/16 ADC unit, below 2^20 in size; the sum before the shift fits
             int32 (sum of |taps| = 45192, times 2^15 = 1.481e9)

    Starts as if the first sample had stood there for ever.
    """
    x = np.asarray(samples, np.int64)
    padded = np.concatenate([np.full(len(TAPS_Q15) - 1, x[0]), x])
    taps = np.array(TAPS_Q15, np.int64)
    total = np.convolve(padded, taps, "valid")[::DECIMATION]
    return np.asarray(rounded(total, TAP_BITS - FRACTION_BITS), np.int64)


def dc_blocked(low: NDArray[np.int64]) -> NDArray[np.int64]:
    """y[n] = d[n] - rounded(m, 6), then m += y[n]; m starts at 2^6 d[0], so y[0] = 0.

    low  [time] 1/16 ADC unit; the state m stays within 2^6 times the range of d: int32
    """
    out = np.empty(len(low), np.int64)
    m = int(low[0]) << DC_SHIFT
    half = 1 << (DC_SHIFT - 1)
    for n, value in enumerate(low.tolist()):
        y = value - ((m + half) >> DC_SHIFT)
        m += y
        out[n] = y
    return out


def front_end(samples: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Low pass, decimation by two, DC blocker.

    samples  [samples] int16 range, ADC units, zero offset removed
    returns  [ceil(samples / 2)] 1/16 ADC unit
    """
    if len(samples) == 0:
        return np.zeros(0, np.int64)
    return dc_blocked(low_pass(samples))


def millivolts(inputs: NDArray[np.int64]) -> NDArray[np.float32]:
    """What training reads: 1/16 ADC unit -> mV at 200 ADC units per mV."""
    return np.asarray(inputs / (ADU_PER_MV << FRACTION_BITS), np.float32)


@dataclass(frozen=True)
class InputScale:
    """q = clip(rounded(y * multiplier, shift) + zero_point, -128, 127); y * multiplier is int64.

    multiplier  2^30 .. 2^31 - 1
    """

    multiplier: int
    shift: int
    zero_point: int

    def quantize(self, inputs: NDArray[np.int64]) -> NDArray[np.int8]:
        """inputs [time] 1/16 ADC unit -> [time] int8, the model's input."""
        q = rounded(inputs * self.multiplier, self.shift) + self.zero_point
        return np.asarray(np.clip(q, -128, 127), np.int8)


def input_scale(scale_mv: float, zero_point: int, adu_per_mv: float = ADU_PER_MV) -> InputScale:
    """Fold the model's input scale and the ADC's gain into one multiplication.

    scale_mv  of the model's int8 input, mV per unit (the float32 of the file)
    """
    ratio = 1.0 / (float(scale_mv) * adu_per_mv * (1 << FRACTION_BITS))
    mantissa, exponent = np.frexp(ratio)
    multiplier, shift = round(float(mantissa) * (1 << 31)), 31 - int(exponent)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift - 1
    return InputScale(multiplier, shift, zero_point)


@dataclass(frozen=True)
class Tables:
    """Two tables of 256 uint16, made once per model (at conversion) from its output scale.

    probability  [256] by q + 128: round(2^15 / (1 + exp(-scale (q - zero_point))))
    power        [256] by a difference d = largest - q of class logits: round(2^15 exp(-scale d))
    """

    probability: NDArray[np.int64]
    power: NDArray[np.int64]


def tables(scale: float, zero_point: int) -> Tables:
    """float64, rounded half up (no value lies near a half for the shipped models)."""
    logit = float(scale) * (np.arange(-128, 128) - zero_point)
    one = float(1 << P_BITS)
    probability = np.floor(one / (1.0 + np.exp(-logit)) + 0.5).astype(np.int64)
    power = np.floor(one * np.exp(-float(scale) * np.arange(256)) + 0.5).astype(np.int64)
    return Tables(probability, power)


@dataclass(frozen=True)
class IntBeats:
    """Decoded beats in order of time.

    position  [beats] int64, R peak, sample at 360 Hz
    kind      [beats] int64, 0 .. 2 = N S V
    strength  [beats] int64, sum of three beat probabilities, Q15
    vote      [beats, 3] int64, up to 3 * 2^30: uint32
    """

    position: NDArray[np.int64]
    kind: NDArray[np.int64]
    strength: NDArray[np.int64]
    vote: NDArray[np.int64]


def decode(logits: NDArray[np.int8], luts: Tables) -> IntBeats:
    """Turn the model's int8 output into beats; every intermediate value fits 32 bits.

    logits  [steps, 4] int8: beat, N, S, V
    """
    q = logits.astype(np.int64)
    p = np.pad(luts.probability[q[:, 0] + 128], 2)
    e = luts.power[q[:, 1:].max(axis=1, keepdims=True) - q[:, 1:]]
    share = np.pad((e << P_BITS) // e.sum(axis=1, keepdims=True), ((2, 2), (0, 0)))
    s = p[1:-3] + p[2:-2] + p[3:-1]
    left, right = np.r_[-1, s[:-1]], np.r_[s[1:], -1]
    steps = np.flatnonzero((s > THRESHOLD) & (s > left) & (s >= right))

    around = steps[:, None] + np.arange(5)
    near = around[:, 1:4]
    lean = (p[around] * np.arange(5)).sum(axis=1)
    offset = SAMPLES_PER_STEP * lean // p[around].sum(axis=1)
    position = SAMPLES_PER_STEP * steps + POSITION_SHIFT + offset
    vote = (p[near][:, :, None] * share[near]).sum(axis=1)

    kept: list[int] = []
    for i in range(len(steps)):
        if not kept or position[i] - position[kept[-1]] >= REFRACTORY_SAMPLES:
            kept.append(i)
        elif s[steps[i]] > s[steps[kept[-1]]]:
            kept[-1] = i
    keep = np.asarray(kept, np.int64)
    keep = keep[position[keep] >= 0]
    return IntBeats(position[keep], vote[keep].argmax(axis=1), s[steps[keep]], vote[keep])
