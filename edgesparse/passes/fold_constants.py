"""Constant folding."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.edit import drop_unread
from edgesparse.graph.evaluate import evaluate_node
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.history import History
from edgesparse.ops.stateful import Stateful


def fold_constants(graph: Graph) -> Graph:
    """Compute what does not depend on the input.

    rewrite:  y = Op(constants)   ->   y is a constant
    when:     y is no output of the graph; Op keeps no state from run to run
    keeps:    integers and moved values bit for bit; float values to 1 ulp
    """
    tensors = dict(graph.tensors)
    nodes: list[Node] = []
    for node in graph.nodes:
        ins = [tensors[t] for t in node.inputs]
        args = [t.data for t in ins if t.data is not None]
        seen = not set(graph.outputs).isdisjoint(node.outputs)
        if len(args) < len(ins) or seen or isinstance(node.op, (History, Stateful)):
            nodes.append(node)
            continue
        outs = graph.outs(node)
        for out, value in zip(outs, evaluate_node(node, args, ins, outs)):
            tensors[out.name] = replace(out, data=value)
    if len(nodes) == len(graph.nodes):
        return graph
    return drop_unread(graph.with_nodes(nodes, tensors.values()))
