"""Reshapes that add dimensions of 1 stand as late as possible, so that they meet and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgesparse.graph.edit import Replacement, fresh, in_shape, replace_nodes
from edgesparse.graph.ir import Graph, Node, Shape, Tensor
from edgesparse.ops.add import Sum
from edgesparse.ops.base import Op
from edgesparse.ops.concat import Concat
from edgesparse.ops.mean import Mean
from edgesparse.ops.mul import Mul
from edgesparse.ops.pad import Pad
from edgesparse.ops.quantize import Dequantize, Quantize
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.slice import Slice
from edgesparse.ops.softmax import Softmax
from edgesparse.ops.unary import Unary
from edgesparse.passes.merge_reshapes import merge


def sink_reshapes(graph: Graph) -> Graph:
    """Work on fewer dimensions where the others are 1.

    rewrite:  y = Op(Reshape(x))             ->   y = Reshape(Op(x))
              y = Op(Reshape(a), b), binary  ->   y = Reshape(Op(a, Reshape(b)))
    when:     the Reshape only adds dimensions of 1, not the last one (channels stay channels),
              and Op does nothing along them; Op is elementwise, Pad, Slice, Concat, Mean or Softmax
    keeps:    every value, bit for bit
    """
    return replace_nodes(graph, lambda g, node: merge(g, node) or _sink(g, node))


def _sink(graph: Graph, node: Node) -> Replacement | None:
    ins = graph.ins(node)
    added = [_added(graph, t) for t in node.inputs]
    lead = next((dims for dims in added if dims is not None), None)
    if lead is None:
        return None
    rank = max(len(x.shape) for x in ins)
    op = _without(node.op, lead, rank)
    if op is None or rank - 1 in lead:
        return None
    names: list[str] = []
    nodes: list[Node] = []
    tensors: list[Tensor] = []
    for i, x in enumerate(ins):
        wide: Shape = (1,) * (rank - len(x.shape)) + x.shape  # as broadcasting sees it
        if any(wide[d] != 1 for d in lead):
            return None
        shape = tuple(n for d, n in enumerate(wide) if d not in lead)
        if added[i] == lead:
            names.append(graph.producer[x.name].inputs[0])
            continue
        if x.shape == shape or len(x.shape) <= 1:
            names.append(x.name)
            continue
        name = fresh(graph, f"{node.outputs[0]}/in{i}")
        names.append(name)
        if x.data is not None:
            tensors.append(replace(x, name=name, shape=shape, data=x.data.reshape(shape)))
        else:
            tensors.append(replace(x, name=name, shape=shape))
            nodes.append(Node(Reshape(shape), (x.name,), (name,), node.origin))
    new = replace(node, op=op, inputs=tuple(names))
    known = {**graph.tensors, **{t.name: t for t in tensors}}
    found = in_shape(graph, new, op.infer([known[name] for name in names])[0])
    return replace(found, nodes=(*nodes, *found.nodes), tensors=(*tensors, *found.tensors))


def _without(op: Op, dims: tuple[int, ...], rank: int) -> Op | None:
    """`op` for tensors that lack these dimensions of 1; None when it does something along them."""

    def rest(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(v for d, v in enumerate(values) if d not in dims)

    def before(axis: int) -> int:
        return axis - sum(d < axis for d in dims)

    if isinstance(op, (Unary, Quantize, Dequantize, Sum, Mul, Softmax)):
        return op
    if isinstance(op, Pad):
        if any(op.before[d] or op.after[d] for d in dims):
            return None
        return Pad(rest(op.before), rest(op.after))
    if isinstance(op, Slice):
        return Slice(rest(op.begin), rest(op.stride), rest(op.size))
    if isinstance(op, Concat):
        axis = op.axis % rank
        return Concat(before(axis)) if axis not in dims else None
    if isinstance(op, Mean):
        axes = tuple(before(d) for d in op.dimensions(rank) if d not in dims)
        return replace(op, axes=axes) if axes else None
    return None


def _added(graph: Graph, name: str) -> tuple[int, ...] | None:
    """The dimensions of 1 that a Reshape which made `name` has added; None: no such Reshape."""
    maker = graph.producer.get(name)
    if maker is None or not isinstance(maker.op, Reshape):
        return None
    old, new = list(graph.tensors[maker.inputs[0]].shape), graph.tensors[name].shape
    if len(old) >= len(new):
        return None
    # The first dimension is the batch in both. The rest from the last one on, which are channels.
    batch = int(old[:1] == [new[0]])
    old, added = old[batch:], []
    for d in reversed(range(batch, len(new))):
        if old and old[-1] == new[d]:
            old.pop()
        elif new[d] == 1:
            added.append(d)
        else:
            return None
    return None if old else tuple(reversed(added))
