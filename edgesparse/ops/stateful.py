"""Operators that carry a state of their own from run to run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

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
