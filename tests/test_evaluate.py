"""Running a graph in NumPy: what it takes, and which definition of an operator it uses."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.errors import BadInput
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Node, Quant, Tensor
from edgesparse.ops import Add, Dequantize, FullyConnected, Quantize, Relu, Slice

STORED = Quant((0.5,), (3,))


def graph(*nodes: Node, tensors: list[Tensor]) -> Graph:
    return Graph("small", {t.name: t for t in tensors}, nodes, ("x",), (nodes[-1].outputs[0],))


def relu() -> Graph:
    return graph(Node(Relu(), ("x",), ("y",)),
                 tensors=[Tensor("x", (1, 3), "float32"), Tensor("y", (1, 3), "float32")])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"inputs are \[\]; the model has \['x'\]"),
        ({"x": np.zeros((1, 3), np.float32), "z": np.zeros(1)}, "the model has"),
        ({"x": np.zeros((3, 1), np.float32)}, r"float32\[3, 1\]; the model takes float32\[1, 3\]"),
        ({"x": np.zeros((1, 3))}, r"float64\[1, 3\]; the model takes float32"),
    ],
)
def test_inputs_of_another_form_are_refused(inputs: dict[str, Array], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        evaluate(relu(), inputs)


def test_real_results_are_rounded_to_float32_after_every_operator() -> None:
    tensors = [Tensor(n, (1, 1), "float32") for n in "xyz"]
    tensors += [Tensor("tiny", (1, 1), "float32", None, np.array([[2**-25]], np.float32)),
                Tensor("minus", (1, 1), "float32", None, np.array([[-1]], np.float32))]
    values = evaluate(
        graph(Node(Add(), ("x", "tiny"), ("y",)), Node(Add(), ("y", "minus"), ("z",)),
              tensors=tensors),
        {"x": np.ones((1, 1), np.float32)})
    assert values["y"].dtype == np.float32
    assert values["z"].tolist() == [[0.0]]
    assert values["tiny"].tolist() == [[2**-25]]


def test_stored_and_real_numbers_meet_in_one_graph() -> None:
    """Quantize, a slice of real and of stored numbers, and back."""
    tensors = [Tensor("x", (1, 4), "float32"), Tensor("cut", (1, 2), "float32"),
               Tensor("q", (1, 2), "int8", STORED), Tensor("one", (1, 1), "int8", STORED),
               Tensor("y", (1, 1), "float32")]
    values = evaluate(
        graph(Node(Slice((0, 2), (1, 1), (1, 2)), ("x",), ("cut",)),
              Node(Quantize(), ("cut",), ("q",)),
              Node(Slice((0, 1), (1, 1), (1, 1)), ("q",), ("one",)),
              Node(Dequantize(), ("one",), ("y",)), tensors=tensors),
        {"x": np.array([[1, 2, 3, 4.3]], np.float32)})
    assert values["q"].tolist() == [[9, 12]]
    assert values["q"].dtype == np.int8
    assert values["y"].tolist() == [[4.5]]


def test_weights_with_a_scale_per_output_are_dequantized() -> None:
    w = Tensor("w", (2, 3), "int8", Quant((0.5, 2.0), (0, 0), 0),
               np.array([[1, 2, 3], [4, 5, 6]], np.int8))
    real = Tensor("real", (2, 3), "float32")
    b = Tensor("b", (2,), "float32", None, np.zeros(2, np.float32))
    tensors = [Tensor("x", (1, 3), "float32"), w, real, b, Tensor("y", (1, 2), "float32")]
    values = evaluate(
        graph(Node(Dequantize(), ("w",), ("real",)),
              Node(FullyConnected(), ("x", "real", "b"), ("y",)), tensors=tensors),
        {"x": np.ones((1, 3), np.float32)})
    assert values["real"].tolist() == [[0.5, 1.0, 1.5], [8.0, 10.0, 12.0]]
    assert values["y"].tolist() == [[3.0, 30.0]]
