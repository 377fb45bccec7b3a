"""History: what a tensor held in this run and the runs before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import register
from edgesparse.ops.layout import Layout


@register
@dataclass(frozen=True)
class History(Layout):
    """y = the last `columns` columns of all x so far, ending `lag` columns before the newest one.

    x [1, T, C] -> y [1, columns, C]. Before the first run lies nothing but zero points (0 for
    float). The references here are those of a first run; edgesparse.streaming.simulate keeps
    the state.
    """

    tflite: ClassVar[tuple[str, ...]] = ()

    columns: int
    lag: int = 0

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if len(x.shape) != 3 or x.shape[0] != 1:
            raise Unsupported(x.name, "History", f"input of shape {list(x.shape)}; allowed is "
                              "[1, T, C]")
        if self.columns < 1 or self.lag < 0:
            raise Unsupported(x.name, "History", f"{self.columns} columns, lag {self.lag}")
        return ((1, self.columns, x.shape[2]),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        x = args[0]
        before = np.full((1, self.columns + self.lag, x.shape[2]), fill, x.dtype)
        return self.of_past(np.concatenate([before, x], axis=1))

    def of_past(self, past: Array) -> Array:
        """The view of everything so far: past [1, N, C] with N >= columns + lag."""
        end = past.shape[1] - self.lag
        return past[:, end - self.columns : end]
