"""Lowering: graph -> steps.

Nodes are walked in order. A node that computes becomes a step; the nodes after it join its tail
while they are elementwise and nobody else reads what is between (vertical fusion). Data movement
that is no alias becomes a Copy step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from edgesparse.errors import Unsupported, UnsupportedModel
from edgesparse.graph.ir import Array, Graph, Node, Shape, Tensor
from edgesparse.mapping import stages
from edgesparse.mapping.bounds import SCALES, check_stage, check_sums
from edgesparse.mapping.draft import Draft, DraftStage
from edgesparse.mapping.views import View, reshaped, resolve_views, sliced
from edgesparse.ops import (
    Add,
    AvgPool,
    Concat,
    Conv,
    FullyConnected,
    MaxPool,
    Mean,
    Mul,
    Pad,
    Reshape,
    Slice,
    Softmax,
    Sub,
    Transpose,
)
from edgesparse.plan import model as pm
from edgesparse.sparsity.choose import MIN_SAVING, choose
from edgesparse.sparsity.measure import measure

Binary = (Add, Sub, Mul)
MAX_STAGES = 16
"""A branch holds no more (PLAN_FORMAT.md, I-7)."""


@dataclass
class Lowered:
    """The steps of a model and where each tensor's bytes are, relative to its root."""

    graph: Graph
    drafts: list[Draft] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)


def lower(graph: Graph) -> Lowered:
    """Lower an int8 graph. Raises UnsupportedModel with everything that has no step."""
    low = Lowered(graph, tensors=dict(graph.tensors), views=dict(resolve_views(graph)))
    written: set[str] = set(graph.inputs)
    merged: set[int] = set()
    issues: list[Unsupported] = []
    for node in graph.nodes:
        if id(node) in merged:
            continue
        try:
            first = len(low.drafts)
            _lower_node(low, node)
            if len(low.drafts) > first and _takes_tail(low.drafts[-1]):
                low.drafts[-1] = _with_tail(low, low.drafts[-1], written, merged)
                written.add(low.drafts[-1].output)
        except Unsupported as issue:
            issues.append(issue)
        written.update(node.outputs)
    if issues:
        raise UnsupportedModel(graph.name, tuple(issues))
    for name in graph.outputs:
        low.outputs.append(_contiguous_output(low, name))
    return low


# ---- one node ---------------------------------------------------------------------------------


def _lower_node(low: Lowered, node: Node) -> None:
    for kind, emit in _EMIT:
        if isinstance(node.op, kind):
            emit(low, node)
            return
    if hasattr(node.op, "table"):
        _emit_unary(low, node)
        return
    raise Unsupported(
        node.name, type(node.op).__name__, "has no integer kernel in a plan",
        "express it with operators of docs/OPERATORS.md",
    )


def _emit_mac(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, (Conv, FullyConnected))
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    shape = stages.geometry(node.op, ins, outs)
    matrix, reason = _weights(node, ins[1])
    x = _as_matrix(low, node, node.inputs[0], shape.in_h * shape.in_w, shape.in_c)
    bias, sums = _folded_bias(node, ins)
    source = pm.Mac(geometry=shape, weights=matrix, bias_form=pm.BiasForm.FOLDED, bias=bias)
    requant = stages.requant(node.op, ins, outs)
    check_sums(node.name, type(node.op).__name__, source, sums, requant)
    y = _as_matrix_result(low, node.outputs[0], shape.out_h * shape.out_w, shape.rows)
    low.drafts.append(Draft(x, source, y, (DraftStage(requant),), node.origin, reason))


def _weights(node: Node, w: Tensor) -> tuple[pm.Weights, str]:
    assert w.data is not None
    matrix = w.data.reshape(w.shape[0], -1)
    stats = measure(matrix)
    if isinstance(node.op, Conv) and node.op.groups > 1:
        decision = choose(stats, matrix, only=("dense",))
        kept = "" if stats.zero_fraction < MIN_SAVING else "; weights of groups stay dense"
        reason = decision.reason + kept
    else:
        decision = choose(stats, matrix)
        reason = decision.reason
    rows, cols = matrix.shape
    return pm.Weights(rows=rows, cols=cols, groups=decision.groups), reason


def _folded_bias(node: Node, ins: tuple[Tensor, ...]) -> tuple[Array, Array]:
    """(b - zero point of x * sum(w), sum of |w|), each [rows]: kernels multiply stored inputs."""
    w, b = ins[1].data, ins[2].data
    assert w is not None
    assert b is not None
    matrix = w.reshape(w.shape[0], -1).astype(np.int64)
    bias = b.astype(np.int64) - ins[0].zero_point * matrix.sum(axis=1)
    if (np.abs(bias) >= 2**31).any():
        row = int(np.abs(bias).argmax())
        reach = abs(int(bias[row]))
        raise Unsupported(
            node.name, type(node.op).__name__,
            f"the sum of output channel {row} may reach {reach:,}, past int32", SCALES)
    return np.asarray(bias, np.int32), np.abs(matrix).sum(axis=1)


