"""Which stored values each element of an int8 tensor can take, in any run, whatever the input.

Interval arithmetic with the operators' own int8 definitions: all of them but tables and Softmax
rise or fall with each input (Mul with each for a fixed other one), so they are evaluated at the
ends of the intervals. Where both ends meet, the element is constant, and its value exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgesparse.graph.ir import Array, Graph, Node
from edgesparse.ops.add import Add, Sub
from edgesparse.ops.conv import Conv
from edgesparse.ops.fully_connected import FullyConnected
from edgesparse.ops.history import History
from edgesparse.ops.layout import Layout
from edgesparse.ops.linear import Linear
from edgesparse.ops.mean import Mean
from edgesparse.ops.mul import Mul
from edgesparse.ops.pool import Pool
from edgesparse.ops.stateful import Stateful
from edgesparse.ops.unary import Unary


@dataclass(frozen=True, eq=False)
class Range:
    """low <= element <= high, each int8 in the shape of the tensor."""

    low: Array
    high: Array

    @property
    def known(self) -> Array:
        """bool, in the shape of the tensor: whether the element is constant."""
        known: Array = self.low == self.high
        return known


def value_ranges(graph: Graph) -> dict[str, Range]:
    """The range of every int8 tensor, by name."""
    ranges: dict[str, Range] = {}
    for name, t in graph.tensors.items():
        if t.dtype == "int8" and t.data is not None:
            ranges[name] = Range(t.data, t.data)
        elif t.dtype == "int8":
            ranges[name] = Range(np.full(t.shape, -128, np.int8), np.full(t.shape, 127, np.int8))
    for node in graph.nodes:
        found = _range(graph, node, ranges)
        if found is not None:
            ranges[node.outputs[0]] = found
    return ranges


def _range(graph: Graph, node: Node, ranges: dict[str, Range]) -> Range | None:
    if any(t not in ranges for t in (*node.inputs[:1], *node.outputs)):
        return None  # float, or integers that are no activations
    op, ins, outs = node.op, graph.ins(node), graph.outs(node)
    if isinstance(op, Linear):
        return _products(graph, node, ranges[node.inputs[0]])
    if isinstance(op, Stateful):
        return None
    if isinstance(op, History):
        return _past(ins[0].zero_point, ranges[node.inputs[0]], outs[0].columns)
    x = [ranges[t] for t in node.inputs]
    lows, highs = [r.low for r in x], [r.high for r in x]
    if isinstance(op, Unary):
        return _table(op.table(ins, outs), x[0])
    if isinstance(op, Mul):
        corners = [
            op.int8_ref((a, b), ins, outs)[0]
            for a in (lows[0], highs[0]) for b in (lows[1], highs[1])
        ]
        return Range(np.min(corners, axis=0), np.max(corners, axis=0))
    if isinstance(op, Sub):
        lows[1], highs[1] = highs[1], lows[1]
    elif not isinstance(op, (Add, Pool, Mean, Layout)):
        return None
    return Range(op.int8_ref(lows, ins, outs)[0], op.int8_ref(highs, ins, outs)[0])


def _past(zero_point: int, x: Range, columns: int) -> Range:
    """Every column may be any column of x, or the zero points before the first run."""
    low = np.minimum(x.low.min(axis=1, keepdims=True), zero_point)
    high = np.maximum(x.high.max(axis=1, keepdims=True), zero_point)
    return Range(np.repeat(low, columns, 1).astype(np.int8),
                 np.repeat(high, columns, 1).astype(np.int8))


def _table(table: Array, x: Range) -> Range:
    """The least and the greatest entry between two ends."""
    last, first = np.arange(256), np.arange(256)[:, None]
    least = np.minimum.accumulate(np.where(last >= first, table, 127), axis=1)
    greatest = np.maximum.accumulate(np.where(last >= first, table, -128), axis=1)
    ends = x.low.astype(np.int64) + 128, x.high.astype(np.int64) + 128
    return Range(least[ends].astype(np.int8), greatest[ends].astype(np.int8))


def _products(graph: Graph, node: Node, x: Range) -> Range | None:
    """Positive weights times one end, negative ones times the other, as twice as many channels."""
    op, ins, outs = node.op, graph.ins(node), graph.outs(node)
    w, b = ins[1].data, ins[2].data
    if w is None or b is None:
        return None
    signs = np.concatenate([np.maximum(w, 0), np.minimum(w, 0)], axis=-1)
    if isinstance(op, FullyConnected) and not op.keep_dims:
        columns: tuple[int, ...] = (x.low.size // w.shape[1],)
    else:
        columns = x.low.shape[:-1]
    groups = op.groups if isinstance(op, Conv) else 1

    def ends(first: Array, second: Array) -> Array:
        """The channels of each group twice, as `signs` wants them."""
        pair = [a.reshape(*columns, groups, w.shape[-1]) for a in (first, second)]
        both: Array = np.concatenate(pair, axis=-1)
        return both.reshape(*columns, 2 * groups * w.shape[-1])

    stacked = (ins[0], replace(ins[1], shape=signs.shape, data=signs), *ins[2:])
    low = op.int8_ref((ends(x.low, x.high), signs, b), stacked, outs)[0]
    high = op.int8_ref((ends(x.high, x.low), signs, b), stacked, outs)[0]
    return Range(low, high)
