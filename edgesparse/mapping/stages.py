"""Operator -> stage or source of the plan: the integers are the operator's, the shape is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgesparse.errors import DoesNotFit, Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops import (
    Add,
    AvgPool,
    Conv,
    FullyConnected,
    MaxPool,
    Mean,
    Mul,
    Running,
    Softmax,
    Sub,
)
from edgesparse.ops.activation import clamp_range
from edgesparse.ops.conv import spatial
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Scaled

LIMIT = 65_535
"""Largest number a 16-bit field of the plan holds."""


def geometry(
    op: Conv | FullyConnected, ins: Sequence[Tensor], outs: Sequence[Tensor]
) -> pm.Geometry:
    """The shape of a Mac; raises DoesNotFit past a limit of the format."""
    x, w = ins[0], ins[1]
    if isinstance(op, FullyConnected):
        columns = x.size // w.shape[1]
        fields = {"in_w": columns, "out_w": columns, "in_c": w.shape[1], "rows": w.shape[0]}
    else:
        _check_batch(x, "Conv")
        (in_h, in_w), (out_h, out_w) = spatial(x.shape), spatial(outs[0].shape)
        fields = {
            "in_h": in_h, "in_w": in_w, "in_c": x.channels, "groups": op.groups,
            "out_h": out_h, "out_w": out_w, "rows": w.shape[0],
            "kernel_h": w.shape[1], "kernel_w": w.shape[2],
            "stride_h": op.stride[0], "stride_w": op.stride[1],
            "dilation_h": op.dilation[0], "dilation_w": op.dilation[1],
            "pad_top": op.pad[0], "pad_left": op.pad[2],
        }
    check_limits(fields, outs[0].name)
    return pm.Geometry(**fields)


def requant(
    op: Conv | FullyConnected, ins: Sequence[Tensor], outs: Sequence[Tensor]
) -> pm.Requant:
    multiplier, shift = op.multipliers(ins, outs)
    low, high = clamp_range(op.activation, outs[0], op.clamp)
    return pm.Requant(
        # A damaged scale may ask for a shift past int8; bounds.check_sums refuses what is over 30.
        multiplier=multiplier.astype(np.int32), shift=np.minimum(shift, 127).astype(np.int8),
        zero_point=outs[0].zero_point, qmin=low, qmax=high, rounding=op.rounding,
    )


def elementwise(
    op: Add | Sub | Mul, ins: Sequence[Tensor], outs: Sequence[Tensor], value: int
) -> pm.Add | pm.Mul:
    """The stage that combines input `value` (0 or 1) as the running value with the other one."""
    p: Any = op.parameters(ins, outs)
    if isinstance(op, Mul):
        zero_points = (ins[0].zero_point, ins[1].zero_point)
        return pm.Mul(
            operand=0, value_zero_point=zero_points[value], other_zero_point=zero_points[1 - value],
            out=scaled(p.out), qmin=p.low, qmax=p.high, rounding=op.rounding,
        )
    sides = (p.value, p.other)
    # Only the second input of a Sub is negated, on whichever side of the stage it lands.
    return pm.Add(
        operand=0, left_shift=p.left_shift, value=scaled(sides[value]),
        other=scaled(sides[1 - value]), out=scaled(p.out),
        negate_value=p.negate_other and value == 1, negate_other=p.negate_other and value == 0,
        qmin=p.low, qmax=p.high, rounding=op.rounding,
    )


def unary(table: Array) -> pm.Clamp | pm.Lut:
    """table [256] int8 -> the cheapest stage with this function of one value."""
    table = np.asarray(table, np.int8)
    low, high = int(table.min()), int(table.max())
    if np.array_equal(np.clip(np.arange(-128, 128), low, high), table):
        return pm.Clamp(qmin=low, qmax=high)
    return pm.Lut(table=table)


def pool(
    op: MaxPool | AvgPool, ins: Sequence[Tensor], outs: Sequence[Tensor]
) -> pm.MaxPool | pm.AvgPool:
    _check_batch(ins[0], type(op).__name__)
    (in_h, in_w), (out_h, out_w) = spatial(ins[0].shape), spatial(outs[0].shape)
    fields = {
        "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w,
        "kernel_h": op.kernel[0], "kernel_w": op.kernel[1],
        "stride_h": op.stride[0], "stride_w": op.stride[1],
        "pad_top": op.pad[0], "pad_left": op.pad[2],
    }
    check_limits(fields, outs[0].name)
    low, high = clamp_range(op.activation, outs[0], op.clamp)
    kind = pm.MaxPool if isinstance(op, MaxPool) else pm.AvgPool
    return kind(window=pm.Window(**fields), qmin=low, qmax=high)


def mean(op: Mean, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> pm.Mean:
    p = op.parameters(ins, outs)
    return pm.Mean(
        in_zero_point=p.in_zero_point, scaled=scaled(p.scaled), qmin=-128, qmax=127,
        rounding=p.rounding,
    )


def running(op: Running) -> pm.Running:
    """What takes the fewest bytes: an entry per column or per block. The ring's number comes later.
    """
    blocks, each = (
        pm.Running(ring=0, each=each, fresh=op.fresh, columns=op.columns) for each in (False, True))
    return min(blocks, each, key=lambda r: r.entries * r.entry_bytes)


def softmax(op: Softmax, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> pm.Softmax:
    p = op.parameters(ins, outs)
    # No difference of two int8 is below -255, the lowest a plan may state (I-45).
    return pm.Softmax(
        multiplier=p.multiplier, shift=p.shift, diff_min=max(p.diff_min, -255))


def box_copy(
    dims: Shape, read: tuple[int, Sequence[int]], write: tuple[int, Sequence[int]],
    fill: int | None = None,
) -> pm.Copy:
    """A Copy of the box `dims`; `read` and `write` are (offset, strides) in logical elements.

    Dimensions of 1 are dropped and neighbours that run on in both tensors become one, so that
    the kernel's inner loop is as long as it can be.
    """
    merged: list[tuple[int, int, int]] = []
    for size, i, o in zip(dims, read[1], write[1], strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == i * size and merged[-1][2] == o * size:
            merged[-1] = (merged[-1][0] * size, i, o)
        else:
            merged.append((size, i, o))
    merged = merged or [(1, 1, 1)]
    return pm.Copy(
        dims=tuple(m[0] for m in merged),
        in_offset=read[0], in_strides=tuple(m[1] for m in merged),
        out_offset=write[0], out_strides=tuple(m[2] for m in merged),
        fill=fill is not None, fill_value=fill or 0,
    )


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Row-major element strides."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(strides[::-1]) if shape else ()


def scaled(s: Scaled) -> pm.Scaled:
    return pm.Scaled(zero_point=s.zero_point, shift=s.shift, multiplier=s.multiplier)


def _check_batch(x: Tensor, operator: str) -> None:
    if x.shape[0] != 1:
        raise Unsupported(
            x.name, operator, f"a batch of {x.shape[0]}; a plan runs one input at a time",
            "export with batch 1; a SPACE_TO_BATCH belongs around one convolution of stride 1")


def check_limits(fields: dict[str, int], where: str) -> None:
    for name, value in fields.items():
        if value > LIMIT:
            raise DoesNotFit(
                f"{where}: {name} is {value:,}; a plan holds up to {LIMIT:,}: a shorter window or "
                "fewer channels")
