"""Which public models import, which are refused and why, and what the imported ones compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import UnsupportedModel
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph
from edgesparse.graph.verify import verify
from edgesparse.importers.tflite import check_tflite, import_tflite
from edgesparse.ops import Dequantize
from oracle import micro_oracle, tflite_oracle

INT8 = (
    "cases/tflite/b16", "cases/tflite/b16d", "cases/tflite/cr", "cases/tflite/mu",
    "cases/tflite/s2b", "cases/tflite/sfc_b4", "cases/tflite/sfc_csr", "cases/tflite/sfc_dense",
    "cases/tflite/sfcb_dense",
    "arm/arm_kws_cnn_s", "arm/arm_kws_dnn_s", "arm/arm_kws_dscnn_s", "arm/arm_kws_lstm_s",
    "ecg/ecg_classifyheartbeats_quant",
    "generated/conv1d_uns80_int8", "generated/conv1d_uns80_int8_SP",
    "generated/conv2d_2450_int8", "generated/conv2d_b1480_int8", "generated/conv2d_b1480_int8_SP",
    "generated/conv2d_uns0_int8", "generated/conv2d_uns50_int8", "generated/conv2d_uns80_int8",
    "generated/conv2d_uns80_int8_SP", "generated/conv2d_uns90_int8",
    "generated/conv2d_uns90_int8_SP", "generated/dw_uns80_int8",
    "generated/gru_unroll_uns0_int8", "generated/mlpPT_b11680_int8_SP",
    "generated/mlp_b11680_int8", "generated/mlp_b11680_int8_SP", "generated/mlp_uns80_int8_SP",
    "har/har_ashwinbyte_int8",
    "mlperf/mlperf_ad01_int8", "mlperf/mlperf_ic_resnet8_int8",
    "mlperf/mlperf_ic_resnet_6blk_int8", "mlperf/mlperf_kws_dscnn_int8",
    "mlperf/mlperf_strm_ww_old_int8", "mlperf/mlperf_vww_int8",
    "pcg/pcg_mfcc_int8", "pcg/pcg_oldmodels_lmfe_int8",
    "tflm/tflm_hello_int8", "tflm/tflm_micro_speech", "tflm/tflm_person_detect",
)
FLOAT = (
    "cases/tflite/f_b4", "cases/tflite/f_b4d", "cases/tflite/f_csr", "cases/tflite/f_dense",
    "ecg/ecg_classifyheartbeats_fp32", "generated/conv2d_uns80_fp32_SP",
    "generated/mlp_b1480_fp32_SP", "har/har_ashwinbyte_fp32", "mlperf/mlperf_ad01_fp32",
    "mlperf/mlperf_ic_resnet8_fp32", "mlperf/mlperf_vww_fp32", "pcg/pcg_oldmodels_mfcc_float16",
    "tflm/tflm_hello_float",
)
HYBRID = ("mlperf/mlperf_ad_ToyCar_dynrange", "mlperf/mlperf_kws_dscnn_fp32",
          "pcg/pcg_lmfe_default")
"""Float activations, int8 weights: TFLite quantizes their activations as it runs."""

STATEFUL = ("generated/legacy_lstm_int8", "lyra/lyra_soundstream_encoder", "mww/mww_okay_nabu",
            "mww/mww_v2_alexa", "mww/mww_v2_experiments_hey_peppa_pig", "mww/mww_v2_vad",
            "tflm/tflm_dtln_lstm", "tflm/tflm_mnist_lstm_int8")
"""They keep a state of their own: tests/test_stateful.py, tests/test_recurrent.py."""

LSTM = {"UNIDIRECTIONAL_SEQUENCE_LSTM"}
REFUSED: dict[str, tuple[set[str], str]] = {
    "coral/coral_mobilenet_v1_025_128_quant": (
        {"AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "SOFTMAX", "graph input"},
        "uint8"),
    "coral/coral_tools_split_concat": ({"CONCATENATION", "SPLIT", "graph input"}, "uint8"),
    "generated/acts_uns0_int8": ({"ELU", "PRELU", "TILE", "TRANSPOSE_CONV"}, "not executed"),
    "generated/attn_uns0_fp32": (
        {"BATCH_MATMUL", "GELU", "NEG", "RSQRT", "SQUARED_DIFFERENCE"}, "not executed"),
    "generated/attn_uns0_int8": (
        {"BATCH_MATMUL", "GELU", "NEG", "RSQRT", "SQUARED_DIFFERENCE"}, "not executed"),
    "generated/conv2d_uns0_int16x8": (
        {"CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "MEAN", "QUANTIZE", "SOFTMAX"}, "int16"),
    "generated/gru_uns0_fp32": ({"WHILE"}, "loops"),
    "generated/legacy_lstm_fp32": (LSTM, "float32"),
    "generated/legacy_lstm_state_fp32": ({"WHILE"}, "loops"),
    "mp/mp_3in3out_model_swaps_input_2_and_0": ({"graph"}, "no operators"),
    "mp/mp_face_detection_full_range_sparse": (
        {"DEPTH_TO_SPACE", "RESIZE_BILINEAR"}, "not executed"),
    "mp/mp_feedback_tensor_test_model": ({"ADD", "graph input", "graph output"}, "int32"),
    "mp/mp_hand_recrop": ({"PRELU"}, "slope"),
    "tflm/tflm_audio_preproc_int8": (
        {"ADD", "CAST", "CONCATENATION", "DIV", "MAXIMUM", "MINIMUM", "MUL", "RESHAPE",
         "STRIDED_SLICE", "graph input"}
        | {f"CUSTOM:Signal{kind}" for kind in (
            "Energy", "FftAutoScale", "FilterBank", "FilterBankLog",
            "FilterBankSpectralSubtraction", "FilterBankSquareRoot", "PCAN", "Rfft", "Window")},
        "custom"),
    "tflm/tflm_keyword_scrambled": ({"QUANTIZE", "SOFTMAX", "graph input"}, "int16"),
    "tflm/tflm_mnist_lstm_fp32": (LSTM, "float32"),
    "tflm/tflm_seanet_add0": ({"ADD", "graph input"}, "int16"),
    "tflm/tflm_seanet_conv0": ({"CONV_2D", "graph input"}, "int16"),
    "tflm/tflm_seanet_conv10": ({"CONV_2D", "graph input"}, "int16"),
    "tflm/tflm_seanet_lrelu0": ({"LEAKY_RELU", "graph input"}, "int16"),
    "tflm/tflm_seanet_pad0": ({"PAD", "graph input"}, "int16"),
    "tflm/tflm_seanet_quant0": ({"QUANTIZE", "graph input"}, "int32"),
    "tflm/tflm_seanet_sslice10": ({"STRIDED_SLICE", "graph input"}, "int16"),
    "tflm/tflm_seanet_sub0": ({"SUB", "graph input"}, "int16"),
    "tflm/tflm_seanet_tconv1": ({"TRANSPOSE_CONV", "graph input"}, "int16"),
}

STAND_INS = {
    "cases/tflite/sfc_csr": "cases/tflite/sfc_dense",
    "cases/tflite/sfc_b4": "cases/tflite/sfcb_dense",
    "generated/mlp_b11680_int8_SP": "generated/mlp_b11680_int8",
}
"""Models the oracle refuses or misreads -> the same weights stored dense."""
ONLY_TFLM = "tflm/tflm_person_detect"
"""Both other runtimes refuse its biases; TFLite Micro runs it, and gives its output only."""


@pytest.fixture
def model(request: pytest.FixtureRequest, data_root: Path) -> tuple[str, bytes]:
    return request.param, read(data_root, request.param)


def read(data_root: Path, name: str) -> bytes:
    folder = data_root if name.startswith("cases/") else data_root / "models"
    return (folder / f"{name}.tflite").read_bytes()


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Full-range int8; float in the range that the first QUANTIZE of the model keeps."""
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype == "int8":
            inputs[name] = rng.integers(-128, 128, tensor.shape).astype(np.int8)
        else:
            quantized = [graph.tensors[n.outputs[0]] for n in graph.consumers[name]]
            scale = 64 * quantized[0].scale if quantized and quantized[0].quant else 1.0
            inputs[name] = (rng.normal(size=tensor.shape) * scale).astype(np.float32)
    return inputs


