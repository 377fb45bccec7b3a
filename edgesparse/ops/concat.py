"""Concat: inputs one after the other along a dimension."""

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
class Concat(Layout):
    """y = the inputs along `axis`; int8 inputs and the output have one quantization."""

    tflite: ClassVar[tuple[str, ...]] = ("CONCATENATION", "PACK")

    axis: int

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        first = ins[0].shape
        rank = len(first)
        if not -rank <= self.axis < rank:
            raise Unsupported(
                ins[0].name, "Concat", f"axis {self.axis} of inputs with {rank} dimensions",
                f"an axis in {-rank}..{rank - 1}")
        axis = self.axis % rank
        for x in ins:
            others = (*x.shape[:axis], *x.shape[axis + 1 :])
            if len(x.shape) != rank or others != (*first[:axis], *first[axis + 1 :]):
                raise Unsupported(
                    x.name, "Concat", f"shapes {list(first)} and {list(x.shape)} do not join "
                    f"along dimension {axis}", "inputs that are equal in all other dimensions")
            if x.dtype == "int8" and x.quant != ins[0].quant:
                raise Unsupported(
                    x.name, "Concat", "another scale or zero point than the first input",
                    "one quantization for all inputs, as TFLite's int8 specification demands")
        total = sum(x.shape[axis] for x in ins)
        return ((*first[:axis], total, *first[axis + 1 :]),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        return np.concatenate(args, axis=self.axis)
