"""Plans whose table Npu breaks one invariant each: I-80 to I-82; and LANES weights, I-58."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgesparse.plan.npu_model import BlobPart, NpuBlob
from edgesparse.sparsity.formats import Lanes, Packing
from plan_changes import (
    CONSTANT,
    CONV,
    COPY,
    DEPTHWISE,
    HORIZONTAL,
    LOAD,
    Break,
    X,
    both,
    changed,
    group,
    index_of,
    longer,
    repacked,
    shorter,
    values_of,
    whole,
)

ROWS = 1
"""Row group of CONV that the cases pack again: 4 rows of 12 columns."""


def _npu(**new: Any) -> Break:
    return lambda p: replace(p, npu=replace(p.npu, **new))


def _blob(part: BlobPart, **new: Any) -> Break:
    return _npu(blobs=(NpuBlob(part=part, **new),))


def _packed(form: Lanes, change: Any, **new: Any) -> Break:
    return repacked(CONV, ROWS, form, change, **new)


def _in_slice(at: int, new: int) -> Any:
    """Byte `at` of the index, the count of steps first."""
    return index_of(lambda a: changed(a, at, new))


WIDE, FOURS, ONES = (Lanes(16, share, Packing.COLUMNS, 8) for share in (16, 4, 1))
DENSE, MASK, PAIRS = Lanes.dense(16), Lanes.bitmask(16), Lanes.n_of_m(16, 2, 4)

BROKEN: dict[int, dict[str, Break]] = {
    58: {
        "lanes": _packed(DENSE, lambda g: replace(g, block_rows=8)),
        "packing": _packed(DENSE, lambda g: replace(g, packing=4)),
        "lanes without COLUMNS": _packed(MASK, lambda g: replace(g, block_cols=4)),
        "two lanes a column": _packed(FOURS, lambda g: replace(g, block_cols=2)),
        "more lanes a column": _packed(WIDE, lambda g: replace(g, block_cols=32)),
        "index_bits": _packed(WIDE, lambda g: replace(g, index_bits=4)),
        "index_bits of DENSE": _packed(DENSE, lambda g: replace(g, index_bits=8)),
        "n": _packed(WIDE, lambda g: replace(g, n=1)),
        "m": _packed(PAIRS, lambda g: replace(g, m=3)),
        "n of m": _packed(PAIRS, lambda g: replace(g, n=4)),
        "no n": _packed(PAIRS, lambda g: replace(g, n=0)),
        "m and K": _packed(PAIRS, lambda g: replace(g, m=8)),
        **{f"{name} of {form.name}": _packed(form, change)
           for form in (DENSE, WIDE, FOURS, ONES, MASK, PAIRS)
           for name, change in (("values", values_of(longer)), ("index", index_of(longer)),
                                ("fewer values", values_of(shorter)))},
        "shorter index": _packed(MASK, index_of(shorter)),
        "no counts": _packed(WIDE, index_of(lambda a: a[:1])),
        "steps": _packed(WIDE, _in_slice(0, 11)),
        "order": _packed(WIDE, _in_slice(3, 0)),
        "column": _packed(WIDE, _in_slice(13, 12)),
        "order of a lane group": _packed(FOURS, _in_slice(6, 0)),
        "column of a lane group": _packed(FOURS, _in_slice(2 + 4 * 11, 12)),
        "column of padding": _packed(FOURS, _in_slice(3, 1)),
        "weight after padding": _packed(FOURS, values_of(
            lambda a: changed(changed(changed(changed(a, 0, 0), 1, 0), 2, 0), 3, 0))),
        "weights past the last row": _packed(WIDE, values_of(lambda a: changed(a, 4, 1))),
        "weights past the last row of DENSE": _packed(DENSE, values_of(
            lambda a: changed(a, -1, 1))),
        "one column more": _packed(MASK, lambda g: replace(
            g, index=changed(g.index, 0, 11), values=g.values[:-16])),
        "a column past K": _packed(MASK, lambda g: replace(
            g, index=changed(changed(g.index, 2, 0xFE), 3, 0x1F))),
        "positions": _packed(PAIRS, _in_slice(0, 0)),
        "unused bits": _packed(PAIRS, index_of(lambda a: changed(a, 1, a[1] | 0x80))),
        "filler": _packed(Lanes.n_of_m(16, 1, 4), index_of(lambda a: changed(a, 1, 1))),
        "32 lanes": group(DEPTHWISE, 0, block_rows=32, block_cols=32),
    },
    80: {
        "none": both(whole(config=0), _npu(config=0)),
        "another": _npu(config=1),
    },
    81: {
        "a part": lambda p: _npu(commands=p.npu.commands[:-1])(p),
        "nothing": _npu(commands=np.zeros(0, np.uint8), prologue=0),
        "nothing but a prologue": _npu(prologue=3),
    },
    82: {
        "part": lambda p: _npu(blobs=(NpuBlob(part=7),))(p),  # type: ignore[arg-type]
        "step": _blob(BlobPart.BIAS, step=8),
        "no weights": _blob(BlobPart.VALUES, step=LOAD),
        "no bias": _blob(BlobPart.BIAS, step=COPY),
        "row group": _blob(BlobPart.VALUES, step=CONV, index=3),
        "no index": _blob(BlobPart.INDEX, step=CONV),
        "branch": _blob(BlobPart.SHIFT, step=HORIZONTAL, branch=2),
        "no stage": _blob(BlobPart.MULTIPLIER, step=COPY),
        "no Requant": _blob(BlobPart.MULTIPLIER, step=HORIZONTAL, branch=1),
        "stage": _blob(BlobPart.TABLE, step=LOAD, index=4),
        "no Lut": _blob(BlobPart.TABLE, step=LOAD, index=1),
        "tensor": _blob(BlobPart.TENSOR, index=15),
        "no constant": _blob(BlobPart.TENSOR, index=X),
        "reserved": _blob(BlobPart.BIAS, step=CONV, reserved=1),
        "branch of weights": _blob(BlobPart.VALUES, step=CONV, branch=1),
        "index of a bias": _blob(BlobPart.BIAS, step=CONV, index=1),
        "index of a shift": _blob(BlobPart.SHIFT, step=DEPTHWISE, index=1),
        "step of a tensor": _blob(BlobPart.TENSOR, index=CONSTANT, step=1),
    },
}
