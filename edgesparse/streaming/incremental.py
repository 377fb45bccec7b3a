"""A window model as a model of one hop: what changed is computed, the rest is remembered.

The hop model takes `hop` new columns a run and gives what the window model gives for the last
W columns, byte for byte. Each tensor that runs along time is held in three pieces: border columns
at the left and at the right, computed anew in each run, and the clean columns between them, of
which only the newest hop / stride are computed and the others come from History. A mean over all
columns keeps sums of the clean ones instead (Running).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.ops import AvgPool, Concat, Conv, Lstm, MaxPool, Mean, Running, Slice
from edgesparse.ops.history import History
from edgesparse.streaming.extent import (
    Extent,
    Reach,
    compact_extents,
    extents,
    moving_inputs,
    reach_of,
)
from edgesparse.streaming.source import along_time
from edgesparse.wording import counted


@dataclass(frozen=True)
class Pieces:
    """Where the columns of a tensor of the window are in the hop model.

    whole  all columns, computed in every run; None for a tensor in pieces
    fresh  the newest clean columns, `left` and `right` the border columns; None: there are none
    newest `fresh` and `right` as they were computed, in one
    phases windows start at so many places of its stride in turn: so many runs ago were the columns
           that are the same in this window
    """

    extent: Extent
    whole: str | None = None
    fresh: str | None = None
    left: str | None = None
    right: str | None = None
    newest: str | None = None
    phases: int = 1


@dataclass(frozen=True)
class Phased:
    """A layer from which on columns are kept in so many phases, each with columns of its own."""

    layer: str
    phases: int
    stride: int


@dataclass(frozen=True)
class Stopped:
    """A tensor from which on columns are computed in full in every run, and why."""

    tensor: str
    layer: str
    reason: str


@dataclass
class HopModel:
    """The hop model while it is built."""

    window: Graph
    hop: int
    phases: bool = True
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    pieces: dict[str, Pieces] = field(default_factory=dict)
    stopped: list[Stopped] = field(default_factory=list)
    phased: list[Phased] = field(default_factory=list)
    made: dict[tuple[str, int, int], str] = field(default_factory=dict)

    # ---- building blocks ----

    def add(self, node: Node, like: Tensor, name: str, columns: int | None = None) -> str:
        """Append `node` writing a tensor like `like`, of `columns` columns, under `name`."""
        shape = like.shape if columns is None else (1, columns, like.shape[2])
        while name in self.tensors or (name != like.name and name in self.window.tensors):
            name += "'"
        self.tensors[name] = replace(like, name=name, shape=shape)
        self.nodes.append(replace(node, outputs=(name,)))
        return name

    def part(self, name: str, begin: int, count: int, origin: tuple[str, ...]) -> str:
        """Columns [begin, begin + count) of a tensor of the hop model."""
        t = self.tensors[name]
        if (begin, count) == (0, t.shape[1]):
            return name
        size = (1, count, t.shape[2])
        node = Node(Slice((0, begin, 0), (1, 1, 1), size), (name,), (), origin)
        return self.add(node, t, f"{name}[{begin}:{begin + count}]", count)

    def columns(self, name: str, begin: int, end: int) -> str:
        """Columns [begin, end) of tensor `name` of the window, as a tensor of the hop model."""
        key = (name, begin, end)
        if key not in self.made:
            self.made[key] = self._columns(name, begin, end)
        return self.made[key]

    def _columns(self, name: str, begin: int, end: int) -> str:
        pieces = self.pieces[name]
        origin = self.origin(name)
        if pieces.whole is not None:
            return self.part(pieces.whole, begin, end - begin, origin)
        e = pieces.extent
        border = e.columns - e.right
        found: list[str] = []
        if begin < e.left:
            assert pieces.left is not None
            stop = min(end, e.left)
            found.append(self.part(pieces.left, begin, stop - begin, origin))
        low, high = max(begin, e.left), min(end, border)
        if low < high:
            found.append(self._clean(name, low, high, border))
        if end > border:
            assert pieces.right is not None
            start = max(begin, border)
            found.append(self.part(pieces.right, start - border, end - start, origin))
        if len(found) == 1:
            return found[0]
        t = self.window.tensors[name]
        node = Node(Concat(1), tuple(found), (), origin)
        return self.add(node, t, f"{name}[{begin}:{end}]", end - begin)

    def _clean(self, name: str, low: int, high: int, border: int) -> str:
        fresh = self.pieces[name].fresh
        assert fresh is not None
        new = self.tensors[fresh].shape[1]
        if low >= border - new:
            return self.part(fresh, low - (border - new), high - low, self.origin(name))
        t = self.window.tensors[name]
        past = History(high - low, border - high, self.pieces[name].phases)
        node = Node(past, (fresh,), (), self.origin(name))
        return self.add(node, t, f"{name}[{low}:{high}]", high - low)

    def origin(self, name: str) -> tuple[str, ...]:
        producer = self.window.producer.get(name)
        return producer.origin if producer is not None else (name,)

    # ---- one node of the window ----

    def compute(self, node: Node, reach: Reach, begin: int, end: int, suffix: str) -> str:
        """Columns [begin, end) of the node's output."""
        out = self.window.tensors[node.outputs[0]]
        size = self.window.tensors[moving_inputs(self.window, node)[0]].columns
        first = begin * reach.step - reach.before
        last = (end - 1) * reach.step - reach.before + reach.span  # one past
        low, high = max(first, 0), min(last, size)
        moving = moving_inputs(self.window, node)
        inputs = tuple(
            self.columns(t, low, high) if t in moving else t for t in node.inputs)
        op = node.op
        if isinstance(op, (Conv, MaxPool, AvgPool)):
            op = replace(op, pad=(op.pad[0], op.pad[1], low - first, last - high))
        elif isinstance(op, Slice):
            # Along time the columns are chosen already; along channels it stays.
            t = self.tensors[inputs[0]]
            op = Slice((0, 0, op.begin[2]), (1, op.stride[1], op.stride[2]),
                       (1, end - begin, op.size[2]))
            if (op.begin[2], op.stride, op.size) == (0, (1, 1, 1), t.shape):
                return inputs[0]
        for t_name in inputs:
            if t_name not in self.tensors:
                self.tensors[t_name] = self.window.tensors[t_name]
        return self.add(Node(op, inputs, (), node.origin), out, f"{out.name}{suffix}", end - begin)


