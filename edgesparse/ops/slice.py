"""Slice: a box of the input, with strides."""

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
class Slice(Layout):
    """y[i] = x[begin + i * stride] for i < size; one entry per dimension, strides of any sign."""

    tflite: ClassVar[tuple[str, ...]] = ("STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK")

    begin: tuple[int, ...]
    stride: tuple[int, ...]
    size: tuple[int, ...]

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        if not len(self.begin) == len(self.stride) == len(self.size) == len(x.shape):
            raise Unsupported(
                x.name, "Slice", f"{len(self.begin)} begins, {len(self.stride)} strides and "
                f"{len(self.size)} sizes for {len(x.shape)} dimensions",
                "one of each per dimension")
        for n, b, s, count in zip(x.shape, self.begin, self.stride, self.size):
            last = b + (count - 1) * s
            if count < 1 or s == 0 or not (0 <= b < n and 0 <= last < n):
                raise Unsupported(
                    x.name, "Slice", f"{count} elements from {b} in steps of {s} do not lie in a "
                    f"dimension of {n}", "a box of at least one element inside the input")
        return (self.size,)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        index = np.ix_(*(b + s * np.arange(n)
                         for b, s, n in zip(self.begin, self.stride, self.size)))
        box: Array = args[0][index]
        return box
