"""Single operators in every form the importer accepts, against the oracle; and those it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tflite

from edgesparse.errors import ImportFailed, Unsupported, UnsupportedModel
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, DType, Graph, Quant, Shape, Tensor
from edgesparse.graph.verify import verify
from edgesparse.importers.tflite import check_tflite, import_tflite
from edgesparse.ops import Conv, FullyConnected, Reshape, Slice
from oracle import Oracle
from tflite_builder import Call, Options, build

RNG = np.random.default_rng(21)
Q = Quant((0.05,), (-3,))
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


def act(name: str, *shape: int, quant: Quant = Q) -> Tensor:
    return Tensor(name, shape, "int8", quant)


def real(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "float32")


def ints(name: str, values: Sequence[object]) -> Tensor:
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, "int32", None, data)


def weights(name: str, *shape: int, axis: int | None = 0) -> Tensor:
    count = 1 if axis is None else shape[axis]
    quant = Quant(tuple(float(np.float32(s)) for s in RNG.uniform(0.001, 0.01, count)),
                  (0,) * count, axis)
    return Tensor(name, shape, "int8", quant, RNG.integers(-127, 128, shape).astype(np.int8))


def bias(w: Tensor, count: int) -> Tensor:
    """The bias beside `w`: scale of an activation times scale of w."""
    assert w.quant is not None
    scale = tuple(float(np.float32(s * Q.scale[0])) for s in w.quant.scale)
    quant = Quant(scale, (0,) * len(scale), 0 if w.quant.per_channel else None)
    return Tensor("b", (count,), "int32", quant,
                  RNG.integers(-2000, 2000, count).astype(np.int32))


def one(code: str, ins: Sequence[Tensor], outs: Sequence[Tensor],
        options: Options | None = None) -> bytes:
    """A model of one operator; its inputs are the tensors without data."""
    call = Call(code, tuple(t.name for t in ins), tuple(t.name for t in outs), options)
    tensors = [t for t in (*ins, *outs) if t.name]
    return build(list({t.name: t for t in tensors}.values()), [call],
                 [t.name for t in ins if t.data is None and t.name], [t.name for t in outs])


ABSENT = Tensor("", (), "int32")
FC = Options("FullyConnected")


def agrees(model: bytes, ulps: float = 0) -> Graph:
    """Import, check, and compare every tensor with the oracle on random inputs."""
    graph = import_tflite(model, "model")
    verify(graph)
    inputs: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        inputs[name] = (
            RNG.integers(-128, 128, tensor.shape).astype(np.int8) if tensor.dtype == "int8"
            else RNG.normal(size=tensor.shape).astype(np.float32))
    expected, values = Oracle(model).run(inputs), evaluate(graph, inputs)
    for name, value in expected.items():
        if name in values:
            np.testing.assert_allclose(values[name], value, rtol=ulps, atol=ulps)
    assert set(graph.outputs) <= expected.keys()
    return graph


def refusal(model: bytes) -> Unsupported:
    """The only refusal of a model."""
    (issue,) = check_tflite(model, "model")
    with pytest.raises(UnsupportedModel, match="model: 1 unsupported part"):
        import_tflite(model, "model")
    return issue


def conv_options(kind: str, **fields: int) -> Options:
    return Options(kind, {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1,
                          "DilationHFactor": 1} | fields)


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
    kept = empty = 0
    while kept < 60:
        shape = tuple(int(n) for n in RNG.integers(1, 6, 3))
        shape = (1, *shape)
        begin, end = (RNG.integers(-7, 8, 4) for _ in range(2))
        stride = RNG.choice([-2, -1, 1, 2, 3], 4)
        masks = {m: int(RNG.integers(0, 16)) for m in ("BeginMask", "EndMask", "ShrinkAxisMask")}
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
def test_refusal_names_layer_and_reason(model: object, where: str, reason: str) -> None:
    assert callable(model)
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
