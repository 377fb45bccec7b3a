"""Memory planner: gives every buffer of a plan its place in the arena.

Two buffers may share bytes when they are never alive together. Placing them in the best way is
NP-hard; a seeded hill climb over the order of a first-fit placement reaches the lower bound
(the most bytes alive at one time) on every real model tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array

ALIGN = 4
"""Bytes; int32 scratch needs it, and the lower bound counts it."""


@dataclass(frozen=True)
class Buffer:
    """Bytes that must keep their place from step `first` to step `last`, both included.

    Step -1 is "before the first step": what the caller writes is alive from there.
    """

    name: str
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """offsets by buffer name; `peak` bytes in all; `bound` the most bytes ever alive at once."""

    offsets: dict[str, int]
    peak: int
    bound: int

    @property
    def ratio(self) -> float:
        """1.0 is optimal."""
        return self.peak / self.bound if self.bound else 1.0


def align(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def plan_memory(buffers: Sequence[Buffer], seed: int = 0, tries: int = 2000) -> MemoryPlan:
    """Place `buffers`; deterministic for a seed.

    tries  most changes of the order that are tried once the simple orders miss the bound
    """
    if not buffers:
        return MemoryPlan({}, 0, 0)
    bound = lower_bound(buffers)
    sizes = np.array([align(b.size) for b in buffers])
    first = np.array([b.first for b in buffers])
    last = np.array([b.last for b in buffers])
    conflicts = [
        np.flatnonzero((first <= b.last) & (last >= b.first)) for b in buffers
    ]

    def place(order: Sequence[int]) -> tuple[int, Array]:
        offsets = np.full(len(buffers), -1, np.int64)
        for index in order:
            rivals = conflicts[index]
            rivals = rivals[offsets[rivals] >= 0]
            at = 0
            for rival in rivals[np.argsort(offsets[rivals], kind="stable")]:
                if at + sizes[index] <= offsets[rival]:
                    break
                at = max(at, int(offsets[rival] + sizes[rival]))
            offsets[index] = at
        return int((offsets + sizes).max()), offsets

    by_size = sorted(range(len(buffers)), key=lambda i: (-sizes[i], first[i], i))
    by_time = sorted(range(len(buffers)), key=lambda i: (first[i], -sizes[i], i))
    by_span = sorted(range(len(buffers)), key=lambda i: (first[i] - last[i], -sizes[i], i))
    best_order, (best, offsets) = min(
        ((order, place(order)) for order in (by_size, by_time, by_span)), key=lambda o: o[1][0]
    )
    rng = np.random.default_rng(seed)
    # Placing n buffers costs about n * n: large plans get fewer tries, never none.
    for _ in range(min(tries, max(50, 20_000_000 // len(buffers) ** 2))):
        if best == bound:
            break
        i, j = rng.integers(len(buffers), size=2)
        order = list(best_order)
        if rng.random() < 0.5:
            order[i], order[j] = order[j], order[i]
        else:
            order.insert(int(j), order.pop(int(i)))
        peak, trial = place(order)
        if peak <= best:
            best, offsets, best_order = peak, trial, order
    return MemoryPlan({b.name: int(o) for b, o in zip(buffers, offsets, strict=True)}, best, bound)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The most bytes alive at one step: no placement needs less."""
    steps = sorted({b.first for b in buffers})
    return max(sum(align(b.size) for b in buffers if b.first <= s <= b.last) for s in steps)
