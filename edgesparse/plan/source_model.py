"""Sources: what a step computes before its tail. Twins of plan.fbs, as model.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from edgesparse.plan.scalars import (
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    Bool,
    I16Array,
    I32Array,
    I32Tuple,
    Int8Aligned,
    U8One,
    U16Array,
    U32Tuple,
    UInt8Aligned,
)


class Encoding(IntEnum):
    DENSE = 0
    BITMASK = 1
    BSR = 2
    NM = 3
    DELTA_CSR = 4
    LANES = 5


class BiasForm(IntEnum):
    """FOLDED: bias holds b - input zero point * sum(w); PLAIN: bias holds b."""

    FOLDED = 0
    PLAIN = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class RowGroup:
    """Consecutive stored rows in one encoding: docs/PLAN_FORMAT.md section 7."""

    first_row: U32
    row_count: U32
    encoding: Encoding
    packing: U8 = 0
    block_rows: U8One = 1
    block_cols: U8One = 1
    n: U8 = 0
    m: U8 = 0
    index_bits: U8 = 0
    nnz: U32
    values: Int8Aligned
    index: UInt8Aligned = field(default_factory=lambda: np.zeros(0, np.uint8))


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    rows: U32
    cols: U32
    row_order: U16Array | None = None
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A convolution's shape; fully connected: everything 1 but in_c and rows."""

    in_h: U16 = 1
    in_w: U16 = 1
    in_c: U16
    groups: U16 = 1
    out_h: U16 = 1
    out_w: U16 = 1
    rows: U16
    kernel_h: U16 = 1
    kernel_w: U16 = 1
    stride_h: U16 = 1
    stride_w: U16 = 1
    dilation_h: U16 = 1
    dilation_w: U16 = 1
    pad_top: U16 = 0
    pad_left: U16 = 0
    reserved: U16 = 0


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A zero point and a real factor multiplier * 2**(shift - 31)."""

    zero_point: I16
    shift: I16
    multiplier: I32


@dataclass(frozen=True, kw_only=True, eq=False)
class Mac:
    geometry: Geometry
    weights: Weights
    bias: I32Array
    bias_form: BiasForm


@dataclass(frozen=True)
class Load:
    """The input tensor's own elements, broadcast where a dimension is 1."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """out[o] = in[i] over the box `dims`, in logical element numbers."""

    dims: U32Tuple
    in_offset: I32 = 0
    in_strides: I32Tuple
    out_offset: I32 = 0
    out_strides: I32Tuple
    fill: Bool = False
    fill_value: I8 = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Lstm:
    """A long short-term memory; its state stands in two rings of one column."""

    input: Mac
    recurrent: Mac
    scales: tuple[Scaled, ...]
    hidden: Scaled
    cell_bits: U8
    cell_clip: I16 = 0
    hidden_ring: U16
    cell_ring: U16
    anew: Bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Svdf:
    """`time` is [rows, memory] int16, row by row; the state of the last `memory` runs a ring."""

    feature: Mac
    scale: Scaled
    time: I16Array
    bias: I32Array
    ring: U16


Source: TypeAlias = Mac | Load | Copy | Lstm | Svdf


def macs_of(source: Source) -> tuple[Mac, ...]:
    """What multiplies weights in a source, in the order it is executed."""
    if isinstance(source, Mac):
        return (source,)
    if isinstance(source, Lstm):
        return (source.input, source.recurrent)
    return (source.feature,) if isinstance(source, Svdf) else ()


def rings_of(source: Source) -> tuple[int, ...]:
    """The rings that hold the state of a source."""
    if isinstance(source, Lstm):
        return (source.hidden_ring, source.cell_ring)
    return (source.ring,) if isinstance(source, Svdf) else ()
