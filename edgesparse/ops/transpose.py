"""Transpose: dimensions in another order."""

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
class Transpose(Layout):
    """Dimension i of y is dimension perm[i] of x."""

    tflite: ClassVar[tuple[str, ...]] = ("TRANSPOSE",)

    perm: tuple[int, ...]

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if sorted(self.perm) != list(range(len(x.shape))):
            raise Unsupported(
                x.name, "Transpose", f"order {list(self.perm)} is no permutation of "
                f"{len(x.shape)} dimensions", "each dimension once")
        return (tuple(x.shape[p] for p in self.perm),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        return np.ascontiguousarray(args[0].transpose(self.perm))
