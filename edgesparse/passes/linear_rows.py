"""What dead_channels knows about the rows and columns of a Conv or FullyConnected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array, Graph, Node
from edgesparse.ops.conv import Conv
from edgesparse.ops.linear import Linear
from edgesparse.passes.value_ranges import Range

INT32 = 2**31


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows m are output channels, columns c input channels (all taps together).

    silent       bool [M]: the output is one constant, at every position and for every input
    silent_bias  [M] int64: a bias that gives that constant without any weight
    blocked      bool [M, C]: row m cannot do without channel c
    conv, x, w   a Conv that sums the same products: x [N, H, W, C] (its known elements less the
                 zero point), w [M, kh, kw, C], int64. Empty for grouped ones
    """

    silent: Array
    silent_bias: Array
    blocked: Array
    conv: Conv
    x: Array
    w: Array

    def needs(self, kept: Array) -> Array:
        """bool [C]: the channels that the kept rows cannot do without."""
        needed: Array = self.blocked[kept & ~self.silent].any(axis=0)
        return needed

    def folded(self, removed: Array) -> Array:
        """[M] int64: what the removed channels add to each row that does not need them."""
        sums: Array = _sums(self.conv, self.x[..., removed], self.w[..., removed])[0]
        return sums


def linear_rows(graph: Graph, node: Node, ranges: Mapping[str, Range]) -> Rows | None:
    """The facts about an int8 Conv or FullyConnected with constant weights of its own.

    None for others. Weights that several share would have to be stored once for each.
    """
    op = node.op
    if not isinstance(op, Linear) or node.inputs[0] not in ranges:
        return None
    x, w, b = graph.ins(node)
    if w.data is None or b.data is None or len(graph.consumers[w.name]) > 1:
        return None
    seen, y = ranges[x.name], ranges[node.outputs[0]]
    centred = seen.low.astype(np.int64) - x.zero_point
    kernel, bias = w.data.astype(np.int64), b.data.astype(np.int64)

    by_row = y.low.reshape(-1, w.shape[0])
    silent = y.known.reshape(by_row.shape).all(axis=0) & (by_row == by_row[0]).all(axis=0)
    one_input = op.accumulate(centred.astype(np.float64), kernel.astype(np.float64))
    silent_bias = one_input.reshape(by_row.shape)[0].astype(np.int64) + bias
    silent &= np.abs(silent_bias) < INT32

    depth = w.shape[-1]
    if isinstance(op, Conv):
        conv, grouped = op, op.groups > 1
    else:
        # The same products as a Conv: each input row is an image of depth / channels columns.
        conv, grouped = Conv(), depth % x.channels != 0
        if not grouped:
            images = (x.size // depth, 1, depth // x.channels, x.channels)
            centred = centred.reshape(images)
            kernel = kernel.reshape(w.shape[0], *images[1:])
    if grouped:
        # Channels of groups are linked; of rows of another length nothing is known: all stay.
        blocked = np.full((w.shape[0], x.channels), not isinstance(op, Conv))
        return Rows(silent, silent_bias, blocked, conv, centred[..., :0], kernel[..., :0])
    known = seen.known.reshape(-1, x.channels).all(axis=0)
    blocked = kernel.any(axis=(1, 2))
    worst = np.abs(bias) + 255 * np.abs(kernel[..., known]).sum(axis=(1, 2, 3))
    fits = worst < INT32
    blocked[fits] = _blocked(conv, centred, kernel[fits], known)
    return Rows(silent, silent_bias, blocked, conv, centred, kernel)


def _blocked(conv: Conv, x: Array, w: Array, known: Array) -> Array:
    """bool [M, C]: weights meet the channel, and what they add is unknown or not the same
    at every position (as where padding hides part of a constant)."""
    blocked: Array = w.any(axis=(1, 2))
    if _sums(conv, x[..., :1], w[..., :1]).shape[0] == 1:
        return blocked & ~known  # one position, which a constant always adds the same to
    for c in np.flatnonzero(known & blocked.any(axis=0)):
        sums = _sums(conv, x[..., c : c + 1], w[..., c : c + 1])
        blocked[:, c] &= (sums != sums[0]).any(axis=0)
    return blocked


def _sums(conv: Conv, x: Array, w: Array) -> Array:
    """[positions, M] int64."""
    sums = conv.accumulate(x.astype(np.float64), w.astype(np.float64))
    positions = int(np.prod(sums.shape[:-1]))  # there may be no row: not -1
    exact: Array = sums.reshape(positions, w.shape[0]).astype(np.int64)
    return exact
