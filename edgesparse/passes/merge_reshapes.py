"""Reshapes: as few as possible, and Transposes that are none."""

from __future__ import annotations

from edgesparse.graph.edit import Replacement, origins, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.transpose import Transpose
from edgesparse.passes.eliminate_dead import eliminate_dead


def merge_reshapes(graph: Graph) -> Graph:
    """Leave at most one Reshape between two operators.

    rewrite:  y = Reshape(Reshape(x))       ->   y = Reshape(x)
              y = Transpose(x)              ->   y = Reshape(x), when only dimensions of 1 move
              y = Reshape(x), same shape    ->   x in place of y (by eliminate_dead)
    when:     always; the shape is written out (no -1)
    keeps:    every value, bit for bit
    """
    while True:
        merged = eliminate_dead(replace_nodes(graph, merge))
        if merged.nodes == graph.nodes:
            return graph
        graph = merged  # what stood between two Reshapes may have gone


def merge(graph: Graph, node: Node) -> Replacement | None:
    """The rewrites above for one node, but for the last."""
    shape = graph.tensors[node.outputs[0]].shape
    if isinstance(node.op, Transpose):
        long = [p for p in node.op.perm if graph.tensors[node.inputs[0]].shape[p] != 1]
        if long != sorted(long):
            return None
        return Replacement((Node(Reshape(shape), node.inputs, node.outputs, node.origin),))
    if not isinstance(node.op, Reshape):
        return None
    before = graph.producer.get(node.inputs[0])
    if before is not None and isinstance(before.op, Reshape):
        return Replacement(
            (Node(Reshape(shape), before.inputs, node.outputs, origins(before, node)),)
        )
    if node.op.shape != shape:
        return Replacement((Node(Reshape(shape), node.inputs, node.outputs, node.origin),))
    return None
