"""Steps that compute: weights, elementwise, pools, mean, softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Node
from edgesparse.mapping import stages
from edgesparse.mapping.bounds import check_stage, check_sums
from edgesparse.mapping.draft import Draft, DraftStage
from edgesparse.mapping.lowered import (
    Lowered,
    Remembered,
    as_matrix,
    as_matrix_result,
    broadcastable,
    same_box,
)
from edgesparse.mapping.weights import mac_bias, stored
from edgesparse.ops import (
    Add,
    AvgPool,
    Conv,
    FullyConnected,
    MaxPool,
    Mean,
    Mul,
    Running,
    Softmax,
    Sub,
)
from edgesparse.plan import model as pm

Binary = (Add, Sub, Mul)


def emit_mac(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, (Conv, FullyConnected))
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    shape = stages.geometry(node.op, ins, outs)
    matrix, reason = stored(node, ins[1], low.weights, shape.out_h * shape.out_w)
    x = as_matrix(low, node, node.inputs[0], shape.in_h * shape.in_w, shape.in_c)
    assert ins[2].data is not None
    form = low.weights.bias_form
    bias, sums = mac_bias(node, ins[1], ins[2].data, ins[0].zero_point, form)
    source = pm.Mac(geometry=shape, weights=matrix, bias_form=form, bias=bias)
    requant = stages.requant(node.op, ins, outs)
    check_sums(node.name, type(node.op).__name__, source, sums, requant)
    y = as_matrix_result(low, node.outputs[0], shape.out_h * shape.out_w, shape.rows)
    low.drafts.append(Draft(x, source, y, (DraftStage(requant),), node.origin, reason))


def emit_binary(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Binary)
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    names = [broadcastable(low, node, t, outs[0]) for t in node.inputs]
    value = next(
        (i for i, t in enumerate(names)
         if low.tensors[t].data is None and same_box(low.tensors[t], outs[0])), 0)
    body = stages.elementwise(node.op, ins, outs, value)
    check_stage(node.name, type(node.op).__name__, body, outs[0].columns)
    low.drafts.append(Draft(
        names[value], pm.Load(), node.outputs[0], (DraftStage(body, names[1 - value]),),
        node.origin))


def emit_unary(low: Lowered, node: Node) -> None:
    body = stages.unary(node.op.table(low.graph.ins(node), low.graph.outs(node)))  # type: ignore[attr-defined]
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))


def emit_pool(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, (MaxPool, AvgPool))
    body = stages.pool(node.op, low.graph.ins(node), low.graph.outs(node))
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))


def emit_mean(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Mean)
    x, y = low.graph.ins(node)[0], low.graph.outs(node)[0]
    rank = len(x.shape)
    axes = {axis % rank for axis in node.op.axes}
    needed = {d for d in range(rank - 1) if x.shape[d] > 1}
    if all(x.shape[axis] == 1 for axis in axes):
        _emit_rescale(low, node)
        return
    if not needed <= axes or rank - 1 in axes:
        raise Unsupported(
            node.name, "MEAN", f"over dimensions {sorted(axes)} of {list(x.shape)}; allowed is the "
            "mean over all dimensions but the last", "global average pooling before this layer")
    body = stages.mean(node.op, (x,), (y,))
    check_stage(node.name, "MEAN", body, x.columns)
    out = as_matrix_result(low, y.name, 1, x.channels)
    low.drafts.append(Draft(node.inputs[0], pm.Load(), out, (DraftStage(body),), node.origin))


def emit_running(low: Lowered, node: Node) -> None:
    """The stage that `over` becomes for the columns that come in, and a ring of sums."""
    assert isinstance(node.op, Running)
    op, x, y = node.op, low.graph.ins(node)[0], low.graph.outs(node)[0]
    running = stages.running(op)
    body: pm.Mean | pm.AvgPool
    if isinstance(op.over, Mean):
        body = replace(stages.mean(op.over, (op.window(x),), (y,)), running=running)
    else:
        seen = replace(op.over, kernel=(1, x.columns), stride=(1, 1))
        pooled = stages.pool(seen, (x,), (y,))
        assert isinstance(pooled, pm.AvgPool)
        body = replace(pooled, running=running)
    check_stage(node.name, type(op.over).__name__.upper(), body, op.window(x).columns)
    low.rings[y.name] = Remembered(
        4 + running.entries * running.entry_bytes, x.channels, use=pm.RingUse.SUMS)
    out = as_matrix_result(low, y.name, 1, x.channels)
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), out, (DraftStage(body),), node.origin, sums=y.name))


def _emit_rescale(low: Lowered, node: Node) -> None:
    """A mean over nothing but ones: each value by itself, in another scale."""
    assert isinstance(node.op, Mean)
    x, y = low.graph.ins(node)[0], low.graph.outs(node)[0]
    every = replace(x, shape=(1,) * len(x.shape))
    table = [
        node.op.int8_ref((np.full(every.shape, v, np.int8),), (every,), (y,))[0].item()
        for v in range(-128, 128)
    ]
    body = stages.unary(np.array(table))
    out = as_matrix_result(low, y.name, x.columns, x.channels)
    low.drafts.append(Draft(node.inputs[0], pm.Load(), out, (DraftStage(body),), node.origin))


def emit_softmax(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Softmax)
    ins = low.graph.ins(node)
    body = stages.softmax(node.op, ins, low.graph.outs(node))
    check_stage(node.name, "SOFTMAX", body, ins[0].columns)
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))
