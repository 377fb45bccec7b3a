"""Common part of the operators with weights: sums of products, bias, scale, clamp."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op
from edgesparse.quantize.fixedpoint import Rounding, requantize


@dataclass(frozen=True, kw_only=True)
class Linear(Op):
    """y = act(b + sums of w * x); inputs x, w and, where there is one, b."""

    activation: Activation = Activation.NONE
    clamp: tuple[int, int] | None = None
    """A further clamp in stored int8 units, inside the one of `activation`."""
    rounding: Rounding = Rounding.DOUBLE

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        acc = self.accumulate(args[0].astype(np.float64), args[1].astype(np.float64))
        if len(args) > 2:
            acc = acc + args[2].astype(np.float64)
        return (clamp_float(acc, self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        x = args[0].astype(np.float64) - ins[0].zero_point
        acc = self.accumulate(x, args[1].astype(np.float64)).astype(np.int64)
        if len(args) > 2:
            acc = acc + args[2].astype(np.int64)
        factor = self.multipliers(ins, outs)
        clamp = clamp_range(self.activation, outs[0], self.clamp)
        return (requantize(acc, factor, outs[0].zero_point, clamp, self.rounding),)

    @abstractmethod
    def multipliers(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> tuple[Array, Array]:
        """Fixed-point scale per output channel: (multiplier [M], shift [M]) int64."""

    @abstractmethod
    def accumulate(self, x: Array, w: Array) -> Array:
        """The sums, in float64: exact for integers here (|sum| < 2**53)."""
