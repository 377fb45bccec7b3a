"""N:M: n weights out of every group of m columns, with their positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register

GROUP_SIZES = (2, 4, 8, 16)


@register(Encoding.NM, "I-55")
@dataclass(frozen=True)
class Nm(Format):
    n: int
    m: int

    @property
    def name(self) -> str:
        return f"{self.n}:{self.m}"

    def refusal(self, w: Array) -> str:
        if w.shape[1] % self.m:
            return f"{w.shape[1]} columns are no multiple of {self.m}"
        groups = w.reshape(w.shape[0], w.shape[1] // self.m, self.m)
        most = int(np.count_nonzero(groups, axis=2).max(initial=0))
        if most > self.n:
            return f"a group of {self.m} holds {most} weights"
        return ""

    def size(self, w: Array) -> int:
        rows, cols = w.shape
        per_row = cols // self.m * self.n
        return rows * (per_row + -(-per_row * self._bits // 8))

    def encode(self, w: Array) -> tuple[Array, Array]:
        rows = w.shape[0]
        groups = w.reshape(rows, w.shape[1] // self.m, self.m)
        # Stable: the weights in order, then the first zeros, which fill the group up.
        position = np.argsort(groups == 0, axis=2, kind="stable")[:, :, : self.n]
        position.sort(axis=2)
        values = np.take_along_axis(groups, position, axis=2)
        bits = (position[..., None] >> np.arange(self._bits)) & 1
        per_row = groups.shape[1] * self.n * self._bits
        packed = np.packbits(
            bits.reshape(rows, per_row).astype(np.uint8), axis=1, bitorder="little")
        return values.ravel().astype(np.int8), packed.ravel()

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        rows, cols = shape
        if self.m not in GROUP_SIZES or not 1 <= self.n < self.m or cols % self.m:
            raise self.broken(f"{cols} columns; n from 1 to m - 1, m of {GROUP_SIZES} that "
                              "divides the columns are allowed")
        groups = cols // self.m
        per_row = groups * self.n
        self.expect("values", len(values), rows * per_row)
        row_bytes = -(-per_row * self._bits // 8)
        self.expect("index bytes", len(index), rows * row_bytes)
        bits = np.unpackbits(index.reshape(rows, row_bytes), axis=1, bitorder="little")
        if bits[:, per_row * self._bits :].any():
            raise self.broken("a bit past the last position is set")
        bits = bits[:, : per_row * self._bits].reshape(rows, groups, self.n, self._bits)
        position = (bits.astype(np.int64) << np.arange(self._bits)).sum(axis=3)
        if (np.diff(position, axis=2) <= 0).any():
            raise self.broken("positions are not ascending inside a group")
        w = np.zeros((rows, groups, self.m), np.int8)
        np.put_along_axis(w, position, values.reshape(rows, groups, self.n), axis=2)
        return w.reshape(shape)

    @property
    def _bits(self) -> int:
        return self.m.bit_length() - 1
