"""Build small graphs for tests, and compare what two of them compute.

    b = GraphBuilder(rng)
    x = b.input(1, 16, 4)
    y = b.apply(Relu(), b.conv(x, rows=8, kernel=(1, 3)))
    graph = b.graph(y)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Node, Quant, Tensor
from edgesparse.ops import Conv, FullyConnected, Op


class GraphBuilder:
    """Tensors and nodes as they come; every output is named after its number."""

    def __init__(self, rng: np.random.Generator, real: bool = False) -> None:
        self.rng = rng
        self.real = real
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def graph(self, *outputs: str) -> Graph:
        return Graph("test", self.tensors, tuple(self.nodes), tuple(self.inputs), outputs)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def quant(self, zero_point: int | None = None) -> Quant | None:
        """One scale and zero point; the ends of the range come often."""
        if self.real:
            return None
        if zero_point is None:
            zero_point = int(self.rng.choice([-128, 127, 0, int(self.rng.integers(-128, 128))]))
        return Quant((float(np.float32(self.rng.uniform(0.01, 0.1))),), (zero_point,))

    def add(self, tensor: Tensor) -> str:
        assert tensor.name not in self.tensors
        self.tensors[tensor.name] = tensor
        return tensor.name

    def input(self, *shape: int, quant: Quant | None = None) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        if self.real:
            return self.add(Tensor(name, shape, "float32"))
        return self.add(Tensor(name, shape, "int8", quant or self.quant()))

    def constant(self, data: Array, quant: Quant | None = None) -> str:
        name = f"c{len(self.tensors)}"
        return self.add(Tensor(name, data.shape, data.dtype.name, quant, data))  # type: ignore[arg-type]

    def values(self, *shape: int) -> str:
        """A constant activation."""
        if self.real:
            return self.constant(self.rng.normal(size=shape).astype(np.float32))
        return self.constant(self.rng.integers(-128, 128, shape).astype(np.int8), self.quant())

    def apply(self, op: Op, *inputs: str, like: str | None = None, **changed: Any) -> str:
        """The output of a new node.

        like     the tensor whose dtype and quantization it has (default: the first input)
        changed  fields of the output that differ from that
        """
        ins = [self.tensors[name] for name in inputs]
        name = f"t{len(self.nodes)}"
        out = replace(self.tensors[like] if like else ins[0], name=name, data=None, **changed)
        self.add(replace(out, shape=op.infer(ins)[0]))
        self.nodes.append(Node(op, inputs, (name,), (f"layer{len(self.nodes)}",)))
        return name

    def weights(self, rows: int, *shape: int, dead: float = 0.0) -> tuple[str, str]:
        """Weights [rows, *shape], int8 per channel, and bias; a share of rows and of columns 0."""
        if self.real:
            return (
                self.constant(self.rng.normal(size=(rows, *shape)).astype(np.float32)),
                self.constant(self.rng.normal(size=rows).astype(np.float32)),
            )
        w = self.rng.integers(-127, 128, (rows, *shape)).astype(np.int8)
        w[self.rng.random(rows) < dead] = 0
        if shape[-1] > 1:
            w[..., self.rng.random(shape[-1]) < dead] = 0
        size = int(np.prod(shape))
        scale = (self.rng.uniform(0.2, 1.0, rows) / (64 * size**0.5)).astype(np.float32)
        b = self.rng.integers(-2000, 2001, rows).astype(np.int32)
        per_channel = Quant(tuple(map(float, scale)), (0,) * rows, 0)
        return self.constant(w, per_channel), self.constant(b, per_channel)

    def conv(
        self, x: str, rows: int, kernel: tuple[int, int] = (1, 1), dead: float = 0.0,
        quant: Quant | None = None, **attributes: Any,
    ) -> str:
        op = Conv(**attributes)
        w, b = self.weights(rows, *kernel, self.shape(x)[-1] // op.groups, dead=dead)
        return self.apply(op, x, w, b, quant=quant or self.quant())

    def fully_connected(
        self, x: str, rows: int, dead: float = 0.0, quant: Quant | None = None, **attributes: Any
    ) -> str:
        w, b = self.weights(rows, self.shape(x)[-1], dead=dead)
        return self.apply(FullyConnected(**attributes), x, w, b, quant=quant or self.quant())


def random_inputs(rng: np.random.Generator, graph: Graph) -> dict[str, Array]:
    """Inputs over the full range of their types."""
    return {
        name: rng.integers(-128, 128, t.shape).astype(np.int8)
        if t.dtype == "int8"
        else rng.normal(size=t.shape).astype(np.float32)
        for name, t in ((name, graph.tensors[name]) for name in graph.inputs)
    }


def compare(rng: np.random.Generator, before: Graph, after: Graph) -> int:
    """Run both on the same input; whatever has the same name must hold the same bytes (float: the
    same up to rounding). Returns how many tensors were compared.

    What `after` calls input may be computed by `before` (peel_float_io).
    """
    a = evaluate(before, random_inputs(rng, before))
    b = evaluate(after, {name: a[name] for name in after.inputs})
    compared = 0
    for name, tensor in after.tensors.items():
        if name not in a or tensor.data is not None:
            continue
        one, other = a[name], b[name]
        if tensor.kept is not None:
            had = before.tensors[name].kept or tuple(range(before.tensors[name].channels))
            one = one[..., [had.index(channel) for channel in tensor.kept]]
        compared += 1
        if tensor.dtype == "int8":
            np.testing.assert_array_equal(one.ravel(), other.ravel(), err_msg=name)
        else:
            close = 1e-5 * max(1.0, float(np.abs(one).max(initial=0)))
            np.testing.assert_allclose(one.ravel(), other.ravel(), 0, close, err_msg=name)
    assert set(after.outputs) <= b.keys()
    return compared


def operators(graph: Graph) -> list[str]:
    """Names of the operators in order."""
    return [type(node.op).__name__ for node in graph.nodes]
