"""Dense: every weight, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding
from edgesparse.sparsity.formats.base import Format, register


@register(Encoding.DENSE, "I-53")
@dataclass(frozen=True)
class Dense(Format):
    @property
    def name(self) -> str:
        return "dense"

    def size(self, w: Array) -> int:
        return int(w.size)

    def encode(self, w: Array) -> tuple[Array, Array]:
        return w.ravel().astype(np.int8), np.zeros(0, np.uint8)

    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        self.expect("values", len(values), shape[0] * shape[1])
        self.expect("index bytes", len(index), 0)
        return values.reshape(shape)
