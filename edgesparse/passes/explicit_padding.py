"""Pad operators become the padding of what follows."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.errors import Unsupported
from edgesparse.graph.edit import Replacement, origins, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.conv import Conv
from edgesparse.ops.pad import Pad
from edgesparse.ops.pool import MaxPool


def explicit_padding(graph: Graph) -> Graph:
    """Let a Conv or MaxPool look past the border instead of copying its input.

    rewrite:  y = Conv(Pad(x))      ->   y = Conv(x) with more padding
              y = MaxPool(Pad(x))   ->   y = MaxPool(x) with more padding
    when:     Pad adds to H and W (or T) only and keeps the quantization, so that it adds what the
              Conv takes for padding; every position still meets x and no side has as much padding
              as the kernel is long;
              MaxPool: the padding is -128, which no maximum over a window that meets x notices
              (int8 only: a float Pad adds 0). AvgPool counts its padding out: never
    keeps:    every value, bit for bit
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    op = node.op
    maker = graph.producer.get(node.inputs[0])
    if not isinstance(op, (Conv, MaxPool)) or maker is None or not isinstance(maker.op, Pad):
        return None
    x, padded, y = (graph.tensors[t] for t in (maker.inputs[0], node.inputs[0], node.outputs[0]))
    sides = tuple(zip(maker.op.before, maker.op.after))
    if x.quant != padded.quant or sides[0] != (0, 0) or sides[-1] != (0, 0):
        return None
    if isinstance(op, MaxPool) and (x.dtype != "int8" or x.zero_point != -128):
        return None
    flat = [n for side in sides[1:-1] for n in side]
    top, bottom, left, right = (a + b for a, b in zip(op.pad, [0] * (4 - len(flat)) + flat))
    op = replace(op, pad=(top, bottom, left, right))
    kernel = graph.tensors[node.inputs[1]].shape[1:3] if isinstance(op, Conv) else op.kernel
    dilation = op.dilation if isinstance(op, Conv) else (1, 1)
    for axis in (0, 1):
        span = (kernel[axis] - 1) * dilation[axis] + 1
        if max(op.pad[2 * axis : 2 * axis + 2]) >= span:
            return None
    ins = (x, *graph.ins(node)[1:])
    try:
        if op.infer(ins) != (y.shape,):
            return None
    except Unsupported:
        return None
    inputs = (x.name, *node.inputs[1:])
    return Replacement((Node(op, inputs, node.outputs, origins(maker, node)),))
