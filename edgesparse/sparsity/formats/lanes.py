"""Lanes: slices of L rows, stored step by step, L weights each: what the NPU's vectors read.

Steps of a slice are columns (packing NONE, BITMASK, N_OF_M, and COLUMNS with L lanes a column), or
one column for each group of block_cols lanes (COLUMNS: 4x1 and single weights).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register

LANES = (16, 32)
GROUP_SIZES = (2, 4, 8, 16)
MAX_COUNT = 0xFFFF
STEP_UNIT = 8
ALIGN = 2
"""Bytes: where the index of a slice starts, so that 16-bit numbers can be read."""


class Packing(IntEnum):
    """How the columns of a slice's steps are said; NONE: every column is a step."""

    NONE = 0
    COLUMNS = 1
    BITMASK = 2
    N_OF_M = 3


@register(Encoding.LANES, "I-58")
@dataclass(frozen=True)
class Lanes(Format):
    """block_rows is L, block_cols how many lanes share a column."""

    block_rows: int
    block_cols: int
    packing: int = Packing.NONE
    index_bits: int = 0
    n: int = 0
    m: int = 0

    @staticmethod
    def dense(lanes: int) -> Lanes:
        return Lanes(lanes, lanes)

    @staticmethod
    def bitmask(lanes: int) -> Lanes:
        return Lanes(lanes, lanes, Packing.BITMASK)

    @staticmethod
    def n_of_m(lanes: int, n: int, m: int) -> Lanes:
        return Lanes(lanes, lanes, Packing.N_OF_M, n=n, m=m)

    @staticmethod
    def columns(lanes: int, share: int, cols: int) -> Lanes:
        """`share` lanes a column, with the narrowest index that reaches all `cols` columns."""
        return Lanes(lanes, share, Packing.COLUMNS, 8 if cols <= 256 else 16)

    @property
    def name(self) -> str:
        kinds: dict[int, str] = {
            Packing.NONE: "dense", Packing.COLUMNS: f"{self.block_cols}x1",
            Packing.BITMASK: "bitmask", Packing.N_OF_M: f"{self.n}:{self.m}"}
        return f"lanes{self.block_rows} {kinds.get(self.packing, 'of no packing')}"

    def refusal(self, w: Array) -> str:
        cols = w.shape[1]
        if self.packing == Packing.N_OF_M:
            if cols % self.m:
                return f"{cols} columns are no multiple of {self.m}"
            live = self._occupied(w)
            live = live.reshape(len(live), cols // self.m, self.m)
            most = int(live.sum(axis=2).max(initial=0))
            return f"{most} of {self.m} columns hold weights" if most > self.n else ""
        if self.packing == Packing.COLUMNS and cols > 1 << self.index_bits:
            return f"{cols} columns need an index of more than {self.index_bits} bits"
        most = int(self.steps(w).max(initial=0)) if self._counted else 0
        if most > MAX_COUNT:
            return f"{most} steps of one slice, at most {MAX_COUNT} are allowed"
        return ""

    def size(self, w: Array) -> int:
        steps = self.steps(w)
        counts = 2 * len(steps) if self._counted else 0
        index = self._slice_bytes(steps, w.shape[1])
        return int(counts + index.sum() + steps.sum() * self.block_rows)

    def steps(self, w: Array) -> Array:
        """[slices] stored steps of each slice of `w`, what the NPU walks."""
        slices, cols = -(-w.shape[0] // self.block_rows), w.shape[1]
        if self.packing == Packing.NONE:
            return np.full(slices, cols)
        if self.packing == Packing.N_OF_M:
            return np.full(slices, cols // self.m * self.n)
        steps: Array = self._occupied(w).sum(axis=2).max(axis=1, initial=0)
        return steps

    def encode(self, w: Array) -> tuple[Array, Array]:
        slices = self._slices(w)
        occupied = self._occupied(w)
        counts = self.steps(w)
        values, index = [], []
        if self._counted:
            index.append(counts.astype("<u2").tobytes())
        for lanes, live, count in zip(slices, occupied, counts):
            columns = self._chosen(live, int(count))
            stored = np.take_along_axis(lanes, columns.repeat(self.block_cols, axis=0), axis=1)
            real = np.arange(count) < live.sum(axis=1)[:, None]
            if self._groups > 1:  # where all lanes share a column it is stored for what it is worth
                columns = np.where(real, columns, 0)
                stored = np.where(real.repeat(self.block_cols, axis=0), stored, 0)
            values.append(stored.T.astype(np.int8).ravel())
            index.append(_even(self._index(columns, live.shape[1])))
        flat = np.concatenate(values) if values else np.zeros(0, np.int8)
        return flat, np.frombuffer(b"".join(index), np.uint8)

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        self._check_parameters(shape[1])
        rows, cols = shape
        slices = -(-rows // self.block_rows)
        counts, at = self._read_counts(index, slices, cols)
        sizes = self._slice_bytes(counts, cols)
        self.expect("index bytes", len(index), int(at + sizes.sum()))
        self.expect("values", len(values), int(counts.sum()) * self.block_rows)
        w = np.zeros((slices, self.block_rows, cols), np.int8)
        first = 0
        for lanes, count, size in zip(w, counts, sizes):
            end = first + int(count) * self.block_rows
            stored = values[first:end].reshape(int(count), self.block_rows).T
            columns = self._read_columns(index[at : at + int(size)], int(count), cols)
            if self.packing == Packing.COLUMNS:
                self._check_ascending(columns, stored)
            lane, step = np.nonzero(stored)  # padding has none
            where = columns[lane // self.block_cols, step]
            lanes[lane, where] = stored[lane, step]
            first, at = end, at + int(size)
        flat = w.reshape(slices * self.block_rows, cols)
        if flat[rows:].any():
            raise self.broken("a weight past the last row is not 0")
        return flat[:rows]

    # ---- parts of a slice

    @property
    def _counted(self) -> bool:
        """Whether the index begins with the number of steps of each slice."""
        return self.packing in (Packing.COLUMNS, Packing.BITMASK)

    @property
    def _groups(self) -> int:
        """Lane groups of a slice."""
        return self.block_rows // self.block_cols

    @property
    def _bits(self) -> int:
        """Of a position in N_OF_M."""
        return max(0, self.m.bit_length() - 1)

    def _slices(self, w: Array) -> Array:
        """[slices, L, K], filled up with zeros."""
        padded = np.pad(w, ((0, -w.shape[0] % self.block_rows), (0, 0)))
        return padded.reshape(padded.shape[0] // self.block_rows, self.block_rows, w.shape[1])

    def _occupied(self, w: Array) -> Array:
        """[slices, lane groups, K] bool: whether the group holds any weight of the column."""
        slices = self._slices(w)
        shape = (len(slices), self._groups, self.block_cols, w.shape[1])
        occupied: Array = (slices != 0).reshape(shape).any(axis=2)
        return occupied

    def _chosen(self, live: Array, count: int) -> Array:
        """[lane groups, steps] column of each step of a slice; live [lane groups, K]."""
        if self.packing == Packing.NONE:
            return np.arange(count)[None]
        if self.packing == Packing.N_OF_M:
            # Stable: the columns with weights in order, then the first ones, which fill up.
            groups = live.reshape(live.shape[1] // self.m, self.m)
            position = np.argsort(~groups, axis=1, kind="stable")[:, : self.n]
            position.sort(axis=1)
            return (position + np.arange(len(groups))[:, None] * self.m).reshape(1, count)
        order: Array = np.argsort(~live, axis=1, kind="stable")[:, :count]
        return order if self._groups > 1 else np.sort(order, axis=1)

    def _index(self, columns: Array, cols: int) -> bytes:
        """What says the columns [lane groups, steps] of a slice of `cols`."""
        if self.packing == Packing.COLUMNS:
            return columns.T.astype(self._index_dtype).tobytes()
        if self.packing == Packing.BITMASK:
            kept = np.isin(np.arange(cols), columns[0])
            return np.packbits(kept, bitorder="little").tobytes()
        if self.packing == Packing.N_OF_M:
            bits = (columns[0] % self.m)[:, None] >> np.arange(self._bits) & 1
            return np.packbits(bits.ravel().astype(np.uint8), bitorder="little").tobytes()
        return b""

    @property
    def _index_dtype(self) -> str:
        return "u1" if self.index_bits == 8 else "<u2"

    def _slice_bytes(self, steps: Array, cols: int) -> Array:
        """[slices] bytes of index, the odd one filled up; steps [slices]."""
        if self.packing == Packing.COLUMNS:
            used = steps * self._groups * (self.index_bits // 8)
        elif self.packing == Packing.BITMASK:
            used = np.full(len(steps), -(-cols // 8))
        else:
            used = -(-steps * self._bits // 8)  # no bits without m
        even: Array = -(-used // ALIGN) * ALIGN
        return even

    # ---- reading

    def _check_parameters(self, cols: int) -> None:
        lanes, share, kind = self.block_rows, self.block_cols, self.packing
        if lanes not in LANES or kind not in list(Packing):
            raise self.broken(f"{lanes} lanes, packing {kind}; 16 or 32 and 0 to 3 are allowed")
        if share != lanes and not (kind == Packing.COLUMNS and share in (1, 4)):
            raise self.broken(f"{share} lanes share a column; {lanes}, or with COLUMNS 4 or 1")
        if self.index_bits not in ((8, 16) if kind == Packing.COLUMNS else (0,)):
            raise self.broken(f"index_bits {self.index_bits}; COLUMNS has 8 or 16, the others 0")
        if kind != Packing.N_OF_M:
            if self.n or self.m:
                raise self.broken(f"n {self.n}, m {self.m} without N_OF_M")
        elif self.m not in GROUP_SIZES or not 1 <= self.n < self.m or cols % self.m:
            raise self.broken(f"{self.n} of {self.m} of {cols} columns; n from 1 to m - 1, m of "
                              f"{GROUP_SIZES} that divides the columns are allowed")

    def _read_counts(self, index: Array, slices: int, cols: int) -> tuple[Array, int]:
        """([slices] steps, bytes read)."""
        if not self._counted:
            steps = cols // self.m * self.n if self.packing == Packing.N_OF_M else cols
            return np.full(slices, steps), 0
        if len(index) < 2 * slices:
            raise self.broken(f"{len(index)} index bytes for {slices} slices")
        return index[: 2 * slices].view("<u2").astype(np.int64), 2 * slices

    def _read_columns(self, index: Array, count: int, cols: int) -> Array:
        """[lane groups, steps] columns of a slice; `index` [bytes] is its own."""
        if self.packing == Packing.NONE:
            return np.arange(cols)[None]
        if self.packing == Packing.COLUMNS:
            size = count * self._groups * self.index_bits // 8
            self._expect_zero(index[size:])
            columns = index[:size].view(self._index_dtype).astype(np.int64)
            if (columns >= cols).any():
                raise self.broken("a column lies outside")
            by_step: Array = columns.reshape(count, self._groups)
            return by_step.T
        bits = np.unpackbits(index, bitorder="little")
        if self.packing == Packing.BITMASK:
            self._expect_zero(bits[cols:])
            columns = np.flatnonzero(bits[:cols])
            self.expect("columns", len(columns), count)
            return columns[None]
        self._expect_zero(bits[count * self._bits :])
        bits = bits[: count * self._bits].reshape(cols // self.m, self.n, self._bits)
        position = (bits.astype(np.int64) << np.arange(self._bits)).sum(axis=2)
        if (np.diff(position, axis=1) <= 0).any():
            raise self.broken("positions are not ascending inside a group")
        found: Array = position + np.arange(len(position))[:, None] * self.m
        return found.reshape(1, count)

    def _check_ascending(self, columns: Array, stored: Array) -> None:
        """columns [lane groups, steps], stored [L, steps] of a slice."""
        padding = np.zeros_like(columns, bool)
        if self.block_cols < self.block_rows:
            live = stored.reshape(self._groups, self.block_cols, stored.shape[1]).any(axis=1)
            padding = np.logical_or.accumulate(~live, axis=1)
            if live[padding].any() or columns[padding].any():
                raise self.broken("padding has a weight, or a column that is not 0")
        if (np.diff(columns, axis=1)[~padding[:, 1:]] <= 0).any():
            raise self.broken("columns are not ascending")

    def _expect_zero(self, rest: Array) -> None:
        if rest.any():
            raise self.broken("what fills up the index of a slice is not 0")


class EvenLanes(Lanes):
    """Lanes whose slices all have the steps of the longest, up to a multiple of STEP_UNIT: a loop
    walks them, and the next layer's may have as many, so that streams run on.

    Only for encoding: what is stored is Lanes, with steps of weights that are all 0.
    """

    @staticmethod
    def of(form: Lanes) -> EvenLanes:
        return EvenLanes(**asdict(form))

    @property
    def name(self) -> str:
        return f"{super().name}, even"

    def steps(self, w: Array) -> Array:
        steps = super().steps(w)
        most = -(-int(steps.max(initial=0)) // STEP_UNIT) * STEP_UNIT
        return np.full(len(steps), min(most, w.shape[1]))


def _even(index: bytes) -> bytes:
    return index + bytes(-len(index) % ALIGN)
