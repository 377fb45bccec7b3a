"""How many activations a layer will find at the zero point, predicted from typical inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.sparsity.formats import Packing, decode_weights


def zero_rates(plan: bytes, inputs: Iterable[Sequence[Array]]) -> dict[int, float]:
    """Step -> share of its products that a zero activation makes 0, of those that it stores.

    plan    with weights in lanes; what an NPU skips of broadcast layers is predicted, so layers
            with groups or with columns of each lane's own are left out
    inputs  typical ones, in order: a plan that keeps state goes on from one to the next
    """
    interpreter = Interpreter(plan)
    steps = interpreter.model.steps
    broadcast = {number: step.source for number, step in enumerate(steps)
                 if isinstance(step.source, pm.Mac) and _is_broadcast(step.source)}
    zeros: dict[int, Array] = {}
    runs = 0
    for feed in inputs:
        runs += 1
        read = interpreter.run_read(feed)
        for number in broadcast:
            place = interpreter.model.tensors[steps[number].input].place
            found = read[number] == place.zero_point
            zeros[number] = zeros.get(number, 0) + found.astype(np.int64)
    return {number: _rate(mac, zeros[number] / runs)
            for number, mac in broadcast.items() if runs}


def _is_broadcast(mac: pm.Mac) -> bool:
    return mac.geometry.groups == 1 and all(
        g.encoding is pm.Encoding.LANES and g.block_cols == g.block_rows
        for g in mac.weights.groups)


def _rate(mac: pm.Mac, zeros: Array) -> float:
    """zeros [columns, channels]: how often each activation is zero."""
    by_column, stored = window_means(mac.geometry, zeros), _stored(mac.weights)
    return float(by_column @ stored / max(1, stored.sum()))


def window_means(g: pm.Geometry, zeros: Array) -> Array:
    """[K]: the mean over all output positions of what a column of the window sees; padding is 1."""
    image = zeros.reshape(g.in_h, g.in_w, g.in_c)
    means = []
    for ky in range(g.kernel_h):
        for kx in range(g.kernel_w):
            y = np.arange(g.out_h) * g.stride_h - g.pad_top + ky * g.dilation_h
            x = np.arange(g.out_w) * g.stride_w - g.pad_left + kx * g.dilation_w
            inside_y, inside_x = (y >= 0) & (y < g.in_h), (x >= 0) & (x < g.in_w)
            seen = image[np.ix_(y[inside_y], x[inside_x])].sum(axis=(0, 1))
            outside = g.out_h * g.out_w - inside_y.sum() * inside_x.sum()
            means.append((seen + outside) / (g.out_h * g.out_w))
    return np.concatenate(means)


def _stored(weights: pm.Weights) -> Array:
    """[K]: rows for which each column is stored."""
    w, total = decode_weights(weights), np.zeros(weights.cols, np.int64)
    row = 0
    for group in weights.groups:
        end = row + group.row_count
        for first in range(row, end, group.block_rows):
            rows = w[first : min(first + group.block_rows, end)]
            dense = group.packing == Packing.NONE
            total += len(rows) * (np.ones(weights.cols, bool) if dense else rows.any(axis=0))
        row = end
    return total
