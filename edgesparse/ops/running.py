"""Running: a mean over a window that moves with every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import Op, register
from edgesparse.ops.mean import Mean
from edgesparse.ops.pool import AvgPool


@register
@dataclass(frozen=True)
class Running(Op):
    """y = `over` of the last `columns` columns of all x[:, :fresh] so far and of x[:, fresh:].

    x [1, T, C] -> what `over` gives for [1, columns + T - fresh, C]: a Mean over time, or an
    AvgPool with one window over all of it. Before the first run lies what adds nothing to a sum:
    zero points, or zeros for an AvgPool. The references here are those of a first run;
    edgesparse.streaming.simulate keeps the state.
    """

    over: Mean | AvgPool
    columns: int
    fresh: int

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if len(x.shape) != 3 or x.shape[0] != 1:
            raise Unsupported(x.name, "Running", f"input of shape {list(x.shape)}; allowed is "
                              "[1, T, C]")
        if not 1 <= self.fresh <= min(self.columns, x.columns):
            raise Unsupported(
                x.name, "Running", f"{self.fresh} fresh columns of {x.columns}, {self.columns} "
                "remembered", f"1 to {min(self.columns, x.columns)} fresh ones")
        return self.over.infer((self.window(x),))

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        past = np.zeros((1, self.columns, args[0].shape[2]), args[0].dtype)
        return self.over.float_ref((self.whole(past, args[0]),))

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        past = np.full((1, self.columns, args[0].shape[2]), self.start(ins[0]), np.int8)
        return self.of_past(past, args[0], ins, outs)

    def of_past(
        self, past: Array, x: Array, ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        """The result of a run: past [1, columns, C] int8 as it was before it."""
        return self.over.int8_ref((self.whole(past, x),), (self.window(ins[0]),), outs)

    def whole(self, past: Array, x: Array) -> Array:
        """The window: remembered columns, then the others."""
        return np.concatenate([self.remembered(past, x), x[:, self.fresh :]], axis=1)

    def remembered(self, past: Array, x: Array) -> Array:
        """The past after a run."""
        both: Array = np.concatenate([past, x[:, : self.fresh]], axis=1)
        return both[:, -self.columns :]

    def window(self, x: Tensor) -> Tensor:
        """What `over` sees."""
        return replace(x, shape=(1, self.columns + x.columns - self.fresh, x.channels))

    def start(self, x: Tensor) -> int:
        return x.zero_point if isinstance(self.over, Mean) else 0
