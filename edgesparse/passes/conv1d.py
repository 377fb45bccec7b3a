"""One-dimensional convolutions and pools out of the 2-D form exporters write them in."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.edit import Replacement, fresh, in_shape, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.conv import Conv
from edgesparse.ops.pool import Pool
from edgesparse.ops.reshape import Reshape


def conv1d(graph: Graph) -> Graph:
    """Drop the dimension of a Conv or pool that is 1 before and after.

    rewrite:  y = Conv(x), x [1, 1, T, C] or [1, T, 1, C]
              ->   y = Reshape(Conv(Reshape(x))) with a Conv on [1, T, C]
    when:     the same dimension (H or W) is 1 in x and y; of a longer kernel in that dimension
              the one tap that meets x stays (the others see padding only)
    keeps:    every value, bit for bit: [1, 1, T, C], [1, T, 1, C] and [1, T, C] are the same bytes

    The Reshapes of neighbours cancel in sink_reshapes and merge_reshapes.
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    op = node.op
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if not isinstance(op, (Conv, Pool)) or len(x.shape) != 4 or x.shape[0] != 1:
        return None
    if x.shape[1] == y.shape[1] == 1:
        drop, keep = 0, 1
    elif x.shape[2] == y.shape[2] == 1:
        drop, keep = 1, 0
    else:
        return None
    stride, pad = (1, op.stride[keep]), (0, 0, op.pad[2 * keep], op.pad[2 * keep + 1])
    name, shape = fresh(graph, f"{y.name}/input1d"), (1, x.shape[1 + keep], x.channels)
    thin = replace(x, name=name, shape=shape)
    tensors = [thin]
    inputs = (thin.name, *node.inputs[1:])
    if isinstance(op, Pool):
        op = replace(op, kernel=(1, op.kernel[keep]), stride=stride, pad=pad)
    else:
        w = graph.tensors[node.inputs[1]]
        tap, between = divmod(op.pad[2 * drop], op.dilation[drop])
        if w.data is None or between or tap >= w.shape[1 + drop]:
            return None
        kernel = w.data.take(tap, axis=1 + drop)[:, None]
        if kernel.shape != w.shape:
            w = replace(w, name=fresh(graph, f"{y.name}/weights"), shape=kernel.shape, data=kernel)
            tensors.append(w)
            inputs = (thin.name, w.name, node.inputs[2])
        op = replace(op, stride=stride, dilation=(1, op.dilation[keep]), pad=pad)
    found = in_shape(
        graph, replace(node, op=op, inputs=inputs), (1, y.shape[1 + keep], y.channels)
    )
    reshape = Node(Reshape(thin.shape), node.inputs[:1], (thin.name,), node.origin)
    return replace(found, nodes=(reshape, *found.nodes), tensors=(*found.tensors, *tensors))
