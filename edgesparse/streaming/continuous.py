"""A causal or valid model as one endless run: rings are never reset, there are no windows.

The hop model takes `hop` new columns and gives the hop / stride newest columns of each output, the
same bytes as a run of the model over the whole record from its first sample. Before the record
lies padding, as in the record's own run; nothing may look past its end, so no layer may pad on
the right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.ops import AvgPool, Conv, Lstm, MaxPool, Slice
from edgesparse.ops.history import History
from edgesparse.streaming.extent import Reach, extents, moving_inputs, reach_of
from edgesparse.streaming.source import along_time
from edgesparse.wording import counted


@dataclass(frozen=True)
class Track:
    """A tensor along the record: after N input columns, N a multiple of hop, it has
    N / stride - behind columns. Columns before `exact` differ from the record's own run.
    """

    stride: int
    behind: int
    exact: int


@dataclass(frozen=True)
class Continuous:
    """The hop model.

    stride     input columns per output column
    columns    output columns a run gives
    behind     after N input columns the newest output column is number N / stride - behind - 1
    exact      the first output column that equals the record's own run
    """

    graph: Graph
    hop: int
    stride: int
    columns: int
    behind: int
    exact: int


def continuous(graph: Graph, hop: int) -> Continuous:
    """Rewrite a model with one 1-D input and outputs along time for runs of `hop` columns.

    Raises Unsupported naming the layer that looks ahead, sees a whole window or whose stride
    does not divide `hop`.
    """
    graph = along_time(graph)
    source = graph.inputs[0]
    if hop < 1:
        raise Unsupported(graph.name, "stream", f"a hop of {hop} columns", "a hop of 1 or more")
    known = extents(graph, source)
    model = _Builder(graph, hop)
    for node in graph.nodes:
        out = node.outputs[0]
        reach = reach_of(graph, node)
        if isinstance(node.op, Lstm):
            raise Unsupported(
                node.name, "Lstm", "its state starts anew in every window, and an endless run has "
                "no windows", "incremental streaming, which recomputes it for every window")
        if out not in known or reach is None:
            raise Unsupported(
                node.name, type(node.op).__name__, "it needs a whole window, which an endless run "
                "does not have", "incremental streaming, which recomputes it for every window")
        model.add(node, reach)
    tracks = [model.tracks[t] for t in graph.outputs]
    if len({(t.stride, t.behind) for t in tracks}) != 1:
        raise Unsupported(graph.outputs[-1], "output", "the outputs do not run in step",
                          "incremental streaming")
    track = tracks[0]
    hop_graph = replace(graph, tensors=model.used(), nodes=tuple(model.nodes))
    return Continuous(
        hop_graph, hop, track.stride, hop // track.stride, track.behind,
        max(t.exact for t in tracks))


class _Builder:
    """The hop model while it is built; its tensors have the names of the window's."""

    def __init__(self, window: Graph, hop: int) -> None:
        self.window = window
        self.hop = hop
        source = window.tensors[window.inputs[0]]
        self.tensors = {source.name: replace(source, shape=(1, hop, source.shape[2]))}
        self.nodes: list[Node] = []
        self.tracks = {source.name: Track(1, 0, 0)}

    def used(self) -> dict[str, Tensor]:
        names = {*self.window.inputs, *self.window.outputs}
        for node in self.nodes:
            names.update(node.inputs, node.outputs)
        constants = {n: t for n, t in self.window.tensors.items() if t.data is not None}
        return {n: t for n, t in {**constants, **self.tensors}.items() if n in names}

    def add(self, node: Node, reach: Reach) -> None:
        """One node on its newest columns."""
        moving = moving_inputs(self.window, node)
        ins = [self.tracks[t] for t in moving]
        out = self.window.tensors[node.outputs[0]]
        stride = ins[0].stride * reach.step
        if self.hop % stride:
            raise Unsupported(
                node.name, type(node.op).__name__,
                f"a hop of {self.hop} is no multiple of its stride of {stride} input columns",
                f"a hop that is a multiple of {stride}")
        self._check_causal(node, reach)
        late = max(i.behind for i in ins)
        behind = -(-(reach.span + late - reach.before) // reach.step) - 1
        new = self.hop // stride
        names = {}
        for t, track in zip(moving, ins, strict=True):
            lag = (behind + 1) * reach.step + reach.before - reach.span - track.behind
            names[t] = self._past(t, (new - 1) * reach.step + reach.span, lag, node)
        op = node.op
        if isinstance(op, (Conv, MaxPool, AvgPool)):
            op = replace(op, pad=(op.pad[0], op.pad[1], 0, 0))
        elif isinstance(op, Slice):
            op = Slice((0, 0, op.begin[2]), (1, reach.step, op.stride[2]), (1, new, op.size[2]))
        self.tensors[out.name] = replace(out, shape=(1, new, out.shape[2]))
        inputs = tuple(names.get(t, t) for t in node.inputs)
        self.nodes.append(replace(node, op=op, inputs=inputs))
        padded = reach.before > 0
        # A padded layer behind a late one reads columns from before the record that were computed
        # from padding and are no padding themselves.
        exact = max(i.exact for i in ins)
        start = 0
        if exact > 0 or (padded and late > 0):
            start = -(-(exact + reach.before) // reach.step)
        self.tracks[out.name] = Track(stride, behind, max(0, start))

    def _past(self, name: str, columns: int, lag: int, node: Node) -> str:
        t = self.tensors[name]
        if lag == 0 and columns == t.shape[1]:
            return name
        past = f"{name}[-{columns + lag}:{-lag if lag else ''}]"
        while past in self.window.tensors:
            past += "'"
        if past not in self.tensors:
            self.tensors[past] = replace(t, name=past, shape=(1, columns, t.shape[2]))
            self.nodes.append(Node(History(columns, lag), (name,), (past,), node.origin))
        return past

    def _check_causal(self, node: Node, reach: Reach) -> None:
        op = node.op
        if isinstance(op, (Conv, MaxPool, AvgPool)) and op.pad[3] > 0:
            raise Unsupported(
                node.name, type(op).__name__, f"it pads {counted(op.pad[3], 'column')} on the "
                "right: it looks at what has not come yet",
                "padding='causal' or 'valid', or incremental streaming")
        if isinstance(op, AvgPool) and op.pad[2] > 0:
            raise Unsupported(
                node.name, "AvgPool", "it counts its padding out, which an endless run does not "
                "see", "padding='valid', or incremental streaming")
        if isinstance(op, MaxPool) and op.pad[2] > 0:
            zero_point = self.window.tensors[node.inputs[0]].zero_point
            if zero_point != -128:
                raise Unsupported(
                    node.name, "MaxPool", "its padding is lower than every value, a ring holds "
                    "zero points", "padding='valid', or incremental streaming")


