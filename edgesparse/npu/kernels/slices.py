"""Weights as the MAC instructions read them: slices of L rows, in chunks loaded together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgesparse.npu.isa import M_SHIFT, N_SHIFT, WIDE_COLUMNS, Index
from edgesparse.npu.kernels.base import Item, NotOnNpu, Piece, Setting
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart, NpuBlob
from edgesparse.sparsity.formats.lanes import Packing

CHUNK_BYTES = 2048
"""A chunk has at least so many bytes of weights, or all: fewer transfers, yet loads overlap."""


@dataclass(frozen=True)
class Slice:
    """L stored rows (fewer at the end of a row group) and where their weights stand.

    steps         stored steps, each of L weights
    values, index (first byte, bytes) in the vectors of the row group
    format        i1 of the MAC instruction, without SKIP
    share         lanes that share a column
    """

    group: int
    first_row: int
    rows: int
    steps: int
    values: tuple[int, int]
    index: tuple[int, int]
    format: int
    share: int


def slices_of(weights: pm.Weights, lanes: int) -> tuple[Slice, ...]:
    """All slices in stored order. Raises NotOnNpu for weights in another form."""
    if weights.row_order is not None:
        raise NotOnNpu("its output channels are stored in another order")
    found: list[Slice] = []
    for number, group in enumerate(weights.groups):
        if group.encoding is not pm.Encoding.LANES or group.block_rows != lanes:
            raise NotOnNpu(f"its weights are not in slices of {lanes} lanes")
        found += _of_group(group, number, weights.cols)
    return tuple(found)


def _of_group(group: pm.RowGroup, number: int, cols: int) -> Iterator[Slice]:
    lanes, share = group.block_rows, group.block_cols
    count = -(-group.row_count // lanes)
    steps, at = _steps(group, count, cols)
    value = 0
    for i in range(count):
        used = _index_bytes(group, steps[i], cols)
        yield Slice(
            group=number, first_row=group.first_row + i * lanes,
            rows=min(lanes, group.row_count - i * lanes), steps=steps[i],
            values=(value, steps[i] * lanes), index=(at, used), format=_format(group, steps[i]),
            share=share)
        value, at = value + steps[i] * lanes, at + used


def _steps(group: pm.RowGroup, count: int, cols: int) -> tuple[list[int], int]:
    """(steps of each slice, where the index of the first one starts)."""
    if group.packing == Packing.NONE:
        return [cols] * count, 0
    if group.packing == Packing.N_OF_M:
        return [cols // group.m * group.n] * count, 0
    return [int(n) for n in group.index[: 2 * count].view("<u2")], 2 * count


def _index_bytes(group: pm.RowGroup, steps: int, cols: int) -> int:
    size = 0
    if group.packing == Packing.COLUMNS:
        size = steps * (group.block_rows // group.block_cols) * (group.index_bits // 8)
    elif group.packing == Packing.BITMASK:
        size = -(-cols // 8)
    elif group.packing == Packing.N_OF_M:
        size = -(-(cols // group.m * group.n * (group.m.bit_length() - 1)) // 8)
    return size + size % 2


def _format(group: pm.RowGroup, steps: int) -> int:
    """A slice of zeros has no index whose stream would be known to be aligned: 8 bits do."""
    wide = group.index_bits == 16 and steps > 0
    if group.block_cols < group.block_rows:
        return group.block_cols | (WIDE_COLUMNS if wide else 0)
    if group.packing == Packing.COLUMNS:
        return Index.COLUMNS16 if wide else Index.COLUMNS8
    if group.packing == Packing.N_OF_M:
        return Index.N_OF_M | group.n << N_SHIFT | group.m << M_SHIFT
    return Index.BITMASK if group.packing == Packing.BITMASK else Index.DENSE


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive slices of one row group that are loaded together."""

    slices: tuple[Slice, ...]
    item: Item
    values: Piece
    index: Piece | None


def chunks_of(setting: Setting, slices: tuple[Slice, ...]) -> tuple[Chunk, ...]:
    """Cut slices into chunks: one per row group where all is loaded at once."""
    parts: list[list[Slice]] = []
    for s in slices:
        size = sum(t.values[1] for t in parts[-1]) if parts else 0
        full = not setting.whole and size >= CHUNK_BYTES
        if not parts or parts[-1][0].group != s.group or full:
            parts.append([])
        parts[-1].append(s)
    return tuple(_chunk(setting.number, tuple(part)) for part in parts)


def _chunk(step: int, slices: tuple[Slice, ...]) -> Chunk:
    first, last = slices[0], slices[-1]
    pieces = []
    for part, (begin, _), (end, size) in (
        (BlobPart.VALUES, first.values, last.values), (BlobPart.INDEX, first.index, last.index)):
        length = end + size - begin
        blob = NpuBlob(step=step, index=first.group, part=part)
        pieces.append(Piece(blob, begin, length) if length else None)
    values, index = pieces
    if values is None:  # every weight is 0; the stream of the instruction still has an address
        values = Piece(NpuBlob(step=step, part=BlobPart.BIAS), 0, 4)
    kept = tuple(p for p in (values, index) if p is not None)
    return Chunk(slices, Item(step, kept), values, index)


@dataclass(frozen=True, eq=False)
class Part:
    """Columns [first, first + steps) of a dense slice that is too large to be loaded at once."""

    first: int
    steps: int
    item: Item
    values: Piece


def parts_of_slice(step: int, s: Slice, lanes: int, most: int) -> tuple[Part, ...]:
    """Cut the columns of a slice into parts of at most `most` bytes of weights.

    None for sparse weights: their column numbers are those of the whole slice.
    """
    if s.format != Index.DENSE or s.share < lanes:
        return ()
    unit, found = most // lanes, []
    for first in range(0, s.steps, unit):
        count = min(unit, s.steps - first)
        values = Piece(NpuBlob(step=step, index=s.group, part=BlobPart.VALUES),
                       s.values[0] + first * lanes, count * lanes)
        found.append(Part(first, count, Item(step, (values,)), values))
    return tuple(found)


def runs_of(slices: tuple[Slice, ...], together: bool) -> Iterator[tuple[Slice, ...]]:
    """Cut slices where the number of rows changes, so that a loop serves a run; or all of them."""
    run: list[Slice] = []
    for s in slices:
        if run and (s.rows != run[0].rows or not together):
            yield tuple(run)
            run = []
        run.append(s)
    yield tuple(run)


def even(run: tuple[Slice, ...]) -> bool:
    """Whether one loop may walk the weights: as many steps and index bytes in each slice."""
    return len({(s.steps, s.index[1]) for s in run}) == 1
