"""What the importer refuses: each with the user's layer, the operator and the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgesparse.errors import Unsupported, UnsupportedModel
from edgesparse.graph.ir import DType, Quant, Shape, Tensor
from edgesparse.importers.tflite import check_tflite, import_tflite
from one_operator import ABSENT, FC, Q, act, ints, one, real, weights
from tflite_builder import Call, Options, build


def refusal(model: bytes) -> Unsupported:
    """The only refusal of a model."""
    (issue,) = check_tflite(model, "model")
    with pytest.raises(UnsupportedModel, match="model: 1 unsupported part"):
        import_tflite(model, "model")
    return issue


FC_OUT = [act("y", 1, 4)]


def zero_point_weights() -> Tensor:
    return Tensor("w", (4, 6), "int8", Quant((0.01,) * 4, (0, 0, 7, 0), 0),
                  np.ones((4, 6), np.int8))


@pytest.mark.parametrize(
    ("model", "where", "reason"),
    [
        (lambda: one("FULLY_CONNECTED", [act("x", 1, 6), zero_point_weights(), ABSENT], FC_OUT, FC),
         "y", "weights 'w' have a zero point other than 0"),
        (lambda: one("FULLY_CONNECTED", [act("x", 1, 6), act("w", 4, 6), ABSENT], FC_OUT, FC),
         "w", "its batch is 4"),
        (lambda: one("FULLY_CONNECTED", [act("x", 1, 6), weights("w", 4, 6, axis=1), ABSENT],
                     FC_OUT, FC), "y", "quantized along dimension 1"),
        (lambda: one("FULLY_CONNECTED", [act("x", 1, 6), weights("w", 4, 6), ABSENT], FC_OUT,
                     Options("FullyConnected", {"WeightsFormat": 1})), "y", "SHUFFLED4x16INT8"),
        (lambda: one("ADD", [act("x", 1, 6), act("z", 1, 6)], [act("y", 1, 6)],
                     Options("Add", {"FusedActivationFunction": 4})), "y", "activation is TANH"),
        (lambda: one("ADD", [act("x", 1, 6), act("z", 1, 6)], [act("y", 1, 6)],
                     Options("Add", {"FusedActivationFunction": 5})), "y", "is SIGN_BIT"),
        (lambda: one("ADD", [act("x", 1, 6), real("z", 1, 6)], [act("y", 1, 6)], Options("Add")),
         "y", "mixes float32 and int8"),
        (lambda: one("CONCATENATION", [act("x", 1, 6), act("z", 1, 6, quant=Quant((0.1,), (-3,)))],
                     [act("y", 1, 12)], Options("Concatenation", {"Axis": 1})),
         "y", "'z' and the output have different scales"),
        (lambda: one("MAX_POOL_2D", [act("x", 1, 2, 2, 3)],
                     [act("y", 1, 2, 2, 3, quant=Quant((0.1,), (0,)))],
                     Options("Pool2D", {"StrideW": 1, "StrideH": 1, "FilterWidth": 1,
                                        "FilterHeight": 1})), "y", "different scales"),
        (lambda: one("SOFTMAX", [act("x", 1, 6)], [act("y", 1, 6)],
                     Options("Softmax", {"Beta": 1.0})), "y", "0.00390625 and -128 are allowed"),
        (lambda: one("LOGISTIC", [act("x", 1, 6)], [act("y", 1, 6)], None), "y", "are allowed"),
        (lambda: one("RELU", [act("x", 4, 6)], [act("y", 4, 6)], None), "x", "its batch is 4"),
        (lambda: one("RELU", [act("x", 1, 6, quant=Quant((0.1,) * 6, (0,) * 6, 1))],
                     [act("y", 1, 6)], None), "x", "one scale"),
        (lambda: one("SIN", [real("x", 1, 6)], [real("y", 1, 6)], None), "y", "not executed"),
        (lambda: one("STRIDED_SLICE", [act("x", 1, 6), ints("b", [0]), ints("e", [1]),
                                       ints("s", [1])], [act("y", 1, 6)],
                     Options("StridedSlice", {"EllipsisMask": 1})), "y", "EllipsisMask 1"),
        (lambda: one("STRIDED_SLICE", [act("x", 1, 6), ints("b", [0]), ints("e", [1]),
                                       ints("s", [1])], [act("y", 1, 1, 6)],
                     Options("StridedSlice", {"NewAxisMask": 1})), "y", "NewAxisMask 1"),
    ],
)
def test_refusal_names_layer_and_reason(
    model: Callable[[], bytes], where: str, reason: str
) -> None:
    issues = check_tflite(model(), "model")
    issue = next(issue for issue in issues if issue.where == where)
    assert reason in str(issue)


@pytest.mark.parametrize(("dtype", "word"), [("uint8", "legacy"), ("int16", "int16"),
                                             ("int32", "int32")])
def test_other_activations_are_refused(dtype: DType, word: str) -> None:
    shape: Shape = (1, 6)
    ins = [Tensor("x", shape, dtype, Q if dtype != "uint8" else Quant((0.1,), (3,)))]
    issues = check_tflite(one("RELU", ins, [Tensor("y", shape, dtype, ins[0].quant)]), "model")
    assert [issue.operator for issue in issues] == ["graph input", "RELU"]
    assert all(word in issue.reason for issue in issues)


def test_computed_weights_and_shapes_are_refused() -> None:
    calls = [Call("RELU", ("x",), ("w",)),
             Call("FULLY_CONNECTED", ("x", "w", ""), ("y",), FC)]
    issue = refusal(build([act("x", 1, 6), act("w", 1, 6), act("y", 1, 1)], calls, ["x"], ["y"]))
    assert (issue.where, issue.operator) == ("y", "FULLY_CONNECTED")
    assert "'w' is computed at run time; weights must be constant" in issue.reason


def test_real_weights_beside_stored_activations_are_refused() -> None:
    calls = [Call("DEQUANTIZE", ("w",), ("real",)),
             Call("FULLY_CONNECTED", ("x", "real", ""), ("y",), FC)]
    tensors = [act("x", 1, 6), weights("w", 4, 6), real("real", 4, 6), act("y", 1, 4)]
    assert "'real' is float32 beside int8" in refusal(build(tensors, calls, ["x"], ["y"])).reason


def test_moved_constant_with_a_scale_per_channel_is_refused() -> None:
    """Where its elements go, its scales could not follow."""
    calls = [Call("RESHAPE", ("w",), ("flat",), Options("Reshape", {"NewShape": [1, 24]})),
             Call("ADD", ("x", "flat"), ("y",), Options("Add"))]
    tensors = [act("x", 1, 24), weights("w", 4, 6), act("flat", 1, 24), act("y", 1, 24)]
    assert "'w' has a scale per channel" in refusal(build(tensors, calls, ["x"], ["y"])).reason


def test_what_hangs_on_a_refused_operator_is_not_refused_again() -> None:
    """The shape comes out of an unknown operator: one issue, and the last layer is still seen."""
    calls = [Call("SHAPE", ("x",), ("dims",), Options("Shape", {"OutType": 2})),
             Call("NEG", ("dims",), ("target",)),
             Call("RESHAPE", ("x", "target"), ("z",), Options("Reshape")),
             Call("ELU", ("z",), ("y",))]
    tensors = [act("x", 1, 6), Tensor("dims", (2,), "int32"), Tensor("target", (2,), "int32"),
               act("z", 2, 3), act("y", 2, 3)]
    issues = check_tflite(build(tensors, calls, ["x"], ["y"]), "model")
    assert [issue.operator for issue in issues] == ["NEG", "ELU"]


def test_output_that_nothing_computes_is_refused() -> None:
    model = build([act("x", 1, 6), act("y", 1, 6)], [Call("RELU", ("x",), ("y",))], ["x"],
                  ["y", "x"])
    assert refusal(model).operator == "graph output"
