"""Single operators in every form the importer accepts, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import tflite

from edgesparse.errors import ImportFailed
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Quant, Tensor
from edgesparse.graph.verify import verify
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Conv, FullyConnected, Reshape, Slice
from one_operator import (
    ABSENT,
    FC,
    SAME,
    VALID,
    Q,
    act,
    bias,
    conv_options,
    ints,
    one,
    real,
    weights,
)
from oracle import tflite_oracle
from tflite_builder import Call, Options, build


def agrees(model: bytes, ulps: float = 0) -> Graph:
    """Import, check, and compare every tensor with the oracle on random inputs."""
    graph = import_tflite(model, "model")
    verify(graph)
    rng = np.random.default_rng(22)
    inputs: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        inputs[name] = (
            rng.integers(-128, 128, tensor.shape).astype(np.int8) if tensor.dtype == "int8"
            else rng.normal(size=tensor.shape).astype(np.float32))
    expected, values = tflite_oracle(model).run(inputs), evaluate(graph, inputs)
    for name, value in expected.items():
        if name in values:
            np.testing.assert_allclose(values[name], value, rtol=ulps, atol=ulps)
    assert set(graph.outputs) <= expected.keys()
    return graph


@pytest.mark.parametrize("length", [7, 8])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(1, 1, 1), (3, 2, 1), (4, 3, 1),
                                                            (3, 1, 2), (2, 1, 3)])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_convolution_pads_as_tflite(
    length: int, kernel: int, stride: int, dilation: int, padding: int
) -> None:
    span = (kernel - 1) * dilation + 1
    out = -(-length // stride) if padding == SAME else (length - span) // stride + 1
    options = conv_options("Conv2D", Padding=padding, StrideW=stride, DilationWFactor=dilation,
                           FusedActivationFunction=tflite.ActivationFunctionType.RELU6)
    w = weights("w", 5, 1, kernel, 3)
    graph = agrees(one("CONV_2D", [act("x", 1, 1, length, 3), w, bias(w, 5)],
                       [act("y", 1, 1, out, 5)], options))
    (op,) = (node.op for node in graph.nodes)
    assert isinstance(op, Conv)
    assert op.stride[1] == stride
    assert op.dilation[1] == dilation


def test_grouped_convolution() -> None:
    w = weights("w", 4, 3, 3, 3)
    graph = agrees(one("CONV_2D", [act("x", 1, 4, 4, 6), w, bias(w, 4)], [act("y", 1, 4, 4, 4)],
                       conv_options("Conv2D", Padding=SAME)))
    assert graph.nodes[0].op == Conv(pad=(1, 1, 1, 1), groups=2)


@pytest.mark.parametrize("axis", [3, None])
def test_depthwise_filters_come_first(axis: int | None) -> None:
    w = weights("w", 1, 3, 2, 6, axis=axis)
    graph = agrees(one("DEPTHWISE_CONV_2D", [act("x", 1, 5, 5, 3), w, bias(w, 6)],
                       [act("y", 1, 5, 5, 6)],
                       conv_options("DepthwiseConv2D", Padding=SAME, DepthMultiplier=2)))
    found = graph.ins(graph.nodes[0])[1]
    assert found.shape == (6, 3, 2, 1)
    assert found.quant is not None
    assert w.quant is not None
    assert found.quant == Quant(w.quant.scale, w.quant.zero_point, None if axis is None else 0)


def test_fully_connected_flattens_its_input() -> None:
    w = weights("w", 4, 12, axis=None)
    graph = agrees(one("FULLY_CONNECTED", [act("x", 1, 6, 4), w, bias(w, 4)], [act("y", 2, 4)],
                       FC))
    assert graph.nodes[0].op == FullyConnected()


def test_fully_connected_with_a_scale_per_output() -> None:
    w = weights("w", 4, 12)
    agrees(one("FULLY_CONNECTED", [act("x", 1, 12), w, bias(w, 4)], [act("y", 1, 4)], FC))


def test_fully_connected_keeps_dimensions() -> None:
    w = weights("w", 4, 6, axis=None)
    graph = agrees(one("FULLY_CONNECTED", [act("x", 1, 5, 6), w, ABSENT], [act("y", 1, 5, 4)],
                       Options("FullyConnected", {"KeepNumDims": True})))
    assert graph.tensors["y"].shape == (1, 5, 4)
    zeros = graph.ins(graph.nodes[0])[2]  # the file has no bias
    assert (zeros.dtype, zeros.shape) == ("int32", (4,))
    assert zeros.data is not None
    assert not zeros.data.any()


@pytest.mark.parametrize("code", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_pools(code: str, padding: int) -> None:
    out = 4 if padding == SAME else 3
    options = Options("Pool2D", {"Padding": padding, "StrideW": 2, "StrideH": 2, "FilterWidth": 3,
                                 "FilterHeight": 2})
    agrees(one(code, [act("x", 1, 7, 7, 3)], [act("y", 1, out if padding == SAME else 3, out, 3)],
               options))


@pytest.mark.parametrize("keep", [True, False])
def test_mean_over_negative_and_repeated_axes(keep: bool) -> None:
    shape = (1, 1, 1, 3) if keep else (1, 3)
    agrees(one("MEAN", [act("x", 1, 5, 4, 3), ints("axes", [1, -2])], [act("y", *shape)],
               Options("Reducer", {"KeepDims": keep})))


def test_strided_slices_of_every_kind() -> None:
    """Random begins, ends, strides and masks; what Python calls empty must be refused."""
    rng = np.random.default_rng(23)
    kept = empty = 0
    while kept < 60:
        shape = tuple(int(n) for n in rng.integers(1, 6, 3))
        shape = (1, *shape)
        begin, end = (rng.integers(-7, 8, 4) for _ in range(2))
        stride = rng.choice([-2, -1, 1, 2, 3], 4)
        masks = {m: int(rng.integers(0, 16)) for m in ("BeginMask", "EndMask", "ShrinkAxisMask")}
        index: list[int | slice] = []
        for i in range(4):
            first = None if masks["BeginMask"] >> i & 1 else int(begin[i])
            last = None if masks["EndMask"] >> i & 1 else int(end[i])
            if masks["ShrinkAxisMask"] >> i & 1:
                stride[i] = 1  # TFLite demands it
                index.append(0 if first is None else first)
            else:
                index.append(slice(first, last, int(stride[i])))
        ins = [act("x", *shape), ints("b", begin), ints("e", end), ints("s", stride)]
        options = Options("StridedSlice", masks)
        try:
            expected = np.zeros(shape)[tuple(index)].shape
        except IndexError:
            expected = (0,)
        if 0 in expected:
            empty += 1
            with pytest.raises(ImportFailed, match=r"STRIDED_SLICE 'y'.* dimension"):
                import_tflite(one("STRIDED_SLICE", ins, [act("y", 1)], options), "model")
            continue
        agrees(one("STRIDED_SLICE", ins, [act("y", *expected)], options))
        kept += 1
    assert empty > 10


def test_slice_offsets_are_relative_to_the_begin() -> None:
    ins = [act("x", 1, 9, 2), ints("b", [0, 3]), ints("e", [1, 4]), ints("s", [1, 2])]
    graph = import_tflite(one("STRIDED_SLICE", ins, [act("y", 1, 2, 2)],
                              Options("StridedSlice", {"Offset": True})), "model")
    assert graph.nodes[0].op == Slice((0, 3, 0), (1, 2, 1), (1, 2, 2))


@pytest.mark.parametrize(
    ("code", "ins", "outs", "options"),
    [
        ("SPLIT", [ints("a", -1), act("x", 1, 3, 6)], [act(f"y{i}", 1, 3, 2) for i in range(3)],
         Options("Split", {"NumSplits": 3})),
        ("SPLIT_V", [act("x", 1, 7, 2), ints("n", [2, -1, 1]), ints("a", 1)],
         [act("y0", 1, 2, 2), act("y1", 1, 4, 2), act("y2", 1, 1, 2)],
         Options("SplitV", {"NumSplits": 3})),
        ("PACK", [act("x", 1, 3), act("z", 1, 3)], [act("y", 1, 3, 2)],
         Options("Pack", {"ValuesCount": 2, "Axis": -1})),
        ("UNPACK", [act("x", 1, 2, 3)], [act("y0", 1, 3), act("y1", 1, 3)],
         Options("Unpack", {"Num": 2, "Axis": -2})),
        ("CONCATENATION", [act("x", 1, 2, 3), act("z", 1, 4, 3)], [act("y", 1, 6, 3)],
         Options("Concatenation", {"Axis": -2})),
        ("TRANSPOSE", [act("x", 1, 2, 3), ints("p", [2, 0, 1])], [act("y", 3, 1, 2)], None),
        ("EXPAND_DIMS", [act("x", 1, 3), ints("a", -1)], [act("y", 1, 3, 1)], None),
        ("SQUEEZE", [act("x", 1, 1, 3, 1)], [act("y", 1, 3)],
         Options("Squeeze", {"SqueezeDims": [-1, 1]})),
        ("SQUEEZE", [act("x", 1, 4, 1)], [act("y", 4)], Options("Squeeze")),
        ("RESHAPE", [act("x", 1, 6, 2), ints("s", [1, -1, 4])], [act("y", 1, 3, 4)],
         Options("Reshape", {"NewShape": [9]})),
        ("RESHAPE", [act("x", 1, 6)], [act("y", 2, 3)], Options("Reshape", {"NewShape": [2, -1]})),
        ("PAD", [act("x", 1, 3, 2), ints("p", [[0, 0], [2, 1], [0, 3]])], [act("y", 1, 6, 5)],
         None),
        ("SPACE_TO_BATCH_ND", [act("x", 1, 5, 2), ints("n", [2]), ints("p", [[1, 0]])],
         [act("y", 2, 3, 2)], None),
        ("SPACE_TO_BATCH_ND",
         [act("x", 1, 4, 5, 2), ints("n", [2, 3]), ints("p", [[0, 0], [0, 1]])],
         [act("y", 6, 2, 2, 2)], None),
        ("SOFTMAX", [act("x", 1, 5)], [act("y", 1, 5, quant=Quant((1 / 256,), (-128,)))],
         Options("Softmax", {"Beta": 0.5})),
        ("LOGISTIC", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((1 / 256,), (-128,)))],
         None),
        ("TANH", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((1 / 128,), (0,)))], None),
        ("LEAKY_RELU", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((0.06,), (5,)))],
         Options("LeakyRelu", {"Alpha": 0.25})),
        ("HARD_SWISH", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((0.06,), (5,)))], None),
        ("RELU6", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((0.02,), (-128,)))], None),
        ("QUANTIZE", [act("x", 1, 200)], [act("y", 1, 200, quant=Quant((0.06,), (5,)))], None),
        ("QUANTIZE", [real("x", 1, 200)], [act("y", 1, 200)], None),
        ("DEQUANTIZE", [act("x", 1, 200)], [real("y", 1, 200)], None),
        ("ADD", [act("x", 1, 4, 6), weights("c", 6, axis=None)], [act("y", 1, 4, 6)],
         Options("Add")),
        ("SUB", [act("x", 1, 4, 6), act("z", 1, 1, 6)], [act("y", 1, 4, 6)], Options("Sub")),
        ("MUL", [act("x", 1, 4, 6), act("z", 1, 4, 6)], [act("y", 1, 4, 6)],
         Options("Mul", {"FusedActivationFunction": 1})),
    ],
)
def test_operator_equals_the_oracle(
    code: str, ins: list[Tensor], outs: list[Tensor], options: Options | None
) -> None:
    agrees(one(code, ins, outs, options), ulps=1e-6 if outs[0].dtype == "float32" else 0)


def test_constant_of_an_arithmetic_operator_stays_one() -> None:
    c = weights("c", 6, axis=None)
    graph = import_tflite(one("MUL", [act("x", 1, 6), c], [act("y", 1, 6)], Options("Mul")), "m")
    assert graph.nodes[0].inputs == ("x", "c")
    np.testing.assert_array_equal(graph.tensors["c"].data, c.data)


def test_tensordot_shape_chain_is_folded() -> None:
    """What Keras writes before a Dense layer on a sequence: SHAPE, GATHER, REDUCE_PROD, PACK."""
    def shape(name: str, *dims: int) -> Tensor:
        return Tensor(name, dims, "int32")

    calls = [
        Call("SHAPE", ("x",), ("dims",), Options("Shape", {"OutType": tflite.TensorType.INT32})),
        Call("GATHER", ("dims", "free"), ("kept",), Options("Gather", {"Axis": 0})),
        Call("REDUCE_PROD", ("kept", "zero"), ("rows",), Options("Reducer")),
        Call("PACK", ("rows", "two"), ("target",), Options("Pack", {"ValuesCount": 2})),
        Call("RESHAPE", ("x", "target"), ("y",), Options("Reshape")),
    ]
    tensors = [act("x", 1, 5, 2), shape("dims", 3), ints("free", [0, 1]), shape("kept", 2),
               ints("zero", [0]), shape("rows"), ints("two", 2), shape("target", 2),
               act("y", 5, 2)]
    graph = agrees(build(tensors, calls, ["x"], ["y"]))
    assert [node.op for node in graph.nodes] == [Reshape((5, 2))]


def test_filled_state_is_a_constant() -> None:
    calls = [Call("FILL", ("dims", "value"), ("zeros",), Options("Fill")),
             Call("ADD", ("x", "zeros"), ("y",), Options("Add"))]
    tensors = [act("x", 1, 4), ints("dims", [1, 4]), act("zeros", 1, 4), act("y", 1, 4),
               Tensor("value", (), "int8", Q, np.array(-3, np.int8))]
    graph = agrees(build(tensors, calls, ["x"], ["y"]))
    data = graph.tensors["zeros"].data
    assert data is not None
    assert data.tolist() == [[-3] * 4]


def test_hybrid_convolutions_keep_their_scales() -> None:
    """Float activations, int8 weights with a scale per filter."""
    w = weights("w", 1, 3, 2, 6, axis=3)
    model = one("DEPTHWISE_CONV_2D", [real("x", 1, 5, 5, 3), w, Tensor("", (), "float32")],
                [real("y", 1, 5, 5, 6)],
                conv_options("DepthwiseConv2D", Padding=SAME, DepthMultiplier=2))
    graph = import_tflite(model, "hybrid")
    verify(graph)
    assert [type(node.op).__name__ for node in graph.nodes] == ["Dequantize", "Conv"]
    assert w.data is not None
    assert w.quant is not None
    values = evaluate(graph, {"x": np.ones((1, 5, 5, 3), np.float32)})
    centre = (w.data.sum((0, 1, 2)) * np.array(w.quant.scale)).astype(np.float32)
    np.testing.assert_allclose(values["y"][0, 2, 2], centre, rtol=1e-5)