@dataclass(frozen=True)
class Incremental:
    """The hop model of a window model.

    lead     fake columns before the first real one, so that windows end where runs end
    warm_up  runs until the first whole window
    stopped  where reuse ends and why; everything behind is computed in full
    phased   where the hop is no multiple of the stride and state is kept several times
    """

    graph: Graph
    window: int
    hop: int
    lead: int
    warm_up: int
    stopped: tuple[Stopped, ...]
    phased: tuple[Phased, ...] = ()


def incremental(
    graph: Graph, hop: int, phases: bool = True, compact: bool = False
) -> Incremental:
    """Rewrite a window model with one 1-D input for runs of `hop` columns.

    graph    int8, its input [1, W, C]; hop in 1..W
    phases   keep columns several times where hop is no multiple of a stride; False: recompute them
    compact  compute border columns at the left from the input, so that only its ring holds a window
    keeps    outputs of every window that ends at a multiple of hop, bit for bit
    Raises Unsupported.
    """
    graph = along_time(graph)
    source = graph.inputs[0]
    x = graph.tensors[source]
    if not 1 <= hop <= x.shape[1]:
        raise Unsupported(
            graph.name, "stream", f"a hop of {hop} columns; a window has {x.shape[1]}",
            f"a hop of 1 to {x.shape[1]}")
    model = HopModel(graph, hop, phases)
    known = compact_extents(graph, source) if compact else extents(graph, source)
    model.tensors[source] = replace(x, shape=(1, hop, x.shape[2]))
    model.pieces[source] = Pieces(known[source], fresh=source, newest=source)
    for node in graph.nodes:
        out = node.outputs[0]
        reach = reach_of(graph, node)
        if _averages_time(model, node):
            _running(model, node)
        elif out in known and reach is not None:
            _local(model, node, reach, known[out])
        else:
            _whole(model, node)
    outputs = tuple(_whole_tensor(model, t) for t in graph.outputs)
    lead = -x.shape[1] % hop
    hop_graph = replace(
        graph, tensors=_used(model, outputs), nodes=tuple(model.nodes), outputs=outputs)
    return Incremental(
        hop_graph, x.shape[1], hop, lead, (x.shape[1] + lead) // hop, tuple(model.stopped),
        tuple(model.phased))


