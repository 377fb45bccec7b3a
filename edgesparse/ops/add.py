"""Add and Sub: elementwise sum and difference with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import Rounding, Scaled, multiply, quantize_multiplier

LEFT_SHIFT = 20
"""Bits of headroom TFLite gives int8 operands before rescaling them."""


@dataclass(frozen=True)
class AddParameters:
    """y = clamp(out(value((x0 - zp0) << left_shift) +- other((x1 - zp1) << left_shift)) + zp)."""

    left_shift: int
    value: Scaled
    other: Scaled
    out: Scaled
    negate_other: bool
    low: int
    high: int


@dataclass(frozen=True)
class Sum(Op):
    """Common part of Add and Sub."""

    activation: Activation = Activation.NONE
    rounding: Rounding = Rounding.DOUBLE
    negate: ClassVar[bool] = False

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (broadcast(ins, type(self).__name__),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        a, b = (arg.astype(np.float64) for arg in args)
        return (clamp_float(a - b if self.negate else a + b, self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        p = self.parameters(ins, outs)
        a, b = (
            multiply(
                (arg.astype(np.int64) - s.zero_point) << p.left_shift,
                s.multiplier, s.shift, self.rounding,
            )
            for arg, s in zip(args, (p.value, p.other))
        )
        total = a - b if p.negate_other else a + b
        y = multiply(total, p.out.multiplier, p.out.shift, self.rounding) + p.out.zero_point
        return (np.clip(y, p.low, p.high).astype(np.int8),)

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> AddParameters:
        """The integer form. Source: TFLite add.cc and sub.cc, Prepare, int8."""
        twice_max = 2 * max(ins[0].scale, ins[1].scale)
        scaled = [
            Scaled(x.zero_point, *quantize_multiplier(x.scale / twice_max)) for x in ins[:2]
        ]
        real_out = twice_max / ((1 << LEFT_SHIFT) * outs[0].scale)
        out = Scaled(outs[0].zero_point, *quantize_multiplier(real_out))
        low, high = clamp_range(self.activation, outs[0])
        return AddParameters(LEFT_SHIFT, scaled[0], scaled[1], out, self.negate, low, high)


@register
@dataclass(frozen=True)
class Add(Sum):
    """y = act(a + b), broadcast as in NumPy."""

    tflite: ClassVar[tuple[str, ...]] = ("ADD",)


@register
@dataclass(frozen=True)
class Sub(Sum):
    """y = act(a - b), broadcast as in NumPy."""

    tflite: ClassVar[tuple[str, ...]] = ("SUB",)
    negate: ClassVar[bool] = True


def broadcast(ins: Sequence[Tensor], operator: str) -> Shape:
    """The common shape of two operands; raises Unsupported when they do not fit."""
    try:
        return tuple(np.broadcast_shapes(ins[0].shape, ins[1].shape))
    except ValueError:
        raise Unsupported(
            ins[1].name, operator, f"shapes {list(ins[0].shape)} and {list(ins[1].shape)} do not "
            "broadcast", "dimensions that are equal or 1") from None
