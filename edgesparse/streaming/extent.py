"""Which columns of a windowed model's tensors are the same in the next window.

A window of W input columns moves on by `hop` columns. A column of a later tensor is clean when
nothing it is computed from meets the padding at a border of the window: then the next window
has the same column, hop / stride further left. The other columns, `left` and `right` of them at
the two ends, are border columns and differ from window to window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from edgesparse.graph.ir import Graph, Node
from edgesparse.ops import (
    Add,
    AvgPool,
    Concat,
    Conv,
    FullyConnected,
    MaxPool,
    Mul,
    Slice,
    Softmax,
    Sub,
)
from edgesparse.ops.base import Op

BINARY = (Add, Sub, Mul)


@dataclass(frozen=True)
class Extent:
    """One tensor [1, columns, channels] of the window.

    stride   input columns from one of its columns to the next
    left     border columns at the start, right at the end
    """

    stride: int
    columns: int
    left: int = 0
    right: int = 0

    @property
    def clean(self) -> int:
        return max(0, self.columns - self.left - self.right)


@dataclass(frozen=True)
class Reach:
    """Column j of an output reads columns j * step - before .. j * step - before + span - 1."""

    step: int
    before: int
    span: int


def reach_of(graph: Graph, node: Node) -> Reach | None:
    """How a node looks along time; None: it is not local in time, or not a 1-D node."""
    op = node.op
    moving = moving_inputs(graph, node)
    if not moving:
        return None
    x = graph.tensors[moving[0]]
    out = graph.tensors[node.outputs[0]]
    if len(x.shape) != 3 or len(out.shape) != 3 or x.shape[0] != 1:
        return None
    if isinstance(op, (Conv, MaxPool, AvgPool)):
        span = op.kernel[1] if not isinstance(op, Conv) else (
            (graph.tensors[node.inputs[1]].shape[2] - 1) * op.dilation[1] + 1)
        # Longer padding gives columns that see nothing of the input; limit_padding takes it away.
        return Reach(op.stride[1], op.pad[2], span) if max(op.pad[2:]) < span else None
    if isinstance(op, Slice):
        whole = (op.begin[2], op.stride[2], op.size[2]) == (0, 1, x.shape[2])
        if whole and op.stride[1] > 0:
            return Reach(op.stride[1], -op.begin[1], 1)
        return Reach(1, 0, 1) if (op.begin[1], op.stride[1], op.size[1]) == (
            0, 1, x.shape[1]) else None
    if isinstance(op, Concat):
        return Reach(1, 0, 1) if op.axis % 3 == 2 else None
    per_column = (
        isinstance(op, (*BINARY, Softmax)) or is_unary(op)
        or (isinstance(op, FullyConnected) and op.keep_dims))
    return Reach(1, 0, 1) if per_column else None


def is_unary(op: Op) -> bool:
    return hasattr(op, "table")


def extents(graph: Graph, source: str) -> dict[str, Extent]:
    """Extents of the tensors that follow `source` column by column.

    A node stops it when it is not local in time or its operands do not run in step.
    """
    found = {source: Extent(1, graph.tensors[source].columns)}
    for node in graph.nodes:
        extent = _extent(graph, node, found)
        if extent is not None:
            found[node.outputs[0]] = extent
    return found


def compact_extents(graph: Graph, source: str) -> dict[str, Extent]:
    """As extents(), with more columns at the left: what the left ones of later tensors are computed
    from. Then nothing but `source` needs its clean columns at the start of the window.
    """
    found = extents(graph, source)
    for node in reversed(graph.nodes):
        out, reach = found.get(node.outputs[0]), reach_of(graph, node)
        if out is None or reach is None or out.left == 0:
            continue
        end = (out.left - 1) * reach.step - reach.before + reach.span
        for t in moving_inputs(graph, node):
            x = found[t]
            if t != source:
                left = max(x.left, min(end, x.columns - x.right))
                found[t] = replace(x, left=left)
    return found


def smallest_hop(graph: Graph) -> int:
    """The model's total stride: the smallest multiple of every layer's, so that each keeps columns.

    graph  its input [1, W, C]; what has one column for a whole window has none to keep
    """
    found = extents(graph, graph.inputs[0])
    return math.lcm(*(e.stride for e in found.values() if e.columns > 1))


def moving_inputs(graph: Graph, node: Node) -> tuple[str, ...]:
    """Inputs that run along time: not the weights, not constants that broadcast over it."""
    weighted = isinstance(node.op, (Conv, FullyConnected))
    names = node.inputs[:1] if weighted else node.inputs
    return tuple(t for t in names if graph.tensors[t].data is None)


def _extent(graph: Graph, node: Node, found: dict[str, Extent]) -> Extent | None:
    moving = moving_inputs(graph, node)
    if not moving or any(t not in found for t in moving):
        return None
    out = graph.tensors[node.outputs[0]]
    ins = [found[t] for t in moving]
    if any((i.stride, i.columns) != (ins[0].stride, ins[0].columns) for i in ins):
        return None
    if isinstance(node.op, (*BINARY, Concat)) and not _constants_stand_still(graph, node):
        return None
    reach = reach_of(graph, node)
    if reach is None:
        return None
    x = Extent(ins[0].stride, ins[0].columns, max(i.left for i in ins), max(i.right for i in ins))
    # First column whose earliest input is clean; first column whose latest input is not.
    left = -(-(x.left + reach.before) // reach.step)
    end = -(-(x.columns - x.right - reach.span + 1 + reach.before) // reach.step)
    left = min(max(left, 0), out.columns)
    right = out.columns - min(max(end, 0), out.columns)
    return Extent(x.stride * reach.step, out.columns, left, min(right, out.columns - left))


def _constants_stand_still(graph: Graph, node: Node) -> bool:
    """A constant operand with a value per column would have to move with the window.

    One column broadcasts, but not in a Concat.
    """
    constants = [graph.tensors[t] for t in node.inputs if graph.tensors[t].data is not None]
    if isinstance(node.op, Concat):
        return not constants
    return all(t.columns == 1 for t in constants)
