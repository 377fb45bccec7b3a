"""Build the graph in which only some channels are left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgesparse.graph.edit import fresh
from edgesparse.graph.ir import Array, Graph, Node, Quant, Tensor
from edgesparse.ops.base import Op
from edgesparse.ops.conv import Conv
from edgesparse.ops.pad import Pad
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.slice import Slice
from edgesparse.passes.linear_rows import Rows


def shrink(graph: Graph, kept: Mapping[str, Array], rows: Mapping[str, Rows]) -> Graph:
    """The graph with the kept channels only.

    kept  tensor -> bool [channels]; consistent with links and Rows.needs
    rows  output tensor -> the facts about the Conv or FullyConnected that makes it
    """
    tensors = {
        name: _part(graph.tensors[name], keep, -1) for name, keep in kept.items() if not keep.all()
    }
    nodes = []
    for node in graph.nodes:
        inputs = [*node.inputs]
        if node.outputs[0] in rows:
            for i, constant in _constants(graph, node, kept, rows[node.outputs[0]]).items():
                if len(graph.consumers[constant.name]) > 1:
                    name = fresh(graph, f"{node.outputs[0]}/{('weights', 'bias')[i - 1]}")
                    constant = replace(constant, name=name)
                tensors[constant.name] = constant
                inputs[i] = constant.name
        nodes.append(replace(node, op=_op(graph, node, kept), inputs=tuple(inputs)))
    return graph.with_nodes(nodes, tensors.values()) if tensors else graph


def _part(t: Tensor, keep: Array, axis: int) -> Tensor:
    """The tensor with some indices of one dimension; `kept` counts channels only."""
    axis %= len(t.shape)
    index = np.flatnonzero(keep)
    quant, numbers = t.quant, t.kept
    if quant is not None and quant.axis == axis:
        quant = Quant(
            tuple(quant.scale[i] for i in index), tuple(quant.zero_point[i] for i in index), axis
        )
    if t.data is None:
        numbers = tuple(int(i) if t.kept is None else t.kept[i] for i in index)
    return replace(
        t,
        shape=(*t.shape[:axis], len(index), *t.shape[axis + 1 :]),
        quant=quant,
        data=None if t.data is None else t.data.take(index, axis),
        kept=numbers,
    )


def _op(graph: Graph, node: Node, kept: Mapping[str, Array]) -> Op:
    """The operator with those attributes changed that count channels."""
    op, x, y = node.op, kept[node.inputs[0]], kept[node.outputs[0]]
    if isinstance(op, Conv) and op.groups > 1:
        return replace(op, groups=int(x.reshape(op.groups, -1).any(axis=1).sum()))
    if y.all() and x.all():
        return op
    if isinstance(op, Reshape):
        return Reshape((*graph.tensors[node.outputs[0]].shape[:-1], int(y.sum())))
    if isinstance(op, Slice):
        begin, size = int(x[: op.begin[-1]].sum()), int(y.sum())
        return Slice((*op.begin[:-1], begin), op.stride, (*op.size[:-1], size))
    if isinstance(op, Pad):
        before = int(y[: op.before[-1]].sum())
        after = int(y[len(y) - op.after[-1] :].sum())
        return Pad((*op.before[:-1], before), (*op.after[:-1], after))
    return op


def _constants(
    graph: Graph, node: Node, kept: Mapping[str, Array], rows: Rows
) -> dict[int, Tensor]:
    """Weights (1) and bias (2) of a Conv or FullyConnected, where they change."""
    w, b = (graph.tensors[t] for t in node.inputs[1:])
    assert w.data is not None
    assert b.data is not None
    x, y = kept[node.inputs[0]], kept[node.outputs[0]]
    silent = rows.silent & w.data.reshape(w.shape[0], -1).any(axis=1)
    if x.all() and y.all() and not silent.any():
        return {}
    weights, bias = w.data.copy(), b.data.astype(np.int64)
    if rows.w.size and not x.all():
        bias = bias + rows.folded(~x)
    weights[silent] = 0
    bias = np.where(silent, rows.silent_bias, bias)
    w, b = replace(w, data=weights), replace(b, data=bias.astype(np.int32))
    if w.shape[-1] % len(x) == 0 and not (isinstance(node.op, Conv) and node.op.groups > 1):
        w = _part(w, np.tile(x, w.shape[-1] // len(x)), -1)
    return {1: _part(w, y, 0), 2: _part(b, y, 0)}
