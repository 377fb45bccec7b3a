"""Mul: elementwise product with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.add import broadcast
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import Rounding, Scaled, multiply, quantize_multiplier


@dataclass(frozen=True)
class MulParameters:
    """y = clamp(out((x0 - value_zero_point) * (x1 - other_zero_point)) + zero point)."""

    value_zero_point: int
    other_zero_point: int
    out: Scaled
    low: int
    high: int


@register
@dataclass(frozen=True)
class Mul(Op):
    """y = act(a * b), broadcast as in NumPy."""

    tflite: ClassVar[tuple[str, ...]] = ("MUL",)

    activation: Activation = Activation.NONE
    rounding: Rounding = Rounding.DOUBLE

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (broadcast(ins, "Mul"),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        a, b = (arg.astype(np.float64) for arg in args)
        return (clamp_float(a * b, self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        p = self.parameters(ins, outs)
        a = args[0].astype(np.int64) - p.value_zero_point
        b = args[1].astype(np.int64) - p.other_zero_point
        y = multiply(a * b, p.out.multiplier, p.out.shift, self.rounding) + p.out.zero_point
        return (np.clip(y, p.low, p.high).astype(np.int8),)

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> MulParameters:
        """The integer form. Source: TFLite mul.cc, Prepare: product and quotient in float32."""
        product = np.float32(ins[0].scale) * np.float32(ins[1].scale)
        real = float(product / np.float32(outs[0].scale))
        low, high = clamp_range(self.activation, outs[0])
        out = Scaled(outs[0].zero_point, *quantize_multiplier(real))
        return MulParameters(ins[0].zero_point, ins[1].zero_point, out, low, high)
