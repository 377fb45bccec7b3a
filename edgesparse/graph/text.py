"""A graph as text: one line per node, for people and for golden files."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from zlib import crc32

from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.ops.base import Op


def to_text(graph: Graph) -> str:
    """The whole graph; equal graphs (constants included, by their checksum) give equal text.

    A node reads: output = Operator(attributes that are not default)(inputs)  # user's layers
    """
    lines = [f"graph {graph.name}"]
    for word, names, real, called in (
        ("input", graph.inputs, graph.float_inputs, graph.input_names),
        ("output", graph.outputs, graph.float_outputs, graph.output_names),
    ):
        for i, name in enumerate(names):
            note = " (float for the user)" if real and real[i] else ""
            if word == "output" and graph.uint8_outputs and graph.uint8_outputs[i]:
                note = " (uint8 for the user)"
            alias = f" called {called[i]}" if called and called[i] != name else ""
            lines.append(f"{word} {_tensor(graph.tensors[name])}{note}{alias}")
    lines += [_node(graph, node) for node in graph.nodes]
    return "\n".join(lines) + "\n"


def _node(graph: Graph, node: Node) -> str:
    outs = ", ".join(_tensor(t) for t in graph.outs(node))
    ins = ", ".join(t.name if t.data is None else _constant(t) for t in graph.ins(node))
    origin = f"  # {' + '.join(node.origin)}" if node.origin else ""
    return f"{outs} = {_op(node.op)}({ins}){origin}"


def _op(op: Op) -> str:
    """Name and attributes; a byte string stands as its checksum."""
    parts = []
    # Every operator is a dataclass. By name: who inherits what from whom is nobody's matter here.
    for f in sorted(fields(op), key=lambda f: f.name):  # type: ignore[arg-type]
        value = getattr(op, f.name)
        if value == f.default:
            continue
        if isinstance(value, bytes):
            value = f"{len(value)} bytes {crc32(value):08x}"
        elif isinstance(value, Enum):
            value = value.name
        parts.append(f"{f.name}={value}")
    return f"{type(op).__name__}({', '.join(parts)})" if parts else type(op).__name__


def _tensor(t: Tensor) -> str:
    kept = f" keeps {_ranges(t.kept)}" if t.kept is not None else ""
    return f"{t.name}: {_type(t)}{kept}"


def _constant(t: Tensor) -> str:
    assert t.data is not None
    return f"{_type(t)} {crc32(t.data.tobytes()):08x}"


def _type(t: Tensor) -> str:
    """dtype[shape] and quantization; per-channel quantization as a checksum."""
    text = f"{t.dtype}[{','.join(map(str, t.shape))}]"
    if t.quant is None:
        return text
    if t.quant.per_channel:
        return f"{text} per channel {crc32(repr(t.quant).encode()):08x}"
    return f"{text} {t.quant.scale[0]:.9g} zp {t.quant.zero_point[0]}"


def _ranges(numbers: tuple[int, ...]) -> str:
    """0-3,7: runs of consecutive numbers."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
