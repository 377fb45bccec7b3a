"""Quantize and Dequantize: between real numbers and stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import round_half_away


@register
@dataclass(frozen=True)
class Quantize(Op):
    """float32 -> int8: y = clip(round(x / scale) + zero point), a tie away from zero.

    Numbers past the int8 range saturate, infinities too. x holds no NaN.
    Source: TFLite reference/quantize.h, AffineQuantize; the quotient is a float32 one.
    """

    tflite: ClassVar[tuple[str, ...]] = ("QUANTIZE",)

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (ins[0].shape,)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (args[0].astype(np.float64),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        # 300 quanta saturate from any zero point; held there, the quotient cannot overflow.
        limit = np.float32(300 * outs[0].scale)
        x = np.clip(args[0].astype(np.float32), -limit, limit)
        rounded = round_half_away(x / np.float32(outs[0].scale))
        return (np.clip(rounded + outs[0].zero_point, -128, 127).astype(np.int8),)


@register
@dataclass(frozen=True)
class Dequantize(Op):
    """int8 or float16 -> float32: y = scale * (x - zero point).

    Source: TFLite reference/dequantize.h; the product is a float64 one, rounded to float32.
    """

    tflite: ClassVar[tuple[str, ...]] = ("DEQUANTIZE",)

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (ins[0].shape,)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (args[0].astype(np.float64),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        if ins[0].dtype == "float16":
            return (args[0].astype(np.float32),)
        quant = ins[0].quant
        assert quant is not None
        along = [1] * args[0].ndim
        if quant.axis is not None:  # weights with a scale per channel
            along[quant.axis] = -1
        centred = args[0].astype(np.float64) - np.reshape(quant.zero_point, along)
        return ((centred * np.reshape(quant.scale, along)).astype(np.float32),)
