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

    x [1, T, C] -> y [1, columns, C]. With `phases` only this run and every phases-th before it
    count: those whose windows start at the same place of a layer's stride. Before the first run
    lies nothing but zero points (0 for float). The references here are those of a first run;
    edgesparse.streaming.simulate keeps the state.
    """

    tflite: ClassVar[tuple[str, ...]] = ()

    columns: int
    lag: int = 0
    phases: int = 1

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if len(x.shape) != 3 or x.shape[0] != 1:
            raise Unsupported(x.name, "History", f"input of shape {list(x.shape)}; allowed is "
                              "[1, T, C]")
        if self.columns < 1 or self.lag < 0 or self.phases < 1:
            raise Unsupported(x.name, "History", f"{self.columns} columns, lag {self.lag}, "
                              f"{self.phases} phases")
        return ((1, self.columns, x.shape[2]),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        x = args[0]
        before = np.full((1, self.reach(x.shape[1]), x.shape[2]), fill, x.dtype)
        return self.of_past(np.concatenate([before, x], axis=1), x.shape[1])

    def runs(self, fresh: int) -> int:
        """Of those that count, how many it looks at; `fresh` columns come with each."""
        return -(-(self.columns + self.lag) // fresh)

    def reach(self, fresh: int) -> int:
        """How many columns it looks back, this run's included."""
        if self.phases == 1:
            return self.columns + self.lag
        return ((self.runs(fresh) - 1) * self.phases + 1) * fresh

    def of_past(self, past: Array, fresh: int) -> Array:
        """The view of everything so far: past [1, N, C], N >= reach(fresh)."""
        seen = past[:, past.shape[1] - self.reach(fresh) :]
        if self.phases > 1:
            ends = range(fresh, seen.shape[1] + 1, self.phases * fresh)
            seen = np.concatenate([seen[:, end - fresh : end] for end in ends], axis=1)
        end = seen.shape[1] - self.lag
        return seen[:, end - self.columns : end]
