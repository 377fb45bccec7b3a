"""Exact removal of channels that are constant or that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgesparse.graph.ir import Array, Graph, Node
from edgesparse.ops.fully_connected import FullyConnected
from edgesparse.ops.linear import Linear
from edgesparse.passes.channel_links import Link, links
from edgesparse.passes.linear_rows import Rows, linear_rows
from edgesparse.passes.shrink_channels import shrink
from edgesparse.passes.value_ranges import value_ranges


def dead_channels(graph: Graph) -> Graph:
    """Remove channels (of the last dimension) whose values no reader depends on.

    rewrite:  y = Conv(x, w, b)   ->   y = Conv(x', w', b') with fewer rows and columns
              the same for FullyConnected; what lies between works on fewer channels
    when:     every weight that reads the channel is 0, or the channel is constant and adds the
              same to every position of the reader: that goes into the bias. A constant other than
              the zero point that padding can see does not: it adds less at the border;
              operators that keep channels apart (depthwise Conv, elementwise, pools, ...) agree on
              the channels of all their tensors; inputs and outputs of the graph keep theirs
    keeps:    the channels that stay, bit for bit; Tensor.kept numbers them

    A row whose output is the same constant everywhere, whatever the input, but has to stay, gets
    weights of 0.
    """
    while True:
        ranges = value_ranges(graph)
        facts = ((node.outputs[0], linear_rows(graph, node, ranges)) for node in graph.nodes)
        rows = {name: found for name, found in facts if found is not None}
        shrunk = shrink(graph, _kept(graph, rows), rows)
        if shrunk is graph:
            return graph
        # Once more: a grouped Conv of which one group is left has rows and columns of its own.
        graph = shrunk


def _kept(graph: Graph, rows: Mapping[str, Rows]) -> dict[str, Array]:
    """Tensor -> bool [channels]: the fewest channels such that everyone has what it reads."""
    kept = {name: np.zeros(t.channels, bool) for name, t in graph.tensors.items()}
    whole = {*graph.inputs, *graph.outputs}
    tied: list[tuple[Node, list[Link]]] = []
    for node in reversed(graph.nodes):
        ties = links(graph, node)
        if isinstance(node.op, Linear):
            whole.update(node.inputs[1:])  # rows and columns are not channels
            ties = ties if node.outputs[0] in rows else None
        if ties is None:
            whole.update(node.inputs, node.outputs)
        tied.append((node, ties or []))
    for name in whole:
        kept[name][:] = True

    while True:
        before = _total(kept)
        for node, ties in tied:
            if node.outputs[0] in rows:
                kept[node.inputs[0]] |= rows[node.outputs[0]].needs(kept[node.outputs[0]])
            for link in ties:
                link.spread(kept)
        if _total(kept) == before:
            few = next((k for name, k in kept.items() if k.sum() < _least(graph, name)), None)
            if few is None:
                return kept
            few[np.argmin(few)] = True


def _least(graph: Graph, name: str) -> int:
    """How many channels a tensor has to keep.

    A FullyConnected computes another multiplier for a single weight scale than for several.
    """
    maker = graph.producer.get(name)
    if maker is None or not isinstance(maker.op, FullyConnected):
        return 1
    quant = graph.tensors[maker.inputs[1]].quant
    return 2 if quant is not None and len(quant.scale) > 1 else 1


def _total(kept: Mapping[str, Array]) -> int:
    return sum(int(keep.sum()) for keep in kept.values())
