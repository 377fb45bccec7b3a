"""Fixed-point exponential and reciprocal, as TFLite's reference softmax computes them.

A value is an int64 array of raw int32 numbers; "Q k" is the format with k integer bits, where
raw r means r * 2**(k - 31). native/src/fixedpoint.h is the twin in C.
Source: gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.quantize.fixedpoint import INT32_MAX, rounding_divide_by_pot
from edgesparse.quantize.fixedpoint import saturating_rounding_doubling_high_mul as product

ONE = INT32_MAX
"""1 in Q0, as near as it gets."""
EXP_OF_MINUS_EIGHTH = 1895147668
THIRD = 715827883
EXP_FACTORS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535),
    (3, 720401), (4, 242),
)
"""(e, exp(-2**e) in Q0)."""
NEWTON_START = (1515870810, -1010580540)
"""48/17 and -32/17 in Q2: the first guess of a reciprocal over [1/2, 1]."""


def saturating_shift_left(x: Array, bits: int) -> Array:
    """x * 2**bits, held inside int32."""
    return np.clip(np.asarray(x, np.int64) << bits, -(2**31), INT32_MAX)


def exp_on_quarter(a: Array) -> Array:
    """exp(a) for a in [-1/4, 0), both Q0: a Taylor polynomial around -1/8."""
    x = np.asarray(a, np.int64) + (1 << 28)
    x2 = product(x, x)
    x3 = product(x2, x)
    x4_over_4 = rounding_divide_by_pot(product(x2, x2), 2)
    tail = rounding_divide_by_pot(product(x4_over_4 + x3, THIRD) + x2, 1)
    return EXP_OF_MINUS_EIGHTH + product(EXP_OF_MINUS_EIGHTH, x + tail)


def exp_on_negative_values(a: Array, integer_bits: int) -> Array:
    """exp(a) in Q0 of a <= 0 in Q `integer_bits` (2 to 5)."""
    a = np.asarray(a, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (a & (quarter - 1)) - quarter
    result = exp_on_quarter(inside << integer_bits)
    remainder = inside - a
    for exponent, factor in EXP_FACTORS:
        if exponent < integer_bits:
            has = (remainder >> (fraction_bits + exponent)) & 1
            result = np.where(has, product(result, factor), result)
    return np.where(a == 0, ONE, result)


def one_over_one_plus_x(a: Array) -> Array:
    """1 / (1 + a) for a in [0, 1], both Q0: three Newton steps."""
    half_denominator = (np.asarray(a, np.int64) + ONE + 1) >> 1
    x = NEWTON_START[0] + product(half_denominator, NEWTON_START[1])
    for _ in range(3):
        error = (1 << 29) - product(half_denominator, x)
        x = x + saturating_shift_left(product(x, error), 2)
    return saturating_shift_left(x, 1)


def reciprocal(x: Array, integer_bits: int) -> tuple[Array, Array]:
    """x > 0 in Q `integer_bits` -> (scale in Q0, bits) with 1/x = scale * 2**-bits, scale > 1/2."""
    x = np.asarray(x, np.int64)
    headroom = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    return one_over_one_plus_x((x << headroom) - (1 << 31)), integer_bits - headroom
