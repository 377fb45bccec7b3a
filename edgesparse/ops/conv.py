"""Conv: 1-D and 2-D convolution, grouped and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float, clamp_range
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import Rounding, quantize_multipliers, requantize


@register
@dataclass(frozen=True)
class Conv(Op):
    """y[t, m] = act(b[m] + sum over taps and channels of w[m, tap, c] * x[t*stride + tap*dilation - pad, c]).

    x  [1, T, C] or [1, H, W, C]; a 1-D convolution is H = 1
    w  [M, kh, kw, C / groups], kh = 1 for 1-D; depthwise is groups = C
    b  [M] int32 (scale = scale of x * scale of w) or float
    Outside x everything is the zero point: padding contributes nothing.
    Source: TFLite quantization specification, "CONV_2D" and "DEPTHWISE_CONV_2D".
    """

    tflite: ClassVar[tuple[str, ...]] = ("CONV_2D", "DEPTHWISE_CONV_2D")

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Zero-point rows and columns added: top, bottom, left, right."""
    groups: int = 1
    activation: Activation = Activation.NONE
    clamp: tuple[int, int] | None = None
    """A further clamp in stored int8 units, inside the one of `activation`."""
    rounding: Rounding = Rounding.DOUBLE

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x, w = ins[0], ins[1]
        height, width = spatial(x.shape)
        if x.channels != w.shape[3] * self.groups:
            raise Unsupported(
                w.name, "Conv", f"{x.channels} input channels do not fit {self.groups} groups "
                f"of {w.shape[3]}", "check the weight shape of this layer")
        if w.shape[0] % self.groups:
            raise Unsupported(
                w.name, "Conv", f"{w.shape[0]} output channels are no multiple of "
                f"{self.groups} groups")
        top, bottom, left, right = self.pad
        out = []
        for size, pad, k, s, d in (
            (height, top + bottom, w.shape[1], self.stride[0], self.dilation[0]),
            (width, left + right, w.shape[2], self.stride[1], self.dilation[1]),
        ):
            steps = (size + pad - ((k - 1) * d + 1)) // s + 1
            if steps < 1:
                raise Unsupported(
                    w.name, "Conv", f"kernel {k} with dilation {d} is longer than the padded "
                    f"input of {size + pad}", "a longer window or a shorter kernel")
            out.append(steps)
        return ((1, *out, w.shape[0]) if len(x.shape) == 4 else (1, out[1], w.shape[0]),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x, w = args[0].astype(np.float64), args[1].astype(np.float64)
        acc = self._accumulate(x, w)
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
        multiplier, shift = self.multipliers(ins, outs)
        low, high = clamp_range(self.activation, outs[0], self.clamp)
        return (requantize(acc, multiplier, shift, outs[0].zero_point, low, high, self.rounding),)

    def multipliers(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> tuple[Array, Array]:
        """Fixed-point scale per output channel: scale(x) * scale(w) / scale(y), in float64."""
        assert ins[1].quant is not None
        weight_scale = np.asarray(ins[1].quant.scale, np.float64)
        real = ins[0].scale * weight_scale / outs[0].scale
        return quantize_multipliers(np.broadcast_to(real, (ins[1].shape[0],)))

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        return outs[0].columns * int(np.prod(ins[1].shape))

    def _accumulate(self, x: Array, w: Array) -> Array:
        """Sum of products over patches; float64 is exact here (|sum| < 2**53)."""
        one_d = x.ndim == 3
        if one_d:
            x = x[:, None]
        top, bottom, left, right = self.pad
        x = np.pad(x[0], ((top, bottom), (left, right), (0, 0)))
        rows, kh, kw, per_group = w.shape
        span_h, span_w = (kh - 1) * self.dilation[0] + 1, (kw - 1) * self.dilation[1] + 1
        windows = np.lib.stride_tricks.sliding_window_view(x, (span_h, span_w), axis=(0, 1))
        taps = windows[:: self.stride[0], :: self.stride[1], :,
                       :: self.dilation[0], :: self.dilation[1]]  # [H, W, C, kh, kw]
        out_h, out_w = taps.shape[:2]
        taps = taps.reshape(out_h * out_w, self.groups, per_group, kh * kw)
        per_out = rows // self.groups
        kernels = w.reshape(self.groups, per_out, kh * kw, per_group)
        if per_group == 1:  # depthwise: one product per tap, no matrix
            acc = np.einsum("pgt,grt->pgr", taps[:, :, 0], kernels[..., 0])
        else:
            flat = taps.transpose(1, 0, 3, 2).reshape(self.groups, out_h * out_w, -1)
            acc = np.matmul(flat, kernels.reshape(self.groups, per_out, -1).transpose(0, 2, 1))
            acc = acc.transpose(1, 0, 2)
        acc = acc.reshape(1, out_h, out_w, rows)
        return acc[:, 0] if one_d else acc


def spatial(shape: Shape) -> tuple[int, int]:
    """(height, width) of [1, T, C] or [1, H, W, C]."""
    return (1, shape[1]) if len(shape) == 3 else (shape[1], shape[2])
