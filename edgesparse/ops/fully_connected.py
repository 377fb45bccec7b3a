"""FullyConnected: a matrix times each row of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import register
from edgesparse.ops.conv import check_symmetric
from edgesparse.ops.linear import Linear
from edgesparse.quantize.fixedpoint import quantize_multipliers


@register
@dataclass(frozen=True)
class FullyConnected(Linear):
    """y[n, m] = act(b[m] + sum over k of w[m, k] * x[n, k]).

    x  [..., K], taken as [N, K] where N is all else
    w  [M, K]
    b  [M] int32 (scale = scale of x * scale of w) or float
    y  [N, M], or [..., M] with keep_dims
    Source: TFLite quantization specification, "FULLY_CONNECTED".
    """

    tflite: ClassVar[tuple[str, ...]] = ("FULLY_CONNECTED",)

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

    def accumulate(self, x: Array, w: Array) -> Array:
        y: Array = x.reshape(-1, w.shape[1]) @ w.T
        return y.reshape(*x.shape[:-1], w.shape[0]) if self.keep_dims else y
