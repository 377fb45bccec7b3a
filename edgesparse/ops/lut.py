"""Lut: what a chain of unary int8 operators collapses to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Tensor
from edgesparse.ops.base import register
from edgesparse.ops.unary import Unary


@register
@dataclass(frozen=True)
class Lut(Unary):
    """y = entries[x + 128] in stored numbers.

    entries  256 int8 as bytes, entry of value v at v + 128
    """

    entries: bytes

    def __post_init__(self) -> None:
        if len(self.entries) != 256:
            raise ValueError(f"a table has 256 entries, not {len(self.entries)}")

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        raise Unsupported("table", "Lut", "a table is defined on stored int8 numbers only")

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        return np.frombuffer(self.entries, np.int8)
