"""The fixed-point arithmetic against exact fractions and real functions."""

from __future__ import annotations

import math
import re
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.quantize.fixedpoint import (
    Rounding,
    divide_half_away,
    multiply,
    quantize_multiplier,
    quantize_multipliers,
    requantize,
    round_half_away,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from edgesparse.quantize.gemmlowp import exp_on_negative_values, one_over_one_plus_x, reciprocal
from edgesparse.quantize.gemmlowp16 import GATE_BITS, logistic, tanh

INT32 = st.integers(-(2**31), 2**31 - 1)
EDGES = np.array([-(2**31), -(2**31) + 1, -(2**30), -3, -2, -1, 0, 1, 2, 3, 2**30, 2**31 - 1])


def away(x: Fraction) -> int:
    """The nearest whole number, a tie away from zero."""
    return int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x)) if x else 0


def up(x: Fraction) -> int:
    """The nearest whole number, a tie upwards."""
    return math.floor(x + Fraction(1, 2))


@given(st.floats(2.0**-31, 2.0**30))
def test_a_multiplier_is_within_half_a_unit(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    assert 2**30 <= multiplier < 2**31
    error = abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(real))
    assert error <= Fraction(2) ** (shift - 32)


@pytest.mark.parametrize(("real", "expected"), [
    (0.0, (0, 0)),
    (1.0, (2**30, 1)),
    (0.5, (2**30, 0)),
    (1 - 2.0**-40, (2**30, 1)),  # the mantissa rounds up to 2**31 and carries
    (2.0**-32, (2**30, -31)),
    (2.0**-33, (0, 0)),
    (1e-30, (0, 0)),
    (-0.3, (-round(0.6 * 2**31), -1)),
])
def test_multipliers_of_special_factors(real: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == expected


def test_many_multipliers_are_those_of_each() -> None:
    real = 10.0 ** np.random.default_rng(0).uniform(-12, 3, 500)
    multiplier, shift = quantize_multipliers(real)
    assert [quantize_multiplier(r) for r in real] == list(zip(multiplier, shift))


@given(INT32, INT32)
def test_high_mul_rounds_a_tie_up(a: int, b: int) -> None:
    found = int(saturating_rounding_doubling_high_mul(a, b))
    assert found == min(up(Fraction(a * b, 2**31)), 2**31 - 1)


def test_high_mul_at_the_edges() -> None:
    found = saturating_rounding_doubling_high_mul(EDGES[:, None], EDGES[None])
    for i, a in enumerate(EDGES.tolist()):
        for j, b in enumerate(EDGES.tolist()):
            assert found[i, j] == min(up(Fraction(a * b, 2**31)), 2**31 - 1)


@given(INT32, st.integers(0, 34))
def test_divide_by_a_power_rounds_a_tie_away(x: int, exponent: int) -> None:
    assert int(rounding_divide_by_pot(x, exponent)) == away(Fraction(x, 2**exponent))


@given(st.integers(-(2**40), 2**40), st.integers(1, 10**6))
def test_divide_rounds_a_tie_away(total: int, count: int) -> None:
    assert int(divide_half_away(total, count)) == away(Fraction(total, count))


@given(st.floats(-(2.0**53), 2.0**53))
def test_round_half_away_is_exact(x: float) -> None:
    assert float(round_half_away(np.float64(x))) == away(Fraction(x))


def test_just_below_a_half_rounds_to_zero() -> None:
    x = np.array([0.49999999999999994, -0.49999999999999994, 0.5, -0.5, 1.5, -2.5])
    assert round_half_away(x).tolist() == [0, 0, 1, -1, 2, -3]


@given(INT32, st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_multiply_rounds_twice_or_once(x: int, multiplier: int, shift: int) -> None:
    exact = Fraction(x * multiplier) * Fraction(2) ** (shift - 31)
    once = int(multiply(x, multiplier, shift, Rounding.SINGLE))
    assert once == up(exact)
    twice = int(multiply(x, multiplier, shift, Rounding.DOUBLE))
    assert twice == away(Fraction(up(Fraction(x * multiplier, 2**31)), 2**-shift))
    assert abs(twice - exact) < 1


@given(st.integers(-(2**16), 2**16), st.integers(2**30, 2**31 - 1), st.integers(1, 14))
def test_a_left_shift_comes_before_the_product(x: int, multiplier: int, shift: int) -> None:
    exact = Fraction(x * multiplier) * Fraction(2) ** (shift - 31)
    for rounding in Rounding:
        assert int(multiply(x, multiplier, shift, rounding)) == up(exact)


def test_requantize_scales_each_channel_and_clamps() -> None:
    acc = np.array([[100, 100, 100], [-1000, -1000, -1000]])
    factor = quantize_multipliers(np.array([0.5, 0.01, 0.0]))
    found = requantize(acc, factor, 3, (-20, 50), Rounding.DOUBLE)
    assert found.tolist() == [[50, 4, 3], [-20, -7, 3]]
    assert found.dtype == np.int8


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
def test_exp_is_right_to_seven_digits(bits: int) -> None:
    rng = np.random.default_rng(bits)
    raw = -np.concatenate([rng.integers(0, 2**31, 5000), np.arange(100), [2**31 - 1]])
    found = exp_on_negative_values(raw, bits) / 2.0**31
    assert np.abs(found - np.exp(raw * 2.0 ** (bits - 31))).max() < 4e-7
    assert exp_on_negative_values(np.array([0]), bits).tolist() == [2**31 - 1]


def test_reciprocals_are_right_to_seven_digits() -> None:
    a = np.linspace(0, 2**31 - 1, 5001).astype(np.int64)
    found = one_over_one_plus_x(a) / 2.0**31
    assert np.abs(found - 1 / (1 + a / 2.0**31)).max() < 2e-8
    x = np.random.default_rng(1).integers(1, 2**31, 5000)
    scale, bits = reciprocal(x, 12)
    assert np.abs(scale / 2.0**31 * 2.0**-bits * (x * 2.0**-19) - 1).max() < 3e-8
    assert scale.min() >= 2**30 - 64


# ---- int16 --------------------------------------------------------------------------------------

EVERY_INT16 = np.arange(-(2**15), 2**15)


def test_logistic_and_tanh_of_int16_are_near_the_real_ones() -> None:
    real = 1 / (1 + np.exp(-EVERY_INT16 * 2.0 ** (GATE_BITS - 15)))
    assert np.abs(logistic(EVERY_INT16) - real * 2**15).max() < 7
    for bits in range(7):
        real = np.tanh(EVERY_INT16 * 2.0 ** (bits - 15))
        assert np.abs(tanh(EVERY_INT16, bits) - real * 2**15).max() < 13


def test_the_core_has_the_same_logistic_and_tanh() -> None:
    """Every value of both, by the checksum that native/tests/test_q15.c compares with."""
    crc = zlib.crc32(logistic(EVERY_INT16).astype("<i2").tobytes())
    for bits in range(7):
        crc = zlib.crc32(tanh(EVERY_INT16, bits).astype("<i2").tobytes(), crc)
    core = Path(__file__).parents[1] / "native" / "tests" / "test_q15.c"
    (expected,) = re.findall(r"expected = (0x\w+);", core.read_text())
    assert crc == int(expected, 16)
