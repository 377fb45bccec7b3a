"""Reshape: the same elements in the same order under another shape."""

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
class Reshape(Layout):
    """y = x under `shape`, of which at most one entry may be -1 (what remains)."""

    tflite: ClassVar[tuple[str, ...]] = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")

    shape: Shape

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        known = int(np.prod([n for n in self.shape if n >= 0], dtype=np.int64))
        unknown = [n for n in self.shape if n < 0]
        fits = known == x.size if not unknown else known > 0 and x.size % known == 0
        if not fits or len(unknown) > 1 or any(n != -1 for n in unknown):
            raise Unsupported(
                x.name, "Reshape", f"{list(x.shape)} does not reshape to {list(self.shape)}",
                "a shape of as many elements, with at most one -1")
        return (tuple(x.size // known if n < 0 else n for n in self.shape),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        return args[0].reshape(self.shape)
