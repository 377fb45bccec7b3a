"""Where the zeros of a weight matrix stand, and which pattern that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.sparsity.formats.bsr import block_occupancy

GROUP_SIZES = (4, 8, 16)
BLOCK_SIZES = (
    (1, 2), (1, 4), (1, 8), (1, 16), (2, 1), (4, 1), (8, 1), (16, 1), (2, 4), (4, 4),
)
ROW_BINS = 10
NATURAL_ZEROS = 0.1
"""Share of zeros that quantization alone may leave where nothing was pruned."""

Kind = Literal["dense", "unstructured", "n:m", "block", "dead channels"]


@dataclass(frozen=True)
class Pattern:
    """What a pruner did; n, m of "n:m" and rows, cols of "block", otherwise 0."""

    kind: Kind
    n: int = 0
    m: int = 0
    block_rows: int = 0
    block_cols: int = 0

    def __str__(self) -> str:
        if self.kind == "n:m":
            return f"{self.n}:{self.m}"
        if self.kind == "block":
            return f"block {self.block_rows}x{self.block_cols}"
        return self.kind


@dataclass(frozen=True)
class GroupStats:
    """Aligned groups of m columns: `histogram[i]` of them hold i weights.

    A rest of fewer than m columns is not counted, and then `exact` is None. Otherwise it is the
    smallest n with at most n weights in every group.
    """

    m: int
    histogram: tuple[int, ...]
    exact: int | None

    @property
    def mean(self) -> float:
        """Weights in a group, on average."""
        weighted = sum(i * count for i, count in enumerate(self.histogram))
        return weighted / max(1, sum(self.histogram))


@dataclass(frozen=True)
class BlockStats:
    """Aligned blocks of rows x cols weights, the last ones filled up with zeros."""

    rows: int
    cols: int
    density: float
    """Share of blocks with any weight."""
    inside: float
    """Share of all zeros that stands in blocks without any weight."""
    live_zeros: float
    """Share of zeros in the other blocks."""


@dataclass(frozen=True)
class WeightStats:
    """Zeros of one matrix [rows, cols]; rows are outputs, columns (tap, channel)."""

    rows: int
    cols: int
    zeros: int
    dead_rows: tuple[int, ...]
    dead_cols: tuple[int, ...]
    groups: tuple[GroupStats, ...]
    """One for every m of GROUP_SIZES."""
    blocks: tuple[BlockStats, ...]
    """One for every size of BLOCK_SIZES."""
    row_histogram: tuple[int, ...]
    """Rows by density: 10 % wide bins, full rows in the last."""
    balance: float
    """Weights in the fullest row over the mean; 1 is perfect balance, also of no weights."""
    pattern: Pattern

    @property
    def zero_fraction(self) -> float:
        return self.zeros / max(1, self.rows * self.cols)


def measure(w: Array, zero_point: int = 0) -> WeightStats:
    """w [rows, K] int8; a weight equal to `zero_point` is a zero."""
    live = w != zero_point
    row_nnz = live.sum(axis=1)
    density = row_nnz / max(1, w.shape[1])
    bins = np.minimum((density * ROW_BINS).astype(np.int64), ROW_BINS - 1)
    mean = float(row_nnz.mean()) if row_nnz.size else 0.0
    groups = tuple(_groups(live, m) for m in GROUP_SIZES)
    blocks = tuple(_blocks(live, *size) for size in BLOCK_SIZES)
    return WeightStats(
        rows=w.shape[0],
        cols=w.shape[1],
        zeros=int(w.size - row_nnz.sum()),
        dead_rows=tuple(np.flatnonzero(row_nnz == 0).tolist()),
        dead_cols=tuple(np.flatnonzero(~live.any(axis=0)).tolist()),
        groups=groups,
        blocks=blocks,
        row_histogram=tuple(np.bincount(bins, minlength=ROW_BINS).tolist()),
        balance=float(row_nnz.max()) / mean if mean else 1.0,
        pattern=_classify(live, groups, blocks),
    )


def _groups(live: Array, m: int) -> GroupStats:
    whole = live[:, : live.shape[1] // m * m]
    counts = whole.reshape(-1, m).sum(axis=1)
    exact = int(counts.max(initial=0)) if whole.shape == live.shape else None
    return GroupStats(m, tuple(np.bincount(counts, minlength=m + 1).tolist()), exact)


def _blocks(live: Array, rows: int, cols: int) -> BlockStats:
    occupied = block_occupancy(live, rows, cols)
    covered = np.repeat(np.repeat(occupied, rows, axis=0), cols, axis=1)
    covered = covered[: live.shape[0], : live.shape[1]]
    zeros = int(live.size - live.sum())
    zeros_in_live = int(np.count_nonzero(covered & ~live))
    return BlockStats(
        rows, cols,
        density=float(occupied.mean()) if occupied.size else 0.0,
        inside=(zeros - zeros_in_live) / max(1, zeros),
        live_zeros=zeros_in_live / max(1, int(np.count_nonzero(covered))),
    )


def _classify(
    live: Array, groups: tuple[GroupStats, ...], blocks: tuple[BlockStats, ...]
) -> Pattern:
    """Name the coarsest structure that explains the zeros.

    Chance must not look like structure. With zeros at random, blocks of s weights that hold any
    have (z - z**s) / (1 - z**s) zeros, more than NATURAL_ZEROS for every z and s that matter; a
    pruner leaves none in the blocks it keeps. And N:M pruning fills its groups, while groups of
    random zeros reach their maximum rarely.
    """
    rest = live[live.any(axis=1)][:, live.any(axis=0)]
    if not rest.size:
        return Pattern("dead channels" if live.size else "dense")
    if 1 - rest.mean() < NATURAL_ZEROS:
        return Pattern("dense" if rest.size == live.size else "dead channels")
    fitting = [b for b in blocks if b.inside > 0.5 and b.live_zeros < NATURAL_ZEROS]
    if fitting:
        best = max(fitting, key=lambda b: b.rows * b.cols)
        return Pattern("block", block_rows=best.rows, block_cols=best.cols)
    for group in groups:  # the smallest m first: 1:4 is a 2:8 as well
        n = group.exact
        if n is not None and n < group.m and group.mean > (1 - NATURAL_ZEROS) * n:
            return Pattern("n:m", n=n, m=group.m)
    return Pattern("unstructured")
