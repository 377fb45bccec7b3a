"""The passes on the int8 models: nothing changes but the number of operators and channels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Graph
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Conv, FullyConnected
from edgesparse.passes.pipeline import run_passes
from graph_builder import compare, operators, random_inputs
from oracle import tflite_oracle

GOLDEN = Path(__file__).parent / "golden" / "passes_models.txt"

CASES = ("b16", "b16d", "cr", "mu", "s2b", "sfc_b4", "sfc_csr", "sfc_dense", "sfcb_dense")
MODELS = (
    "arm/arm_kws_cnn_s", "arm/arm_kws_dnn_s", "arm/arm_kws_dscnn_s", "arm/arm_kws_lstm_s",
    "ecg/ecg_classifyheartbeats_quant", "har/har_ashwinbyte_int8",
    "pcg/pcg_mfcc_int8", "pcg/pcg_oldmodels_lmfe_int8",
    "mlperf/mlperf_ad01_int8", "mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_vww_int8",
    "mlperf/mlperf_strm_ww_old_int8", "mlperf/mlperf_ic_resnet8_int8",
    "mlperf/mlperf_ic_resnet_6blk_int8",
    "tflm/tflm_hello_int8", "tflm/tflm_micro_speech", "tflm/tflm_person_detect",
    "generated/conv1d_uns80_int8", "generated/conv1d_uns80_int8_SP",
    "generated/conv2d_2450_int8", "generated/conv2d_b1480_int8", "generated/conv2d_b1480_int8_SP",
    "generated/conv2d_uns0_int8", "generated/conv2d_uns50_int8", "generated/conv2d_uns80_int8",
    "generated/conv2d_uns80_int8_SP", "generated/conv2d_uns90_int8",
    "generated/conv2d_uns90_int8_SP", "generated/dw_uns80_int8", "generated/gru_unroll_uns0_int8",
    "generated/mlpPT_b11680_int8_SP", "generated/mlp_b11680_int8", "generated/mlp_b11680_int8_SP",
    "generated/mlp_uns80_int8_SP",
)


@pytest.fixture(scope="module")
def imported(models_dir: Path, cases_dir: Path) -> dict[str, Graph]:
    """The 43 int8 models by name."""
    paths = [*(cases_dir / "tflite" / name for name in CASES), *(models_dir / m for m in MODELS)]
    return {
        path.name: import_tflite(path.with_suffix(".tflite").read_bytes(), path.name)
        for path in paths
    }


@pytest.fixture(scope="module")
def optimized(imported: dict[str, Graph]) -> dict[str, Graph]:
    return {name: run_passes(graph) for name, graph in imported.items()}


NAMES = [*CASES, *(model.split("/")[1] for model in MODELS)]


def macs(graph: Graph) -> int:
    return sum(node.op.macs(graph.ins(node), graph.outs(node)) for node in graph.nodes)


def weights(graph: Graph) -> int:
    """Weights stored, shared ones once."""
    mac = [node for node in graph.nodes if isinstance(node.op, (Conv, FullyConnected))]
    return sum(graph.tensors[name].size for name in {node.inputs[1] for node in mac})


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_that_is_left_has_the_bytes_it_had(
    name: str, imported: dict[str, Graph], optimized: dict[str, Graph]
) -> None:
    assert compare(np.random.default_rng(1), imported[name], optimized[name]) > 1


def test_what_the_passes_leave_is_known(
    imported: dict[str, Graph], optimized: dict[str, Graph], update_golden: bool
) -> None:
    lines = ["# model: nodes, MACs, weights before -> after; operators left\n"]
    for name in NAMES:
        before, after = imported[name], optimized[name]
        left = ", ".join(f"{op} {n}" for op, n in sorted(Counter(operators(after)).items()))
        lines.append(
            f"{name}: {len(before.nodes)} -> {len(after.nodes)}, {macs(before)} -> {macs(after)}, "
            f"{weights(before)} -> {weights(after)}; {left}\n"
        )
    text = "".join(lines)
    if update_golden:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_every_one_dimensional_model_is_one_dimensional(optimized: dict[str, Graph]) -> None:
    """No Conv or pool on [1, 1, T, C], and Reshapes at the input and before dense layers only."""
    for name in ("conv1d_uns80_int8", "dw_uns80_int8", "conv2d_uns80_int8", "pcg_mfcc_int8",
                 "har_ashwinbyte_int8", "mlperf_strm_ww_old_int8", "ecg_classifyheartbeats_quant"):
        graph = optimized[name]
        ranks = {len(graph.ins(n)[0].shape) for n in graph.nodes if isinstance(n.op, Conv)}
        assert ranks == {3}, name
        kinds = operators(graph)
        inside = [
            kind for i, kind in enumerate(kinds) if kind == "Reshape"
            and kinds[i + 1 : i + 2] not in (["FullyConnected"], ["Softmax"]) and i > 0
        ]
        assert inside == [], name


def test_space_to_batch_triple_is_one_dilated_conv(optimized: dict[str, Graph]) -> None:
    """Case A1: zero point -100, padding 4."""
    assert operators(optimized["s2b"]) == ["Reshape", "Conv", "Reshape"]
    op = optimized["s2b"].nodes[1].op
    assert isinstance(op, Conv)
    assert (op.dilation, op.pad) == ((1, 2), (0, 0, 4, 0))


def test_vww_loses_half_its_macs_and_most_of_its_weights(
    imported: dict[str, Graph], optimized: dict[str, Graph]
) -> None:
    before, after = imported["mlperf_vww_int8"], optimized["mlperf_vww_int8"]
    assert macs(before) == pytest.approx(7.49e6, rel=1e-3)
    assert macs(after) <= 3.75e6
    assert weights(after) <= 30_000


@pytest.mark.parametrize(
    ("name", "least"),
    [("mlperf_vww_int8", 31), ("dw_uns80_int8", 11), ("conv1d_uns80_int8", 16), ("s2b", 1)],
)
def test_channels_that_are_left_are_those_of_the_oracle(
    name: str, least: int, data_root: Path, optimized: dict[str, Graph]
) -> None:
    """Straight against the runtime: every tensor of its name, the kept channels of it."""
    path = next(data_root.glob(f"*/*/{name}.tflite"))
    oracle, graph = tflite_oracle(path.read_bytes()), optimized[name]
    compared = set()
    for seed in range(2):
        inputs = random_inputs(np.random.default_rng(seed), graph)
        expected, values = oracle.run(inputs), evaluate(graph, inputs)
        for tensor in graph.tensors.values():
            if tensor.name in expected:
                seen = expected[tensor.name]
                seen = seen if tensor.kept is None else seen[..., list(tensor.kept)]
                np.testing.assert_array_equal(seen.ravel(), values[tensor.name].ravel())
                compared.add(tensor.name)
    assert len(compared - set(graph.inputs)) >= least
