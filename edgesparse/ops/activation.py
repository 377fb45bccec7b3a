"""The activations TFLite fuses into an operator, as clamps."""

from __future__ import annotations

from enum import Enum

import numpy as np

from edgesparse.graph.ir import Array, Tensor
from edgesparse.quantize.fixedpoint import round_half_away


class Activation(Enum):
    """value: the real range that is kept."""

    NONE = (-np.inf, np.inf)
    RELU = (0.0, np.inf)
    RELU6 = (0.0, 6.0)
    RELU_N1_TO_1 = (-1.0, 1.0)


def clamp_float(x: Array, activation: Activation) -> Array:
    return np.clip(x, *activation.value)


def clamp_range(
    activation: Activation, out: Tensor, clamp: tuple[int, int] | None = None
) -> tuple[int, int]:
    """The stored int8 range that `activation` leaves in `out`, cut by a further `clamp`.

    Source: TFLite CalculateActivationRangeQuantized: a bound is zero point +
    round half away from zero of (bound / scale), in float32.
    """
    low, high = -128, 127
    real_low, real_high = activation.value
    if np.isfinite(real_low):
        low = max(low, out.zero_point + _round(real_low, out.scale))
    if np.isfinite(real_high):
        high = min(high, out.zero_point + _round(real_high, out.scale))
    if clamp is not None:
        low, high = max(low, clamp[0]), min(high, clamp[1])
    return low, max(low, high)


def _round(real: float, scale: float) -> int:
    return int(round_half_away(np.float32(real) / np.float32(scale)))
