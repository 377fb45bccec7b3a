"""Lowering: graph -> steps.

Nodes are walked in order. A node that computes becomes a step; the nodes after it join its tail
while they are elementwise and nobody else reads what is between (vertical fusion). Data movement
that is no alias becomes a Copy step.
"""

from __future__ import annotations

from collections.abc import Callable

from edgesparse.errors import Unsupported, UnsupportedModel
from edgesparse.graph.ir import Graph, Node
from edgesparse.mapping.emit_compute import (
    Binary,
    emit_binary,
    emit_mac,
    emit_mean,
    emit_pool,
    emit_running,
    emit_softmax,
    emit_unary,
)
from edgesparse.mapping.emit_move import (
    emit_concat,
    emit_history,
    emit_pad,
    emit_reshape,
    emit_slice,
    emit_transpose,
)
from edgesparse.mapping.emit_recurrent import emit_lstm, emit_svdf
from edgesparse.mapping.fuse import takes_tail, with_tail
from edgesparse.mapping.lowered import FULL, Fusion, Lowered, contiguous_output
from edgesparse.mapping.views import resolve_views
from edgesparse.mapping.weights import PORTABLE, WeightPolicy
from edgesparse.ops import (
    AvgPool,
    Concat,
    Conv,
    FullyConnected,
    History,
    Lstm,
    MaxPool,
    Mean,
    Pad,
    Reshape,
    Running,
    Slice,
    Softmax,
    Svdf,
    Transpose,
)

_EMIT: tuple[tuple[type | tuple[type, ...], Callable[[Lowered, Node], None]], ...] = (
    ((Conv, FullyConnected), emit_mac),
    (Binary, emit_binary),
    ((MaxPool, AvgPool), emit_pool),
    (Mean, emit_mean),
    (Running, emit_running),
    (Softmax, emit_softmax),
    (Reshape, emit_reshape),
    (Slice, emit_slice),
    (Transpose, emit_transpose),
    (Pad, emit_pad),
    (Concat, emit_concat),
    (History, emit_history),
    (Lstm, emit_lstm),
    (Svdf, emit_svdf),
)


def lower(
    graph: Graph, weights: WeightPolicy = PORTABLE, fusion: Fusion = FULL
) -> Lowered:
    """Lower an int8 graph. Raises UnsupportedModel with everything that has no step."""
    low = Lowered(
        graph, tensors=dict(graph.tensors), views=dict(resolve_views(graph)), weights=weights,
        fusion=fusion)
    written: set[str] = set(graph.inputs)
    merged: set[int] = set()
    issues: list[Unsupported] = []
    for node in graph.nodes:
        if id(node) in merged:
            continue
        try:
            first = len(low.drafts)
            _lower_node(low, node)
            if len(low.drafts) > first and fusion.on and takes_tail(low.drafts[-1]):
                low.drafts[-1] = with_tail(low, low.drafts[-1], written, merged)
                written.add(low.drafts[-1].output)
        except Unsupported as issue:
            issues.append(issue)
        written.update(node.outputs)
    if issues:
        raise UnsupportedModel(graph.name, tuple(issues))
    for name in graph.outputs:
        low.outputs.append(contiguous_output(low, name))
    return low


def _lower_node(low: Lowered, node: Node) -> None:
    _check_integers(low.graph, node)
    for kind, emit in _EMIT:
        if isinstance(node.op, kind):
            emit(low, node)
            return
    if hasattr(node.op, "table"):
        emit_unary(low, node)
        return
    raise Unsupported(
        node.name, type(node.op).__name__, "has no integer kernel in a plan",
        "express it with operators of docs/OPERATORS.md",
    )


def _check_integers(graph: Graph, node: Node) -> None:
    """A model that is int8 in part keeps the rest as the exporter left it."""
    for t in (*graph.outs(node), *graph.ins(node)):
        if t.dtype in ("float16", "float32"):
            raise Unsupported(
                node.name, type(node.op).__name__, f"'{t.name}' is {t.dtype} in a model that is "
                "int8 elsewhere; a plan computes with int8 only", "export the whole model as int8, "
                "or the whole model as float32, which edgesparse quantizes")
