"""Constant factors around a Conv or FullyConnected become part of its weights (float models)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.graph.edit import Replacement, fresh, origins, replace_nodes
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops.activation import Activation
from edgesparse.ops.add import Add
from edgesparse.ops.conv import Conv
from edgesparse.ops.linear import Linear
from edgesparse.ops.mean import Mean
from edgesparse.ops.mul import Mul
from edgesparse.passes.fold_bias import (
    activation_of,
    float_producer,
    per_channel,
    with_constants,
)


def fold_batch_norm(graph: Graph) -> Graph:
    """Fold the factors and additions of a batch normalization into the weights.

    rewrite:  t = Conv(x, w, b); y = Mul(t, m)   ->   y = Conv(x, w * m per row, b * m)
              t = Mul(x, m); y = Conv(t, w, b)   ->   y = Conv(x, w * m per input channel, b)
              t = Add(x, a); y = Conv(t, w, b)   ->   y = Conv(x, w, b + w * a summed)
              t = Mul(x, m); y = Mean(t)         ->   y = Mul(Mean(x), m); the same for Add
              the same for FullyConnected. What is added after a Conv is fold_bias's matter
    when:     float; t has no other reader and its maker no activation; m and a are constant, one
              number or one per channel;
              Mul after a Conv: RELU may stand between when no m is negative;
              Add before a Conv: no padding (there the Conv sees 0, not a);
              Mean: not over the channels
    keeps:    float results to a few ulp. int8 Mul and Add round in between: they stay
    """
    return replace_nodes(
        graph, lambda g, node: _after(g, node) or _before(g, node) or _past_mean(g, node)
    )


def _after(graph: Graph, node: Node) -> Replacement | None:
    if not isinstance(node.op, Mul):
        return None
    for value, other in (node.inputs, node.inputs[::-1]):
        maker = float_producer(graph, value)
        factor = per_channel(graph.tensors[other], graph.tensors[node.outputs[0]].channels)
        if maker is None or factor is None or not _commutes(maker, node, factor):
            continue
        w, b = (graph.tensors[t].data for t in maker.inputs[1:])
        if w is None or b is None:
            continue
        rows = factor.reshape(-1, *[1] * (w.ndim - 1))
        return with_constants(graph, maker, node, {1: w * rows, 2: b * factor})
    return None


def _commutes(maker: Node, node: Node, factor: Array) -> bool:
    """Whether the factor may go before the activation of `maker`."""
    between, last = activation_of(maker), activation_of(node)
    if between is Activation.NONE:
        return True
    return between is Activation.RELU and last in (Activation.NONE, between) and bool(
        (factor >= 0).all()
    )


def _before(graph: Graph, node: Node) -> Replacement | None:
    op, maker = node.op, graph.producer.get(node.inputs[0])
    if maker is None or not isinstance(maker.op, (Mul, Add)):
        return None
    if not isinstance(op, Linear) or graph.sole_consumer(node.inputs[0]) is None:
        return None
    t, w, b = graph.ins(node)
    if t.dtype != "float32" or maker.op.activation is not Activation.NONE:
        return None
    if w.data is None or b.data is None:
        return None
    if isinstance(op, Conv) and isinstance(maker.op, Add) and any(op.pad):
        return None
    for x, other in (maker.inputs, maker.inputs[::-1]):
        constant = per_channel(graph.tensors[other], t.channels)
        if constant is None or graph.tensors[x].shape != t.shape:
            continue
        spread = _per_weight(op, w, constant)
        if spread is None:
            return None
        if isinstance(maker.op, Mul):
            new = replace(w, name=fresh(graph, f"{node.outputs[0]}/weights"),
                          data=(w.data * spread).astype(np.float32))
            inputs = (x, new.name, b.name)
        else:
            total = (w.data * spread).reshape(w.shape[0], -1).sum(axis=1) + b.data
            new = replace(b, name=fresh(graph, f"{node.outputs[0]}/bias"),
                          data=total.astype(np.float32))
            inputs = (x, w.name, new.name)
        return Replacement(
            (Node(op, inputs, node.outputs, origins(maker, node)),), (new,)
        )
    return None


def _past_mean(graph: Graph, node: Node) -> Replacement | None:
    maker = graph.producer.get(node.inputs[0])
    if maker is None or not isinstance(node.op, Mean) or not isinstance(maker.op, (Mul, Add)):
        return None
    t, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if t.dtype != "float32" or graph.sole_consumer(t.name) is None:
        return None
    if len(t.shape) - 1 in node.op.dimensions(len(t.shape)):
        return None
    if maker.op.activation is not Activation.NONE:
        return None
    for x, other in (maker.inputs, maker.inputs[::-1]):
        constant = per_channel(graph.tensors[other], t.channels)
        if constant is None or graph.tensors[x].shape != t.shape:
            continue
        mean = replace(y, name=fresh(graph, f"{y.name}/mean"))
        new = Tensor(fresh(graph, f"{y.name}/constant"), (t.channels,), "float32",
                     data=constant.astype(np.float32))
        origin = origins(maker, node)
        return Replacement(
            (
                Node(node.op, (x,), (mean.name,), origin),
                Node(maker.op, (mean.name, new.name), node.outputs, origin),
            ),
            (mean, new),
        )
    return None


def _per_weight(op: Linear, w: Tensor, constant: Array) -> Array | None:
    """The number of its input channel for every weight, in a shape that broadcasts to w's."""
    if isinstance(op, Conv):
        rows = w.shape[0] // op.groups
        return np.repeat(constant.reshape(op.groups, -1), rows, axis=0)[:, None, None]
    if w.shape[1] % len(constant):
        return None
    return np.tile(constant, w.shape[1] // len(constant))[None]
