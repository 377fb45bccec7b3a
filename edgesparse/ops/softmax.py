"""Softmax over the last dimension."""

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
class Softmax(Op):
    """y[c] = exp(beta * x[c]) / sum over the last dimension of exp(beta * x)."""

    tflite: ClassVar[tuple[str, ...]] = ("SOFTMAX",)

    beta: float = 1.0

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        if not ins[0].shape:
            raise Unsupported(ins[0].name, "Softmax", "the input has no dimension")
        return (ins[0].shape,)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64) * self.beta
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return (e / e.sum(axis=-1, keepdims=True),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        raise NotImplementedError
