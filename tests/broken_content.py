"""Plans that break one invariant each, made from everything(): I-30 to I-62."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgesparse.plan import model as pm
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Nm
from plan_builder import WHOLE, Matrix, PlanBuilder, lstm, requant, stored, svdf
from plan_changes import (
    ADD,
    ASR,
    AVG,
    CELL_RING,
    CONV,
    COPY,
    DEPTHWISE,
    HIDDEN_RING,
    HORIZONTAL,
    LSTM,
    LUT,
    MEAN,
    MUL,
    POOL,
    SVDF,
    TO_RING,
    Break,
    V,
    array,
    both,
    branch,
    changed,
    geometry,
    group,
    index_of,
    inner,
    inner_geometry,
    item,
    longer,
    part,
    repacked,
    ring,
    shorter,
    source,
    stage,
    tensor,
    values_of,
    weights,
    whole,
)

BIG = 60000
"""Close to what 16 bits hold."""


def _one_name_less(name: str) -> Break:
    return lambda p: replace(
        p, names=replace(p.names, **{name: getattr(p.names, name)[:-1]}))


def _one_huge_pool() -> pm.PlanModel:
    """A pool over 4097 x 2048 columns: one row more than sums of int8 allow."""
    b = PlanBuilder()
    x = b.input(1, 1)
    window = pm.Window(in_h=4097, in_w=2048, kernel_h=4097, kernel_w=2048)
    b.tail(pm.Load(), x, b.output(1, 1), pm.AvgPool(window=window, **WHOLE))
    columns = 4097 * 2048
    return both(
        tensor(x, shape=(4097, 2048, 1), columns=columns, offset=32),
        whole(arena_bytes=columns + 32))(b.plan())


def _one_wide_softmax(channels: int) -> pm.PlanModel:
    b = PlanBuilder()
    x = b.input(1, channels)
    b.tail(pm.Load(), x, b.output(1, channels),
           pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-99))
    return b.plan()


def _other_rows(p: pm.PlanModel, name: str) -> pm.PlanModel:
    """One Mac of the LSTM with 13 rows of weights."""
    w = np.ones((13, 4 if name == "input" else 3), np.int8)
    made = Matrix(stored(w), w).times(2 if name == "input" else 1, 0, np.zeros(13, np.int64))
    return source(LSTM, **{name: made})(p)


def _one_lstm(columns: tuple[int, int] = (1, 1), **place: Any) -> PlanBuilder:
    """Of one unit, its rings of so many columns; it reads a tensor with this place."""
    b = PlanBuilder()
    x, between = b.input(1, 1), b.tensor(1, 1, **place)
    b.tail(pm.Load(), x, between)
    w = np.ones((4, 1), np.int8)
    matrix = Matrix(stored(w), w)
    made = lstm(b, between, (matrix, matrix), 0, np.random.default_rng(0))
    b.tail(made, between, b.output(1, 1))
    b.rings.clear()
    b.ring(columns[0], 1)
    b.ring(columns[1], 2)
    return b


def _one_svdf(columns: int = 1, **place: Any) -> pm.PlanModel:
    b = PlanBuilder()
    x, between = b.input(columns, 4), b.tensor(columns, 4, **place)
    b.tail(pm.Load(), x, between)
    w = np.ones((2, 4), np.int8)
    made = svdf(b, between, Matrix(stored(w), w), 1, 3, np.random.default_rng(0))
    feature = Matrix(stored(w), w).times(columns, 0, np.zeros(2, np.int64))
    narrow = requant(np.array([2.0**-25]), 0)
    b.tail(replace(made, feature=feature), between, b.output(1, 2), narrow)
    return b.plan()


def _columns(number: int) -> pm.PlanModel:
    return _one_lstm((2, 1) if number == HIDDEN_RING else (1, 2)).plan()


def _one_ring() -> pm.PlanModel:
    return source(1, cell_ring=0)(_one_lstm().plan())


def _scale_shift(p: Any, i: int, shift: int) -> pm.PlanModel:
    scales = p.steps[LSTM].source.scales
    return source(LSTM, scales=item(scales, i, replace(scales[i], shift=shift)))(p)


BROKEN: dict[int, dict[str, Break]] = {
    30: {
        **{f"geometry {name}": geometry(CONV, **{name: 0}) for name in (
            "in_h", "in_w", "in_c", "groups", "out_h", "out_w", "kernel_h", "kernel_w",
            "stride_h", "stride_w", "dilation_h", "dilation_w")},
        "geometry reserved": geometry(CONV, reserved=1),
        **{f"window {name}": part(*POOL, "window", **{name: 0}) for name in (
            "in_h", "in_w", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h", "stride_w")},
    },
    31: {
        "columns": geometry(CONV, in_w=7),
        "channels": geometry(CONV, in_c=5),
        "groups and in_c": geometry(CONV, groups=3),
        "groups and rows": lambda p: both(
            branch(DEPTHWISE, 0, channels=5), geometry(DEPTHWISE, rows=5))(p),
    },
    32: {
        "pad": geometry(CONV, pad_left=3),
        "pad_top": geometry(CONV, pad_top=1),
        "last position": geometry(CONV, out_w=8),
        "span": geometry(CONV, dilation_w=32768),
        "span_h": geometry(CONV, kernel_h=3, dilation_h=32768),
        "rows": geometry(CONV, out_h=2),
        "columns": geometry(
            CONV, kernel_h=BIG, kernel_w=BIG, pad_top=BIG - 1, pad_left=BIG - 1, out_h=BIG,
            out_w=BIG),
    },
    33: {
        "columns": part(*POOL, "window", in_w=9),
        "pad": part(*POOL, "window", pad_left=2),
        "last position": part(*POOL, "window", out_w=5),
        "pad_top": part(*POOL, "window", pad_top=1),
        "rows": part(*POOL, "window", out_h=2),
        "2^24": part(
            *POOL, "window", kernel_h=BIG, kernel_w=BIG, pad_top=BIG - 1, pad_left=BIG - 1,
            out_h=BIG, out_w=BIG, stride_w=1),
    },
    34: {
        "no dimension": source(COPY, dims=(), in_strides=(), out_strides=()),
        "seven": source(COPY, dims=(1,) * 7, in_strides=(1,) * 7, out_strides=(1,) * 7),
        "a dimension of 0": source(COPY, dims=(0, 4)),
        "product": source(COPY, dims=(1 << 13, 1 << 12), in_strides=(0, 0), out_strides=(0, 0)),
        "in_strides": source(COPY, in_strides=(4,)),
        "out_strides": source(COPY, out_strides=(4, 1, 1)),
        "reads before": source(COPY, in_offset=2),
        "reads after": source(COPY, in_offset=8),
        "writes before": source(COPY, out_offset=55),
        "writes after": source(COPY, out_offset=61),
        "a product that wraps": source(COPY, dims=(1 << 31, 1 << 31, 4)),
    },
    35: {
        "input has two taps": inner_geometry(LSTM, "input", kernel_w=2, out_w=1),
        "input has a stride": inner_geometry(LSTM, "input", stride_w=2, out_w=1),
        "input in two rows": inner_geometry(LSTM, "input", in_h=2, in_w=1, out_h=2, out_w=1),
        "input in groups": inner_geometry(LSTM, "input", groups=2),
        "input in another layout": lambda p: _one_lstm(layout=pm.Layout.PLANAR).plan(),
        "rows of input": lambda p: _other_rows(p, "input"),
        "rows of recurrent": lambda p: _other_rows(p, "recurrent"),
        "recurrent in groups": inner_geometry(LSTM, "recurrent", groups=3),
        "no hidden_ring": source(LSTM, hidden_ring=5),
        "no cell_ring": source(LSTM, cell_ring=5),
        "hidden_ring of another size": source(LSTM, hidden_ring=1),
        "cell_ring of another size": source(LSTM, cell_ring=1),
        "cell_ring as wide as hidden_ring": ring(CELL_RING, channels=3),
        "one ring for both": lambda p: _one_ring(),
        "two columns of h": lambda p: _columns(HIDDEN_RING),
        "two columns of c": lambda p: _columns(CELL_RING),
    },
    36: {
        "two taps": inner_geometry(SVDF, "feature", kernel_w=2, pad_left=1),
        "groups": inner_geometry(SVDF, "feature", groups=2),
        "two columns": lambda p: _one_svdf(columns=2),
        "input in another layout": lambda p: _one_svdf(layout=pm.Layout.C4),
        "rows and channels": lambda p: both(
            source(SVDF, bias=array(1, 2, 3)), branch(SVDF, 1, channels=1),
            tensor(V, channels=1, pitch=1, shape=(1, 1)))(p),
        "no ring": source(SVDF, ring=5),
        "a ring of another size": source(SVDF, ring=CELL_RING),
        "time": lambda p: source(SVDF, time=p.steps[SVDF].source.time[:-1])(p),
        "time of fewer columns": lambda p: source(SVDF, time=p.steps[SVDF].source.time[:16])(p),
    },
    40: {
        "multiplier": lambda p: stage(CONV, 0, 0, multiplier=changed(
            p.steps[CONV].branches[0].stages[0].multiplier, 11, -1))(p),
        "multipliers": stage(CONV, 0, 0, multiplier=array(1, 2)),
        "no multiplier": stage(CONV, 0, 0, multiplier=array()),
        "shift low": stage(DEPTHWISE, 0, 0, shift=array(-32, dtype=np.int8)),
        "shift high": stage(DEPTHWISE, 0, 0, shift=array(31, dtype=np.int8)),
        "shifts": stage(CONV, 0, 0, shift=array(0, 0, dtype=np.int8)),
        "multiplier of AddSingleRequant": stage(*ASR, multiplier=array(-1)),
        "other_multiplier": stage(*ASR, other_multiplier=array(-1)),
        "other_multipliers": stage(*ASR, other_multiplier=array(1, 1)),
        "Add value": part(*ADD, "value", multiplier=-1),
        "Add other": part(*ADD, "other", shift=-32),
        "Add out": part(*ADD, "out", multiplier=-1),
        "Mul": part(*MUL, "out", shift=31),
        "Mean": part(MEAN, 0, 0, "scaled", shift=-32),
    },
    41: {
        "Requant": stage(CONV, 0, 0, qmin=1, qmax=0),
        "Clamp": stage(TO_RING, 0, 0, qmin=1, qmax=0),
        "Add": stage(*ADD, qmin=1, qmax=0),
        "Mul": stage(*MUL, qmin=1, qmax=0),
        "AddSingleRequant": stage(*ASR, qmin=1, qmax=0),
        "MaxPool": stage(*POOL, qmin=1, qmax=0),
        "AvgPool": stage(*AVG, qmin=1, qmax=0),
        "Mean": stage(MEAN, 0, 0, qmin=1, qmax=0),
        "rounding of Requant": stage(CONV, 0, 0, rounding=2),
        "rounding of Add": stage(*ADD, rounding=2),
        "rounding of Mul": stage(*MUL, rounding=2),
        "rounding of Mean": stage(MEAN, 0, 0, rounding=2),
        "Lut": stage(*LUT, table=np.zeros(255, np.int8)),
    },
    42: {
        "left_shift": stage(*ADD, left_shift=21),
        "value shift": part(*ADD, "value", shift=1),
        "other shift": part(*ADD, "other", shift=1),
        "value zero point": part(*ADD, "value", zero_point=128),
        "other zero point": part(*ADD, "other", zero_point=-129),
        "out zero point": part(*ADD, "out", zero_point=128),
        "Mul zero point": part(*MUL, "out", zero_point=-129),
        "Mean zero point": part(MEAN, 0, 0, "scaled", zero_point=128),
    },
    43: {
        "bias": lambda p: source(CONV, bias=changed(p.steps[CONV].source.bias, 3, -(1 << 31)))(p),
        "shift": stage(DEPTHWISE, 0, 0, shift=array(20, dtype=np.int8)),
        "room for a zero point": lambda p: source(
            CONV, bias=changed(p.steps[CONV].source.bias, 0, (1 << 31) - 1 - 256))(p),
        "Add": part(*ADD, "out", shift=1),
        "Mul": part(*MUL, "out", shift=16),
        "Mean": part(MEAN, 0, 0, "scaled", shift=22),
        "AvgPool": lambda p: _one_huge_pool(),
    },
    44: {
        "shift low": stage(*ASR, shift=array(0, dtype=np.int8)),
        "shift high": stage(*ASR, shift=array(63, dtype=np.int8)),
    },
    45: {
        "channels": lambda p: _one_wide_softmax(4096),
        "shift low": stage(MEAN, 0, 1, shift=-1),
        "shift high": stage(MEAN, 0, 1, shift=31, diff_min=0),
        "diff_min low": stage(MEAN, 0, 1, diff_min=-256, shift=1),
        "diff_min high": stage(MEAN, 0, 1, diff_min=1),
        "multiplier": stage(MEAN, 0, 1, multiplier=(1 << 30) - 1),
        "diff_min and shift": stage(MEAN, 0, 1, diff_min=-2, shift=30),
    },
    46: {
        "seven scales": lambda p: source(LSTM, scales=p.steps[LSTM].source.scales[:-1])(p),
        **{f"scale {i} {name}": (
            lambda p, i=i, new=new: source(LSTM, scales=item(
                p.steps[LSTM].source.scales, i,
                replace(p.steps[LSTM].source.scales[i], **new)))(p))
           for i in (0, 7) for name, new in (
               ("multiplier", {"multiplier": -1}), ("shift", {"shift": 31}),
               ("zero point", {"zero_point": 1}))},
        "hidden multiplier": inner(LSTM, "hidden", multiplier=-1),
        "hidden shift low": inner(LSTM, "hidden", shift=-32),
        "hidden shift high": inner(LSTM, "hidden", shift=1),
        "hidden zero point": inner(LSTM, "hidden", zero_point=128),
        "cell_bits": source(LSTM, cell_bits=7),
        "cell_clip": source(LSTM, cell_clip=-1),
        "sums of input": lambda p: _scale_shift(p, 0, 20),
        "sums of recurrent": lambda p: _scale_shift(p, 7, 20),
        "a bias of recurrent": lambda p: inner(LSTM, "recurrent", bias=changed(
            p.steps[LSTM].source.recurrent.bias, 11, (1 << 31) - 1 - (1 << 16)))(p),
        "feature multiplier": inner(SVDF, "scale", multiplier=-1),
        "feature zero point": inner(SVDF, "scale", zero_point=1),
        "sums of feature": inner(SVDF, "scale", shift=20),
        "sums over the past": stage(SVDF, 1, 0, shift=array(0, dtype=np.int8)),
    },
    50: {
        "recurrent cols": inner(LSTM, "recurrent", weights=pm.Weights(
            rows=12, cols=4, groups=())),
        "feature bias": inner(SVDF, "feature", bias=array(1)),
        "rows": weights(CONV, rows=13),
        "cols": weights(CONV, cols=13),
        "bias": lambda p: source(CONV, bias=p.steps[CONV].source.bias[:-1])(p),
        "bias_form": source(CONV, bias_form=2),
        "2^24": lambda p: both(
            geometry(CONV, kernel_h=4096, kernel_w=1025, pad_top=0, pad_left=1, out_w=6),
            weights(CONV, cols=4 * 4096 * 1025))(p),
    },
    51: {
        "gap": group(CONV, 1, first_row=4),
        "overlap": group(CONV, 1, first_row=2),
        "nothing": group(CONV, 1, row_count=0),
        "past the end": group(CONV, 2, row_count=6),
        "a sum that wraps": group(CONV, 2, row_count=(1 << 32) - 1),
        "too few": lambda p: weights(CONV, groups=p.steps[CONV].source.weights.groups[:2])(p),
        "no group": weights(CONV, groups=()),
        "order twice": lambda p: weights(CONV, row_order=changed(
            p.steps[CONV].source.weights.row_order, 0, 0))(p),
        "order outside": lambda p: weights(CONV, row_order=changed(
            p.steps[CONV].source.weights.row_order, 0, 12))(p),
        "order too short": lambda p: weights(
            CONV, row_order=p.steps[CONV].source.weights.row_order[:-1])(p),
    },
    52: {
        "encoding": group(CONV, 0, encoding=6),
        "packing": group(CONV, 0, packing=1),
        **{f"DENSE {name}": group(CONV, 0, **{name: 2}) for name in (
            "block_rows", "block_cols", "n", "m", "index_bits")},
        "BSR n": group(CONV, 2, n=1),
        "N:M index_bits": group(HORIZONTAL, 0, index_bits=8),
        "DELTA_CSR block_rows": group(HORIZONTAL, 1, block_rows=2),
    },
    53: {
        "DENSE short": lambda p: group(
            CONV, 0, values=p.steps[CONV].source.weights.groups[0].values[:-1])(p),
        "DENSE with an index": group(CONV, 0, index=np.ones(1, np.uint8)),
        "BITMASK values": repacked(CONV, 1, Bitmask(), values_of(longer)),
        "BITMASK index": repacked(CONV, 1, Bitmask(), index_of(shorter)),
        "BITMASK past K": repacked(CONV, 1, Bitmask(), lambda g: replace(
            g, index=changed(g.index, 1, g.index[1] | 0x80), values=longer(g.values))),
    },
    54: {
        "no block_rows": group(CONV, 2, block_rows=0),
        "block_cols": group(CONV, 2, block_cols=17),
        "index_bits": group(CONV, 2, index_bits=4),
        "values": repacked(CONV, 2, Bsr(2, 4), values_of(longer)),
        "index": repacked(CONV, 2, Bsr(2, 4), index_of(shorter)),
        "no counts": repacked(CONV, 2, Bsr(2, 4), index_of(lambda a: a[:3])),
        "order": repacked(CONV, 2, Bsr(2, 4), index_of(
            lambda a: changed(a, 7, a[6]))),
        "column outside": repacked(CONV, 2, Bsr(2, 4), index_of(lambda a: changed(a, 8, 3))),
        "weight outside": repacked(CONV, 2, Bsr(2, 4), values_of(lambda a: changed(a, -1, 1))),
    },
    55: {
        "m": group(HORIZONTAL, 0, m=3),
        "n": group(HORIZONTAL, 0, n=4),
        "no n": group(HORIZONTAL, 0, n=0),
        "m and K": group(HORIZONTAL, 0, m=16),
        "values": repacked(HORIZONTAL, 0, Nm(2, 4), values_of(longer)),
        "index": repacked(HORIZONTAL, 0, Nm(2, 4), index_of(longer)),
        "order": repacked(HORIZONTAL, 0, Nm(2, 4), index_of(lambda a: changed(a, 0, 0b0000))),
        "unused bits": repacked(HORIZONTAL, 0, Nm(2, 4), index_of(
            lambda a: changed(a, 0, a[0] | 0x80))),
    },
    56: {
        "index_bits": group(HORIZONTAL, 1, index_bits=16),
        "values": repacked(HORIZONTAL, 1, DeltaCsr(4), values_of(longer)),
        "index": repacked(HORIZONTAL, 1, DeltaCsr(8), index_of(shorter)),
        "no counts": repacked(HORIZONTAL, 1, DeltaCsr(8), index_of(lambda a: a[:6])),
        "column": repacked(HORIZONTAL, 1, DeltaCsr(8), index_of(lambda a: changed(a, -1, 9))),
    },
    57: {
        "too few": lambda p: group(CONV, 0, nnz=p.steps[CONV].source.weights.groups[0].nnz - 1)(p),
        "all that is stored": lambda p: group(
            CONV, 2, nnz=len(p.steps[CONV].source.weights.groups[2].values))(p),
    },
    60: {
        "seed": lambda p: replace(p, golden=replace(p.golden, seed=0)),
        "outputs": lambda p: replace(p, golden=replace(p.golden, outputs=p.golden.outputs[:-1])),
    },
    61: {
        "short": whole(source_sha256=bytes(31)),
        "long": whole(source_sha256=bytes(33)),
    },
    62: {name: _one_name_less(name) for name in ("tensors", "steps", "inputs", "outputs")},
}


