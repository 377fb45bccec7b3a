"""Float against int8, layer by layer."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Graph, Quant, Tensor
from edgesparse.ops import Activation, Mul, Reshape, Softmax
from edgesparse.quantize.calibrate import calibrate
from edgesparse.quantize.lower_int8 import quantize_graph
from edgesparse.quantize.report import MAX_DB, quantization_report
from graph_builder import GraphBuilder


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(0), real=True)


def doubled(b: GraphBuilder, quant: Quant) -> tuple[Graph, Graph]:
    """y = 2 x as a float graph and an int8 graph, whose output has these parameters."""
    y = b.apply(Mul(), b.input(1, 4), b.constant(np.float32([2.0])))
    graph = b.graph(y)
    tensors = {
        "x0": Tensor("x0", (1, 4), "int8", Quant((0.5,), (0,))),
        "c1": Tensor("c1", (1,), "int8", Quant((2 / 127,), (0,)), np.int8([127])),
        y: Tensor(y, (1, 4), "int8", quant),
    }
    return graph, replace(graph, tensors=tensors)


def test_the_figures_are_those_of_their_definitions(b: GraphBuilder) -> None:
    graph, stored = doubled(b, Quant((4.0,), (0,)))
    inputs = {"x0": np.float32([[1, 2, 3, 4], [-1, 0, 5, 6]])}
    report = quantization_report(graph, stored, inputs)
    (layer,) = report.layers
    real = 2 * inputs["x0"]
    error = 4 * np.sign(real) * np.floor(np.abs(real) / 4 + 0.5) - real
    assert layer.sqnr_db == pytest.approx(10 * np.log10((real**2).sum() / (error**2).sum()))
    assert layer.max_error == np.abs(error).max() == 2.0
    assert (layer.saturated, layer.scale, layer.zero_point) == (0.0, 4.0, 0)
    assert (report.samples, report.sqnr_db) == (2, layer.sqnr_db)


def test_only_values_that_are_cut_count_as_saturated(b: GraphBuilder) -> None:
    """127 steps of 0.1 are 12.7: 16 and -14 are cut, 12.6 is not, nor what rounds to the end."""
    graph, stored = doubled(b, Quant((0.1,), (0,)))
    inputs = {"x0": np.float32([[8, 6.5, -7, 1], [8, 6, 2, 3]])}
    (layer,) = quantization_report(graph, stored, inputs).layers
    assert layer.saturated == 4 / 8
    assert layer.max_error == pytest.approx(3.3)


def test_a_clamp_of_the_activation_is_no_saturation(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 40, 4), 8, activation=Activation.RELU6)
    graph = b.graph(y)
    samples = {"x0": np.random.default_rng(1).normal(size=(20, 40, 4))}
    stored = quantize_graph(graph, calibrate(graph, samples, "minmax"))
    (layer,) = quantization_report(graph, stored, samples).layers
    assert layer.saturated == 0.0
    tight = quantize_graph(graph, calibrate(graph, samples, "percentile:80"))
    (layer,) = quantization_report(graph, tight, samples).layers
    assert layer.saturated > 0.05


def test_no_error_and_no_signal_are_finite_numbers(b: GraphBuilder) -> None:
    graph, stored = doubled(b, Quant((1.0,), (0,)))
    inputs = {"x0": np.float32([[1, 2, 3, 4]])}
    exact = quantization_report(graph, stored, inputs)
    assert exact.sqnr_db == MAX_DB
    assert "Infinity" not in json.dumps(asdict(exact))
    silent = replace(graph, tensors={
        **graph.tensors, "c1": replace(graph.tensors["c1"], data=np.float32([0.0]))})
    assert quantization_report(silent, stored, inputs).sqnr_db == -MAX_DB


def test_an_output_is_measured_before_its_softmax_and_reshapes(b: GraphBuilder) -> None:
    logits = b.fully_connected(b.input(1, 6), 3)
    other = b.apply(Mul(), logits, logits)
    into = b.apply(Reshape((1, 1, 3)), logits)
    y = b.apply(Reshape((3, 1)), b.apply(Softmax(), into))
    graph = replace(b.graph(y, other), output_names=("class", "power"))
    samples = {"x0": np.random.default_rng(2).normal(size=(50, 6))}
    stored = quantize_graph(graph, calibrate(graph, samples))
    report = quantization_report(graph, stored, samples)
    found = {output.output: output.tensor for output in report.outputs}
    assert found == {"class": into, "power": other}
    by_tensor = {layer.tensor: layer for layer in report.layers}
    assert report.outputs[0].sqnr_db == by_tensor[logits].sqnr_db
    assert report.sqnr_db == min(output.sqnr_db for output in report.outputs)
    assert [layer.operator for layer in report.layers] == ["FullyConnected", "Mul", "Softmax"]


def test_zeros_are_counted_before_and_after(b: GraphBuilder) -> None:
    y = b.fully_connected(b.input(1, 50), 4)
    w = b.tensors[b.nodes[0].inputs[1]]
    assert w.data is not None
    pruned = np.where(np.abs(w.data) < 1.0, 0, w.data).astype(np.float32)
    pruned[0, :2] = [1e-6, 5.0]
    b.tensors[w.name] = replace(w, data=pruned)
    graph = b.graph(y)
    samples = {"x0": np.random.default_rng(3).normal(size=(20, 50))}
    stored = quantize_graph(graph, calibrate(graph, samples))
    (layer,) = quantization_report(graph, stored, samples).layers
    assert layer.weights == 200
    assert layer.float_zeros == np.count_nonzero(pruned == 0)
    assert layer.zeros == layer.float_zeros + 1


def test_evaluation_data_that_do_not_fit_are_refused(b: GraphBuilder) -> None:
    graph, stored = doubled(b, Quant((1.0,), (0,)))
    with pytest.raises(BadInput, match=r"evaluation data: input 'x0' has shape \[3, 5\]"):
        quantization_report(graph, stored, {"x0": np.zeros((3, 5))})
