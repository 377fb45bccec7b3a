"""Which packing of lanes stores a weight matrix for the NPU: the one that costs least."""

from __future__ import annotations

from collections.abc import Callable

from edgesparse.graph.ir import Array
from edgesparse.sparsity.choose import NM, Decision
from edgesparse.sparsity.formats import EvenLanes, Lanes, Packing
from edgesparse.sparsity.measure import WeightStats

DENSE_SHARE = 0.97
"""Sparse must cost less than this share of dense."""
NEAR_TIE = 0.03
"""Within this the one that stands first in candidates(): what skips zero activations first."""

OWN_CODE, LOOPED = 7 * 16, 3 * 16
"""Bytes of instructions: of a slice that has its own because others have other numbers of steps; of
a loop over slices with an index."""

Cost = Callable[[Lanes, Array], float]
"""What a matrix [rows, K] costs in a packing that can hold it; any unit, less is better."""


def flash_or_steps(cycles_a_byte: float) -> Cost:
    """Cycles of the slower of two things done at once: weights from flash, a column of sums."""
    return lambda form, w: max(cycles_a_byte * form.size(w), int(form.steps(w).sum()))


def code_and_steps(cycles_a_byte: float, columns: int) -> Cost:
    """Cycles where weights are resident: the code of the slices from flash, sums of `columns`."""

    def cost(form: Lanes, w: Array) -> float:
        steps = form.steps(w)
        code = 0
        if form.packing in (Packing.COLUMNS, Packing.BITMASK):
            code = LOOPED if len(set(steps.tolist())) == 1 else OWN_CODE * len(steps)
        return cycles_a_byte * code + columns * int(steps.sum())

    return cost


def candidates(lanes: int, cols: int, even: bool = False) -> tuple[Lanes, ...]:
    """even: also with as many steps in every slice."""
    counted = (
        Lanes.columns(lanes, lanes, cols), Lanes.bitmask(lanes),
        Lanes.columns(lanes, 4, cols), Lanes.columns(lanes, 1, cols))
    return (
        Lanes.dense(lanes), *(Lanes.n_of_m(lanes, n, m) for n, m in NM), *counted,
        *(EvenLanes.of(f) for f in counted if even))


def choose_lanes(
    stats: WeightStats, w: Array, lanes: int, cost: Cost, even: bool = False
) -> Decision:
    """Choose for w [rows, K] int8 whose zeros are 0; `stats` are those of `w`.

    even  whether slices may be filled up to as many steps each
    """
    costs = {f: cost(f, w) for f in candidates(lanes, w.shape[1], even) if not f.refusal(w)}
    dense = Lanes.dense(lanes)
    least = min(costs.values())
    best = dense
    if least < DENSE_SHARE * costs[dense]:
        best = next(f for f, c in costs.items() if c <= (1 + NEAR_TIE) * least)
    sizes = sorted(((f.name, f.size(w)) for f in costs), key=lambda c: (c[1], c[0]))
    return Decision((best.row_group(w),), _reason(best, costs, stats, w), tuple(sizes))


def dense_lanes(stats: WeightStats, w: Array, lanes: int) -> Decision:
    """The decision for weights that every lane reads for itself: those of convolution groups."""
    form = Lanes.dense(lanes)
    return Decision(
        (form.row_group(w),), _reason(form, {}, stats, w), ((form.name, form.size(w)),))


def _reason(
    chosen: Lanes, costs: dict[Lanes, float], stats: WeightStats, w: Array
) -> str:
    """One line: how many zeros, what is stored, and the next best packing."""
    zeros = f"{stats.zero_fraction:.1%} zeros".replace("%", " %")
    size, dense = chosen.size(w), Lanes.dense(chosen.block_rows)
    text = f"{chosen.name}: {zeros}; {size:,} B, {int(chosen.steps(w).sum()):,} steps"
    if chosen.packing != Packing.NONE:
        text += f" against {dense.size(w):,} B, {int(dense.steps(w).sum()):,} steps dense"
    others = [f for f in costs if f not in (chosen, dense)]
    other = min(others, key=lambda f: costs[f], default=None)
    return text if other is None else f"{text}, {other.name} {other.size(w):,} B"
