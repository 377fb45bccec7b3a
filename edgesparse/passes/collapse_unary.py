"""Elementwise functions of one int8 tensor become tables."""

from __future__ import annotations

import numpy as np

from edgesparse.graph.edit import drop_unread, origins
from edgesparse.graph.evaluate import evaluate_node
from edgesparse.graph.ir import Array, Graph, Node
from edgesparse.ops.add import Sum
from edgesparse.ops.lut import Lut
from edgesparse.ops.mul import Mul
from edgesparse.ops.quantize import Dequantize, Quantize
from edgesparse.ops.unary import STORED, Unary

Functions = dict[str, Array]
"""Root -> [256], what a tensor holds for each value -128..127 of the root; nearest root first."""


def collapse_unary(graph: Graph) -> Graph:
    """Replace whatever is a function of one int8 tensor, element by element, by one Lut.

    rewrite:  y = f(g(x))                  ->   y = Lut(x)
              y = Mul(x, Logistic(x))      ->   y = Lut(x)
              y = Quantize(f(Dequantize(x)))   ->   y = Lut(x)
    when:     f, g are unary, or binary of functions of x and constants of one element;
              x and y are int8 and have the same shape. x is the nearest such tensor that is
              computed anyway, or else the farthest
    keeps:    every int8 value, bit for bit: the table is what the operators' own int8 definitions
              give for the 256 values (between Dequantize and Quantize: their float definitions)
    """
    functions = _functions(graph)
    read = _read_anyway(graph, functions)
    nodes: list[Node] = []
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        roots = _roots(graph, functions, node)
        if roots:
            x = next((r for r in roots if r in read), list(roots)[-1])
            table = roots[x].astype(np.int8).tobytes()
            if not (isinstance(node.op, Lut) and node.inputs == (x,)):
                chain = _between(graph, x, node)
                node = Node(Lut(table), (x,), node.outputs, origins(*chain))
        needed.update(node.inputs)
        nodes.append(node)
    return drop_unread(graph.with_nodes(reversed(nodes)))


def _functions(graph: Graph) -> dict[str, Functions]:
    """Of which tensors each tensor is a function, itself first."""
    functions: dict[str, Functions] = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is None and tensor.dtype == "int8":
            functions[name] = {name: STORED.astype(np.int8)}
    for node in graph.nodes:
        if not isinstance(node.op, (Unary, Sum, Mul, Quantize, Dequantize)):
            continue
        ins, outs = graph.ins(node), graph.outs(node)
        values = [t for t in ins if t.data is None]
        if not values or any(t.data is not None and t.size != 1 for t in ins):
            continue
        for root in functions.get(values[0].name, {}):
            everywhere = all(root in functions.get(t.name, {}) for t in values)
            if everywhere and graph.tensors[root].shape == outs[0].shape:
                args = [
                    functions[t.name][root] if t.data is None else t.data.reshape(1) for t in ins
                ]
                found = evaluate_node(node, args, ins, outs)[0]
                functions.setdefault(outs[0].name, {})[root] = found
    return functions


def _roots(graph: Graph, functions: dict[str, Functions], node: Node) -> Functions:
    """The tensors `node` can be a Lut of, with the tables; none: it stays what it is."""
    out = graph.tensors[node.outputs[0]]
    if out.dtype != "int8":
        return {}
    return {root: f for root, f in functions[out.name].items() if root != out.name}


def _read_anyway(graph: Graph, functions: dict[str, Functions]) -> set[str]:
    """The tensors that the user or an operator that stays reads."""
    read = set(graph.outputs)
    for node in reversed(graph.nodes):
        out = node.outputs[0]
        inside = any(root != out for root in functions.get(out, {}))
        if not inside or (out in read and graph.tensors[out].dtype != "int8"):
            read.update(node.inputs)
    return read


def _between(graph: Graph, root: str, last: Node) -> list[Node]:
    """The nodes on the way from `root` to `last`, in order."""
    found, wanted = [], {last.outputs[0]}
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.outputs):
            found.append(node)
            wanted.update(t for t in node.inputs if t != root)
    return found[::-1]
