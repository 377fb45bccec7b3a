"""The float models of ../shared: the float graph equals TFLite, int8 follows it within 20 dB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import Options, convert_model, is_float
from edgesparse.errors import UnsupportedModel
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Activation, AvgPool, Conv, FullyConnected, MaxPool, Reshape, Softmax
from edgesparse.passes.fold_constants import fold_constants
from edgesparse.quantize.calibrate import DEFAULT_METHOD
from edgesparse.verify import VerifyOptions, verify
from needs import require
from oracle import tflite_oracle
from quantize_inputs import SOURCES
from quantize_table import METHODS, reports
from tflite_builder import Call, build
from tflite_builder import Options as TfliteOptions

HYBRID = (
    "mlperf/mlperf_ad_ToyCar_dynrange", "mlperf/mlperf_kws_dscnn_fp32", "pcg/pcg_lmfe_default",
)
"""int8 weights between float activations, which TFLite quantizes at run time; our float graph uses
the weights as they are and leaves the activations float."""

FAST = (
    "mlperf/mlperf_ad01_fp32", "ecg/ecg_classifyheartbeats_fp32", "pcg/pcg_lmfe_default",
    "har/har_ashwinbyte_fp32", "generated/mlp_b1480_fp32_SP",
)
CLOSE = 1e-4
"""Of the largest value of a tensor."""


def read(models_dir: Path, name: str) -> bytes:
    return (models_dir / f"{name}.tflite").read_bytes()


def test_every_float_model_that_imports_is_tested_here(models_dir: Path, cases_dir: Path) -> None:
    found = set()
    for path in (*models_dir.rglob("*.tflite"), *cases_dir.rglob("*.tflite")):
        try:
            graph = import_tflite(path.read_bytes(), path.name)
        except UnsupportedModel:
            continue
        if is_float(graph):
            found.add(path.stem)
    assert found == {Path(name).name for name in SOURCES}


def largest_difference(ours: dict[str, Array], theirs: dict[str, Array]) -> float:
    """Over all tensors both have, relative to the largest value of each."""
    common = ours.keys() & theirs.keys()
    assert len(common) > 1
    return max(
        float(np.abs(ours[name].ravel() - theirs[name].ravel()).max())
        / max(float(np.abs(theirs[name]).max()), 1e-30)
        for name in common)


@pytest.mark.parametrize("name", SOURCES)
def test_the_float_graph_equals_tflite(models_dir: Path, data_root: Path, name: str) -> None:
    """In every tensor the importer knows; hybrid models through a twin with float weights."""
    _require_inputs()
    data = read(models_dir, name)
    graph = fold_constants(import_tflite(data, name))
    oracle = tflite_oracle(twin(graph) if name in HYBRID else data)
    _, inputs = SOURCES[name].halves(data_root)
    for sample in inputs[:4]:
        x = {graph.inputs[0]: sample.reshape(graph.tensors[graph.inputs[0]].shape)}
        assert largest_difference(evaluate(graph, x), oracle.run(x)) < CLOSE


@pytest.mark.parametrize("name", HYBRID)
def test_a_hybrid_model_is_what_tflite_computes_up_to_its_own_rounding(
    models_dir: Path, data_root: Path, name: str
) -> None:
    """The original file: TFLite's int8 activations are some per cent away, not something else."""
    _require_inputs()
    data = read(models_dir, name)
    graph = fold_constants(import_tflite(data, name))
    last = graph.producer[graph.outputs[0]]
    logits = last.inputs[0] if isinstance(last.op, Softmax) else graph.outputs[0]
    oracle = tflite_oracle(data)
    _, inputs = SOURCES[name].halves(data_root)
    signal = noise = 0.0
    for sample in inputs[:8]:
        x = {graph.inputs[0]: sample.reshape(graph.tensors[graph.inputs[0]].shape)}
        ours, theirs = evaluate(graph, x)[logits], oracle.run(x)[logits]
        signal += float(np.sum(ours.astype(np.float64) ** 2))
        noise += float(np.sum((ours - theirs).astype(np.float64) ** 2))
    assert 10 * np.log10(signal / noise) > 25


@pytest.mark.parametrize("name", SOURCES)
def test_int8_is_within_20_db_on_inputs_not_used_for_calibration(
    data_root: Path, name: str
) -> None:
    _require_inputs()
    report = reports(data_root, SOURCES[name], (str(DEFAULT_METHOD),))["headroom"]
    assert report.sqnr_db > 20
    for layer in report.layers:
        assert layer.zeros >= layer.float_zeros


