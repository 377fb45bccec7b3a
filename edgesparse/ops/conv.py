"""Conv: 1-D and 2-D convolution, grouped and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import register
from edgesparse.ops.linear import Linear
from edgesparse.quantize.fixedpoint import quantize_multipliers


@register
@dataclass(frozen=True)
class Conv(Linear):
    """y[t, m] = act(b[m] + sum over k, c of w[m, k, c] * x[t * stride + k * dilation - pad, c]).

    x  [1, T, C] or [1, H, W, C]; a 1-D convolution is H = 1. More than one image only between
       SpaceToBatch and BatchToSpace
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

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x, w = ins[0], ins[1]
        if len(x.shape) not in (3, 4):
            raise Unsupported(
                w.name, "Conv", f"input of shape {list(x.shape)}; allowed is [1, T, C] or "
                "[1, H, W, C]", "a reshape to one of these")
        if len(w.shape) != 4 or (len(x.shape) == 3 and w.shape[1] != 1):
            raise Unsupported(
                w.name, "Conv", f"weights of shape {list(w.shape)} for an input of "
                f"{len(x.shape)} dimensions", "weights [M, kh, kw, C], kh = 1 for [1, T, C]")
        if x.channels != w.shape[3] * self.groups:
            raise Unsupported(
                w.name, "Conv", f"{x.channels} input channels do not fit {self.groups} groups "
                f"of {w.shape[3]}", "check the weight shape of this layer")
        if w.shape[0] % self.groups:
            raise Unsupported(
                w.name, "Conv", f"{w.shape[0]} output channels are no multiple of "
                f"{self.groups} groups", "check the weight shape of this layer")
        check_symmetric(w, "Conv")
        top, bottom, left, right = self.pad
        out = []
        for size, pad, k, s, d in (
            (spatial(x.shape)[0], top + bottom, w.shape[1], self.stride[0], self.dilation[0]),
            (spatial(x.shape)[1], left + right, w.shape[2], self.stride[1], self.dilation[1]),
        ):
            steps = (size + pad - ((k - 1) * d + 1)) // s + 1
            if steps < 1:
                raise Unsupported(
                    w.name, "Conv", f"kernel {k} with dilation {d} is longer than the padded "
                    f"input of {size + pad}", "a longer window or a shorter kernel")
            out.append(steps)
        positions = out if len(x.shape) == 4 else out[1:]
        return ((x.shape[0], *positions, w.shape[0]),)

    def multipliers(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> tuple[Array, Array]:
        """Fixed-point scale per output channel: scale(x) * scale(w) / scale(y), in float64."""
        assert ins[1].quant is not None
        weight_scale = np.asarray(ins[1].quant.scale, np.float64)
        real = ins[0].scale * weight_scale / outs[0].scale
        return quantize_multipliers(np.broadcast_to(real, (ins[1].shape[0],)))

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        return outs[0].columns * int(np.prod(ins[1].shape))

    def accumulate(self, x: Array, w: Array) -> Array:
        """Over patches."""
        if x.shape[0] != 1:
            return np.concatenate([self.accumulate(image[None], w) for image in x])
        rows, kh, kw, per_group = w.shape
        span = ((kh - 1) * self.dilation[0] + 1, (kw - 1) * self.dilation[1] + 1)
        taps = windows(x, self.pad, span, 0)[
            :: self.stride[0], :: self.stride[1], :, :: self.dilation[0], :: self.dilation[1]
        ]  # [H, W, C, kh, kw]
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
        shape = (1, out_w, rows) if x.ndim == 3 else (1, out_h, out_w, rows)
        return np.reshape(acc, shape)


def spatial(shape: Shape) -> tuple[int, int]:
    """(height, width) of [1, T, C] or [1, H, W, C]."""
    return (1, shape[1]) if len(shape) == 3 else (shape[1], shape[2])


def windows(x: Array, pad: tuple[int, int, int, int], span: tuple[int, int], fill: float) -> Array:
    """Every window of `span` rows and columns, as a view.

    x       [1, T, C] or [1, H, W, C]
    pad     rows and columns of `fill` around x: top, bottom, left, right
    result  [positions down, positions right, C, span[0], span[1]]
    """
    if x.ndim == 3:
        x = x[:, None]
    top, bottom, left, right = pad
    x = np.pad(x[0], ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    view: Array = np.lib.stride_tricks.sliding_window_view(  # type: ignore[call-overload]
        x, span, axis=(0, 1))
    return view


def check_symmetric(w: Tensor, operator: str) -> None:
    """Raise Unsupported for int8 weights whose zero point is not 0."""
    if w.dtype == "int8" and w.quant is not None and any(w.quant.zero_point):
        raise Unsupported(
            w.name, operator, f"weight zero point {max(w.quant.zero_point, key=abs)}",
            "symmetric weights: TFLite's int8 specification demands zero point 0")
