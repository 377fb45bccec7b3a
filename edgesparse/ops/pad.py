"""Pad: zeros around the input."""

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
class Pad(Layout):
    """y = x with before[i] and after[i] zeros (int8: zero points) around dimension i."""

    tflite: ClassVar[tuple[str, ...]] = ("PAD",)

    before: tuple[int, ...]
    after: tuple[int, ...]

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if not len(self.before) == len(self.after) == len(x.shape):
            raise Unsupported(
                x.name, "Pad", f"{len(self.before)} paddings for {len(x.shape)} dimensions",
                "one before and one after each dimension")
        if min((*self.before, *self.after), default=0) < 0:
            raise Unsupported(x.name, "Pad", "negative padding", "a Slice")
        return (tuple(n + b + a for n, b, a in zip(x.shape, self.before, self.after)),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        return np.pad(args[0], tuple(zip(self.before, self.after)), constant_values=fill)
