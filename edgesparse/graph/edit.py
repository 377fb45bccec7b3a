"""How a pass changes a graph: by replacing single nodes, all at once, until nothing matches.

A replacement produces the same outputs with the same values and reads tensors that were there
before, so replacements found in one walk cannot disturb each other. What they bypass has lost
its readers and is dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from edgesparse.graph.ir import Graph, Node, Tensor


@dataclass(frozen=True)
class Replacement:
    """Nodes, in order, to stand in the place of one node, and the tensors they bring along."""

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...] = ()


Match = Callable[[Graph, Node], Replacement | None]


def replace_nodes(graph: Graph, match: Match) -> Graph:
    """Replace nodes as `match` says until it has nothing more to say."""
    while True:
        nodes: list[Node] = []
        tensors: list[Tensor] = []
        changed = False
        for node in graph.nodes:
            found = match(graph, node)
            if found is None:
                nodes.append(node)
            else:
                nodes += found.nodes
                tensors += found.tensors
                changed = True
        if not changed:
            return graph
        graph = drop_unread(graph.with_nodes(nodes, tensors))


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
