"""Which encoding stores a weight matrix for a Cortex-M core: the one with fewest instructions."""

from __future__ import annotations

from collections.abc import Callable

from edgesparse.graph.ir import Array
from edgesparse.sparsity.choose import Decision, formats_of, size_reason
from edgesparse.sparsity.formats import Dense, Format
from edgesparse.sparsity.measure import WeightStats

DENSE_SHARE = 0.98
"""Sparse must take less than this share of the instructions of dense rows, however much flash it
saves: a plan with zeros is never slower than one without. Predictions of a layer in two encodings
are hardly off by more."""
NEAR_TIE = 0.03
"""Within this share of the fewest instructions the fewest bytes decide."""

Cost = Callable[[Format, Array], float]
"""Instructions of a matrix [rows, K] in a format that can hold it."""


def choose_instructions(
    stats: WeightStats, w: Array, cost: Cost, only: tuple[str, ...]
) -> Decision:
    """Choose for w [rows, K] int8 whose zeros are 0; always one row group, as kernels want it, and
    nothing that takes more bytes than dense rows.

    stats  of `w`
    only   names of the encodings that may be taken besides dense rows
    """
    dense: Format = Dense()
    sparse = [f for f in formats_of(w.shape[1], only)
              if not isinstance(f, Dense) and not f.refusal(w) and f.size(w) < w.size]
    sizes = {f: f.size(w) for f in (dense, *sparse)}
    costs = {f: cost(f, w) for f in sizes}
    faster = [f for f in sparse if costs[f] < DENSE_SHARE * costs[dense]]
    limit = (1 + NEAR_TIE) * min((costs[f] for f in faster), default=0.0)
    best = min((f for f in faster if costs[f] <= limit), key=lambda f: sizes[f], default=dense)
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
