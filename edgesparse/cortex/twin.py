"""The same plan with more zeros in its weights, for advice; its results are not the model's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.cortex.estimate import estimate, format_cost
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.sparsity.choose_instructions import choose_instructions
from edgesparse.sparsity.formats import decode_weights
from edgesparse.sparsity.measure import measure
from edgesparse.target import Target

BLOCKS = ((1, 4), (2, 4), (4, 4), (4, 1))


def pruned_instructions(
    plan: pm.PlanModel, target: Target, blocks: tuple[int, int], share: float
) -> int:
    """Predicted, of a run or a hop, with `share` of the weights of every layer zero at least, in
    blocks of rows x input channels, the smallest first. Layers that have more zeros keep them; what
    such blocks do not fit, or has convolution groups, is left as it is.
    """
    assert target.instructions is not None

    def pruned(step: pm.Step) -> pm.Step:
        mac = step.source
        if not isinstance(mac, pm.Mac) or mac.geometry.groups > 1:
            return step
        rows, channels = mac.weights.rows, mac.geometry.in_c
        if rows % blocks[0] or channels % blocks[1]:
            return step
        w = _pruned(decode_weights(mac.weights), blocks, share)
        return replace(step, source=replace(mac, weights=_stored(mac, w, target)))

    steps = tuple(pruned(step) for step in plan.steps)
    return estimate(replace(plan, steps=steps), target.instructions).instructions


def _pruned(w: Array, blocks: tuple[int, int], share: float) -> Array:
    """w [M, K] int8 with at least `share` of its blocks zero, by sum of |w|."""
    height, width = blocks
    grid = w.reshape(w.shape[0] // height, height, w.shape[1] // width, width).copy()
    sums = np.abs(grid.astype(np.int64)).sum(axis=(1, 3))
    order = sums.ravel().argsort(kind="stable")
    row, column = np.divmod(order[: round(share * order.size)], sums.shape[1])
    grid[row, :, column] = 0
    return grid.reshape(w.shape)


def _stored(mac: pm.Mac, w: Array, target: Target) -> pm.Weights:
    assert target.instructions is not None
    cost = format_cost(target.instructions, mac.geometry.out_h * mac.geometry.out_w)
    decision = choose_instructions(measure(w), w, cost, target.encodings)
    return pm.Weights(rows=w.shape[0], cols=w.shape[1], groups=decision.groups)
