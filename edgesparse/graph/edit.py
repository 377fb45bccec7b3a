"""How a pass changes a graph: by replacing single nodes, all at once, until nothing matches.

A replacement produces the same outputs with the same values and reads tensors that were there
before, so replacements found in one walk cannot disturb each other. What they bypass has lost
its readers and is dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from edgesparse.graph.ir import Graph, Node, Shape, Tensor
from edgesparse.ops.reshape import Reshape


@dataclass(frozen=True)
class Replacement:
    """Nodes, in order, to stand in the place of one node, and the tensors they bring along.

    moved  old name -> new name: a later reader of the old one is to read the new one, because the
           old name now stands for the same elements in another shape. No output of the graph.
    """

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


Match = Callable[[Graph, Node], Replacement | None]


def replace_nodes(graph: Graph, match: Match) -> Graph:
    """Replace nodes as `match` says until it has nothing more to say."""
    while True:
        nodes: list[Node] = []
        tensors: list[Tensor] = []
        moved: dict[str, str] = {}
        changed = False
        for node in graph.nodes:
            found = match(graph, node)
            changed = changed or found is not None
            for new in (node,) if found is None else found.nodes:
                inputs = tuple(moved.get(t, t) for t in new.inputs)
                nodes.append(replace(new, inputs=inputs))
            if found is not None:
                tensors += found.tensors
                moved.update(found.moved)
        if not changed:
            return graph
        graph = drop_unread(graph.with_nodes(nodes, tensors))


def in_shape(graph: Graph, node: Node, shape: Shape) -> Replacement:
    """`node`, whose output is to have `shape`, and a Reshape to what its readers know.

    The output keeps its name (it has the same elements), unless the user sees it.
    """
    out = graph.tensors[node.outputs[0]]
    if shape == out.shape:
        return Replacement((node,))
    kept = out.kept if shape[-1:] == out.shape[-1:] else None
    other = fresh(graph, f"{out.name}/shape{len(out.shape)}")
    inner, outer = (other, out.name) if out.name in graph.outputs else (out.name, other)
    return Replacement(
        (
            replace(node, outputs=(inner,)),
            Node(Reshape(out.shape), (inner,), (outer,), node.origin),
        ),
        (replace(out, name=inner, shape=shape, kept=kept), replace(out, name=outer)),
        {} if outer == out.name else {inner: outer},
    )


def drop_unread(graph: Graph) -> Graph:
    """Drop nodes that lead to no output of the graph."""
    needed = set(graph.outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return graph.with_nodes(reversed(nodes))


def rename(nodes: Iterable[Node], names: Mapping[str, str]) -> list[Node]:
    """The nodes, reading and writing the new names."""
    return [
        replace(
            node,
            inputs=tuple(names.get(t, t) for t in node.inputs),
            outputs=tuple(names.get(t, t) for t in node.outputs),
        )
        for node in nodes
    ]


def fresh(graph: Graph, name: str) -> str:
    """`name`, or with a number behind it when a tensor has that name already."""
    if name not in graph.tensors:
        return name
    number = 2
    while f"{name}:{number}" in graph.tensors:
        number += 1
    return f"{name}:{number}"


def origins(*nodes: Node) -> tuple[str, ...]:
    """The user's layers of several nodes, in order, each once."""
    return tuple(dict.fromkeys(name for node in nodes for name in node.origin))
