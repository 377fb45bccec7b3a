"""Activations as clamps of the operator before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.graph.edit import Replacement, origins, replace_nodes
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.activation import Activation, clamp_range
from edgesparse.ops.add import Sum
from edgesparse.ops.base import Op
from edgesparse.ops.linear import Linear
from edgesparse.ops.mul import Mul
from edgesparse.ops.pool import Pool
from edgesparse.ops.unary import Relu, Unary

CLAMPING = (Linear, Pool)
"""Operators with a clamp besides their activation."""


def fuse_activation(graph: Graph) -> Graph:
    """Clamp where the value is made.

    rewrite:  t = Conv(x); y = Relu(t)   ->   y = Conv(x) with an activation or a narrower clamp
              the same for FullyConnected, pools, Add, Sub and Mul
    when:     nothing else reads t; int8: t and y have the same quantization and the table of the
              unary operator (any, not only Relu) is a clamp;
              Add, Sub, Mul, and every float operator: t has no activation yet
    keeps:    every value, bit for bit
    """
    return replace_nodes(graph, _match)


def _match(graph: Graph, node: Node) -> Replacement | None:
    if not isinstance(node.op, Unary) or graph.sole_consumer(node.inputs[0]) is None:
        return None
    maker = graph.producer.get(node.inputs[0])
    if maker is None or not isinstance(maker.op, (*CLAMPING, Sum, Mul)):
        return None
    between, out = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if out.dtype == "int8":
        op = _clamped(graph, maker, node) if between.quant == out.quant else None
    elif isinstance(node.op, Relu) and maker.op.activation is Activation.NONE:
        op = replace(maker.op, activation=node.op.activation)
    else:
        op = None
    if op is None:
        return None
    return Replacement((Node(op, maker.inputs, node.outputs, origins(maker, node)),))


def _clamped(graph: Graph, maker: Node, node: Node) -> Op | None:
    """The operator of `maker` with the clamp of `node` inside its own, if it can express it."""
    assert isinstance(node.op, Unary)
    out = graph.tensors[node.outputs[0]]
    table = node.op.table(graph.ins(node), graph.outs(node)).astype(int)
    low, high = int(table.min()), int(table.max())
    if not np.array_equal(table, np.clip(np.arange(-128, 128), low, high)):
        return None
    op = maker.op
    assert isinstance(op, (*CLAMPING, Sum, Mul))
    own = clamp_range(op.activation, out, op.clamp if isinstance(op, CLAMPING) else None)
    if max(low, own[0]) > min(high, own[1]):
        return None  # clamp after clamp is no single clamp when the two do not meet
    if op.activation is Activation.NONE:
        for activation in Activation:
            if clamp_range(activation, out) == (low, high):
                return replace(op, activation=activation)
    if not isinstance(op, CLAMPING):
        return None
    return replace(op, clamp=(max(low, own[0]), min(high, own[1])))
