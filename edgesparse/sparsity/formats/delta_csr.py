"""Delta-CSR: per row the stored weights, each with its distance from the one before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register

MAX_COUNT = 0xFFFF


@register(Encoding.DELTA_CSR, "I-56")
@dataclass(frozen=True)
class DeltaCsr(Format):
    index_bits: int

    @property
    def name(self) -> str:
        return f"delta{self.index_bits}"

    def refusal(self, w: Array) -> str:
        most = int(self._counts(w).max(initial=0))
        return f"{most} weights in one row, at most {MAX_COUNT}" if most > MAX_COUNT else ""

    def size(self, w: Array) -> int:
        counts = self._counts(w)
        return int(counts.sum() + (2 + self._index_bytes(counts)).sum())

    def encode(self, w: Array) -> tuple[Array, Array]:
        """A gap of g columns is bridged by g // reach stored zeros, each `reach` further on."""
        rows, columns, gap = self._gaps(w)
        bridges = gap // self._reach
        end = np.cumsum(bridges + 1)
        values, deltas = np.zeros(_last(end), np.int8), np.full(_last(end), self._reach - 1)
        values[end - 1] = w[rows, columns]
        deltas[end - 1] = gap % self._reach
        counts = self._counts(w)
        packed = self._pack(deltas.astype(np.uint8), counts)
        return values, np.concatenate([counts.astype("<u2").view(np.uint8), packed])

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        if self.index_bits not in (4, 8):
            raise self.broken("index_bits 4 or 8 is allowed")
        rows, cols = shape
        if len(index) < 2 * rows:
            raise self.broken(f"{len(index)} index bytes for {rows} rows")
        counts = index[: 2 * rows].view("<u2").astype(np.int64)
        self.expect("values", len(values), int(counts.sum()))
        sizes = self._index_bytes(counts)
        self.expect("index bytes", len(index), int(2 * rows + sizes.sum()))
        packed = index[2 * rows :]
        row = np.repeat(np.arange(rows), counts)
        first = np.cumsum(counts) - counts
        if self.index_bits == 4:
            halves = np.stack([packed & 15, packed >> 4], axis=1).ravel()
            start = 2 * (np.cumsum(sizes) - sizes)
            odd = counts % 2 == 1
            if halves[(start + counts)[odd]].any():
                raise self.broken("the unused half of a row's last byte is not 0")
            deltas = halves[np.arange(len(values)) + np.repeat(start - first, counts)]
        else:
            deltas = packed
        along = np.concatenate([[0], np.cumsum(deltas.astype(np.int64) + 1)])
        columns = along[1:] - 1 - np.repeat(along[first], counts)
        if (columns >= cols).any():
            raise self.broken("a column lies outside")
        w = np.zeros(shape, np.int8)
        w[row, columns] = values
        return w

    @property
    def _reach(self) -> int:
        """Columns one delta can move on."""
        return 1 << self.index_bits

    def _index_bytes(self, counts: Array) -> Array:
        return -(-counts // 2) if self.index_bits == 4 else counts

    def _gaps(self, w: Array) -> tuple[Array, Array, Array]:
        """(row, column, columns skipped before it) of every weight, row by row."""
        rows, columns = np.nonzero(w)
        before = np.concatenate([[-1], columns[:-1]])
        starts = np.concatenate([[True], rows[1:] != rows[:-1]])[: len(rows)]
        before = np.where(starts, -1, before[: len(rows)])
        return rows, columns, columns - before - 1

    def _counts(self, w: Array) -> Array:
        """Stored values per row, bridging zeros included."""
        rows, _, gap = self._gaps(w)
        counts = np.bincount(rows, 1 + gap // self._reach, minlength=w.shape[0])
        return counts.astype(np.int64)

    def _pack(self, deltas: Array, counts: Array) -> Array:
        if self.index_bits == 8:
            return deltas
        sizes = self._index_bytes(counts)
        first = np.cumsum(counts) - counts
        start = 2 * (np.cumsum(sizes) - sizes)
        halves = np.zeros(2 * int(sizes.sum()), np.uint8)
        halves[np.arange(len(deltas)) + np.repeat(start - first, counts)] = deltas
        return halves[::2] | halves[1::2] << 4


def _last(ends: Array) -> int:
    return int(ends[-1]) if len(ends) else 0
