"""Common part of the operators that only move elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from edgesparse.graph.ir import Array, Tensor
from edgesparse.ops.base import Op


class Layout(Op):
    """Moves elements of any dtype; what it adds is zero (the stored zero point, or real 0)."""

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (self.move([arg.astype(np.float64) for arg in args], 0),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        fill = outs[0].zero_point if outs[0].dtype == "int8" and outs[0].quant else 0
        return (self.move(args, fill),)

    @abstractmethod
    def move(self, args: Sequence[Array], fill: int) -> Array:
        """The output, with `fill` where no input element goes."""
