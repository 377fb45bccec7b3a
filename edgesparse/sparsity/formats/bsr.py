"""BSR: blocks of block_rows x block_cols that hold any weight, by block row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register

MAX_BLOCK = 16
MAX_COUNT = 0xFFFF


def as_blocks(w: Array, block_rows: int, block_cols: int) -> Array:
    """[rows, K] -> [block rows, block columns, block_rows, block_cols], filled up with zeros."""
    rows, cols = w.shape
    padded = np.pad(w, ((0, -rows % block_rows), (0, -cols % block_cols)))
    grid = padded.reshape(
        padded.shape[0] // block_rows, block_rows, padded.shape[1] // block_cols, block_cols)
    return grid.transpose(0, 2, 1, 3)


def block_occupancy(w: Array, block_rows: int, block_cols: int) -> Array:
    """[block rows, block columns] bool: whether the block holds any weight."""
    occupied: Array = as_blocks(w != 0, block_rows, block_cols).any(axis=(2, 3))
    return occupied


@register(Encoding.BSR, "I-54")
@dataclass(frozen=True)
class Bsr(Format):
    block_rows: int
    block_cols: int
    index_bits: int = 8

    @property
    def name(self) -> str:
        return f"bsr {self.block_rows}x{self.block_cols}"

    @staticmethod
    def for_columns(block_rows: int, block_cols: int, cols: int) -> Bsr:
        """The block size with the narrowest index that reaches every column."""
        return Bsr(block_rows, block_cols, 8 if -(-cols // block_cols) <= 256 else 16)

    def refusal(self, w: Array) -> str:
        block_columns = -(-w.shape[1] // self.block_cols)
        if block_columns > 1 << self.index_bits:
            return f"{block_columns} block columns need an index of more than " \
                   f"{self.index_bits} bits"
        most = int(self._occupied(w).sum(axis=1).max(initial=0))
        if most > MAX_COUNT:
            return f"{most} blocks in one block row, at most {MAX_COUNT} are allowed"
        return ""

    def size(self, w: Array) -> int:
        occupied = self._occupied(w)
        per_block = self.block_rows * self.block_cols + self.index_bits // 8
        return 2 * occupied.shape[0] + int(occupied.sum()) * per_block

    def encode(self, w: Array) -> tuple[Array, Array]:
        blocks = as_blocks(w, self.block_rows, self.block_cols)
        occupied = blocks.any(axis=(2, 3))
        counts = occupied.sum(axis=1).astype("<u2")
        columns = np.nonzero(occupied)[1].astype(self._index_dtype)
        index = np.frombuffer(counts.tobytes() + columns.tobytes(), np.uint8)
        return blocks[occupied].ravel().astype(np.int8), index

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        if not (1 <= self.block_rows <= MAX_BLOCK and 1 <= self.block_cols <= MAX_BLOCK
                and self.index_bits in (8, 16)):
            raise self.broken(f"index of {self.index_bits} bits; blocks up to 16x16 with 8 or 16 "
                              "bits are allowed")
        rows, cols = shape
        block_rows, block_columns = -(-rows // self.block_rows), -(-cols // self.block_cols)
        if len(index) < 2 * block_rows:
            raise self.broken(f"{len(index)} index bytes for {block_rows} block rows")
        counts = index[: 2 * block_rows].view("<u2").astype(np.int64)
        total = int(counts.sum())
        self.expect("index bytes", len(index), 2 * block_rows + total * self.index_bits // 8)
        self.expect("values", len(values), total * self.block_rows * self.block_cols)
        columns = index[2 * block_rows :].view(self._index_dtype).astype(np.int64)
        place = np.repeat(np.arange(block_rows) * block_columns, counts) + columns
        if (columns >= block_columns).any() or (np.diff(place) <= 0).any():
            raise self.broken("block columns are not ascending, or lie outside")
        blocks = np.zeros(
            (block_rows * block_columns, self.block_rows, self.block_cols), np.int8)
        blocks[place] = values.reshape(-1, self.block_rows, self.block_cols)
        padded = blocks.reshape(block_rows, block_columns, self.block_rows, self.block_cols)
        padded = padded.transpose(0, 2, 1, 3).reshape(
            block_rows * self.block_rows, block_columns * self.block_cols)
        if padded[rows:].any() or padded[:, cols:].any():
            raise self.broken("a weight outside the matrix is not 0")
        return np.ascontiguousarray(padded[:rows, :cols])

    @property
    def _index_dtype(self) -> str:
        return "u1" if self.index_bits == 8 else "<u2"

    def _occupied(self, w: Array) -> Array:
        return block_occupancy(w, self.block_rows, self.block_cols)
