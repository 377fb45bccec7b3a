"""Plans that break one invariant each, made from everything(): I-30 to I-62."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.plan import model as pm
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Nm
from plan_builder import WHOLE, PlanBuilder
from plan_changes import (
    ADD,
    ASR,
    AVG,
    CONV,
    COPY,
    DEPTHWISE,
    HORIZONTAL,
    LUT,
    MEAN,
    MUL,
    POOL,
    TO_RING,
    Break,
    array,
    both,
    branch,
    changed,
    geometry,
    group,
    index_of,
    longer,
    part,
    repacked,
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
    50: {
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


