"""Quantize and Dequantize stand at the edges, not between operators that move elements."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.edit import Replacement, fresh, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.layout import Layout
from edgesparse.ops.quantize import Dequantize, Quantize


def move_quantization(graph: Graph) -> Graph:
    """Move elements as int8 rather than as floats.

    rewrite:  y = Move(Dequantize(q))   ->   y = Dequantize(Move(q))
              q = Quantize(Move(x))     ->   q = Move(Quantize(x))
    when:     Move is a layout operator of one input; q is int8
    keeps:    every value, bit for bit: what Pad adds is real 0, which is the zero point
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    maker = graph.producer.get(node.inputs[0])
    if maker is None or len(node.inputs) != 1 or len(maker.inputs) != 1:
        return None
    if isinstance(node.op, Layout) and isinstance(maker.op, Dequantize):
        stored = graph.tensors[maker.inputs[0]]
        if stored.dtype != "int8":
            return None
        shape = graph.tensors[node.outputs[0]].shape
    elif isinstance(node.op, Quantize) and isinstance(maker.op, Layout):
        stored = graph.tensors[node.outputs[0]]
        shape = graph.tensors[maker.inputs[0]].shape
    else:
        return None
    between = replace(stored, name=fresh(graph, f"{node.outputs[0]}/int8"), shape=shape, kept=None)
    return Replacement(
        (
            replace(node, inputs=maker.inputs, outputs=(between.name,)),
            replace(maker, inputs=(between.name,), outputs=node.outputs),
        ),
        (between,),
    )
