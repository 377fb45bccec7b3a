"""The work of multiplying stored rows: how much of what, not what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import RowGroup
from edgesparse.sparsity.formats import Bsr, Dense, Format, block_occupancy, format_of
from edgesparse.target import InstructionCosts

TILE = 4
"""Columns that the core computes at once: ES_TILE_COLUMNS."""
VECTOR = 16
"""int8 in a vector of Helium."""
KERNELS = ("bsr 4x1", "bsr 1x4", "bsr 2x4", "bsr 4x4", "bsr 1x16")
"""Encodings that have, or may get, loops of their own; others share a portable one."""

Work = Counter[str]
"""What is done -> how often. Targets say what one of each takes (section [instructions])."""
Sweep = Mapping[int, int]
"""Columns computed at once -> how many times: the calls that compute the columns of a step."""


def cost_of(work: Work, costs: InstructionCosts) -> float:
    """Instructions."""
    return sum(amount * costs.each.get(name, 0.0) for name, amount in work.items())


def sweep_of(columns: int) -> Counter[int]:
    """Column after column, as many at once as there are."""
    sweep = Counter({TILE: columns // TILE, columns % TILE: 1})
    return Counter({size: times for size, times in sweep.items() if size and times})


def calls_of(sweep: Sweep) -> int:
    return sum(sweep.values())


def columns_of(sweep: Sweep) -> int:
    return sum(size * times for size, times in sweep.items())


@dataclass(frozen=True)
class Rows:
    """Rows that are stored in one way.

    name    of the encoding
    blocks  stored ones, of block_rows x block_cols
    tails   those of them that reach past the last column
    counts  stored blocks of each row of blocks; empty where there are no blocks
    """

    name: str
    rows: int
    cols: int
    blocks: int
    block_rows: int = 1
    block_cols: int = 1
    tails: int = 0
    counts: tuple[int, ...] = ()

    def rounds(self, blocks: int) -> int:
        """Turns of loops over so many blocks of a row at once; the last ones may be partly idle."""
        return sum(-(-count // blocks) for count in self.counts)

    def whole_rounds(self, blocks: int) -> int:
        """Turns of them that are full."""
        return sum(count // blocks for count in self.counts)

    def left_over(self, blocks: int) -> int:
        """Blocks beside those."""
        return self.blocks - blocks * self.whole_rounds(blocks)


def rows_of(group: RowGroup, cols: int) -> Rows:
    form = format_of(group)
    if isinstance(form, (Dense, Bsr)):
        w = form.decode(group.values, group.index, (group.row_count, cols))
        return rows_as(form, w)
    return Rows(form.name, group.row_count, cols, len(group.values))


def rows_as(form: Format, w: Array) -> Rows:
    """w [rows, K] int8 as it would be stored."""
    rows, cols = w.shape
    if isinstance(form, Bsr):
        occupied = block_occupancy(w, form.block_rows, form.block_cols)
        tails = int(occupied[:, -1].sum()) if cols % form.block_cols else 0
        return Rows(form.name, rows, cols, int(occupied.sum()), form.block_rows, form.block_cols,
                    tails, tuple(occupied.sum(axis=1).tolist()))
    stored = w.size if isinstance(form, Dense) else int(np.count_nonzero(w))
    return Rows(form.name, rows, cols, stored)


def rows_work(rows: Rows, sweep: Sweep) -> Work:
    """The sums of all rows over the columns of a sweep, where there is one convolution group, tile
    by tile: native/src/exec/mac.c and dot.c."""
    work: Work = Counter()
    dense, own = rows.name == "dense", rows.name in KERNELS
    kind = rows.name if dense or own else "any encoding"
    for at_once, columns in _shares(sweep):
        name, sums = f"{kind} x{at_once}", columns * rows.rows
        work[f"{name} sums"] += sums
        if dense:
            work[f"{name} products"] += sums * rows.cols
            work[f"{name} vectors"] += sums * -(-rows.cols // VECTOR)
            work[f"{name} rest"] += sums * (rows.cols % 4)
            work[f"{name} odd pairs"] += columns * (rows.rows % 2) * rows.cols
            work[f"{name} odd vectors"] += columns * (rows.rows % 4) * -(-rows.cols // VECTOR)
        elif own:
            work[f"{name} blocks"] += columns * rows.blocks
            work[f"{name} tails"] += columns * rows.tails
            work[f"{name} tail products"] += (
                columns * rows.tails * rows.block_rows * (rows.cols % rows.block_cols))
        else:
            work[f"{name} products"] += columns * rows.blocks * rows.block_rows * rows.block_cols
    if not dense:
        work[f"{kind} decoded"] += calls_of(sweep) * rows.blocks
        work[f"{kind} row blocks"] += calls_of(sweep) * -(-rows.rows // rows.block_rows)
    return work


def grouped_work(rows: Rows, taps: int, sweep: Sweep) -> Work:
    """The same with convolution groups; taps: of the kernel."""
    work: Work = Counter()
    if rows.cols == taps and rows.name == "dense":
        for at_once, columns in _shares(sweep):
            work[f"depthwise x{at_once} sums"] += columns * rows.rows
            work[f"depthwise x{at_once} products"] += columns * rows.rows * taps
        return work
    columns = columns_of(sweep)
    work["grouped sums"] += columns * rows.rows
    work["grouped pieces"] += columns * rows.rows * taps
    work["grouped products"] += columns * rows.rows * rows.cols
    return work


def _shares(sweep: Sweep) -> tuple[tuple[int, int], ...]:
    """(columns at once, columns): kernels take four at once, two, or one."""
    shares: Counter[int] = Counter()
    for size, times in sweep.items():
        if size == TILE:
            shares[4] += 4 * times
        else:
            shares[2] += size // 2 * 2 * times
            shares[1] += size % 2 * times
    return tuple((at_once, columns) for at_once, columns in shares.items() if columns)

