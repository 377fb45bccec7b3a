"""Which activation tensors share one scale and zero point, and where that takes a Requantize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesparse.graph.ir import Graph, Node, Quant
from edgesparse.ops import AvgPool, Concat, Logistic, MaxPool, Softmax, Tanh
from edgesparse.ops.layout import Layout

Range = tuple[float, float]

FIXED: Mapping[type, Quant] = {
    Softmax: Quant((1 / 256,), (-128,)),
    Logistic: Quant((1 / 256,), (-128,)),
    Tanh: Quant((1 / 128,), (0,)),
}
"""Output parameters the TFLite quantization specification prescribes."""

FINER = 1.25
"""A Concat input that others read too keeps its own scale when the shared one is this much
coarser: one bit is a factor 2, and a Requantize costs its own rounding."""


@dataclass(frozen=True)
class Sharing:
    """How tensors share their parameters.

    group       tensor name -> name of its group, for every activation tensor
    ranges      group -> the real range its members need together
    fixed       group -> parameters it must have
    requantize  (output of a Concat, position of its input): bring that input to the output's scale
    """

    group: Mapping[str, str]
    ranges: Mapping[str, Range]
    fixed: Mapping[str, Quant]
    requantize: frozenset[tuple[str, int]]


def share_scales(graph: Graph, ranges: Mapping[str, Range]) -> Sharing:
    """Group the tensors that operators with unchanged stored numbers connect.

    ranges  what each activation and each constant operand needs, by tensor name
    Pools and layout operators join input and output. A Concat joins an input too when nobody
    else looks at it (then writing it in the shared scale saves a rounding) or when the shared
    scale is hardly coarser; otherwise, and when the input's parameters are prescribed, the input
    is requantized; but inputs that all have the same prescribed parameters give them to the output.
    """
    groups = _Groups(ranges)
    for node in graph.nodes:
        if type(node.op) in FIXED:
            groups.fixed[node.outputs[0]] = FIXED[type(node.op)]
    for node in graph.nodes:
        if keeps_scale(node) and not isinstance(node.op, Concat):
            groups.join(node.inputs[0], node.outputs[0])
    requantize: set[tuple[str, int]] = set()
    for node in graph.nodes:
        if isinstance(node.op, Concat):
            requantize |= _concat(graph, node, groups)
    names = [name for name, tensor in graph.tensors.items() if tensor.data is None]
    return Sharing(
        {name: groups.root(name) for name in names},
        {groups.root(name): groups.range(name) for name in names},
        {groups.root(name): quant for name, quant in groups.fixed.items()},
        frozenset(requantize),
    )


def keeps_scale(node: Node) -> bool:
    """Does the operator pass stored numbers on, so that input and output share parameters?"""
    return isinstance(node.op, (Layout, MaxPool, AvgPool))


def _concat(graph: Graph, node: Node, groups: _Groups) -> set[tuple[str, int]]:
    out = node.outputs[0]
    first, *others = (groups.fixed_of(name) for name in node.inputs)
    if first is not None and all(quant == first for quant in others):
        groups.fixed[out] = first  # gates side by side: nothing to round
        return set()
    needed = [groups.range(name) for name in (*node.inputs, out)]
    together = (min(low for low, _ in needed), max(high for _, high in needed))
    groups.widen(out, together)
    apart: set[tuple[str, int]] = set()
    for i, name in enumerate(node.inputs):
        if graph.tensors[name].data is not None or groups.root(name) == groups.root(out):
            continue
        low, high = groups.range(name)
        coarser = together[1] - together[0] > FINER * (high - low)
        if groups.fixed_of(name) is not None or (
            coarser and _read_elsewhere(graph, node, name, groups)
        ):
            apart.add((out, i))
        else:
            groups.join(name, out)
    return apart


def _read_elsewhere(graph: Graph, concat: Node, name: str, groups: _Groups) -> bool:
    """Does anything but `concat` compute with a tensor of this group, or the user see one?"""
    members = groups.members(name)
    readers = (reader for member in members for reader in graph.consumers[member])
    return not members.isdisjoint(graph.outputs) or any(
        reader is not concat and not (keeps_scale(reader) and reader.outputs[0] in members)
        for reader in readers
    )


class _Groups:
    """Tensors in disjoint groups, with range and prescribed parameters of each."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        self.parent: dict[str, str] = {}
        self.ranges = dict(ranges)
        self.fixed: dict[str, Quant] = {}

    def root(self, name: str) -> str:
        while name in self.parent:
            name = self.parent[name]
        return name

    def range(self, name: str) -> Range:
        return self.ranges[self.root(name)]

    def widen(self, name: str, more: Range) -> None:
        low, high = self.range(name)
        self.ranges[self.root(name)] = (min(low, more[0]), max(high, more[1]))

    def fixed_of(self, name: str) -> Quant | None:
        """The parameters prescribed for the group of a tensor."""
        root = self.root(name)
        return next((q for other, q in self.fixed.items() if self.root(other) == root), None)

    def members(self, name: str) -> set[str]:
        root = self.root(name)
        return {other for other in self.ranges if self.root(other) == root}

    def join(self, a: str, b: str) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            self.widen(a, self.ranges[b])
            self.parent[b] = a
