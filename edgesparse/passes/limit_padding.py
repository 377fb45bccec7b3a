"""Padding that is longer than the kernel becomes an operator of its own."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.edit import Replacement, fresh, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.conv import Conv
from edgesparse.ops.pad import Pad


def limit_padding(graph: Graph) -> Graph:
    """Keep every position of a Conv in touch with its input, as a plan demands.

    rewrite:  y = Conv(x) with padding   ->   y = Conv(Pad(x)) with at most span - 1 of it
    when:     a side has as much padding as the kernel is long, or more: a SpaceToBatch on a
              dimension where the kernel is 1 leaves that behind
    keeps:    every value, bit for bit
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    if not isinstance(node.op, Conv):
        return None
    kernel = graph.tensors[node.inputs[1]].shape[1:3]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, node.op.dilation)]
    most = (spans[0] - 1, spans[0] - 1, spans[1] - 1, spans[1] - 1)
    over = [max(0, pad - m) for pad, m in zip(node.op.pad, most)]
    if not any(over):
        return None
    x = graph.tensors[node.inputs[0]]
    top, bottom, left, right = over
    pad = Pad((0, top, left, 0), (0, bottom, right, 0))
    if len(x.shape) == 3:
        pad = Pad((0, left, 0), (0, right, 0))
    name = fresh(graph, f"{node.outputs[0]}/padded")
    padded = replace(x, name=name, shape=pad.infer((x,))[0], data=None)
    rest = [p - o for p, o in zip(node.op.pad, over)]
    conv = replace(node.op, pad=(rest[0], rest[1], rest[2], rest[3]))
    return Replacement(
        (
            Node(pad, (x.name,), (padded.name,), node.origin),
            Node(conv, (padded.name, *node.inputs[1:]), node.outputs, node.origin),
        ),
        (padded,),
    )
