"""The integer arithmetic of sources and stages: docs/PLAN_FORMAT.md sections 3 to 6.

Values travel as [columns, channels] int64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import (
    divide_half_away,
    multiply,
    requantize,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from edgesparse.quantize.gemmlowp import exp_on_negative_values, reciprocal

Operand = Callable[[int], Array]
"""Tensor number -> its elements [columns, channels] int8."""

Clamping = pm.Clamp | pm.Add | pm.Mul | pm.AddSingleRequant | pm.MaxPool | pm.AvgPool | pm.Mean
Past = Callable[[pm.Running, Array, int], Array]
"""(running, the fresh columns less the zero point [fresh, channels], the zero point) -> the sums
over the window [1, channels]: they are remembered."""
SOFTMAX_INTEGER_BITS = 5
SOFTMAX_SUM_BITS = 12


def convolve(mac: pm.Mac, weights: Array, x: Array, zero_point: int) -> Array:
    """The sums of a Mac, [out_h * out_w, rows].

    weights  [rows, cols] float64, decoded
    x        [in_h * in_w, in_c] int8
    Sums of float64 products are exact below 2**53; these stay below 2**31 (I-43).
    """
    g = mac.geometry
    plain = mac.bias_form is pm.BiasForm.PLAIN
    values = x.astype(np.float64) - (zero_point if plain else 0)
    outside = 0.0 if plain else float(zero_point)
    rows_of = np.arange(g.out_h)[:, None] * g.stride_h + np.arange(g.kernel_h) * g.dilation_h
    cols_of = np.arange(g.out_w)[:, None] * g.stride_w + np.arange(g.kernel_w) * g.dilation_w
    taps = _gather(values.reshape(g.in_h, g.in_w, g.in_c), rows_of - g.pad_top,
                   cols_of - g.pad_left, outside)
    positions, count = g.out_h * g.out_w, g.kernel_h * g.kernel_w
    per_group = g.in_c // g.groups
    taps = taps.reshape(positions, count, g.groups, per_group)
    patches = taps.transpose(2, 0, 1, 3).reshape(g.groups, positions, count * per_group)
    kernels = weights.reshape(g.groups, g.rows // g.groups, -1).transpose(0, 2, 1)
    sums = np.matmul(patches, kernels).transpose(1, 0, 2).reshape(positions, g.rows)
    total: Array = sums.astype(np.int64) + mac.bias
    return total


def _gather(x: Array, y_of: Array, x_of: Array, outside: float) -> Array:
    """[H, W, C] -> [out_h, out_w, kernel_h, kernel_w, C]; `outside` where there is no input.

    y_of, x_of  [out_h, kernel_h], [out_w, kernel_w] input row and column of every tap
    """
    height, width, _ = x.shape
    below = (max(0, -int(y_of.min())), max(0, int(y_of.max()) - height + 1))
    beside = (max(0, -int(x_of.min())), max(0, int(x_of.max()) - width + 1))
    padded = np.pad(x, (below, beside, (0, 0)), constant_values=outside)
    taps: Array = padded[
        y_of[:, None, :, None] + below[0], x_of[None, :, None, :] + beside[0]]
    return taps


def apply(stage: pm.StageBody, v: Array, operand: Operand, past: Past) -> Array:
    """The result of one stage on v [columns, channels] of its branch, int64."""
    if isinstance(stage, pm.Requant):
        factor, clamp = (stage.multiplier, stage.shift), (stage.qmin, stage.qmax)
        return requantize(v, factor, stage.zero_point, clamp, stage.rounding).astype(np.int64)
    if isinstance(stage, pm.AddSingleRequant):
        return _add_single_requant(stage, v, _other(operand(stage.operand), v))
    if isinstance(stage, pm.Clamp):
        return _clamp(v, stage)
    if isinstance(stage, pm.Lut):
        looked_up: Array = stage.table[v + 128].astype(np.int64)
        return looked_up
    if isinstance(stage, pm.Add):
        return _add(stage, v, _other(operand(stage.operand), v))
    if isinstance(stage, pm.Mul):
        product = (v - stage.value_zero_point) * (
            _other(operand(stage.operand), v) - stage.other_zero_point)
        return _scale(product, stage.out, stage)
    if isinstance(stage, pm.MaxPool):
        taps, inside = _windows(stage.window, v)
        return _clamp(np.where(inside, taps, -128).max(axis=1), stage)
    if isinstance(stage, pm.AvgPool):
        return _avg_pool(stage, v, past)
    if isinstance(stage, pm.Mean):
        total = _total(stage.running, v - stage.in_zero_point, stage.in_zero_point, past)
        return _scale(total, stage.scaled, stage)
    return _softmax(stage, v)


def _other(o: Array, v: Array) -> Array:
    """The operand, repeated where it has one column or one channel."""
    return np.broadcast_to(o.astype(np.int64), v.shape)


def _scale(x: Array, out: pm.Scaled, stage: pm.Add | pm.Mul | pm.Mean) -> Array:
    """clamp(zero point + x scaled)."""
    y = out.zero_point + multiply(x, out.multiplier, out.shift, stage.rounding)
    return _clamp(y, stage)


def _clamp(v: Array, stage: Clamping) -> Array:
    return np.minimum(np.maximum(v, stage.qmin), stage.qmax)


def _add(stage: pm.Add, v: Array, o: Array) -> Array:
    def rescaled(x: Array, by: pm.Scaled, negate: bool) -> Array:
        y = multiply(
            (x - by.zero_point) << stage.left_shift, by.multiplier, by.shift, stage.rounding)
        return -y if negate else y

    total = rescaled(v, stage.value, stage.negate_value)
    total = total + rescaled(o, stage.other, stage.negate_other)
    return _scale(total, stage.out, stage)


def _add_single_requant(stage: pm.AddSingleRequant, v: Array, o: Array) -> Array:
    shift = stage.shift.astype(np.int64)
    total = v * stage.multiplier.astype(np.int64)
    total = total + (o - stage.other_zero_point) * stage.other_multiplier.astype(np.int64)
    rounded = (total + (np.int64(1) << (shift - 1))) >> shift
    return _clamp(stage.zero_point + rounded, stage)


def _windows(w: pm.Window, v: Array) -> tuple[Array, Array]:
    """([out columns, taps, channels] values, 0 outside; [out columns, taps, 1] inside?)."""
    rows_of = np.arange(w.out_h)[:, None] * w.stride_h + np.arange(w.kernel_h) - w.pad_top
    cols_of = np.arange(w.out_w)[:, None] * w.stride_w + np.arange(w.kernel_w) - w.pad_left
    shape = (w.out_h * w.out_w, w.kernel_h * w.kernel_w, -1)
    taps = _gather(v.reshape(w.in_h, w.in_w, -1), rows_of, cols_of, 0)
    inside = _gather(np.ones((w.in_h, w.in_w, 1), bool), rows_of, cols_of, False)
    return taps.reshape(shape), inside.reshape(shape)


def _total(running: pm.Running | None, v: Array, zero_point: int, past: Past) -> Array:
    """The sums over all columns that count, [1, channels]."""
    total: Array = v.sum(axis=0, keepdims=True)
    if running is None:
        return total
    fresh = v[: running.fresh]
    others: Array = total - fresh.sum(axis=0, keepdims=True)
    return others + past(running, fresh, zero_point)


def _avg_pool(stage: pm.AvgPool, v: Array, past: Past) -> Array:
    if stage.running is not None:
        count = len(v) - stage.running.fresh + stage.running.columns
        return _clamp(divide_half_away(_total(stage.running, v, 0, past), np.array(count)), stage)
    taps, inside = _windows(stage.window, v)
    total, n = taps.sum(axis=1), inside.sum(axis=1)
    return _clamp(divide_half_away(total, n), stage)


def _softmax(stage: pm.Softmax, v: Array) -> Array:
    difference = v - v.max(axis=1, keepdims=True)
    counted = difference >= stage.diff_min
    argument = saturating_rounding_doubling_high_mul(
        np.where(counted, difference, 0) << stage.shift, stage.multiplier)
    e = exp_on_negative_values(argument, SOFTMAX_INTEGER_BITS)
    parts = np.where(counted, rounding_divide_by_pot(e, SOFTMAX_SUM_BITS), 0)
    scale, bits = reciprocal(parts.sum(axis=1, keepdims=True), SOFTMAX_SUM_BITS)
    y = rounding_divide_by_pot(saturating_rounding_doubling_high_mul(scale, e), bits + 31 - 8)
    return np.where(counted, np.clip(y - 128, -128, 127), -128)
