"""MaxPool and AvgPool: the largest value, or the mean, of each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op, register
from edgesparse.ops.conv import spatial, windows
from edgesparse.quantize.fixedpoint import divide_half_away


@dataclass(frozen=True)
class Pool(Op):
    """Common part: x [1, T, C] or [1, H, W, C]; windows do not see the padding.

    Input and output have the same quantization: the stored numbers are pooled as they are.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Rows and columns outside the input a window may reach over: top, bottom, left, right."""
    activation: Activation = Activation.NONE
    clamp: tuple[int, int] | None = None
    """A further clamp in stored int8 units, inside the one of `activation`."""

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if len(x.shape) not in (3, 4) or x.shape[0] != 1:
            raise Unsupported(
                x.name, type(self).__name__, f"input of shape {list(x.shape)}; allowed is "
                "[1, T, C] or [1, H, W, C]", "export the model with a batch of 1")
        top, bottom, left, right = self.pad
        out = []
        for size, low, high, k, s in zip(
            spatial(x.shape), (top, left), (bottom, right), self.kernel, self.stride
        ):
            if max(low, high) >= k:
                raise Unsupported(
                    x.name, type(self).__name__, f"padding {max(low, high)} leaves a window of "
                    f"length {k} without any input", "less padding than the window is long")
            steps = (size + low + high - k) // s + 1
            if steps < 1:
                raise Unsupported(
                    x.name, type(self).__name__, f"window of length {k} is longer than the "
                    f"padded input of {size + low + high}", "a longer input or a shorter window")
            out.append(steps)
        return ((1, *out, x.channels) if len(x.shape) == 4 else (1, out[1], x.channels),)

    def clamp_of(self, outs: Sequence[Tensor]) -> tuple[int, int]:
        """The stored range of the output."""
        return clamp_range(self.activation, outs[0], self.clamp)

    def _windows(self, x: Array, fill: float) -> Array:
        """[H, W, C, kh, kw] of the input with `fill` outside."""
        return windows(x, self.pad, self.kernel, fill)[:: self.stride[0], :: self.stride[1]]

    def _shaped(self, y: Array, x: Array) -> Array:
        """[H, W, C] -> the rank of x."""
        return y if x.ndim == 3 else y[None]


@register
@dataclass(frozen=True)
class MaxPool(Pool):
    """y[t, c] = act(max over the window of x[t*stride + k - pad, c]).

    Source: TFLite reference_ops MaxPool, int8.
    """

    tflite: ClassVar[tuple[str, ...]] = ("MAX_POOL_2D",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        y = self._windows(x, -np.inf).max(axis=(3, 4))
        return (clamp_float(self._shaped(y, x), self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        y = self._windows(args[0], -128).max(axis=(3, 4))
        return (np.clip(self._shaped(y, args[0]), *self.clamp_of(outs)).astype(np.int8),)


@register
@dataclass(frozen=True)
class AvgPool(Pool):
    """y[t, c] = act(mean over the part of the window that lies inside x).

    int8: sum / count of the stored numbers, rounded half away from zero.
    Source: TFLite reference_integer_ops AveragePool, int8.
    """

    tflite: ClassVar[tuple[str, ...]] = ("AVERAGE_POOL_2D",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        y = self._windows(x, 0).sum(axis=(3, 4)) / self._counts(x)
        return (clamp_float(self._shaped(y, x), self.activation),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        total = self._windows(args[0].astype(np.int64), 0).sum(axis=(3, 4))
        y = divide_half_away(total, self._counts(args[0]).astype(np.int64))
        return (np.clip(self._shaped(y, args[0]), *self.clamp_of(outs)).astype(np.int8),)

    def _counts(self, x: Array) -> Array:
        """[H, W, C]: how many values of each window lie inside the input."""
        counts: Array = self._windows(np.ones(x.shape), 0).sum(axis=(3, 4))
        return counts
