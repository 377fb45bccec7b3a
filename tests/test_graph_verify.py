"""verify: each rule of the representation is broken once, and alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgesparse.errors import GraphInvalid
from edgesparse.graph.ir import Graph, Node, Quant, Tensor
from edgesparse.graph.verify import verify
from edgesparse.ops import Relu, Reshape
from graph_builder import GraphBuilder


def sound() -> Graph:
    """x0 -> Conv t0 -> Relu t1"""
    b = GraphBuilder(np.random.default_rng(1))
    x = b.input(1, 6, 2)
    return b.graph(b.apply(Relu(), b.conv(x, 3)))


def with_tensor(name: str, /, **changed: object) -> Callable[[Graph], Graph]:
    def broken(g: Graph) -> Graph:
        tensor = replace(g.tensors[name], **changed)  # type: ignore[arg-type]
        return replace(g, tensors={**g.tensors, name: tensor})

    return broken


def with_node(at: int, **changed: object) -> Callable[[Graph], Graph]:
    def broken(g: Graph) -> Graph:
        nodes = [*g.nodes]
        nodes[at] = replace(nodes[at], **changed)  # type: ignore[arg-type]
        return replace(g, nodes=tuple(nodes))

    return broken


def weights_of(**changed: object) -> Callable[[Graph], Graph]:
    return lambda g: with_tensor(g.nodes[0].inputs[1], **changed)(g)


def bias_of(**changed: object) -> Callable[[Graph], Graph]:
    return lambda g: with_tensor(g.nodes[0].inputs[2], **changed)(g)


BROKEN: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "a name under which another tensor stands": (with_tensor("t0", name="u"), "calls itself u"),
    "a node reads what does not exist": (with_node(1, inputs=("u",)), "reads u, which does not"),
    "a node reads what comes later": (
        lambda g: replace(g, nodes=g.nodes[::-1]), "reads t0 before anything computes it"),
    "a node writes what does not exist": (with_node(1, outputs=("u",)), "writes u, which does not"),
    "two nodes write one tensor": (
        lambda g: replace(g, nodes=(*g.nodes, g.nodes[1])), "writes t1, which has a value"),
    "a node writes an input": (with_node(1, outputs=("x0",)), "writes x0, which has a value"),
    "an input is named twice": (lambda g: replace(g, inputs=("x0", "x0")), "input x0"),
    "nothing computes an output": (
        lambda g: replace(g, nodes=g.nodes[:1]), "nothing computes output t1"),
    "an output is a constant": (
        lambda g: replace(g, outputs=(g.nodes[0].inputs[2],)), "is a constant"),
    "the shape is not what the operator gives": (
        with_tensor("t1", shape=(1, 6, 4)), r"gives \[1, 6, 3\], t1 is \[1, 6, 4\]"),
    "the operator refuses its inputs": (
        lambda g: replace(g, nodes=(*g.nodes[:1], Node(Reshape((7,)), ("t0",), ("t1",), ("my",)))),
        "Reshape my"),
    "an activation without a scale": (with_tensor("t0", quant=None), "int8 without one scale"),
    "an activation with a scale per channel": (
        with_tensor("t0", quant=Quant((1.0,) * 3, (0,) * 3, 2)), "int8 without one scale"),
    "as many scales as there are not": (
        with_tensor("t0", quant=Quant((1.0,) * 2, (0,) * 2, 2)), "2 scales for 3 channels"),
    "data of another shape": (bias_of(data=np.zeros(4, np.int32)), "data is int32"),
    "data of another type": (bias_of(data=np.zeros(3, np.int64)), "data is int64"),
    "weights off zero": (weights_of(quant=Quant((1.0,), (3,))), "weight zero point 3"),
    "weights without a scale": (weights_of(quant=None), "need one scale"),
    "weights scaled along another dimension": (
        weights_of(quant=Quant((1.0,) * 2, (0,) * 2, 3)), "need one scale"),
    "a bias too short": (bias_of(shape=(2,), data=np.zeros(2, np.int32), quant=None), "bias of"),
    "a bias of int8": (bias_of(dtype="int8", data=np.zeros(3, np.int8)), "int8 bias"),
    "no bias": (with_node(0, inputs=("x0", "c1")), "has 2 inputs"),
    "float weights on int8 values": (
        weights_of(dtype="float32", data=np.zeros((3, 1, 1, 2), np.float32), quant=None),
        "float32 weights"),
    "more numbers of kept channels than channels": (
        with_tensor("t0", kept=(0, 1, 2, 5)), "keeps 4 of the model's channels, has 3"),
    "kept channels out of order": (with_tensor("t0", kept=(2, 1, 0)), "keeps 3"),
    "notes on another number of inputs": (
        lambda g: replace(g, float_inputs=(True, False)), "2 notes on 1"),
}


def test_a_sound_graph_passes() -> None:
    verify(sound())


@pytest.mark.parametrize("what", BROKEN)
def test_verify_refuses(what: str) -> None:
    broken, message = BROKEN[what]
    with pytest.raises(GraphInvalid, match=f"^after some_pass: .*{message}"):
        verify(broken(sound()), after="some_pass")


def test_float_weights_need_a_float_bias() -> None:
    b = GraphBuilder(np.random.default_rng(1), real=True)
    graph = b.graph(b.conv(b.input(1, 6, 2), 3))
    verify(graph)
    bias = Tensor("bias", (3,), "int32", None, np.zeros(3, np.int32))
    node = replace(graph.nodes[0], inputs=(*graph.nodes[0].inputs[:2], "bias"))
    with pytest.raises(GraphInvalid, match="float32 input with float32 weights, int32 bias"):
        verify(graph.with_nodes([node], [bias]))
