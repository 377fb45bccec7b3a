"""Dilated convolutions out of the SpaceToBatch form exporters write them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgesparse.errors import Unsupported
from edgesparse.graph.edit import Replacement, fresh, origins, replace_nodes
from edgesparse.graph.ir import Graph, Node, Shape, Tensor
from edgesparse.ops.conv import Conv
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.slice import Slice
from edgesparse.ops.space_to_batch import BatchToSpace, SpaceToBatch


def dilated_conv(graph: Graph) -> Graph:
    """Compute all phases of a dilated convolution in place.

    rewrite:  y = BatchToSpace(Conv(SpaceToBatch(x)))   ->   y = Conv(x, dilation = block)
              with a Reshape before and after the Conv   ->   the same
    when:     same block on both sides, stride 1 where the block is not 1, batch of x is 1,
              nothing else reads what lies between, quantization changes in the Conv only
    keeps:    int8 results bit for bit

    Phase position j of phase p is position j * block + p of the padded x, so a tap of the Conv
    moves `block` positions in x: dilation and padding of the Conv are multiplied by the block, to
    the padding come the pads of SpaceToBatch, and the crops of BatchToSpace are taken from it. What
    becomes negative (a crop past the padding) is cut from x by a Slice.
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    chain = _triple(graph, node)
    if chain is None:
        return None
    spread, middle, gather = chain
    op, before, after = middle.op, spread.op, gather.op
    assert isinstance(op, Conv)
    assert isinstance(before, SpaceToBatch)
    assert isinstance(after, BatchToSpace)
    x, w, b = graph.tensors[spread.inputs[0]], *graph.ins(middle)[1:]
    out = graph.tensors[node.outputs[0]]
    axes = _axes(graph.tensors[spread.outputs[0]].shape, graph.ins(middle)[0].shape)
    if axes is None or len(after.block) != len(before.block) or w.data is None:
        return None

    # Per space dimension of x; SpaceToBatch may leave the last ones alone.
    alone = len(axes) - len(before.block)
    blocks = [*before.block, *[1] * alone]
    pads = [*before.pads, *[(0, 0)] * alone]
    crops = [*after.crops, *[(0, 0)] * alone]
    geometry = replace(op, stride=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0))
    begin, size = [0] * len(x.shape), list(x.shape)
    for i, axis in enumerate(axes):
        if blocks[i] > 1 and op.stride[axis] > 1:
            return None
        low = op.pad[2 * axis] * blocks[i] + pads[i][0] - crops[i][0]
        high = op.pad[2 * axis + 1] * blocks[i] + pads[i][1] - crops[i][1]
        begin[i + 1] = max(0, -low)
        size[i + 1] += min(0, low) + min(0, high)
        to = axis if len(axes) == 2 else 1  # a single dimension is the width of a 1-D Conv
        geometry = replace(
            geometry,
            stride=_put(geometry.stride, to, op.stride[axis]),
            dilation=_put(geometry.dilation, to, op.dilation[axis] * blocks[i]),
            pad=_put(_put(geometry.pad, 2 * to, max(0, low)), 2 * to + 1, max(0, high)),
        )
    if min(size) < 1:
        return None

    nodes: list[Node] = []
    tensors: list[Tensor] = []
    origin = origins(spread, middle, node)
    if size != list(x.shape):
        cut = Tensor(fresh(graph, f"{out.name}/cut"), tuple(size), x.dtype, x.quant)
        steps = Slice(tuple(begin), (1,) * len(size), tuple(size))
        nodes.append(Node(steps, (x.name,), (cut.name,), origin))
        tensors.append(cut)
        x = cut
    if len(axes) == 1:
        kernel = w.data.reshape(w.shape[0], 1, -1, w.shape[3])
        if kernel.shape != w.shape:
            name = fresh(graph, f"{out.name}/weights")
            w = replace(w, name=name, shape=kernel.shape, data=kernel)
            tensors.append(w)
    try:
        fits = geometry.infer((x, w, b)) == (out.shape,)
    except Unsupported:
        fits = False
    if not fits:
        return None
    nodes.append(Node(geometry, (x.name, w.name, b.name), node.outputs, origin))
    return Replacement(tuple(nodes), tuple(tensors))


def _triple(graph: Graph, node: Node) -> tuple[Node, Node, Node] | None:
    """SpaceToBatch, Conv and `node`, when they stand in a chain that nothing else reads."""
    if not isinstance(node.op, BatchToSpace):
        return None
    conv = _maker(graph, node)
    if conv is None or not isinstance(conv.op, Conv):
        return None
    spread = _maker(graph, conv)
    if spread is None or not isinstance(spread.op, SpaceToBatch):
        return None
    ends = [(graph.tensors[n.inputs[0]], graph.tensors[n.outputs[0]]) for n in (spread, node)]
    same = all(i.quant == o.quant for i, o in ends)
    one = ends[0][0].shape[0] == 1 and spread.op.block == node.op.block
    return (spread, conv, node) if same and one else None


def _maker(graph: Graph, node: Node) -> Node | None:
    """Who computes the first input of `node` for it alone, seen through a Reshape."""
    name = node.inputs[0]
    maker = graph.producer.get(name) if graph.sole_consumer(name) else None
    if maker is not None and isinstance(maker.op, Reshape):
        name = maker.inputs[0]
        maker = graph.producer.get(name) if graph.sole_consumer(name) else None
    return maker


def _axes(spread: Shape, conv: Shape) -> tuple[int, ...] | None:
    """Which space dimensions of the Conv (0 height, 1 width) those of SpaceToBatch became."""
    if spread[0] != conv[0] or spread[-1] != conv[-1]:
        return None
    space = spread[1:-1]
    if conv[1:-1] == space:
        return (0, 1) if len(space) == 2 else (1,)
    if conv[1:-1] == (1, *space):
        return (1,)
    if conv[1:-1] == (*space, 1):
        return (0,)
    return None


def _put(values: tuple[int, ...], at: int, value: int) -> Any:
    return (*values[:at], value, *values[at + 1 :])
