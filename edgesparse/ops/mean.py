"""Mean over some dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import Op, register


@register
@dataclass(frozen=True)
class Mean(Op):
    """y = mean of x over `axes`; without keep_dims these dimensions vanish.

    Source: TFLite reduce.cc, "MEAN".
    """

    tflite: ClassVar[tuple[str, ...]] = ("MEAN",)

    axes: tuple[int, ...]
    keep_dims: bool = False

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        axes = self._axes(len(x.shape), x.name)
        if self.keep_dims:
            return (tuple(1 if i in axes else n for i, n in enumerate(x.shape)),)
        return (tuple(n for i, n in enumerate(x.shape) if i not in axes),)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (x.mean(axis=tuple(a % x.ndim for a in self.axes), keepdims=self.keep_dims),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        raise NotImplementedError

    def _axes(self, rank: int, name: str) -> tuple[int, ...]:
        for axis in self.axes:
            if not -rank <= axis < rank:
                raise Unsupported(name, "Mean", f"axis {axis} of an input with {rank} dimensions")
        return tuple(sorted({axis % rank for axis in self.axes}))
