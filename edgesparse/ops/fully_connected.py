"""FullyConnected: a matrix times each row of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op, register
from edgesparse.ops.conv import check_symmetric
from edgesparse.quantize.fixedpoint import Rounding, quantize_multipliers, requantize


@register
@dataclass(frozen=True)
class FullyConnected(Op):
    """y[n, m] = act(b[m] + sum over k of w[m, k] * x[n, k]).

    x  [..., K], taken as [N, K] where N is all else
    w  [M, K]
    b  [M] int32 (scale = scale of x * scale of w) or float
    y  [N, M], or [..., M] with keep_dims
    Source: TFLite quantization specification, "FULLY_CONNECTED".
    """

    tflite: ClassVar[tuple[str, ...]] = ("FULLY_CONNECTED",)

    activation: Activation = Activation.NONE
    clamp: tuple[int, int] | None = None
    """A further clamp in stored int8 units, inside the one of `activation`."""
    rounding: Rounding = Rounding.DOUBLE
    keep_dims: bool = False

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x, w = ins[0], ins[1]
        if len(w.shape) != 2 or not x.shape:
            raise Unsupported(
                w.name, "FullyConnected", f"weights of shape {list(w.shape)} for an input of "
                f"shape {list(x.shape)}", "weights [outputs, inputs] and an input [..., inputs]")
        rows, depth = w.shape
        check_symmetric(w, "FullyConnected")
        if (x.channels != depth) if self.keep_dims else (x.size % depth != 0):
            raise Unsupported(
                w.name, "FullyConnected", f"an input of shape {list(x.shape)} does not fit weights "
                f"of {depth} columns", "check the weight shape of this layer")
        return ((*x.shape[:-1], rows) if self.keep_dims else (x.size // depth, rows),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        acc = self._accumulate(args[0].astype(np.float64), args[1].astype(np.float64))
        if len(args) > 2:
            acc = acc + args[2].astype(np.float64)
        return (clamp_float(acc, self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        x = args[0].astype(np.float64) - ins[0].zero_point
        acc = self._accumulate(x, args[1].astype(np.float64)).astype(np.int64)
        if len(args) > 2:
            acc = acc + args[2].astype(np.int64)
        factor = self.multipliers(ins, outs)
        clamp = clamp_range(self.activation, outs[0], self.clamp)
        return (requantize(acc, factor, outs[0].zero_point, clamp, self.rounding),)

    def multipliers(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> tuple[Array, Array]:
        """Fixed-point scale per output: scale(x) * scale(w) / scale(y).

        With one weight scale TFLite multiplies scale(x) * scale(w) in float32; with one per
        output it computes in float64, as for a convolution.
        """
        assert ins[1].quant is not None
        rows = ins[1].shape[0]
        if len(ins[1].quant.scale) > 1:
            real = ins[0].scale * np.asarray(ins[1].quant.scale, np.float64) / outs[0].scale
        else:
            product = np.float32(ins[0].scale) * np.float32(ins[1].scale)
            real = np.array([float(product) / outs[0].scale])
        return quantize_multipliers(np.broadcast_to(real, (rows,)))

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        return outs[0].columns * ins[1].size

    def _accumulate(self, x: Array, w: Array) -> Array:
        """Sum of products; float64 is exact for integers here (|sum| < 2**53)."""
        y: Array = x.reshape(-1, w.shape[1]) @ w.T
        return y.reshape(*x.shape[:-1], w.shape[0]) if self.keep_dims else y