def test_every_model_of_the_folder_is_listed(data_root: Path) -> None:
    found = {
        str(path.relative_to(data_root).with_suffix("")).removeprefix("models/")
        for folder in ("models", "cases/tflite")
        for path in (data_root / folder).rglob("*.tflite")
    }
    listed = [*INT8, *FLOAT, *HYBRID, *STATEFUL, *REFUSED]
    assert set(listed) == found
    assert len(listed) == len(found)
    assert len(INT8) == 43


@pytest.mark.parametrize("model", REFUSED, indirect=True)
def test_unsupported_model_names_every_operator(model: tuple[str, bytes]) -> None:
    name, data = model
    operators, reason = REFUSED[name]
    issues = check_tflite(data, name)
    assert {issue.operator for issue in issues} == operators
    assert any(reason in issue.reason for issue in issues)
    assert all(issue.where and issue.reason and issue.suggestion for issue in issues)
    with pytest.raises(UnsupportedModel) as refusal:
        import_tflite(data, name)
    assert refusal.value.issues != ()
    assert str(refusal.value).count("\n") == len(issues)


@pytest.mark.parametrize("model", INT8, indirect=True)
def test_int8_model_equals_the_oracle_in_every_tensor(
    model: tuple[str, bytes], data_root: Path
) -> None:
    name, data = model
    graph = import_tflite(data, name)
    verify(graph)
    judged = STAND_INS.get(name, name)
    oracle = (micro_oracle if name == ONLY_TFLM else tflite_oracle)(read(data_root, judged))
    names = same_tensors(import_tflite(read(data_root, judged), judged), graph)
    rng = np.random.default_rng(1)
    for _ in range(2):
        inputs = random_inputs(graph, rng)
        expected = oracle.run({theirs: inputs[ours] for theirs, ours in names.items()
                               if ours in inputs})
        values = evaluate(graph, inputs)
        differing = {
            names[tensor]: int((values[names[tensor]] != value).sum())
            for tensor, value in expected.items()
            if tensor in names  # shapes computed at import are in no graph
        }
        assert set(graph.outputs) <= differing.keys()
        assert len(differing) > len(graph.nodes) // 2 or name == ONLY_TFLM
        assert not any(differing.values()), differing


