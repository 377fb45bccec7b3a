"""Steps that only move elements, and rings that remember them."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.mapping import stages
from edgesparse.mapping.draft import Draft
from edgesparse.mapping.emit_compute import Binary
from edgesparse.mapping.lowered import Lowered, Remembered, Slot, add_tensor
from edgesparse.mapping.views import View, sliced
from edgesparse.ops import Concat, History, Pad, Slice, Transpose
from edgesparse.plan import model as pm


def emit_reshape(low: Lowered, node: Node) -> None:
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    if not _is_alias(low, x, y):
        _copy(low, node, stages.box_copy((x.size,), (0, (1,)), (0, (1,))))


def emit_slice(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Slice)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    if _is_alias(low, x, y):
        return
    strides = stages.strides_of(x.shape)
    offset = sum(b * s for b, s in zip(node.op.begin, strides, strict=True))
    read = [k * s for k, s in zip(node.op.stride, strides, strict=True)]
    _copy(low, node, stages.box_copy(y.shape, (offset, read), (0, stages.strides_of(y.shape))))


def emit_transpose(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Transpose)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    strides = stages.strides_of(x.shape)
    read = [strides[p] for p in node.op.perm]
    _copy(low, node, stages.box_copy(y.shape, (0, read), (0, stages.strides_of(y.shape))))


def emit_pad(low: Lowered, node: Node) -> None:
    assert isinstance(node.op, Pad)
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    strides = stages.strides_of(y.shape)
    offset = sum(b * s for b, s in zip(node.op.before, strides, strict=True))
    _copy(low, node, stages.box_copy(
        x.shape, (0, stages.strides_of(x.shape)), (offset, strides), fill=y.zero_point))


def emit_concat(low: Lowered, node: Node) -> None:
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
        if name in low.views and low.views[name].root == low.views[y.name].root:
            # A window into another part that was computed in place: a step may not read the bytes
            # it writes into.
            name = _copied_out(low, part, node.origin)
        offset = begin[axis] * strides[axis]
        source = stages.box_copy(
            part.shape, (0, stages.strides_of(part.shape)), (offset, strides))
        low.drafts.append(Draft(name, source, y.name, (), node.origin))


def _copied_out(low: Lowered, part: Tensor, origin: tuple[str, ...]) -> str:
    """A dense copy of `part` with bytes of its own."""
    dense = add_tensor(low, part, f"{part.name}:copy", part.shape)
    if dense not in low.views:
        low.views[dense] = View(dense, 0, part.channels)
        low.drafts.append(Draft(
            part.name, stages.box_copy((part.size,), (0, (1,)), (0, (1,))), dense, (), origin))
    return dense


def _copy(low: Lowered, node: Node, source: pm.Copy) -> None:
    low.drafts.append(Draft(node.inputs[0], source, node.outputs[0], (), node.origin))


def _is_alias(low: Lowered, x: Tensor, y: Tensor) -> bool:
    return x.name in low.views and low.views[y.name].root == low.views[x.name].root


def emit_history(low: Lowered, node: Node) -> None:
    """A window into the ring of the input, which is filled when it is first asked for."""
    assert isinstance(node.op, History)
    name = node.inputs[0]
    if name not in low.rings:
        x = low.tensors[name]
        low.rings[name] = Remembered(
            _remembered(low.graph, name), x.channels, x.zero_point)
        _push(low, name, node.origin)
    if node.op.phases > 1:
        _gather_runs(low, node, node.op)
    else:
        low.slots[node.outputs[0]] = Slot(name, pm.RingRole.VIEW, node.op.lag)


def _gather_runs(low: Lowered, node: Node, op: History) -> None:
    """Copy the columns of the runs that count out of the ring; the result is a window into them."""
    x, y = low.tensors[node.inputs[0]], low.tensors[node.outputs[0]]
    runs, size = op.runs(x.columns), x.columns * x.channels
    seen = add_tensor(low, x, f"{y.name}:seen", (1, op.reach(x.columns), x.channels))
    low.slots[seen] = Slot(x.name, pm.RingRole.VIEW)
    kept = add_tensor(low, x, f"{y.name}:runs", (1, runs * x.columns, x.channels))
    low.views[kept] = View(kept, 0, x.channels)
    skipped = runs * x.columns - op.lag - op.columns
    low.views[y.name] = View(kept, skipped * x.channels, x.channels)
    source = stages.box_copy((runs, size), (0, (op.phases * size, 1)), (0, (size, 1)))
    low.drafts.append(Draft(seen, source, kept, (), node.origin))


def _remembered(graph: Graph, name: str) -> int:
    """Columns the ring of `name` needs so that every History of it is inside."""
    ops = [n.op for n in graph.consumers[name] if isinstance(n.op, History)]
    fresh = graph.tensors[name].columns
    return max(fresh, *(op.reach(fresh) for op in ops))


def _push(low: Lowered, name: str, origin: tuple[str, ...]) -> None:
    """Append `name` to its ring: by the step that computes it, where its other readers can read the
    newest columns of the ring."""
    append = add_tensor(low, low.tensors[name], f"{name}:ring", low.tensors[name].shape)
    low.slots[append] = Slot(name, pm.RingRole.APPEND)
    writers = [i for i, draft in enumerate(low.drafts) if draft.output == name]
    if len(writers) == 1 and _lives_in_ring(low, name):
        draft = low.drafts[writers[0]]
        if not isinstance(draft.source, pm.Copy):
            low.drafts[writers[0]] = replace(draft, output=append)
            del low.views[name]
            low.slots[name] = Slot(name, pm.RingRole.VIEW)
            return
    low.drafts.append(Draft(name, pm.Load(), append, (), origin))


def _lives_in_ring(low: Lowered, name: str) -> bool:
    """Whether `name` needs no bytes but those of its ring: it is no output and no part of another
    tensor, and is read by History and, on a CPU, by elementwise nodes."""
    readers = History if low.fusion.npu is not None else (History, *Binary)
    return (
        name not in low.graph.outputs
        and [n for n, view in low.views.items() if view.root == name] == [name]
        and all(isinstance(n.op, readers) for n in low.graph.consumers[name]))
