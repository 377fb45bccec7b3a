"""Float graphs become int8 graphs by the rules of the TFLite specification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgesparse.errors import BadInput, UnsupportedModel
from edgesparse.graph.ir import Array, Graph, Quant, Tensor
from edgesparse.graph.verify import verify
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.ops import (
    Activation,
    Add,
    AvgPool,
    Concat,
    Conv,
    HardSwish,
    LeakyRelu,
    Logistic,
    MaxPool,
    Mean,
    Mul,
    Op,
    Pad,
    Quantize,
    Relu,
    Reshape,
    Slice,
    Softmax,
    Sub,
    Tanh,
    Transpose,
)
from edgesparse.passes.pipeline import CANONICAL, INT8, run_passes
from edgesparse.plan.write import write_plan
from edgesparse.quantize.calibrate import calibrate
from edgesparse.quantize.lower_int8 import QuantOptions, quantize_graph
from edgesparse.quantize.report import quantization_report
from edgesparse.runtime.native import NativePlan
from graph_builder import GraphBuilder, operators
from random_graphs import random_graph


def samples_of(graph: Graph, count: int = 40, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(count, *graph.tensors[name].shape)) for name in graph.inputs}


def quantized(graph: Graph, method: str = "minmax") -> Graph:
    found = quantize_graph(graph, calibrate(graph, samples_of(graph), method))
    verify(found, "quantize_graph")
    return found


def executable(graph: Graph) -> bytes | None:
    """The plan of an int8 graph, which the C core has accepted; None when it has no step for it."""
    try:
        lowered = lower(run_passes(graph, INT8))
    except UnsupportedModel:
        return None
    data = write_plan(assemble(lowered, "host", "test", "{}", 0).model)
    NativePlan(data)
    return data


def meets_its_input(graph: Graph) -> bool:
    """No Conv has a position that sees padding only: plans have no such step (I-32)."""
    return all(
        max(node.op.pad[2 * i : 2 * i + 2]) <= (graph.tensors[node.inputs[1]].shape[i + 1] - 1)
        * node.op.dilation[i]
        for node in graph.nodes if isinstance(node.op, Conv) for i in (0, 1))


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(0), real=True)


def quant(graph: Graph, name: str) -> tuple[float, int]:
    return graph.tensors[name].scale, graph.tensors[name].zero_point


# ---- parameters


@pytest.mark.parametrize(("op", "wanted"), [
    (Softmax(), (1 / 256, -128)), (Logistic(), (1 / 256, -128)), (Tanh(), (1 / 128, 0)),
])
def test_some_outputs_have_prescribed_parameters(
    b: GraphBuilder, op: Op, wanted: tuple[float, int]
) -> None:
    y = b.apply(op, b.fully_connected(b.input(1, 5), 3))
    z = b.apply(Reshape((3, 1)), y)
    graph = quantized(b.graph(z))
    assert quant(graph, y) == quant(graph, z) == wanted


def test_behind_a_relu_no_value_is_spent_below_zero(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 2), 4, (1, 3), activation=Activation.RELU)
    z = b.apply(Relu(), b.conv(y, 3))
    graph = quantized(b.graph(z))
    assert graph.tensors[y].zero_point == graph.tensors[z].zero_point == -128


def test_a_relu6_needs_no_more_than_six(b: GraphBuilder) -> None:
    """Headroom would reach past the activation, where nothing can be."""
    y = b.conv(b.input(1, 30, 4), 8, activation=Activation.RELU6)
    graph = b.graph(y)
    samples = samples_of(graph)
    assert calibrate(graph, samples).range(y)[1] >= 6.0
    assert quant(quantize_graph(graph, calibrate(graph, samples)), y) == (
        pytest.approx(6 / 255), -128)


@pytest.mark.parametrize("op", [
    MaxPool((1, 2), (1, 2)), AvgPool((1, 2), (1, 2)), Reshape((1, 2, 16)), Transpose((0, 2, 1)),
    Slice((0, 2, 0), (1, 2, 1), (1, 3, 4)), Pad((0, 1, 0), (0, 0, 2)),
])
def test_operators_that_keep_stored_numbers_keep_the_parameters(b: GraphBuilder, op: Op) -> None:
    x = b.conv(b.input(1, 8, 3), 4)
    y = b.apply(op, x)
    graph = quantized(b.graph(b.apply(Mean((1,)), y)))
    assert quant(graph, x) == quant(graph, y)


@pytest.mark.parametrize("op", [LeakyRelu(0.1), HardSwish(), Mean((1,)), Relu()])
def test_other_operators_have_a_range_of_their_own(b: GraphBuilder, op: Op) -> None:
    x = b.conv(b.input(1, 8, 3), 4)
    y = b.apply(op, x)
    graph = quantized(b.graph(y))
    assert graph.tensors[y].scale < 0.9 * graph.tensors[x].scale


def test_inputs_and_outputs_are_float_for_the_user(b: GraphBuilder) -> None:
    graph = b.graph(b.conv(b.input(1, 8, 3), 4))
    named = replace(graph, input_names=("signal",), output_names=("score",))
    for before in (graph, named):
        found = quantized(before)
        names = (before.input_names or before.inputs, before.output_names or before.outputs)
        assert (found.float_inputs, found.float_outputs) == ((True,), (True,))
        assert (found.input_names, found.output_names) == names
        assert all(t.dtype in ("int8", "int32") for t in found.tensors.values())


# ---- Concat


def test_a_concat_input_that_nobody_else_reads_is_written_in_the_shared_scale(
    b: GraphBuilder,
) -> None:
    x = b.input(1, 8, 3)
    small, large = b.conv(x, 2), b.conv(x, 2)
    b.tensors[b.nodes[0].inputs[1]] = scaled(b.tensors[b.nodes[0].inputs[1]], 0.01)
    y = b.apply(Concat(2), small, b.apply(MaxPool((1, 3), (1, 1), (0, 0, 1, 1)), large))
    graph = quantized(b.graph(y))
    assert operators(graph) == ["Conv", "Conv", "MaxPool", "Concat"]
    assert quant(graph, small) == quant(graph, large) == quant(graph, y)


def test_a_much_finer_concat_input_that_others_read_is_requantized(b: GraphBuilder) -> None:
    x = b.input(1, 8, 3)
    small, large = b.conv(x, 2), b.conv(x, 2)
    b.tensors[b.nodes[0].inputs[1]] = scaled(b.tensors[b.nodes[0].inputs[1]], 0.01)
    b.tensors[b.nodes[0].inputs[2]] = scaled(b.tensors[b.nodes[0].inputs[2]], 0.01)
    y = b.apply(Concat(2), small, large)
    before = b.graph(y, b.conv(small, 2))
    graph = quantized(before)
    assert operators(graph) == ["Conv", "Conv", "Requantize", "Concat", "Conv"]
    assert graph.tensors[small].scale < 0.1 * graph.tensors[y].scale
    assert quantization_report(before, graph, samples_of(before)).sqnr_db > 30


def scaled(tensor: Tensor, factor: float) -> Tensor:
    assert tensor.data is not None
    return replace(tensor, data=(tensor.data * factor).astype(np.float32))


def test_a_gate_is_requantized_and_a_constant_joins(b: GraphBuilder) -> None:
    x = b.conv(b.input(1, 8, 3), 2)
    gate = b.apply(Logistic(), x)
    ones = b.constant(np.full((1, 8, 1), 0.5, np.float32))
    y = b.apply(Concat(2), gate, x, ones)
    graph = quantized(b.graph(y))
    assert quant(graph, gate) == (1 / 256, -128)
    concat = graph.producer[y]
    assert {quant(graph, name) for name in concat.inputs} == {quant(graph, y)}
    stored = graph.tensors[concat.inputs[2]]
    assert stored.data is not None
    half = (int(stored.data[0, 0, 0]) - stored.zero_point) * stored.scale
    assert half == pytest.approx(0.5, abs=stored.scale)


def test_gates_side_by_side_keep_their_parameters(b: GraphBuilder) -> None:
    x = b.input(1, 8, 3)
    y = b.apply(Concat(2), *(b.apply(Logistic(), b.conv(x, 2)) for _ in range(2)))
    graph = quantized(b.graph(b.apply(Reshape((1, -1)), y)))
    assert "Requantize" not in operators(graph)
    assert quant(graph, y) == (1 / 256, -128)


# ---- constants


def test_zero_weights_stay_zero_and_names_stay(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 12, 8), 16, (1, 3))
    w = b.tensors[b.nodes[0].inputs[1]]
    assert w.data is not None
    kept = w.data * (b.rng.random(w.shape) < 0.25)
    kept[3] = 0
    b.tensors[w.name] = replace(w, data=kept.astype(np.float32))
    graph = quantized(b.graph(y))
    stored = graph.tensors[w.name]
    assert stored.data is not None
    assert (stored.data[kept == 0] == 0).all()
    assert graph.producer[y].inputs == b.nodes[0].inputs
    assert stored.quant is not None
    assert stored.quant.axis == 0
    assert graph.tensors[b.nodes[0].inputs[2]].dtype == "int32"


def test_weights_used_twice_are_stored_once_and_their_biases_apart(b: GraphBuilder) -> None:
    x = b.input(1, 8, 4)
    first = b.conv(x, 4)
    w, bias = b.nodes[0].inputs[1:]
    second = b.apply(Conv(), b.apply(Mul(), first, b.constant(np.float32([9.0]))), w, bias)
    graph = quantized(b.graph(second))
    one, two = (graph.producer[name].inputs for name in (first, second))
    assert one[1] == two[1] == w
    assert one[2] != two[2]
    report = quantization_report(b.graph(second), graph, samples_of(b.graph(second)))
    assert report.sqnr_db > 25


def test_elementwise_constants_are_int8(b: GraphBuilder) -> None:
    x = b.conv(b.input(1, 8, 3), 4, activation=Activation.RELU)
    y = b.apply(Mul(), x, b.values(4))
    z = b.apply(Sub(), b.values(4), b.apply(Add(), y, b.values(1)))
    graph = b.graph(z)
    found = quantized(graph)
    assert all(t.dtype == "int8" for node in found.nodes[1:] for t in found.ins(node))
    assert quantization_report(graph, found, samples_of(graph, seed=2)).sqnr_db > 25


# ---- refusals


def test_a_model_that_is_partly_int8_is_refused_with_the_layer(b: GraphBuilder) -> None:
    y = b.apply(Quantize(), b.conv(b.input(1, 8, 3), 2), dtype="int8", quant=Quant((0.1,), (0,)))
    graph = b.graph(y)
    with pytest.raises(UnsupportedModel, match=r"layer1 .Quantize.*whole model"):
        quantize_graph(graph, calibrate(graph, samples_of(graph)))


def test_logits_too_far_apart_for_a_softmax_are_refused(b: GraphBuilder) -> None:
    x = b.input(1, 4)
    graph = b.graph(b.apply(Softmax(2.0), x))
    near, far = ({"x0": k * np.linspace(-1, 1, 40).reshape(10, 4)} for k in (1000, 1100))
    assert executable(quantize_graph(graph, calibrate(graph, near, "minmax")))
    with pytest.raises(UnsupportedModel, match=r"covers 2200 .* less than 2040 .* smaller logits"):
        quantize_graph(graph, calibrate(graph, far, "minmax"))


def test_a_calibration_of_another_graph_is_refused(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 3), 2)
    short, long = b.graph(y), b.graph(b.conv(y, 2))
    with pytest.raises(BadInput, match="knows 't1'"):
        quantize_graph(short, calibrate(long, samples_of(long)))
    renamed = replace(long, inputs=("other",), tensors={
        **long.tensors, "other": replace(long.tensors["x0"], name="other")}, nodes=(
        replace(long.nodes[0], inputs=("other", *long.nodes[0].inputs[1:])), long.nodes[1]))
    with pytest.raises(BadInput, match=r"'x0'|'other'"):
        quantize_graph(renamed, calibrate(short, samples_of(short)))


# ---- bias correction


def mean_errors(graph: Graph, found: Graph, name: str, samples: dict[str, Array]) -> Array:
    from edgesparse.graph.evaluate import evaluate
    from edgesparse.quantize.report import quantize_inputs
    from edgesparse.quantize.samples import check_samples, one_by_one

    tensor = found.tensors[name]
    errors = []
    for sample in one_by_one(check_samples(graph, samples)):
        stored = evaluate(found, quantize_inputs(found, sample))[name].astype(np.float64)
        errors.append((stored - tensor.zero_point) * tensor.scale - evaluate(graph, sample)[name])
    return np.asarray(np.stack(errors).reshape(-1, tensor.channels).mean(axis=0))


def test_bias_correction_takes_the_mean_error_of_every_channel_away(b: GraphBuilder) -> None:
    x = b.conv(b.input(1, 16, 8), 16, (1, 3), activation=Activation.RELU)
    y = b.conv(b.conv(x, 16, (1, 3), activation=Activation.RELU), 8)
    graph = b.graph(y)
    samples = samples_of(graph, 32)
    calibration = calibrate(graph, samples)
    plain = quantize_graph(graph, calibration, QuantOptions(correct_bias=False))
    better = quantize_graph(graph, calibration)
    before, after = (np.abs(mean_errors(graph, g, y, samples)).max() for g in (plain, better))
    assert after < 0.4 * before
    assert after < plain.tensors[y].scale / 8
    assert [n.inputs for n in better.nodes] == [n.inputs for n in plain.nodes]
    changed = {name for name, t in plain.tensors.items()
               if t.data is not None and not np.array_equal(t.data, better.tensors[name].data)}
    assert changed <= {node.inputs[2] for node in plain.nodes}


def test_a_pruned_channel_keeps_its_zero_bias(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 16, 8), 4, (1, 3))
    for name in b.nodes[0].inputs[1:]:
        data = b.tensors[name].data
        assert data is not None
        b.tensors[name] = replace(b.tensors[name], data=np.concatenate([data[:3], 0 * data[3:]]))
    graph = quantized(b.graph(y))
    bias = graph.tensors[b.nodes[0].inputs[2]].data
    assert bias is not None
    assert bias[3] == 0


# ---- whatever the graph


def test_random_graphs_follow_float_and_become_plans() -> None:
    plans = 0
    for seed in range(40):
        graph = run_passes(random_graph(np.random.default_rng(seed), real=True), CANONICAL)
        found = quantized(graph, ("headroom", "minmax", "percentile:99.9", "mse")[seed % 4])
        report = quantization_report(graph, found, samples_of(graph, 10, seed=3))
        assert report.sqnr_db > 15, seed
        assert all(layer.zeros >= layer.float_zeros for layer in report.layers)
        plans += meets_its_input(graph) and executable(found) is not None
    assert plans >= 25


def test_absurd_magnitudes_still_become_plans() -> None:
    """Tiny, huge and cancelling weights: multipliers, biases and sums stay in their ranges."""
    plans = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, real=True)
        tensors = {
            name: t if t.data is None else scaled(t, float(10.0 ** rng.integers(-12, 4)))
            for name, t in graph.tensors.items()}
        for node in graph.nodes:
            if isinstance(node.op, Conv) and rng.random() < 0.3:
                tensors[node.inputs[1]] = scaled(tensors[node.inputs[1]], 0.0)
        graph = run_passes(replace(graph, tensors=tensors), CANONICAL)
        try:
            found = quantized(graph, "mse")
        except UnsupportedModel:  # logits too far apart: the test above
            continue
        plans += meets_its_input(graph) and executable(found) is not None
    assert plans >= 25


def test_the_same_graph_and_data_give_the_same_bytes(b: GraphBuilder) -> None:
    graph = b.graph(b.apply(Softmax(), b.fully_connected(b.input(1, 30), 5)))
    one, other = (executable(quantized(graph, "headroom")) for _ in range(2))
    assert one == other


def test_a_node_without_origin_is_named_by_its_output(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 3), 4)
    graph = replace(b.graph(y), nodes=(replace(b.nodes[0], origin=()),))
    (layer,) = quantization_report(graph, quantized(graph), samples_of(graph)).layers
    assert layer.layer == y
