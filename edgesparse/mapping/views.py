"""Aliases: which tensors of a graph are windows into another tensor's bytes.

Reshape, Slice and Concat (by placement) need no step when their result can be described as an
offset and a pitch in bytes that are there anyway. Everything else is a root with bytes of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesparse.graph.ir import Graph, Node, Shape, Tensor
from edgesparse.ops import Concat, History, Reshape, Slice


@dataclass(frozen=True)
class View:
    """Element (column, channel) stands at offset + column * pitch + channel of `root`."""

    root: str
    offset: int
    pitch: int


def resolve_views(graph: Graph) -> Mapping[str, View]:
    """The view of every tensor but constants and those that live in a ring (History).

    A tensor may be its own root.
    """
    parents = _placements(graph)
    views: dict[str, View] = {}
    # Placement goes from a Concat's result to its parts: later tensors are resolved first.
    computed = (node for node in graph.nodes if not isinstance(node.op, History))
    order = [*graph.inputs, *(t for node in computed for t in node.outputs)]
    for name in reversed(order):
        if name in parents:
            node, begin = parents[name]
            out = graph.tensors[node.outputs[0]]
            part = graph.tensors[name]
            view = sliced(out.shape, views[out.name], begin, (1,) * len(begin), part.shape)
            if view is not None:
                views[name] = view
                continue
        tensor = graph.tensors[name]
        views[name] = View(name, 0, tensor.channels)
    for node in graph.nodes:
        aliased = _alias(graph, node, views)
        if aliased is not None:
            views[node.outputs[0]] = aliased
    return views


def sliced(
    shape: Shape, view: View, begin: tuple[int, ...], stride: tuple[int, ...], size: Shape
) -> View | None:
    """The view of `size` elements from `begin` of a tensor of `shape`; None: not one pitch."""
    strides = _byte_strides(shape, view.pitch)
    offset = view.offset + sum(b * s for b, s in zip(begin, strides, strict=True))
    steps = [s * k for s, k in zip(strides, stride, strict=True)]
    pitch = _one_pitch(size, steps)
    return None if pitch is None else View(view.root, offset, pitch)


def _byte_strides(shape: Shape, pitch: int) -> list[int]:
    strides = [1]
    step = pitch
    for size in reversed(shape[1:-1]):
        strides.append(step)
        step *= size
    if len(shape) > 1:
        strides.append(step)
    return strides[::-1]


def _one_pitch(shape: Shape, strides: list[int]) -> int | None:
    """The column pitch of a box with these byte strides, when its columns have one."""
    channels = shape[-1] if shape else 1
    if shape and channels > 1 and strides[-1] != 1:
        return None
    pitch, run = 0, 0
    for size, stride in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if pitch == 0:
            pitch = stride
        elif stride != run:
            return None
        run = stride * size
    pitch = pitch or channels
    return pitch if pitch >= channels else None


def _alias(graph: Graph, node: Node, views: Mapping[str, View]) -> View | None:
    if not isinstance(node.op, (Reshape, Slice)) or node.inputs[0] not in views:
        return None
    source, out = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if views[out.name].root != out.name:
        return None  # already placed inside a Concat
    view = views[source.name]
    if isinstance(node.op, Slice):
        return sliced(source.shape, view, node.op.begin, node.op.stride, out.shape)
    return reshaped(source, view, out)


def reshaped(source: Tensor, view: View, out: Tensor) -> View | None:
    """The view of `out`, the same elements in the same order; None: the bytes are not dense."""
    if view.pitch == source.channels or source.columns == 1:
        return View(view.root, view.offset, out.channels)
    if source.channels == out.channels:
        return view
    return None


def _placements(graph: Graph) -> dict[str, tuple[Node, tuple[int, ...]]]:
    """Tensors that may be computed straight into a Concat's result -> (the Concat, where)."""
    placed: dict[str, tuple[Node, tuple[int, ...]]] = {}
    fixed = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        if not isinstance(node.op, Concat):
            continue
        rank = len(graph.tensors[node.outputs[0]].shape)
        axis = node.op.axis % rank
        at = 0
        for name in node.inputs:
            part = graph.tensors[name]
            begin = tuple(at if d == axis else 0 for d in range(rank))
            at += part.shape[axis]
            producer = graph.producer.get(name)
            owns_bytes = producer is not None and not isinstance(
                producer.op, (Reshape, Slice, History))
            if owns_bytes and name not in fixed and name not in placed and (
                node.inputs.count(name) == 1
            ):
                placed[name] = (node, begin)
    return placed
