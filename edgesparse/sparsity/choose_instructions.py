"""Which encoding stores a weight matrix for a Cortex-M core: the one with fewest instructions."""

from __future__ import annotations

from collections.abc import Callable

from edgesparse.graph.ir import Array
from edgesparse.sparsity.choose import Decision, formats_of, size_reason
from edgesparse.sparsity.formats import Dense, Format
from edgesparse.sparsity.measure import WeightStats

DENSE_SHARE = 0.95
"""Sparse must take less than this share of the instructions of dense rows, however much flash it
saves: a plan with zeros is never slower than one without. Predictions of a layer in two encodings
are off by less than that."""
NEAR_TIE = 0.03
"""Within this share of the fewest instructions the fewest bytes decide."""

Cost = Callable[[Format, Array], float]
"""Instructions of a matrix [rows, K] in a format that can hold it."""


def choose_instructions(
    stats: WeightStats, w: Array, cost: Cost, only: tuple[str, ...]
) -> Decision:
    """Choose for w [rows, K] int8 whose zeros are 0; always one row group, as kernels want it.

    stats  of `w`
    only   names of the encodings that may be taken besides dense rows
    """
    forms = (Dense(), *(f for f in formats_of(w.shape[1], only)
                        if not isinstance(f, Dense) and not f.refusal(w)))
    sizes, costs = {f: f.size(w) for f in forms}, {f: cost(f, w) for f in forms}
    least = min(costs.values())
    best: Format = Dense()
    if least < DENSE_SHARE * costs[best]:
        near = [f for f, n in costs.items() if n <= (1 + NEAR_TIE) * least]
        best = min(near, key=lambda f: sizes[f])
    return Decision(
        (best.row_group(w),), _reason(best, sizes, costs, size_reason(best, sizes, stats, w)),
        tuple(sorted(((f.name, n) for f, n in sizes.items()), key=lambda c: (c[1], c[0]))))


def _reason(
    best: Format, sizes: dict[Format, int], costs: dict[Format, float], size: str
) -> str:
    """One line: bytes, and what the instructions had to do with it."""
    dense = costs[Dense()]
    if not isinstance(best, Dense):
        return f"{size}; {100 * costs[best] / dense:.0f} % of its instructions"
    smallest = min(sizes, key=lambda f: sizes[f])
    if isinstance(smallest, Dense):
        return size
    times = costs[smallest] / dense
    return f"{size}, which would take {times:.2f} times the instructions"