def _emit_binary(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Binary)
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    names = [_broadcastable(low, node, t, outs[0]) for t in node.inputs]
    value = next(
        (i for i, t in enumerate(names)
         if low.tensors[t].data is None and _same_box(low.tensors[t], outs[0])), 0)
    body = stages.elementwise(node.op, ins, outs, value)
    check_stage(node.name, type(node.op).__name__, body, outs[0].columns)
    low.drafts.append(Draft(
        names[value], pm.Load(), node.outputs[0], (DraftStage(body, names[1 - value]),),
        node.origin))


def _emit_unary(low: Lowered, node: Node) -> None:
    body = stages.unary(node.op.table(low.graph.ins(node), low.graph.outs(node)))  # type: ignore[attr-defined]
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))


def _emit_pool(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, (MaxPool, AvgPool))
    body = stages.pool(node.op, low.graph.ins(node), low.graph.outs(node))
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))


def _emit_mean(low: Lowered, node: Node) -> None:
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
    out = _as_matrix_result(low, y.name, 1, x.channels)
    low.drafts.append(Draft(node.inputs[0], pm.Load(), out, (DraftStage(body),), node.origin))


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
    out = _as_matrix_result(low, y.name, x.columns, x.channels)
    low.drafts.append(Draft(node.inputs[0], pm.Load(), out, (DraftStage(body),), node.origin))


def _emit_softmax(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Softmax)
    ins = low.graph.ins(node)
    body = stages.softmax(node.op, ins, low.graph.outs(node))
    check_stage(node.name, "SOFTMAX", body, ins[0].columns)
    low.drafts.append(Draft(
        node.inputs[0], pm.Load(), node.outputs[0], (DraftStage(body),), node.origin))


# ---- data movement ----------------------------------------------------------------------------


def _emit_reshape(low: Lowered, node: Node) -> None:
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    if not _is_alias(low, x, y):
        _copy(low, node, stages.box_copy((x.size,), (0, (1,)), (0, (1,))))


def _emit_slice(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Slice)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    if _is_alias(low, x, y):
        return
    strides = stages.strides_of(x.shape)
    offset = sum(b * s for b, s in zip(node.op.begin, strides, strict=True))
    read = [k * s for k, s in zip(node.op.stride, strides, strict=True)]
    _copy(low, node, stages.box_copy(y.shape, (offset, read), (0, stages.strides_of(y.shape))))


def _emit_transpose(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Transpose)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    strides = stages.strides_of(x.shape)
    read = [strides[p] for p in node.op.perm]
    _copy(low, node, stages.box_copy(y.shape, (0, read), (0, stages.strides_of(y.shape))))


def _emit_pad(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Pad)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    strides = stages.strides_of(y.shape)
    offset = sum(b * s for b, s in zip(node.op.before, strides, strict=True))
    _copy(low, node, stages.box_copy(
        x.shape, (0, stages.strides_of(x.shape)), (offset, strides), fill=y.zero_point))


def _emit_concat(low: Lowered, node: Node) -> None:
    """Copy the parts that were not computed in place."""
    assert isinstance(node.op, Concat)
    y = low.tensors[node.outputs[0]]
    axis = node.op.axis % len(y.shape)
    strides = stages.strides_of(y.shape)
    at = 0
    for name in node.inputs:
        part = low.tensors[name]
        begin = tuple(at if d == axis else 0 for d in range(len(y.shape)))
        at += part.shape[axis]
        placed = sliced(y.shape, low.views[y.name], begin, (1,) * len(begin), part.shape)
        if name in low.views and low.views[name] == placed:
            continue
        offset = begin[axis] * strides[axis]
        source = stages.box_copy(
            part.shape, (0, stages.strides_of(part.shape)), (offset, strides))
        low.drafts.append(Draft(name, source, y.name, (), node.origin))


def _copy(low: Lowered, node: Node, source: pm.Copy) -> None:
    low.drafts.append(Draft(node.inputs[0], source, node.outputs[0], (), node.origin))


def _is_alias(low: Lowered, x: Tensor, y: Tensor) -> bool:
    return x.name in low.views and low.views[y.name].root == low.views[x.name].root


_EMIT: tuple[tuple[type | tuple[type, ...], Callable[[Lowered, Node], None]], ...] = (
    ((Conv, FullyConnected), _emit_mac),
    (Binary, _emit_binary),
    ((MaxPool, AvgPool), _emit_pool),
    (Mean, _emit_mean),
    (Softmax, _emit_softmax),
    (Reshape, _emit_reshape),
    (Slice, _emit_slice),
    (Transpose, _emit_transpose),
    (Pad, _emit_pad),
    (Concat, _emit_concat),
)


# ---- tensors in another shape -----------------------------------------------------------------


