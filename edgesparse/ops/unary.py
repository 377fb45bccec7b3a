"""Elementwise functions of one int8 tensor: each is a table of 256 entries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import (
    Rounding,
    multiply,
    quantize_multiplier,
    round_half_away,
    rounding_divide_by_pot,
)

STORED = np.arange(-128, 128, dtype=np.int64)
"""Every int8 value, in the order of a table."""


@dataclass(frozen=True)
class Unary(Op):
    """Common part: one input, one output of the same shape."""

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (ins[0].shape,)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        y: Array = self.table(ins, outs)[args[0].astype(np.int64) + 128]
        return (y,)

    @abstractmethod
    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        """[256] int8: the output for every input, entry of value v at v + 128."""


@register
@dataclass(frozen=True)
class Logistic(Unary):
    """y = 1 / (1 + exp(-x)); TFLite's int8 output has scale 1/256, zero point -128.

    Source: TFLite activations.cc, SigmoidPrepare (a table in float32, not the fixed-point kernel).
    """

    tflite: ClassVar[tuple[str, ...]] = ("LOGISTIC",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (0.5 + 0.5 * np.tanh(0.5 * x),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        def logistic(x: Array) -> Array:
            # exp(88) is the last power that float32 holds; the result is 0 long before.
            power = np.exp(np.minimum(-x.astype(np.float64), 88.0)).astype(np.float32)
            y: Array = np.float32(1) / (np.float32(1) + power)
            return y

        return _float_table(logistic, ins[0], outs[0])


@register
@dataclass(frozen=True)
class Tanh(Unary):
    """y = tanh(x); TFLite's int8 output has scale 1/128, zero point 0.

    The float32 tanh is correctly rounded here. That of a C library may be 2 units off (glibc
    before 2.41 is), and then an entry of its table differs by one step where tanh(x) / scale
    lies within 2e-5 of a half: about one table in 2,000.
    Source: TFLite activations.cc, TanhPrepare.
    """

    tflite: ClassVar[tuple[str, ...]] = ("TANH",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (np.tanh(args[0].astype(np.float64)),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        return _float_table(
            lambda x: np.tanh(x.astype(np.float64)).astype(np.float32), ins[0], outs[0])


@register
@dataclass(frozen=True)
class Relu(Unary):
    """y = the activation as an operator of its own; the scale may change.

    Source: TFLite activations.cc, QuantizedReluX.
    """

    tflite: ClassVar[tuple[str, ...]] = ("RELU", "RELU6", "RELU_N1_TO_1")

    activation: Activation = Activation.RELU

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (clamp_float(args[0].astype(np.float64), self.activation),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        y = _rescale(STORED - ins[0].zero_point, _ratio(ins[0], outs[0])) + outs[0].zero_point
        return np.clip(y, *clamp_range(self.activation, outs[0])).astype(np.int8)


@register
@dataclass(frozen=True)
class LeakyRelu(Unary):
    """y = x where x >= 0, alpha * x elsewhere.

    Source: TFLite activations.cc, LeakyReluPrepare, and reference/leaky_relu.h.
    """

    tflite: ClassVar[tuple[str, ...]] = ("LEAKY_RELU",)

    alpha: float = 0.0

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (np.where(x >= 0, x, self.alpha * x),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        x = STORED - ins[0].zero_point
        slope = np.float32(ins[0].scale) * np.float32(self.alpha) / np.float32(outs[0].scale)
        y = np.where(x >= 0, _rescale(x, _ratio(ins[0], outs[0])), _rescale(x, float(slope)))
        return np.clip(y + outs[0].zero_point, -128, 127).astype(np.int8)


@register
@dataclass(frozen=True)
class HardSwish(Unary):
    """y = x * clip(x + 3, 0, 6) / 6.

    int8: x in 1/128 steps of its scale, the clip as a saturating 16-bit number in units of 3/32768.
    Source: TFLite reference/hard_swish.h and activations.cc, HardSwishPrepare.
    """

    tflite: ClassVar[tuple[str, ...]] = ("HARD_SWISH",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (x * np.clip(x + 3, 0, 6) / 6,)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        fine_scale = np.float32(1 / 128) * np.float32(ins[0].scale)
        out_multiplier, out_shift = _multiplier16(fine_scale / np.float32(outs[0].scale))
        if out_shift > 0:
            raise Unsupported(
                outs[0].name, "HardSwish", f"input scale {ins[0].scale:g} is 128 times the output "
                f"scale {outs[0].scale:g} or more", "quantize again with representative data")
        clip_scale = np.float32(3) / np.float32(32768)
        clip_multiplier, clip_shift = _multiplier16(fine_scale / clip_scale)

        x = (STORED - ins[0].zero_point) * 128
        clip = x
        if clip_shift > 0:
            clip = _saturate16(clip << (clip_shift - 1))
        clip = _high_mul16(clip, clip_multiplier)
        if clip_shift > 0:
            clip = _saturate16(clip << 1)
        else:
            clip = rounding_divide_by_pot(clip, -clip_shift)
        gate = (clip + 32768) >> 1  # clip(x + 3, 0, 6) / 6 in units of 1/32768
        product = gate * _high_mul16(x, out_multiplier)
        product = np.where(product >= 0, product >> 15, -(-product >> 15))
        y = rounding_divide_by_pot(product, -out_shift) + outs[0].zero_point
        return np.clip(y, -128, 127).astype(np.int8)


@register
@dataclass(frozen=True)
class Requantize(Unary):
    """y = x in another scale and zero point.

    Source: TFLite quantize.cc and reference/requantize.h.
    """

    tflite: ClassVar[tuple[str, ...]] = ("QUANTIZE",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (args[0].astype(np.float64),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        real = ins[0].scale / outs[0].scale
        y = _rescale(STORED - ins[0].zero_point, real) + outs[0].zero_point
        return np.clip(y, -128, 127).astype(np.int8)


def _float_table(function: Callable[[Array], Array], x: Tensor, y: Tensor) -> Array:
    """Dequantize, apply a float32 function, quantize, all in float32."""
    real = np.float32(x.scale) * (STORED - x.zero_point).astype(np.float32)
    scaled = function(real) * (np.float32(1) / np.float32(y.scale))
    return np.clip(round_half_away(scaled) + y.zero_point, -128, 127).astype(np.int8)


def _ratio(x: Tensor, y: Tensor) -> float:
    """scale(x) / scale(y) in float32, as TFLite's activations compute it."""
    return float(np.float32(x.scale) / np.float32(y.scale))


def _rescale(x: Array, real: float) -> Array:
    """x * real with one fixed-point multiplier."""
    multiplier, shift = quantize_multiplier(real)
    return multiply(x, multiplier, shift, Rounding.DOUBLE)


def _multiplier16(real: np.float32) -> tuple[int, int]:
    """(multiplier, shift): real = multiplier * 2**(shift - 15), multiplier < 2**15."""
    multiplier, shift = quantize_multiplier(float(real))
    return min((multiplier + (1 << 15)) >> 16, 32767), shift


def _high_mul16(a: Array, b: int) -> Array:
    """round(a * b / 2**15) for 16-bit numbers, a tie going up."""
    product = a * b
    total = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.where(total >= 0, total >> 15, -(-total >> 15))


def _saturate16(x: Array) -> Array:
    return np.clip(x, -32768, 32767)