def _local(model: HopModel, node: Node, reach: Reach, extent: Extent) -> None:
    out = node.outputs[0]
    if all(model.pieces[t].whole is not None for t in moving_inputs(model.window, node)):
        whole = model.compute(node, reach, 0, extent.columns, "")
        model.pieces[out] = Pieces(extent, whole=whole)
        return
    phases = extent.stride // math.gcd(model.hop, extent.stride)
    new = model.hop * phases // extent.stride
    reason = _no_reuse(model, extent, new, phases)
    if reason:
        model.stopped.append(Stopped(out, node.name, reason))
        whole = model.compute(node, reach, 0, extent.columns, "")
        model.pieces[out] = Pieces(extent, whole=whole)
        return
    if phases > 1 and phases not in {p.phases for p in model.phased}:
        model.phased.append(Phased(node.name, phases, extent.stride))
    left = model.compute(node, reach, 0, extent.left, ":left") if extent.left else None
    border = extent.columns - extent.right
    end = model.compute(node, reach, border - new, extent.columns, "")
    fresh = model.part(end, 0, new, node.origin)
    right = model.part(end, new, extent.right, node.origin) if extent.right else None
    model.pieces[out] = Pieces(
        extent, fresh=fresh, left=left, right=right, newest=end, phases=phases)


def _no_reuse(model: HopModel, extent: Extent, new: int, phases: int) -> str:
    """Why nothing of this tensor can be kept; empty: it can."""
    if phases > 1 and not model.phases:
        return (f"hop {model.hop} is no multiple of its stride of "
                f"{counted(extent.stride, 'column')}; a multiple of {extent.stride} keeps it, "
                "or phases of more memory")
    if phases > 1 and extent.left + extent.right + new >= extent.columns:
        return (f"the hop is no multiple of its stride of {extent.stride}: only every {phases}th "
                f"window has the same columns, and of {extent.columns} then {new} are new and "
                f"{extent.left + extent.right} border columns; a multiple of {extent.stride} "
                "keeps it")
    if extent.left + extent.right + new >= extent.columns:
        return (f"{extent.left + extent.right} of its {counted(extent.columns, 'column')} are "
                f"border columns and {new} are new: nothing is left to keep")
    return ""


def _averages_time(model: HopModel, node: Node) -> bool:
    """Whether a node is a mean over all columns of a tensor in pieces, channel by channel."""
    x = model.window.tensors[node.inputs[0]]
    pieces = model.pieces.get(x.name)
    if pieces is None or pieces.whole is not None or pieces.phases > 1:
        return False
    if isinstance(node.op, Mean):
        return node.op.dimensions(3) in ((1,), (0, 1))
    return isinstance(node.op, AvgPool) and (node.op.kernel, node.op.pad) == (
        (1, x.columns), (0, 0, 0, 0))


def _running(model: HopModel, node: Node) -> None:
    """A mean over the columns that are there: new ones, border columns, and sums of the past."""
    assert isinstance(node.op, (Mean, AvgPool))
    pieces = model.pieces[node.inputs[0]]
    assert pieces.newest is not None
    assert pieces.fresh is not None
    x, seen = model.window.tensors[node.inputs[0]], pieces.newest
    if pieces.left is not None:
        columns = model.tensors[seen].columns + pieces.extent.left
        both = Node(Concat(1), (seen, pieces.left), (), model.origin(x.name))
        seen = model.add(both, x, f"{x.name}:new", columns)
    out = model.window.tensors[node.outputs[0]]
    op = Running(node.op, pieces.extent.clean, model.tensors[pieces.fresh].columns)
    name = model.add(replace(node, op=op, inputs=(seen,)), out, out.name)
    model.pieces[out.name] = Pieces(Extent(0, out.columns), whole=name)


def _whole(model: HopModel, node: Node) -> None:
    """A node that is not local in time sees the whole window; an LSTM starts anew with it."""
    inputs = tuple(_whole_tensor(model, t) for t in node.inputs)
    out = model.window.tensors[node.outputs[0]]
    op, reason = node.op, "it reads the whole window at once"
    if isinstance(op, Lstm):
        op = replace(op, anew=True)
        reason = "its state starts anew in every window, so that every column of it changes"
    name = model.add(replace(node, op=op, inputs=inputs), out, out.name)
    if isinstance(op, Lstm) or any(
        t in model.pieces and model.pieces[t].whole is None for t in node.inputs
    ):
        model.stopped.append(Stopped(out.name, node.name, reason))
    model.pieces[out.name] = Pieces(Extent(0, out.columns), whole=name)


def _whole_tensor(model: HopModel, name: str) -> str:
    if name in model.pieces:
        pieces = model.pieces[name]
        if pieces.whole is not None:
            return pieces.whole
        return model.columns(name, 0, pieces.extent.columns)
    model.tensors.setdefault(name, model.window.tensors[name])  # a constant
    return name


def _used(model: HopModel, outputs: Iterable[str]) -> dict[str, Tensor]:
    used = {*model.window.inputs, *outputs}
    for node in model.nodes:
        used.update(node.inputs, node.outputs)
    return {n: t for n, t in model.tensors.items() if n in used}


