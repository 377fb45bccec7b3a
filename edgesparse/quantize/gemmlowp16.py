"""Logistic and tanh of int16 numbers, as TFLite's integer LSTM computes them.

A value is an int64 array of raw int16 numbers; "Q k" is the format with k integer bits, where
raw r means r * 2**(k - 15). native/src/exec/q15.c is the twin in C. Results are within 13 units
of 2**-15; they differ from the 32-bit functions of gemmlowp.py rounded to 16 bits.
Source: gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.quantize.fixedpoint import rounding_divide_by_pot

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
EXP_OF_MINUS_EIGHTH = 28918
THIRD = 10923
EXP_FACTORS = ((-2, 25520), (-1, 19875), (0, 12055), (1, 4435), (2, 600), (3, 11), (4, 0))
"""(e, exp(-2**e) in Q0)."""
NEWTON_START = (23130, -15420)
"""48/17 and -32/17 in Q2."""
GATE_BITS = 3
"""Integer bits of what goes into a gate."""


def saturate(x: Array) -> Array:
    return np.clip(x, INT16_MIN, INT16_MAX)


def product(a: Array | int, b: Array | int) -> Array:
    """round(a * b / 2**15), a tie going up; not both are -2**15."""
    return (np.asarray(a, np.int64) * b + (1 << 14)) >> 15


def exp_on_negative_values(a: Array, integer_bits: int) -> Array:
    """exp(a) in Q0 of a <= 0 in Q `integer_bits` (1 to 7)."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (a & (quarter - 1)) - quarter
    x = (inside << integer_bits) + (1 << 12)  # around -1/8
    x2 = product(x, x)
    x4_over_4 = rounding_divide_by_pot(product(x2, x2), 2)
    tail = rounding_divide_by_pot(product(x4_over_4 + product(x2, x), THIRD) + x2, 1)
    result = saturate(EXP_OF_MINUS_EIGHTH + product(EXP_OF_MINUS_EIGHTH, x + tail))
    remainder = inside - a
    for exponent, factor in EXP_FACTORS:
        if exponent < integer_bits:
            has = (remainder >> (fraction_bits + exponent)) & 1
            result = np.where(has, product(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fraction_bits), 0, result)
    return np.where(a == 0, INT16_MAX, result)


def one_over_one_plus_x(a: Array) -> Array:
    """1 / (1 + a) in Q1 for a in [0, 1] in Q0, as half of it in Q0: three Newton steps in Q2."""
    half_denominator = (a + INT16_MAX + 1) >> 1
    x = NEWTON_START[0] + product(half_denominator, NEWTON_START[1])
    for _ in range(3):
        error = (1 << 13) - product(half_denominator, x)
        x = x + saturate(product(x, error) << 2)
    return x


def logistic(a: Array) -> Array:
    """1 / (1 + exp(-a)) in Q0 of a in Q3."""
    a = np.asarray(a, np.int64)
    positive = saturate(one_over_one_plus_x(exp_on_negative_values(-np.abs(a), GATE_BITS)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, INT16_MAX - positive))


def tanh(a: Array, integer_bits: int) -> Array:
    """tanh(a) in Q0 of a in Q `integer_bits` (0 to 6): (1 - exp(-2a)) / (1 + exp(-2a))."""
    a = np.asarray(a, np.int64)
    e = exp_on_negative_values(-np.abs(a), integer_bits + 1)
    positive = saturate((one_over_one_plus_x(e) - (1 << 13)) << 2)
    return np.sign(a) * positive
