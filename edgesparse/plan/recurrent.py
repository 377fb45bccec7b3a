"""The arithmetic of Lstm and Svdf: docs/PLAN_FORMAT.md section 3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.arithmetic import convolve
from edgesparse.quantize.fixedpoint import Rounding, multiply, rounding_divide_by_pot
from edgesparse.quantize.gemmlowp16 import logistic, saturate, tanh

GATES = 4


def lstm(
    source: pm.Lstm, weights: tuple[Array, Array], x: Array, zero_points: tuple[int, int],
    state: tuple[Array, Array],
) -> tuple[Array, Array, Array]:
    """(h of every column [columns, n], h, c after the last one [n]), int64.

    weights      of input [4n, channels] and recurrent [4n, n], decoded
    x            [columns, channels] int8
    zero_points  of x and of the ring of h
    state        h [n] int8, c [n] int16
    """
    h, c = (s.astype(np.int64) for s in state)
    sums = convolve(source.input, weights[0], x, zero_points[0])
    hs = []
    for column in sums:
        gates = saturate(_scaled(column, source.scales[:GATES]))
        back = convolve(source.recurrent, weights[1], h[None], zero_points[1])[0]
        gates = saturate(gates + _scaled(back, source.scales[GATES:]))
        i, f, g, o = np.split(gates, GATES)
        kept = rounding_divide_by_pot(logistic(f) * c, 15)
        new = rounding_divide_by_pot(logistic(i) * tanh(g, 3), 15 + source.cell_bits)
        c = saturate(kept + new)
        if source.cell_clip:
            c = np.clip(c, -source.cell_clip, source.cell_clip)
        out = logistic(o) * tanh(c, source.cell_bits)
        h = np.clip(_times(out, source.hidden) + source.hidden.zero_point, -128, 127)
        hs.append(h)
    return np.array(hs), h, c


def svdf_feature(source: pm.Svdf, weights: Array, x: Array, zero_point: int) -> Array:
    """What goes into the ring, [rows] int16."""
    sums = convolve(source.feature, weights, x, zero_point)
    newest: Array = saturate(_times(sums[0], source.scale)).astype(np.int16)
    return newest


def svdf_time(source: pm.Svdf, past: Array) -> Array:
    """The values of the source, [1, channels] int64. past: [memory, rows] int16, oldest first."""
    time = source.time.reshape(past.shape[1], past.shape[0]).astype(np.int64)
    sums = (past.T * time).sum(axis=1).reshape(source.bias.size, -1).sum(axis=1)
    values: Array = (sums + source.bias).astype(np.int32).astype(np.int64)  # modulo 2**32
    return values[None]


def _times(x: Array, by: pm.Scaled) -> Array:
    return multiply(x, by.multiplier, by.shift, Rounding.DOUBLE)


def _scaled(sums: Array, scales: Sequence[pm.Scaled]) -> Array:
    """sums [4n], the scale of each of its blocks."""
    blocks = np.split(sums, GATES)
    return np.concatenate([_times(b, s) for b, s in zip(blocks, scales, strict=True)])
