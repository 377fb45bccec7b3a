"""Operators that carry a state of their own from run to run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Tensor
from edgesparse.ops.base import Op

State: TypeAlias = tuple[Array, ...]


class Stateful(Op):
    """What a run gives depends on the runs before it.

    int8_ref is that of a first run; edgesparse.streaming.simulate keeps the state.
    """

    @abstractmethod
    def start(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> State:
        """The state before the first run."""

    @abstractmethod
    def advance(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor], state: State
    ) -> tuple[tuple[Array, ...], State]:
        """(outputs, state after the run), exact integers."""

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        return self.advance(args, ins, outs, self.start(ins, outs))[0]


def single(real: float, layer: str, operator: str) -> float:
    """The float32 that TFLite has for a product of scales. Raises Unsupported where it has none."""
    if abs(real) > np.finfo(np.float32).max:
        raise Unsupported(layer, operator, "a product of its scales leaves float32",
                          "check the scales of this layer's input, weights, state and output")
    return float(np.float32(real))
