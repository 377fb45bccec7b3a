"""Bitmask: the stored weights row by row, and one bit per weight that says which they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register


@register(Encoding.BITMASK, "I-53")
@dataclass(frozen=True)
class Bitmask(Format):
    @property
    def name(self) -> str:
        return "bitmask"

    def size(self, w: Array) -> int:
        rows, cols = w.shape
        return int(np.count_nonzero(w)) + rows * -(-cols // 8)

    def encode(self, w: Array) -> tuple[Array, Array]:
        stored = w != 0
        bits = np.packbits(stored, axis=1, bitorder="little")
        return w[stored].astype(np.int8), bits.ravel()

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        rows, cols = shape
        row_bytes = -(-cols // 8)
        self.expect("index bytes", len(index), rows * row_bytes)
        bits = np.unpackbits(index.reshape(rows, row_bytes), axis=1, bitorder="little").astype(bool)
        if bits[:, cols:].any():
            raise self.broken("a bit past the last column is set")
        stored = bits[:, :cols]
        self.expect("values", len(values), int(np.count_nonzero(stored)))
        w = np.zeros(shape, np.int8)
        w[stored] = values
        return w
