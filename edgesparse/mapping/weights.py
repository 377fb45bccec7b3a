"""Weights of a layer as a plan stores them, and the bias that goes with them."""

from __future__ import annotations

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Node, Tensor
from edgesparse.mapping.bounds import SCALES
from edgesparse.plan import model as pm
from edgesparse.sparsity.choose import MIN_SAVING, choose
from edgesparse.sparsity.measure import measure


def stored(w: Tensor, groups: int = 1) -> tuple[pm.Weights, str]:
    """A constant [rows, ...] in the encoding chosen for it, and why; groups: of a convolution."""
    assert w.data is not None
    matrix = w.data.reshape(w.shape[0], -1)
    stats = measure(matrix)
    if groups > 1:
        decision = choose(stats, matrix, only=("dense",))
        kept = "" if stats.zero_fraction < MIN_SAVING else "; weights of groups stay dense"
        reason = decision.reason + kept
    else:
        decision = choose(stats, matrix)
        reason = decision.reason
    rows, cols = matrix.shape
    return pm.Weights(rows=rows, cols=cols, groups=decision.groups), reason


def folded_bias(node: Node, w: Tensor, bias: Array, zero_point: int) -> tuple[Array, Array]:
    """(bias - zero point * sum(w), sum of |w|), each [rows]: kernels multiply stored inputs."""
    assert w.data is not None
    matrix = w.data.reshape(w.shape[0], -1).astype(np.int64)
    folded = bias.astype(np.int64) - zero_point * matrix.sum(axis=1)
    if (np.abs(folded) >= 2**31).any():
        row = int(np.abs(folded).argmax())
        reach = abs(int(folded[row]))
        raise Unsupported(
            node.name, type(node.op).__name__,
            f"the sum of output channel {row} may reach {reach:,}, past int32", SCALES)
    return np.asarray(folded, np.int32), np.abs(matrix).sum(axis=1)