def same_tensors(theirs: Graph, ours: Graph) -> dict[str, str]:
    """What is fed and computed in one graph -> in another with the same layers."""
    assert [node.op for node in theirs.nodes] == [node.op for node in ours.nodes]
    pairs = dict(zip(theirs.inputs, ours.inputs))
    for a, b in zip(theirs.nodes, ours.nodes):
        pairs.update(zip(a.outputs, b.outputs))
    return pairs


@pytest.mark.parametrize("model", FLOAT, indirect=True)
def test_float_model_equals_the_oracle_up_to_rounding(model: tuple[str, bytes]) -> None:
    name, data = model
    graph = import_tflite(data, name)
    verify(graph)
    inputs = random_inputs(graph, np.random.default_rng(2))
    values = evaluate(graph, inputs)
    expected = tflite_oracle(data).run(inputs)
    compared = [tensor for tensor in expected if tensor in values]
    assert set(graph.outputs) <= set(compared)
    for tensor in compared:
        largest = np.abs(expected[tensor]).max()
        np.testing.assert_allclose(values[tensor], expected[tensor], atol=2e-5 * largest + 1e-7)


@pytest.mark.parametrize("model", HYBRID, indirect=True)
def test_hybrid_model_imports_with_its_weights_dequantized(model: tuple[str, bytes]) -> None:
    """The oracle rounds activations to int8 for these, so it is near, not equal."""
    name, data = model
    graph = import_tflite(data, name)
    verify(graph)
    sources = [graph.tensors[n.inputs[0]] for n in graph.nodes if isinstance(n.op, Dequantize)]
    assert sources
    assert all(source.dtype == "int8" and source.data is not None for source in sources)
    inputs = random_inputs(graph, np.random.default_rng(3))
    values = evaluate(graph, inputs)
    (output,) = graph.outputs
    expected = tflite_oracle(data).run(inputs)[output]
    assert np.abs(values[output] - expected).max() < 0.05 * np.abs(expected).max()


def test_float16_weights_come_through_dequantize(data_root: Path) -> None:
    graph = import_tflite(read(data_root, "pcg/pcg_oldmodels_mfcc_float16"), "float16")
    sources = [graph.tensors[n.inputs[0]] for n in graph.nodes if isinstance(n.op, Dequantize)]
    assert len(sources) == 6
    assert all(source.dtype == "float16" and source.data is not None for source in sources)


def test_shape_arithmetic_leaves_no_node(data_root: Path) -> None:
    """SHAPE, STRIDED_SLICE, PACK and FILL of a fixed shape are done at import."""
    for name in ("pcg/pcg_mfcc_int8", "arm/arm_kws_lstm_s"):
        graph = import_tflite(read(data_root, name), name)
        assert all(t.dtype == "int8" or t.dtype.startswith("float") or t.data is not None
                   for t in graph.tensors.values())


def test_names_of_the_user_are_kept(data_root: Path) -> None:
    graph = import_tflite(read(data_root, "mlperf/mlperf_kws_dscnn_int8"), "kws")
    assert graph.inputs == ("input_1",)
    assert graph.outputs == ("Identity",)
    assert graph.nodes[-1].origin == ("Identity",)
    assert graph.source_sha256 != bytes(32)
    assert import_tflite(read(data_root, "tflm/tflm_hello_int8"), "x").tensors.keys() == (
        import_tflite(read(data_root, "tflm/tflm_hello_int8"), "y").tensors.keys())
