"""Constants as integers: per-channel weights, biases, elementwise constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array, Quant
from edgesparse.quantize.fixedpoint import round_half_away
from edgesparse.quantize.ranges import LEVELS, MAX_SCALE, MIN_SCALE, affine

WEIGHT_MAX = 127
"""Weights lie in [-127, 127]: symmetric, as the TFLite specification asks."""
BIAS_MAX = 2**30
"""Largest stored bias: half the int32 range stays free for the sum of products."""
ACCUMULATOR_MAX = 2**31 - 1
ZERO_ROW_BIAS = 2**20
"""Stored bias of a row without weights."""
GRID_TOLERANCE = 1e-4
"""Distance to a whole number, in steps, that float32 rounding of int8 weights stays below."""
MAX_GROWTH = 300
"""Doublings of a weight scale that end every float32 overflow."""


@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """weights [M, ...] int8, bias [M] int32, scale [M] float exactly representable in float32."""

    weights: Array
    bias: Array
    scale: tuple[float, ...]

    @property
    def weight_quant(self) -> Quant:
        return Quant(self.scale, (0,) * len(self.scale), 0)

    def bias_quant(self, input_scale: float) -> Quant:
        product = np.clip(input_scale * np.asarray(self.scale), MIN_SCALE, MAX_SCALE)
        scale = product.astype(np.float32).tolist()
        return Quant(tuple(scale), (0,) * len(scale), 0)


def quantize_weights(weights: Array, bias: Array, input_scale: float) -> IntegerWeights:
    """Symmetric int8 weights with one scale per output channel, and the int32 bias.

    weights      [M, ...] float
    bias         [M] float
    input_scale  scale of the layer's input: the bias is stored in input_scale * weight scale
    A 0 stays exactly 0. Where the bias or the sum of products would leave int32, the channel's
    weight scale is doubled until they fit: its weights are then small beside the bias.
    Source: TFLite quantization specification, "CONV_2D"; the bias rule is ours.
    """
    rows = np.asarray(weights, np.float64).reshape(weights.shape[0], -1)
    real_bias = np.asarray(bias, np.float64)
    scale = _channel_scales(rows, np.abs(real_bias) / input_scale)
    for _ in range(MAX_GROWTH):
        stored = _round(rows / scale[:, None], WEIGHT_MAX)
        stored_bias = round_half_away(real_bias / (input_scale * scale))
        too_large = np.abs(stored_bias) > bias_limit(stored)
        if not too_large.any():
            break
        scale = np.where(too_large, np.minimum(scale * 2, MAX_SCALE), scale)
    limit = bias_limit(stored)  # cuts only what no float32 scale can hold
    stored_bias = np.clip(stored_bias, -limit, limit)
    return IntegerWeights(
        stored.astype(np.int8).reshape(weights.shape),
        stored_bias.astype(np.int32),
        tuple(scale.tolist()),
    )


def bias_limit(weights: Array) -> Array:
    """[M] largest |bias| that stored weights [M, ...] leave room for in an int32 accumulator."""
    total = np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    return np.asarray(np.minimum(BIAS_MAX, ACCUMULATOR_MAX - LEVELS * total))


def _channel_scales(rows: Array, bias: Array) -> Array:
    """[M] float64 holding float32 values: the largest magnitude of each row at 127.

    rows  [M, K] weights
    bias  [M] magnitude of the bias in units of the input's scale
    Weights that were int8 with one scale before (dynamic-range models) keep that grid, without
    a second rounding. A row of zeros can have any scale: the one that holds its bias well, or
    that of the largest row, so that its multiplier is an ordinary number.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    whole = float(largest.max(initial=0.0)) or float(WEIGHT_MAX)
    grid = whole / WEIGHT_MAX
    off_grid = np.abs(rows / grid - np.rint(rows / grid)).max(axis=1, initial=0.0)
    on_grid = (off_grid < GRID_TOLERANCE) & (largest > grid / 2)
    peak = np.where((largest == 0) | on_grid, whole, largest) / WEIGHT_MAX
    peak = np.where((largest == 0) & (bias > 0), bias / ZERO_ROW_BIAS, peak)
    return np.clip(peak, MIN_SCALE, MAX_SCALE).astype(np.float32).astype(np.float64)


def quantize_constant(data: Array, quant: Quant | None = None) -> tuple[Array, Quant]:
    """A constant operand as int8 per tensor, in `quant` or in the parameters that fit it best.

    A constant of one value is exact up to the float32 of its scale.
    """
    data = np.asarray(data, np.float64)
    if quant is None:
        low, high = float(data.min(initial=0.0)), float(data.max(initial=0.0))
        quant = affine(low, high)
    stored = round_half_away(data / quant.scale[0]) + quant.zero_point[0]
    return np.clip(stored, -128, 127).astype(np.int8), quant


def _round(x: Array, limit: int) -> Array:
    return np.clip(round_half_away(x), -limit, limit)
