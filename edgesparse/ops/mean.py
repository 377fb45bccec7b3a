"""Mean over some dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import Rounding, Scaled, multiply, quantize_multiplier


@dataclass(frozen=True)
class MeanParameters:
    """y = clip(scaled(sum of (x - in_zero_point)) + zero point); 1/count is folded into scaled.

    The multiplier is 0 or in [2**29, 2**31): the division by the count may halve it.
    """

    in_zero_point: int
    scaled: Scaled
    rounding: Rounding


@register
@dataclass(frozen=True)
class Mean(Op):
    """y = mean of x over `axes`; without keep_dims these dimensions vanish."""

    tflite: ClassVar[tuple[str, ...]] = ("MEAN",)

    axes: tuple[int, ...]
    keep_dims: bool = False
    rounding: Rounding = Rounding.DOUBLE

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        rank = len(x.shape)
        for axis in self.axes:
            if not -rank <= axis < rank:
                raise Unsupported(
                    x.name, "Mean", f"axis {axis} of an input with {rank} dimensions",
                    f"an axis in {-rank}..{rank - 1}")
        axes = self.dimensions(rank)
        if self.keep_dims:
            return (tuple(1 if i in axes else n for i, n in enumerate(x.shape)),)
        return (tuple(n for i, n in enumerate(x.shape) if i not in axes),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (x.mean(axis=self.dimensions(x.ndim), keepdims=self.keep_dims),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        p = self.parameters(ins, outs)
        x = args[0].astype(np.int64) - p.in_zero_point
        total = x.sum(axis=self.dimensions(x.ndim), keepdims=self.keep_dims)
        y = multiply(total, p.scaled.multiplier, p.scaled.shift, p.rounding)
        return (np.clip(y + p.scaled.zero_point, -128, 127).astype(np.int8),)

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> MeanParameters:
        """The integer form, the same for all ranks, axes and scales.

        Source: TFLite reference/reduce.h, QuantizedMeanOrSum.
        """
        x, y = ins[0], outs[0]
        count = int(np.prod([x.shape[a] for a in self.dimensions(len(x.shape))], dtype=np.int64))
        multiplier, shift = quantize_multiplier(x.scale / y.scale)
        # Shift left as far as count reaches before dividing, so that 30 bits remain.
        bits = min(count.bit_length() - 1, 32, 31 + shift)
        scaled = Scaled(y.zero_point, (multiplier << bits) // count, shift - bits)
        return MeanParameters(x.zero_point, scaled, self.rounding)

    def dimensions(self, rank: int) -> tuple[int, ...]:
        """The dimensions that are averaged, ascending, each once."""
        return tuple(sorted({axis % rank for axis in self.axes}))
