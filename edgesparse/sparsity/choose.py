"""Which encoding stores a weight matrix: by stored bytes, with a lean to what runs regularly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.errors import DoesNotFit
from edgesparse.graph.ir import Array
from edgesparse.plan.model import RowGroup
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Format, Nm, block_occupancy
from edgesparse.sparsity.measure import WeightStats

BLOCKS = (
    (4, 1), (8, 1), (16, 1), (2, 4), (4, 4), (1, 4), (1, 8), (1, 16), (2, 1), (1, 2), (2, 2),
)
NM = ((1, 4), (2, 4), (1, 8), (2, 8), (4, 8), (1, 16), (2, 16), (4, 16))
FAMILIES: tuple[type[Format], ...] = (Dense, Bsr, Nm, DeltaCsr, Bitmask)
"""In the order in which near-ties are decided."""
MIN_SAVING = 0.15
"""Sparse must save this share of the dense bytes: below, dense kernels are the better bargain.

A portable fully connected layer runs at 8 GMAC/s dense and at 2 through a bitmask: with 9 % zeros
the bitmask saved 3 % of ad01's largest layers and took five times as long."""
NEAR_TIE = 0.10
SPLIT_SAVING = 0.05
MAX_GROUPS = 4
GROUP_OVERHEAD = 64
"""Bytes a further row group costs: its table, its vectors' lengths and their alignment."""


@dataclass(frozen=True, eq=False)
class Decision:
    """How to store a matrix, and why.

    groups      the encoded rows, in stored order
    reason      one line for people
    candidates  (name, bytes) of everything that fits, smallest first
    row_order   [rows] uint16: stored row -> output channel; None: the same
    """

    groups: tuple[RowGroup, ...]
    reason: str
    candidates: tuple[tuple[str, int], ...]
    row_order: Array | None = None

    @property
    def bytes(self) -> int:
        """Values and index of all groups."""
        return sum(len(g.values) + len(g.index) for g in self.groups)


def choose(
    stats: WeightStats,
    w: Array,
    only: tuple[str, ...] = (),
    allow_permutation: bool = False,
) -> Decision:
    """Choose for w [rows, K] int8 whose zeros are 0.

    stats              of `w`
    only               names of the formats to choose from ("dense", "bsr 4x1", "2:4"); empty: all
    allow_permutation  rows may be stored in another order, sorted by their number of weights

    Raises DoesNotFit when none of `only` can store `w`.
    """
    formats = formats_of(w.shape[1], only)
    sizes = {f: f.size(w) for f in formats if not f.refusal(w)}
    if not sizes:
        raise DoesNotFit(
            f"weights of shape {list(w.shape)} fit none of {', '.join(only)}: "
            + "; ".join(f.refusal(w) for f in formats))
    candidates = tuple(sorted(((f.name, n) for f, n in sizes.items()), key=lambda c: (c[1], c[0])))
    best = _best(sizes)
    single = Decision((best.row_group(w),), size_reason(best, sizes, stats, w), candidates)
    if stats.zero_fraction < MIN_SAVING:
        return single
    decision = _split(w, formats, single)
    if allow_permutation:
        order = np.argsort(-np.count_nonzero(w, axis=1), kind="stable").astype(np.uint16)
        decision = _split(w, formats, decision, order)
    return decision


def formats_of(cols: int, only: tuple[str, ...]) -> tuple[Format, ...]:
    """Those with a name in `only`, for matrices of so many columns; all where it is empty."""
    every: tuple[Format, ...] = (
        Dense(), *(Bsr.for_columns(r, c, cols) for r, c in BLOCKS), *(Nm(n, m) for n, m in NM),
        DeltaCsr(4), DeltaCsr(8), Bitmask(),
    )
    return tuple(f for f in every if not only or f.name in only)


def _best(sizes: dict[Format, int]) -> Format:
    """The smallest; among near-ties the most regular family, then the smallest."""
    smallest = min(sizes.values())
    limit = (1 - MIN_SAVING) * sizes.get(Dense(), np.inf)
    if smallest >= limit:
        return Dense()
    near = [f for f, n in sizes.items() if n <= (1 + NEAR_TIE) * smallest and n < limit]
    return min(near, key=lambda f: (FAMILIES.index(type(f)), sizes[f]))


