"""Dead code, operators that change nothing, and what is there twice."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.edit import drop_unread, rename
from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.ops.concat import Concat
from edgesparse.ops.pad import Pad
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.slice import Slice
from edgesparse.ops.transpose import Transpose
from edgesparse.ops.unary import Requantize


def eliminate_dead(graph: Graph) -> Graph:
    """Drop nodes nobody needs.

    rewrite:  y = Op(x)                 ->   nothing, when no output depends on y
              y = Same(x)               ->   x in place of y (Reshape, Transpose, Slice, Pad, Concat
                                             of one, Requantize that leave everything as it is)
              y = Op(x), z = Op(x)      ->   y in place of z; constants alike
    when:     the two tensors have the same shape, dtype and quantization;
              a name the user sees (an output of the graph) stays
    keeps:    every value, bit for bit
    """
    nodes: list[Node] = []
    graph = drop_unread(graph)
    alias = _equal_constants(graph)
    seen: dict[tuple[object, ...], Node] = {}
    for old in graph.nodes:
        node = replace(old, inputs=tuple(alias.get(t, t) for t in old.inputs))
        key = (node.op, node.inputs, *(_kind(t) for t in graph.outs(node)))
        if _changes_nothing(graph, node):
            same = {node.outputs[0]: node.inputs[0]}
        elif key in seen:
            same = dict(zip(node.outputs, seen[key].outputs))
        else:
            seen[key] = node
            nodes.append(node)
            continue
        if set(same).isdisjoint(graph.outputs):
            alias.update(same)
        elif _may_take_names(graph, same):
            # The other way round: the producer computes the output the user sees.
            names = {t: y for y, t in same.items()}
            nodes = rename(nodes, names)
            alias = {name: names.get(t, t) for name, t in alias.items()} | names
            seen = {}  # its nodes have the old names
        else:
            nodes.append(node)
    return drop_unread(graph.with_nodes(nodes))


def _kind(t: Tensor) -> tuple[object, ...]:
    return t.shape, t.dtype, t.quant


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Constant -> an earlier one with the same content."""
    alias: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for name, t in graph.tensors.items():
        if t.data is not None:
            one = first.setdefault((*_kind(t), t.kept, t.data.tobytes()), name)
            if one != name:
                alias[name] = one
    return alias


def _changes_nothing(graph: Graph, node: Node) -> bool:
    op, x, y = node.op, graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if _kind(x) != _kind(y):
        return False
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(x.shape)))
    if isinstance(op, Slice):
        return min(op.stride, default=1) > 0  # same shape: all of it, in order
    if isinstance(op, Concat):
        return len(node.inputs) == 1
    return isinstance(op, (Reshape, Pad, Requantize)) and len(node.inputs) == 1


def _may_take_names(graph: Graph, same: dict[str, str]) -> bool:
    """Whether the producers of the values may write them under the keys of `same`."""
    return all(
        t in graph.producer and t not in graph.outputs for t in same.values()
    ) and len(set(same.values())) == len(same)
