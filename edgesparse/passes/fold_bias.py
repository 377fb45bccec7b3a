"""Constant additions after a Conv or FullyConnected become its bias (float models)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.graph.edit import Replacement, fresh, origins, replace_nodes
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops.activation import Activation
from edgesparse.ops.add import Add, Sub, Sum
from edgesparse.ops.linear import Linear


def fold_bias(graph: Graph) -> Graph:
    """Fold a constant Add or Sub into the producer's bias.

    rewrite:  t = Conv(x, w, b); y = Add(t, c)   ->   y = Conv(x, w, b + c)
              t = Conv(x, w, b); y = Sub(t, c)   ->   y = Conv(x, w, b - c)
              the same for FullyConnected; the activation of Add and Sub stays
    when:     float; t has no other reader and no activation; c is constant, one number or one per
              channel
    keeps:    float results to 1 ulp of the sum. An int8 Add rounds once more: it stays
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    if not isinstance(node.op, Sum):
        return None
    maker = float_producer(graph, node.inputs[0])
    other = node.inputs[1]
    if maker is None and isinstance(node.op, Add):
        maker, other = float_producer(graph, node.inputs[1]), node.inputs[0]
    if maker is None or activation_of(maker) is not Activation.NONE:
        return None
    rows = graph.tensors[node.outputs[0]].channels
    c = per_channel(graph.tensors[other], rows)
    b = graph.tensors[maker.inputs[2]]
    if c is None or b.data is None:
        return None
    total = b.data.astype(np.float64) + (-c if isinstance(node.op, Sub) else c)
    return with_constants(graph, maker, node, {2: total})


def float_producer(graph: Graph, name: str) -> Node | None:
    """The float Conv or FullyConnected that makes `name` for one reader."""
    maker = graph.producer.get(name)
    if maker is None or not isinstance(maker.op, Linear):
        return None
    if graph.sole_consumer(name) is None or graph.tensors[name].dtype != "float32":
        return None
    return maker


def per_channel(t: Tensor, channels: int) -> Array | None:
    """[channels] float64 of a constant with one number, or one per last dimension."""
    if t.data is None or t.size not in (1, channels) or (t.size > 1 and t.channels != channels):
        return None
    return np.broadcast_to(t.data.reshape(-1).astype(np.float64), (channels,))


def activation_of(node: Node) -> Activation:
    """The activation of an operator that has one."""
    activation = getattr(node.op, "activation", Activation.NONE)
    assert isinstance(activation, Activation)
    return activation


def with_constants(
    graph: Graph, maker: Node, node: Node, values: dict[int, Array]
) -> Replacement:
    """`maker`, computing what `node` did (with its activation, if any), with other constants.

    values  input number -> the constant, float64
    """
    tensors = {
        i: Tensor(
            fresh(graph, f"{node.outputs[0]}/{('x', 'weights', 'bias')[i]}"),
            value.shape, "float32", data=value.astype(np.float32),
        )
        for i, value in values.items()
    }
    inputs = tuple(tensors[i].name if i in tensors else t for i, t in enumerate(maker.inputs))
    assert isinstance(maker.op, Linear)
    activation = activation_of(node)
    if activation is Activation.NONE:
        activation = maker.op.activation
    new = Node(replace(maker.op, activation=activation), inputs, node.outputs, origins(maker, node))
    return Replacement((new,), tuple(tensors.values()))