def size_reason(
    chosen: Format, sizes: dict[Format, int], stats: WeightStats, w: Array
) -> str:
    """One line: how many zeros, where, and what the next best family would take."""
    others = [f for f in sizes if type(f) is not type(chosen) and not isinstance(f, Dense)]
    other = min(others, key=lambda f: sizes[f], default=None)
    zeros = f"{stats.zero_fraction:.1%} zeros".replace("%", " %")
    if isinstance(chosen, Bsr):
        zeros += _inside_blocks(chosen, stats, w)
    size, dense = sizes[chosen], int(w.size)
    text = f"{chosen.name}: {zeros}; {size:,} B"
    if not isinstance(chosen, Dense):
        text += f" against {dense:,} B dense ({size / dense:.0%})".replace("%", " %")
    return text if other is None else f"{text}, {other.name} {sizes[other]:,} B"


def _inside_blocks(chosen: Bsr, stats: WeightStats, w: Array) -> str:
    occupied = block_occupancy(w, chosen.block_rows, chosen.block_cols)
    covered = np.repeat(np.repeat(occupied, chosen.block_rows, 0), chosen.block_cols, 1)
    inside = 1 - float(covered[: w.shape[0], : w.shape[1]].mean())
    size = f"{chosen.block_rows}x{chosen.block_cols}"
    if abs(inside - stats.zero_fraction) < 0.0005:
        return f" in whole {size} blocks"
    return f", {inside:.1%} in whole {size} blocks".replace("%", " %")


@dataclass(frozen=True)
class _Cut:
    """Rows [first, end) in one format."""

    format: Format
    first: int
    end: int


def _split(
    w: Array, formats: tuple[Format, ...], standing: Decision, order: Array | None = None
) -> Decision:
    """Return row groups of several formats when they beat `standing`, else `standing`.

    Cuts stand at multiples of 4 rows, or of 16 so that blocks of 16 rows stay whole.
    """
    stored = w if order is None else w[order]
    extra = 0 if order is None else order.nbytes
    best, least = None, (1 - SPLIT_SAVING) * standing.bytes
    for unit in (4, 16):
        usable = [f for f in formats if not isinstance(f, Bsr) or unit % f.block_rows == 0]
        cuts, size = _cheapest_cuts(stored, usable, unit)
        if size + extra < least and (len(cuts) > 1 or order is not None):
            best, least = cuts, size + extra
    if best is None:
        return standing
    groups = tuple(cut.format.row_group(stored[cut.first : cut.end], cut.first) for cut in best)
    parts = ", ".join(f"rows {c.first}-{c.end - 1} {c.format.name}" for c in best)
    sorted_rows = " of rows sorted by weights" if order is not None else ""
    decision = Decision(groups, "", standing.candidates, order)
    reason = (f"{len(groups)} row groups{sorted_rows} ({parts}): {decision.bytes:,} B; "
              f"in one: {standing.reason}")
    return Decision(groups, reason, standing.candidates, order)


def _cheapest_cuts(w: Array, formats: list[Format], unit: int) -> tuple[list[_Cut], float]:
    """At most MAX_GROUPS runs of whole units and their bytes, GROUP_OVERHEAD included.

    Dynamic programming over the units: every format's bytes add up over units.
    """
    starts = range(0, w.shape[0], unit)
    cost = np.array([[np.inf if f.refusal(part) else f.size(part) for f in formats]
                     for part in (w[s : s + unit] for s in starts)])
    # total[g, f]: bytes so far with g groups closed before the one in format f that is open
    total = np.full((MAX_GROUPS, len(formats)), np.inf)
    total[0] = cost[0]
    came_from = np.zeros((len(cost), *total.shape), np.int64)  # format before, of each unit
    for i in range(1, len(cost)):
        came_from[i] = np.arange(len(formats))
        previous = total.argmin(axis=1)
        switched = np.repeat(total.min(axis=1)[:-1, None] + GROUP_OVERHEAD, len(formats), axis=1)
        switched[np.arange(MAX_GROUPS - 1), previous[:-1]] = np.inf  # the same format: no switch
        opens = switched < total[1:]
        came_from[i, 1:] = np.where(opens, previous[:-1, None], came_from[i, 1:])
        total[1:] = np.where(opens, switched, total[1:])
        total = total + cost[i]
    closed, kind = (int(k) for k in np.unravel_index(total.argmin(), total.shape))
    size = float(total[closed, kind])
    cuts, end = [], w.shape[0]
    for i in range(len(cost) - 1, 0, -1):
        before = int(came_from[i, closed, kind])
        if before != kind:
            cuts.append(_Cut(formats[kind], i * unit, end))
            closed, kind, end = closed - 1, before, i * unit
    cuts.append(_Cut(formats[kind], 0, end))
    return cuts[::-1], size
