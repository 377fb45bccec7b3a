"""Passes that compute: constants, batch normalization, activations, tables, float edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Graph, Quant
from edgesparse.graph.verify import verify
from edgesparse.ops import (
    Add,
    AvgPool,
    Conv,
    Dequantize,
    FullyConnected,
    HardSwish,
    LeakyRelu,
    Logistic,
    Lut,
    MaxPool,
    Mean,
    Mul,
    Pad,
    Quantize,
    Relu,
    Requantize,
    Reshape,
    Slice,
    Sub,
    Tanh,
)
from edgesparse.ops.activation import Activation
from edgesparse.passes.collapse_unary import collapse_unary
from edgesparse.passes.fold_batch_norm import fold_batch_norm
from edgesparse.passes.fold_bias import fold_bias
from edgesparse.passes.fold_constants import fold_constants
from edgesparse.passes.fuse_activation import fuse_activation
from edgesparse.passes.move_quantization import move_quantization
from edgesparse.passes.peel_float_io import peel_float_io
from edgesparse.passes.pipeline import Pass
from graph_builder import GraphBuilder, compare, operators

SIGMOID = Quant((1 / 256,), (-128,))


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(7))


@pytest.fixture
def f() -> GraphBuilder:
    """The same for float graphs."""
    return GraphBuilder(np.random.default_rng(7), real=True)


def rewritten(run: Pass, graph: Graph) -> Graph:
    """What the pass makes of it; equal in every tensor that is left, and done at once."""
    verify(graph, "the test")
    after = run(graph)
    verify(after, run.__name__)
    assert compare(np.random.default_rng(1), graph, after)
    assert run(after).nodes == after.nodes
    return after


# fold_constants


def test_what_depends_on_constants_only_is_computed(b: GraphBuilder) -> None:
    c = b.apply(Add(), b.apply(Relu(), b.values(1, 4, 2)), b.values(2), quant=b.quant())
    c = b.apply(Reshape((4, 2)), c)
    after = rewritten(fold_constants, b.graph(b.apply(Add(), b.input(1, 4, 2), c)))
    assert operators(after) == ["Add"]


def test_half_precision_weights_become_float32(f: GraphBuilder) -> None:
    half = f.constant(f.rng.normal(size=(3, 4)).astype(np.float16))
    w = f.apply(Dequantize(), half, dtype="float32")
    bias = f.constant(np.zeros(3, np.float32))
    after = rewritten(fold_constants, f.graph(f.apply(FullyConnected(), f.input(1, 4), w, bias)))
    assert operators(after) == ["FullyConnected"]
    assert after.tensors[w].dtype == "float32"


def test_a_constant_output_stays_computed(b: GraphBuilder) -> None:
    graph = b.graph(b.apply(Relu(), b.values(1, 2)), b.apply(Relu(), b.input(1, 2)))
    assert rewritten(fold_constants, graph) is graph


# fold_bias, fold_batch_norm


@pytest.mark.parametrize("operator", ["Conv", "FullyConnected"])
@pytest.mark.parametrize("op", [Add(), Add(Activation.RELU), Sub()], ids=repr)
def test_a_constant_sum_becomes_bias(f: GraphBuilder, operator: str, op: Add) -> None:
    x = f.input(1, 6)
    y = f.fully_connected(x, 4) if operator == "FullyConnected" else f.conv(f.input(1, 5, 6), 4)
    after = rewritten(fold_bias, f.graph(f.apply(op, y, f.values(4))))
    assert operators(after) == [operator]
    assert after.nodes[0].op.activation is op.activation


def test_the_constant_may_come_first(f: GraphBuilder) -> None:
    y = f.conv(f.input(1, 5, 6), 4)
    after = rewritten(fold_bias, f.graph(f.apply(Add(), f.values(1), y, like=y)))
    assert operators(after) == ["Conv"]


def test_a_constant_minus_a_conv_stays(f: GraphBuilder) -> None:
    y = f.conv(f.input(1, 5, 6), 4)
    graph = f.graph(f.apply(Sub(), f.values(1), y, like=y))
    assert rewritten(fold_bias, graph) is graph


def test_a_sum_that_is_no_bias_stays(f: GraphBuilder) -> None:
    x = f.input(1, 5, 6)
    clipped = f.apply(Add(), f.conv(x, 4, activation=Activation.RELU), f.values(4))
    per_position = f.apply(Add(), f.conv(x, 5), f.values(5, 1))
    y = f.conv(x, 4)
    twice = f.apply(Add(), f.apply(Add(), y, f.values(4)), y)
    graph = f.graph(clipped, per_position, twice)
    assert operators(rewritten(fold_bias, graph)).count("Add") == 4


def test_int8_factors_and_sums_stay(b: GraphBuilder) -> None:
    y = b.apply(Mul(), b.conv(b.input(1, 5, 6), 4), b.values(4), quant=b.quant())
    graph = b.graph(b.apply(Add(), y, b.values(4), quant=b.quant()))
    assert rewritten(fold_batch_norm, graph) is graph
    assert rewritten(fold_bias, graph) is graph


@pytest.mark.parametrize("attributes", [{}, {"groups": 6}, {"groups": 2}], ids=str)
def test_batch_normalization_after_a_conv_goes(f: GraphBuilder, attributes: dict[str, int]) -> None:
    y = f.conv(f.input(1, 5, 6), 12, (1, 3), pad=(0, 0, 1, 1), **attributes)
    y = f.apply(Mul(), y, f.values(12))
    y = f.apply(Add(Activation.RELU6), y, f.values(12))
    after = rewritten(lambda g: fold_bias(fold_batch_norm(g)), f.graph(y))
    assert operators(after) == ["Conv"]
    assert after.nodes[0].op.activation is Activation.RELU6


@pytest.mark.parametrize(
    ("sign", "activation", "left"),
    [
        (1, Activation.RELU, ["Conv"]),
        (-1, Activation.RELU, ["Conv", "Mul"]),
        (1, Activation.RELU6, ["Conv", "Mul"]),
    ],
)
def test_a_factor_passes_a_relu_when_it_is_not_negative(
    f: GraphBuilder, sign: int, activation: Activation, left: list[str]
) -> None:
    y = f.conv(f.input(1, 5, 6), 4, activation=activation)
    m = f.constant((sign * np.array([0.0, 0.5, 1.0, 2.0])).astype(np.float32))
    assert operators(rewritten(fold_batch_norm, f.graph(f.apply(Mul(), y, m)))) == left


@pytest.mark.parametrize(
    ("pad", "left"), [((0, 0, 0, 0), ["Conv"]), ((0, 0, 1, 1), ["Add", "Conv"])]
)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_batch_normalization_before_a_conv_goes_unless_padding_sees_it(
    f: GraphBuilder, pad: tuple[int, int, int, int], left: list[str], groups: int
) -> None:
    x = f.apply(Add(), f.input(1, 5, 6), f.values(6))
    first = f.conv(x, 12, (1, 3), pad=pad, groups=groups)
    assert operators(rewritten(fold_batch_norm, f.graph(first))) == left
    y = f.conv(f.apply(Mul(), f.input(1, 5, 6), f.values(6)), 12, (1, 3), pad=pad, groups=groups)
    assert operators(rewritten(fold_batch_norm, f.graph(y))) == ["Conv"]


def test_a_factor_with_other_readers_stays(f: GraphBuilder) -> None:
    t = f.apply(Mul(), f.input(1, 5, 6), f.values(6))
    graph = f.graph(f.conv(t, 3), f.apply(Mean((1,)), t))
    assert rewritten(fold_batch_norm, graph) is graph


def test_batch_normalization_before_a_dense_layer_goes_through_the_mean(f: GraphBuilder) -> None:
    y = f.apply(Mul(), f.input(1, 5, 6), f.values(6))
    y = f.apply(Mean((1,)), f.apply(Add(), y, f.values(6)))
    after = rewritten(fold_batch_norm, f.graph(f.fully_connected(y, 3)))
    assert operators(after) == ["Mean", "FullyConnected"]


def test_a_flattened_input_is_scaled_channel_by_channel(f: GraphBuilder) -> None:
    x = f.apply(Mul(), f.input(1, 5, 6), f.values(6))
    w, bias = f.weights(3, 30)
    after = rewritten(fold_batch_norm, f.graph(f.apply(FullyConnected(), x, w, bias)))
    assert operators(after) == ["FullyConnected"]


# fuse_activation


@pytest.mark.parametrize("activation", [a for a in Activation if a is not Activation.NONE])
@pytest.mark.parametrize("maker", ["Conv", "FullyConnected", "MaxPool", "AvgPool", "Add", "Mul"])
def test_an_activation_goes_into_its_producer(
    b: GraphBuilder, maker: str, activation: Activation
) -> None:
    x, quant = b.input(1, 8, 6), Quant((0.05,), (-20,))
    if maker == "Conv":
        y = b.conv(x, 4, quant=quant)
    elif maker == "FullyConnected":
        y = b.fully_connected(x, 4, quant=quant)
    elif maker in ("MaxPool", "AvgPool"):
        x = b.input(1, 8, 6, quant=quant)
        y = b.apply({"MaxPool": MaxPool, "AvgPool": AvgPool}[maker]((1, 2)), x)
    else:
        y = b.apply({"Add": Add, "Mul": Mul}[maker](), x, b.values(6), quant=quant)
    after = rewritten(fuse_activation, b.graph(b.apply(Relu(activation), y)))
    assert operators(after) == [maker]
    op = after.nodes[0].op
    assert isinstance(op, (Conv, FullyConnected, MaxPool, AvgPool, Add, Mul))
    assert op.activation is activation


def test_clamps_of_two_activations_meet(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 6), 4, activation=Activation.RELU, quant=Quant((0.05,), (-20,)))
    after = rewritten(fuse_activation, b.graph(b.apply(Relu(Activation.RELU_N1_TO_1), y)))
    assert operators(after) == ["Conv"]
    assert after.nodes[0].op.clamp == (-20, 0)


def test_a_clamp_may_come_as_a_table(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 6), 4)
    table = Lut(np.clip(np.arange(-128, 128), -5, 90).astype(np.int8).tobytes())
    after = rewritten(fuse_activation, b.graph(b.apply(table, y)))
    assert [n.op.clamp for n in after.nodes] == [(-5, 90)]


def test_what_is_no_clamp_of_the_producer_stays(b: GraphBuilder) -> None:
    x = b.input(1, 8, 6)
    rescaled = b.apply(Relu(), b.conv(x, 4), quant=Quant((0.5,), (3,)))
    leaky = b.apply(LeakyRelu(0.1), b.conv(x, 4))
    shared = b.conv(x, 4)
    graph = b.graph(rescaled, leaky, b.apply(Relu(), shared), shared, b.apply(Relu(), x))
    assert rewritten(fuse_activation, graph) is graph


def test_a_sum_has_one_activation_only(b: GraphBuilder) -> None:
    x, quant = b.input(1, 8, 6), Quant((0.05,), (-20,))
    y = b.apply(Add(Activation.RELU), x, b.values(6), quant=quant)
    graph = b.graph(b.apply(Relu(Activation.RELU_N1_TO_1), y))
    assert rewritten(fuse_activation, graph) is graph


def test_clamps_that_do_not_meet_stay_two(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 6), 4, clamp=(50, 100))
    low = Lut(np.clip(np.arange(-128, 128), -100, 20).astype(np.int8).tobytes())
    graph = b.graph(b.apply(low, y))
    assert rewritten(fuse_activation, graph) is graph


def test_a_float_activation_goes_into_its_producer(f: GraphBuilder) -> None:
    x = f.input(1, 8, 6)
    once = f.apply(Relu(), f.conv(x, 4))
    twice = f.apply(Relu(), f.conv(x, 4, activation=Activation.RELU6))
    after = rewritten(fuse_activation, f.graph(once, twice))
    assert operators(after) == ["Conv", "Conv", "Relu"]


# collapse_unary


def test_a_chain_of_unary_operators_is_one_table(b: GraphBuilder) -> None:
    y = b.apply(Requantize(), b.input(1, 8, 6), quant=b.quant())
    y = b.apply(Tanh(), b.apply(HardSwish(), y, quant=b.quant()), quant=Quant((1 / 128,), (0,)))
    after = rewritten(collapse_unary, b.graph(b.apply(LeakyRelu(0.1), y, quant=b.quant())))
    assert operators(after) == ["Lut"]
    assert after.nodes[0].origin == ("layer0", "layer1", "layer2", "layer3")


def test_one_unary_operator_is_a_table_too(b: GraphBuilder) -> None:
    after = rewritten(collapse_unary, b.graph(b.apply(HardSwish(), b.input(1, 8, 6))))
    assert operators(after) == ["Lut"]


def test_functions_of_one_tensor_are_tables_whatever_their_shape(b: GraphBuilder) -> None:
    x = b.input(1, 8, 6)
    swish = b.apply(Mul(), x, b.apply(Logistic(), x, quant=SIGMOID), quant=b.quant())
    square = b.apply(Mul(), swish, swish, quant=b.quant())
    shifted = b.apply(Sub(), b.values(), square, like=square, quant=b.quant())
    assert operators(rewritten(collapse_unary, b.graph(shifted))) == ["Lut"]


def test_a_detour_through_float_is_a_table(b: GraphBuilder) -> None:
    real = b.apply(Dequantize(), b.input(1, 8, 6), dtype="float32", quant=None)
    real = b.apply(Relu(Activation.RELU6), real)
    y = b.apply(Quantize(), real, dtype="int8", quant=b.quant())
    assert operators(rewritten(collapse_unary, b.graph(y))) == ["Lut"]


def test_a_table_starts_at_the_nearest_tensor_that_is_computed_anyway(b: GraphBuilder) -> None:
    x = b.input(1, 8, 6)
    first = b.apply(HardSwish(), x, quant=b.quant())
    second = b.apply(LeakyRelu(0.1), b.apply(HardSwish(), first), quant=b.quant())
    after = rewritten(collapse_unary, b.graph(b.conv(first, 4), second))
    assert [n.inputs[0] for n in after.nodes if isinstance(n.op, Lut)] == [x, first]


def test_functions_of_two_tensors_stay(b: GraphBuilder) -> None:
    x, z = b.input(1, 8, 6), b.input(1, 8, 6)
    both = b.apply(Mul(), x, b.apply(Logistic(), z, quant=SIGMOID), quant=b.quant())
    per_channel = b.apply(Mul(), x, b.values(6), quant=b.quant())
    wider = b.apply(Add(), b.input(1), b.values(1, 1, 1), quant=b.quant())
    after = rewritten(collapse_unary, b.graph(both, per_channel, wider))
    assert operators(after) == ["Lut", "Mul", "Mul", "Add"]


# move_quantization, peel_float_io


def test_elements_move_as_int8(b: GraphBuilder) -> None:
    x = b.apply(Quantize(), b.apply(Reshape((1, 8, 6)), real_input(b, 1, 48)), **int8(b))
    real = b.apply(Dequantize(), x, dtype="float32", quant=None)
    padded = b.apply(Pad((0, 1, 0), (0, 0, 0)), real)
    part = b.apply(Slice((0, 0, 0), (1, 2, 1), (1, 4, 6)), padded)
    after = rewritten(move_quantization, b.graph(part))
    assert operators(after) == ["Quantize", "Reshape", "Pad", "Slice", "Dequantize"]


def test_what_moves_between_dequantize_and_quantize_meets_them(b: GraphBuilder) -> None:
    real = b.apply(Dequantize(), b.input(1, 8, 6), dtype="float32", quant=None)
    y = b.apply(Quantize(), b.apply(Reshape((8, 6)), real), **int8(b))
    after = rewritten(lambda g: collapse_unary(move_quantization(g)), b.graph(y))
    assert operators(after) == ["Lut", "Reshape"]


def test_half_precision_values_are_moved_as_they_are(f: GraphBuilder) -> None:
    half = f.constant(f.rng.normal(size=(3, 4)).astype(np.float16))
    y = f.apply(Reshape((1, 3, 4)), f.apply(Dequantize(), half, dtype="float32"))
    graph = f.graph(f.apply(Add(), f.input(1, 3, 4), y))
    assert rewritten(move_quantization, graph) is graph


def test_float_inputs_and_outputs_are_peeled(b: GraphBuilder) -> None:
    x = real_input(b, 1, 8, 6)
    y = b.conv(b.apply(Quantize(), x, **int8(b)), 4)
    real = b.apply(Dequantize(), y, dtype="float32", quant=None)
    graph = b.graph(real, b.apply(LeakyRelu(0.1), b.input(1, 2)))
    after = rewritten(peel_float_io, graph)
    assert operators(after) == ["Conv", "LeakyRelu"]
    assert (after.inputs, after.outputs) == (("t0", "x1"), (y, "t3"))
    assert (after.float_inputs, after.float_outputs) == ((True, False), (True, False))
    assert (after.input_names, after.output_names) == (graph.inputs, graph.outputs)


def test_a_float_input_with_two_readers_stays(b: GraphBuilder) -> None:
    x = real_input(b, 1, 8, 6)
    graph = b.graph(*(b.apply(Quantize(), x, dtype="int8", quant=Quant((s,), (0,)))
                      for s in (0.5, 0.25)))
    assert rewritten(peel_float_io, graph) is graph


def test_a_float_output_that_is_read_stays(b: GraphBuilder) -> None:
    real = b.apply(Dequantize(), b.input(1, 8, 6), dtype="float32", quant=None)
    graph = b.graph(real, b.apply(Relu(), real))
    assert rewritten(peel_float_io, graph) is graph


def test_peeled_values_are_what_the_model_had(b: GraphBuilder) -> None:
    """The int8 input is the quantized user's input; the names are those of the file."""
    x = real_input(b, 1, 8, 6)
    stored = b.apply(Quantize(), x, **int8(b))
    graph = b.graph(b.apply(Dequantize(), b.conv(stored, 4), dtype="float32", quant=None))
    after = replace(peel_float_io(graph), name="peeled")
    real = np.random.default_rng(3).normal(size=(1, 8, 6)).astype(np.float32)
    before = evaluate(graph, {x: real})
    assert np.array_equal(evaluate(after, {stored: before[stored]})["t1"], before["t1"])


def real_input(b: GraphBuilder, *shape: int) -> str:
    name = b.input(*shape)
    b.tensors[name] = replace(b.tensors[name], dtype="float32", quant=None)
    return name


def int8(b: GraphBuilder) -> dict[str, object]:
    return {"dtype": "int8", "quant": b.quant()}