def _as_matrix(low: Lowered, node: Node, name: str, columns: int, channels: int) -> str:
    """`name` as [columns, channels]: itself, an alias, or a copy where the bytes are not dense."""
    x = low.tensors[name]
    if (x.columns, x.channels) == (columns, channels):
        return name
    flat = _add_tensor(low, x, f"{name}:{columns}x{channels}", (columns, channels))
    if flat in low.views:
        return flat
    view = reshaped(x, low.views[name], low.tensors[flat]) if name in low.views else None
    if view is None:
        low.views[flat] = View(flat, 0, channels)
        low.drafts.append(Draft(
            name, stages.box_copy((x.size,), (0, (1,)), (0, (1,))), flat, (), node.origin))
    else:
        low.views[flat] = view
    return flat


def _as_matrix_result(low: Lowered, name: str, columns: int, channels: int) -> str:
    """The tensor a Mac writes so that `name` holds its result."""
    y = low.tensors[name]
    if (y.columns, y.channels) == (columns, channels):
        return name
    flat = _add_tensor(low, y, f"{name}:{columns}x{channels}", (columns, channels))
    view = reshaped(y, low.views[name], low.tensors[flat])
    if view is None:
        raise Unsupported(
            name, "result", f"shape {list(y.shape)} does not hold {columns} columns of "
            f"{channels} channels", "a Reshape after this layer")
    low.views[flat] = view
    return flat


def _same_box(t: Tensor, out: Tensor) -> bool:
    return (t.columns, t.channels) == (out.columns, out.channels)


def _broadcastable(low: Lowered, node: Node, name: str, out: Tensor) -> str:
    """`name` where columns and channels are those of `out` or 1; otherwise a full copy of it."""
    t = low.tensors[name]
    aligned = (1,) * (len(out.shape) - len(t.shape)) + t.shape
    columns = list(zip(aligned[:-1], out.shape[:-1], strict=True))
    if all(a == o for a, o in columns) or all(a == 1 for a, _ in columns):
        return name
    full = _add_tensor(low, t, f"{name}:{'x'.join(map(str, out.shape))}", out.shape)
    if full not in low.views:
        low.views[full] = View(full, 0, out.channels)
        strides = stages.strides_of(aligned)
        read = [0 if a == 1 else s for a, s in zip(aligned, strides, strict=True)]
        low.drafts.append(Draft(
            name, stages.box_copy(out.shape, (0, read), (0, stages.strides_of(out.shape))), full,
            (), node.origin))
    return full


def _add_tensor(low: Lowered, like: Tensor, name: str, shape: Shape) -> str:
    low.tensors.setdefault(name, Tensor(name, shape, like.dtype, like.quant))
    return name


def _contiguous_output(low: Lowered, name: str) -> str:
    """Plan outputs are dense: copy what is only a window into other bytes."""
    t, view = low.tensors[name], low.views.get(name)
    if view is not None and (view.pitch == t.channels or t.columns == 1):
        return name
    dense = _add_tensor(low, t, f"{name}:output", t.shape)
    low.views[dense] = View(dense, 0, t.channels)
    low.drafts.append(Draft(
        name, stages.box_copy((t.size,), (0, (1,)), (0, (1,))), dense, (), ()))
    return dense


# ---- vertical fusion --------------------------------------------------------------------------


def _takes_tail(draft: Draft) -> bool:
    """A copy has no tail; after a window stage each further stage would see the reduced shape."""
    return not isinstance(draft.source, pm.Copy) and not any(
        isinstance(s.body, pm.Softmax) for s in draft.stages)


def _with_tail(low: Lowered, draft: Draft, written: set[str], merged: set[int]) -> Draft:
    """Append the elementwise nodes that follow, as long as each fusion is legal."""
    while True:
        node = low.graph.sole_consumer(draft.output) if draft.output in low.graph.tensors else None
        if node is None or len(draft.stages) == MAX_STAGES:
            return draft
        stage = _tail_stage(low, node, draft.output, written)
        if stage is None:
            return draft
        draft = draft.append(stage, node.outputs[0], node.origin)
        merged.add(id(node))


def _tail_stage(low: Lowered, node: Node, value: str, written: set[str]) -> DraftStage | None:
    """The stage `node` becomes after `value`; None where fusing would not be exact or ordered."""
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    if hasattr(node.op, "table"):
        return DraftStage(stages.unary(node.op.table(ins, outs)))
    if not isinstance(node.op, Binary) or node.inputs[0] == node.inputs[1]:
        return None
    index = node.inputs.index(value)
    other = node.inputs[1 - index]
    # The operand must be complete before this step starts, and seen without a copy.
    if low.tensors[other].data is None and other not in written:
        return None
    if not _same_box(low.tensors[value], outs[0]) or not _same_or_one(low, other, outs[0]):
        return None
    body = stages.elementwise(node.op, ins, outs, index)
    check_stage(node.name, type(node.op).__name__, body, outs[0].columns)
    return DraftStage(body, other)


def _same_or_one(low: Lowered, name: str, out: Tensor) -> bool:
    t = low.tensors[name]
    aligned = (1,) * (len(out.shape) - len(t.shape)) + t.shape
    columns = list(zip(aligned[:-1], out.shape[:-1], strict=True))
    return all(a == o for a, o in columns) or all(a == 1 for a, _ in columns)

