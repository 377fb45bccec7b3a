"""Fixed-point scaling: the one place of the multiplier-and-shift arithmetic in Python.

native/src/fixedpoint.h is its twin in C. A real factor m is stored as
multiplier * 2**(shift - 31) with multiplier in [2**30, 2**31) or 0.
Source: TFLite common.h (MultiplyByQuantizedMultiplier) and gemmlowp fixedpoint.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from edgesparse.graph.ir import Array

Ints = Array | int | np.signedinteger[Any]
INT32_MAX = 2**31 - 1


class Rounding(IntEnum):
    """DOUBLE rounds after the high multiply and again after the shift (TFLite reference
    kernels, tflite-runtime 2.14); SINGLE rounds once (what XNNPACK does)."""

    DOUBLE = 0
    SINGLE = 1


@dataclass(frozen=True)
class Scaled:
    """A zero point and a real factor multiplier * 2**(shift - 31)."""

    zero_point: int
    multiplier: int
    shift: int


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return (multiplier, shift) of a factor; (0, 0) when it is too small to matter."""
    multiplier, shift = quantize_multipliers(np.array([real], np.float64))
    return int(multiplier[0]), int(shift[0])


def quantize_multipliers(real: Array) -> tuple[Array, Array]:
    """Real factors as fixed-point ones.

    real        [n] float64; only a leaky ReLU's slope may be negative
    multiplier  [n] int64, 0 or of magnitude 2**30 to 2**31 - 1
    shift       [n] int64, -31 or more
    Source: TFLite quantization_util.cc, QuantizeMultiplier.
    """
    mantissa, exponent = np.frexp(np.asarray(real, np.float64))
    multiplier = round_half_away(mantissa * 2.0**31).astype(np.int64)
    shift = exponent.astype(np.int64)
    carried = multiplier == 2**31
    multiplier = np.where(carried, 2**30, multiplier)
    shift = np.where(carried, shift + 1, shift)
    vanished = (shift < -31) | (multiplier == 0)
    return np.where(vanished, 0, multiplier), np.where(vanished, 0, shift)


def round_half_away(x: Array | np.floating[Any]) -> Array:
    """The nearest whole number in float64, ties away from zero (C's round)."""
    x = np.asarray(x, np.float64)
    whole: Array = np.trunc(x)
    # Not floor(|x| + 0.5): that sum rounds up for the number just below 0.5.
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


def divide_half_away(total: Array, count: Array | int) -> Array:
    """round(total / count) for integers, count > 0, ties away from zero."""
    total, count = np.asarray(total, np.int64), np.asarray(count, np.int64)
    magnitude = (np.abs(total) + count // 2) // count
    return np.where(total < 0, -magnitude, magnitude)


def saturating_rounding_doubling_high_mul(a: Ints, b: Ints) -> Array:
    """round(a * b / 2**31) of int32 ranges, a tie going up; the one overflow saturates."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    # C division truncates towards zero; a shift floors.
    high = np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31))
    return np.where(high > INT32_MAX, INT32_MAX, high)


def rounding_divide_by_pot(x: Ints, exponent: Ints) -> Array:
    """round(x / 2**exponent), half away from zero."""
    x, exponent = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return np.where((x & mask) > threshold, (x >> exponent) + 1, x >> exponent)


def multiply(x: Ints, multiplier: Ints, shift: Ints, rounding: Rounding) -> Array:
    """x * multiplier * 2**(shift - 31) in the given rounding, as int64.

    x and, for DOUBLE, x * 2**shift lie in the int32 range: the caller's proof (PLAN_FORMAT I-43).
    """
    x, multiplier = np.asarray(x, np.int64), np.asarray(multiplier, np.int64)
    shift = np.asarray(shift, np.int64)
    if rounding is Rounding.SINGLE:
        total = 31 - shift
        scaled: Array = (x * multiplier + (np.int64(1) << (total - 1))) >> total
        return scaled
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    high = saturating_rounding_doubling_high_mul(x << left, multiplier)
    return rounding_divide_by_pot(high, right)


def requantize(
    acc: Array,
    factor: tuple[Array, Array],
    zero_point: int,
    clamp: tuple[int, int],
    rounding: Rounding,
) -> Array:
    """int32 accumulators [..., channels] -> int8: scale, add the zero point, clamp.

    factor  (multiplier, shift), one entry per channel or one in all
    """
    y = multiply(acc, *factor, rounding) + zero_point
    return np.clip(y, *clamp).astype(np.int8)