def test_the_default_method_is_the_best_of_all_on_average(data_root: Path) -> None:
    """On the models that take no second; `python tests/quantize_table.py` has all of them."""
    _require_inputs()
    total = dict.fromkeys(METHODS, 0.0)
    for name in FAST:
        for method, report in reports(data_root, SOURCES[name]).items():
            total[method] += report.sqnr_db / len(FAST)
    assert max(total, key=lambda method: total[method]) == str(DEFAULT_METHOD)


@pytest.mark.parametrize("name", SOURCES)
def test_the_plan_computes_what_was_measured(models_dir: Path, data_root: Path, name: str) -> None:
    """The C core runs the plan with the bytes of the int8 graph, in every tensor."""
    _require_inputs()
    data = read(models_dir, name)
    calibration, _ = SOURCES[name].halves(data_root)
    few = {import_tflite(data, name).inputs[0]: calibration[:8]}
    conversion = convert_model(data, options=Options(calibration=few))
    report = verify(conversion.plan, data, VerifyOptions(inputs=3, calibration=few))
    assert report.passed
    assert report.differing == 0


def _require_inputs() -> None:
    """The readers of recordings and of the photograph; the judge."""
    require("ecg")
    require("oracle")


# ---- a hybrid model with the same weights in float


def twin(graph: Graph) -> bytes:
    """The float graph as a .tflite file."""
    tensors = [t for t in graph.tensors.values() if t.data is None]
    calls = [call for node in graph.nodes for call in _calls(graph, node, tensors)]
    return build(tensors, calls, graph.inputs, graph.outputs)


def _calls(graph: Graph, node: Node, tensors: list[Tensor]) -> Iterator[Call]:
    """The TFLite operators of one node; adds their constants and intermediate tensors."""
    op, (out,) = node.op, node.outputs

    def constant(suffix: str, data: Array) -> str:
        kind = "int32" if data.dtype == np.int32 else "float32"
        tensors.append(Tensor(f"{out}/{suffix}", data.shape, kind, None, data))
        return f"{out}/{suffix}"

    def parameters() -> tuple[Array, str]:
        w, b = (graph.tensors[name].data for name in node.inputs[1:])
        assert w is not None
        assert b is not None
        return w, constant("b", b)

    x = node.inputs[0]
    fused = {"FusedActivationFunction": {Activation.NONE: 0, Activation.RELU: 1}[
        getattr(op, "activation", Activation.NONE)]}
    if isinstance(op, FullyConnected):
        w, b = parameters()
        options = TfliteOptions("FullyConnected", fused)
        yield Call("FULLY_CONNECTED", (x, constant("w", w), b), (out,), options)
    elif isinstance(op, Conv):
        w, b = parameters()
        if any(op.pad):
            _, height, width, channels = graph.tensors[x].shape
            top, bottom, left, right = op.pad
            wide = (1, height + top + bottom, width + left + right, channels)
            tensors.append(Tensor(f"{out}/padded", wide, "float32"))
            pads = np.int32([[0, 0], [top, bottom], [left, right], [0, 0]])
            yield Call("PAD", (x, constant("pads", pads)), (f"{out}/padded",), TfliteOptions("Pad"))
            x = f"{out}/padded"
        geometry = {"Padding": 1, "StrideH": op.stride[0], "StrideW": op.stride[1],
                    "DilationHFactor": 1, "DilationWFactor": 1, **fused}
        assert op.dilation == (1, 1)
        if op.groups == 1:
            options = TfliteOptions("Conv2D", geometry)
            yield Call("CONV_2D", (x, constant("w", w), b), (out,), options)
        else:
            assert op.groups == w.shape[0]
            options = TfliteOptions("DepthwiseConv2D", {**geometry, "DepthMultiplier": 1})
            filters = np.ascontiguousarray(w.transpose(3, 1, 2, 0))
            yield Call("DEPTHWISE_CONV_2D", (x, constant("w", filters), b), (out,), options)
    elif isinstance(op, (MaxPool, AvgPool)):
        options = TfliteOptions("Pool2D", {
            "Padding": int(not any(op.pad)), "StrideH": op.stride[0], "StrideW": op.stride[1],
            "FilterHeight": op.kernel[0], "FilterWidth": op.kernel[1], **fused})
        code = "MAX_POOL_2D" if isinstance(op, MaxPool) else "AVERAGE_POOL_2D"
        yield Call(code, (x,), (out,), options)
    elif isinstance(op, Reshape):
        shape = np.int32(graph.tensors[out].shape)
        yield Call("RESHAPE", (x, constant("shape", shape)), (out,), TfliteOptions("Reshape"))
    else:
        assert isinstance(op, Softmax)
        yield Call("SOFTMAX", (x,), (out,), TfliteOptions("Softmax", {"Beta": op.beta}))
