"""Weights, biases and constants as integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.graph.ir import Array, Quant
from edgesparse.quantize.ranges import LEVELS
from edgesparse.quantize.weights import IntegerWeights, quantize_constant, quantize_weights

INT32_MAX = 2**31 - 1


def real_weights(found: IntegerWeights) -> Array:
    scale = np.asarray(found.scale).reshape(-1, *[1] * (found.weights.ndim - 1))
    return np.asarray(found.weights * scale)


def test_every_channel_uses_its_whole_range_and_zeros_stay() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 3, 3, 8)) * 10.0 ** rng.uniform(-3, 3, (16, 1, 1, 1))
    weights[rng.random(weights.shape) < 0.8] = 0.0
    found = quantize_weights(weights, rng.normal(size=16), 0.05)
    assert (np.abs(found.weights.reshape(16, -1)).max(axis=1) == 127).all()
    assert (found.weights[weights == 0] == 0).all()
    step = np.asarray(found.scale).reshape(-1, 1, 1, 1)
    assert (np.abs(real_weights(found) - weights) <= 0.5001 * step).all()
    assert found.weight_quant == Quant(found.scale, (0,) * 16, 0)


def test_a_channel_of_zeros_has_an_ordinary_scale() -> None:
    weights = np.zeros((3, 4))
    weights[0] = 2.54
    found = quantize_weights(weights, np.array([0.1, 0.0, 1.0]), 0.1)
    assert found.scale[1] == pytest.approx(0.02)
    assert not found.weights[1:].any()
    np.testing.assert_allclose(found.bias * 0.1 * np.asarray(found.scale), [0.1, 0, 1], rtol=0.01)


def test_a_layer_of_zeros_still_gives_its_bias() -> None:
    bias = np.array([0.0, -0.03, 1e-6, 1e6])
    found = quantize_weights(np.zeros((4, 7)), bias, 0.5)
    np.testing.assert_allclose(found.bias * 0.5 * np.asarray(found.scale), bias, rtol=1e-4)


def test_a_bias_too_large_for_int32_coarsens_its_channel_only() -> None:
    weights = np.full((2, 5), 1e-7)
    found = quantize_weights(weights, np.array([1.0, 1e-6]), 0.01)
    assert found.bias[0] * 0.01 * found.scale[0] == pytest.approx(1.0, rel=1e-6)
    assert found.scale[0] == pytest.approx(128 * found.scale[1])
    assert (found.weights[1] == 127).all()


sizes = st.floats(-35, 30)


@given(sizes, sizes, sizes, st.integers(0, 2**32 - 1))
def test_no_accumulator_leaves_int32(w: float, b: float, x: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(4, 9)) * 10.0**w).astype(np.float32)
    weights[rng.random(4) < 0.3] = 0
    bias = (rng.normal(size=4) * 10.0**b).astype(np.float32)
    found = quantize_weights(weights, bias, 10.0**x)
    worst = np.abs(found.bias.astype(np.int64)) + LEVELS * np.abs(
        found.weights.astype(np.int64)).sum(axis=1)
    assert worst.max() <= INT32_MAX
    for scale in (*found.scale, *found.bias_quant(10.0**x).scale):
        assert 0 < scale < np.inf
        assert scale == np.float32(scale)


def test_weights_that_were_int8_before_are_not_rounded_again() -> None:
    """Dynamic-range models hold one scale per tensor; its grid is kept bit for bit."""
    rng = np.random.default_rng(1)
    stored = rng.integers(-100, 101, (8, 20)).astype(np.int8)
    stored[0, 0] = 127
    scale = np.float32(0.0123)
    found = quantize_weights((stored * scale).astype(np.float32), np.zeros(8), 0.1)
    np.testing.assert_array_equal(found.weights, stored)


def test_small_channels_are_not_taken_for_rounded_ones() -> None:
    weights = np.array([[1.0, -0.5], [1e-9, -1e-9]])
    found = quantize_weights(weights, np.zeros(2), 0.1)
    assert found.weights[1].tolist() == [127, -127]


@pytest.mark.parametrize("value", [3.7, -0.002, 1e20])
def test_a_constant_of_one_value_is_exact(value: float) -> None:
    stored, quant = quantize_constant(np.array(value))
    assert (int(stored) - quant.zero_point[0]) * quant.scale[0] == pytest.approx(value, rel=1e-6)


def test_constants_are_rounded_to_the_nearest_step() -> None:
    data = np.random.default_rng(2).normal(size=300)
    stored, quant = quantize_constant(data)
    error = (stored.astype(np.float64) - quant.zero_point[0]) * quant.scale[0] - data
    assert np.abs(error).max() <= 1.001 * quant.scale[0]
    stored, quant = quantize_constant(np.zeros(3))
    assert (stored == quant.zero_point[0]).all()
    stored, _ = quantize_constant(np.array([9.0, -9.0, 0.0]), Quant((0.05,), (10,)))
    assert stored.tolist() == [127, -128, 10]
