"""SpaceToBatch and BatchToSpace: what exporters put around a dilated convolution."""

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
class SpaceToBatch(Layout):
    """[N, S..., rest] -> [prod(block) * N, (S + pads) / block..., rest]; batch is (phase, n).

    Source: TensorFlow "SpaceToBatchND".
    """

    tflite: ClassVar[tuple[str, ...]] = ("SPACE_TO_BATCH_ND",)

    block: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        k = len(self.block)
        if len(self.pads) != k or len(x.shape) < k + 1:
            raise Unsupported(
                x.name, "SpaceToBatch", f"{k} blocks and {len(self.pads)} paddings for "
                f"{len(x.shape)} dimensions", "one of each per space dimension")
        padded = [n + b + a for n, (b, a) in zip(x.shape[1:], self.pads)]
        for n, b in zip(padded, self.block):
            if b < 1 or n % b:
                raise Unsupported(
                    x.name, "SpaceToBatch", f"padded length {n} is no multiple of block {b}",
                    "paddings that fill up the last block")
        space = (n // b for n, b in zip(padded, self.block))
        batch = x.shape[0] * int(np.prod(self.block, dtype=np.int64))
        return ((batch, *space, *x.shape[k + 1 :]),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        x, k = args[0], len(self.block)
        widths = [(0, 0), *self.pads, *[(0, 0)] * (x.ndim - k - 1)]
        x = np.pad(x, widths, constant_values=fill)
        split: list[int] = [x.shape[0]]
        for n, b in zip(x.shape[1 : k + 1], self.block):
            split += [n // b, b]
        rest = x.shape[k + 1 :]
        x = x.reshape(*split, *rest)
        phases = [2 * i + 2 for i in range(k)]
        steps = [2 * i + 1 for i in range(k)]
        x = x.transpose(*phases, 0, *steps, *range(2 * k + 1, x.ndim))
        return x.reshape(-1, *(split[i] for i in steps), *rest)


@register
@dataclass(frozen=True)
class BatchToSpace(Layout):
    """The inverse of SpaceToBatch, then `crops` cut from both ends of each space dimension.

    Source: TensorFlow "BatchToSpaceND".
    """

    tflite: ClassVar[tuple[str, ...]] = ("BATCH_TO_SPACE_ND",)

    block: tuple[int, ...]
    crops: tuple[tuple[int, int], ...]

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x = ins[0]
        k = len(self.block)
        phases = int(np.prod(self.block, dtype=np.int64))
        if len(self.crops) != k or len(x.shape) < k + 1:
            raise Unsupported(
                x.name, "BatchToSpace", f"{k} blocks and {len(self.crops)} crops for "
                f"{len(x.shape)} dimensions", "one of each per space dimension")
        if min(self.block) < 1 or x.shape[0] % phases:
            raise Unsupported(
                x.name, "BatchToSpace", f"batch {x.shape[0]} is no multiple of {phases} phases",
                "the block of the SpaceToBatch before")
        space = [n * b - low - high
                 for n, b, (low, high) in zip(x.shape[1:], self.block, self.crops)]
        if min(space, default=1) < 1:
            raise Unsupported(
                x.name, "BatchToSpace", f"crops {list(self.crops)} leave nothing",
                "crops shorter than the result")
        return ((x.shape[0] // phases, *space, *x.shape[k + 1 :]),)

    def move(self, args: Sequence[Array], fill: int) -> Array:
        x, k = args[0], len(self.block)
        batch = x.shape[0] // int(np.prod(self.block, dtype=np.int64))
        space, rest = x.shape[1 : k + 1], x.shape[k + 1 :]
        x = x.reshape(*self.block, batch, *space, *rest)
        order = [k]
        for i in range(k):
            order += [k + 1 + i, i]
        x = x.transpose(*order, *range(2 * k + 1, x.ndim))
        x = x.reshape(batch, *(n * b for n, b in zip(space, self.block)), *rest)
        inner = (slice(low, n - high) for n, (low, high) in zip(x.shape[1:], self.crops))
        box = (slice(None), *inner)
        return np.ascontiguousarray(x[box])
