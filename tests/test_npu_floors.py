"""What the benchmarks of the NPU show, held to floors; small ones of them in full."""

from __future__ import annotations

import shutil
from pathlib import Path

import npu_ecg
import npu_fusion
import npu_models
import npu_stores
import npu_vela
import npu_zero_skipping as skipping
import numpy as np
import pytest
from npu_layers import alone, converted, counted, layers_of, machine, npu_of
from records import DS1, Ecg

from edgesparse.convert import Options
from edgesparse.importers.tflite import import_tflite
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.runtime.npu import BARE, NpuKnobs, cycle_bound
from edgesparse.runtime.session import Session, dequantize
from edgesparse.sparsity.activations import zero_rates
from edgesparse.sparsity.formats import format_of
from needs import require
from npu_blocks import BLOCKS, Block, block
from npu_oracle import against_oracle
from npu_run import lower_and_check

SKIP_FLOORS = {
    "kws": {"dense + skip": 1.8, "2:4 + skip": 3.1, "75 % 16x1 + skip": 4.75},
    "ad01": {"dense + skip": 1.3, "2:4 + skip": 2.3, "75 % 16x1 + skip": 3.9}}


@pytest.fixture(scope="module", params=SKIP_FLOORS)
def compared(request: pytest.FixtureRequest, data_root: Path) -> tuple[str, list[skipping.Layer]]:
    return request.param, skipping.layers(request.param, data_root, runs=2)


def test_the_layers_are_those_the_floors_are_about(
    compared: tuple[str, list[skipping.Layer]]
) -> None:
    model, layers = compared
    assert len(layers) == {"kws": 4, "ad01": 9}[model]


def test_skipping_zeros_is_worth_this_much(compared: tuple[str, list[skipping.Layer]]) -> None:
    """esn-lab, weights resident, no launch, no fetch, uniform inputs, untrained masks."""
    model, layers = compared
    found = {str(row[0]): row[2] for row in skipping.speedups(layers, BARE)}
    for variant, floor in SKIP_FLOORS[model].items():
        assert found[variant] >= floor, variant


def test_looking_for_zeros_where_there_are_none(
    compared: tuple[str, list[skipping.Layer]]
) -> None:
    share, each = skipping.overhead(compared[1])
    assert 0 < share <= 0.01
    assert each <= 1


def test_a_scanner_of_one_activation_saves_energy_only(
    compared: tuple[str, list[skipping.Layer]]
) -> None:
    rows = {row[0]: row for row in skipping.narrow(compared[1])}
    assert 0.99 <= rows[1][2] <= 1
    assert rows[1][3] > 1.3


def test_the_bound_of_real_layers_is_what_they_take_without_zeros(
    compared: tuple[str, list[skipping.Layer]]
) -> None:
    for layer in skipping.without_zeros(compared[1]):
        for variant in skipping.VARIANTS:
            w = variant.mask(layer.weights)
            plan = alone(layer, w, variant.form(w))
            on = machine(plan, npu_of("esn-lab"), NpuOptions(resident=True, skip=variant.skip))
            bound = cycle_bound(npu_of("esn-lab"), on.program, NpuKnobs()).counters
            found = counted(plan, on, layer.inputs[:1], NpuKnobs(), step=None)
            assert found["vec_store_skipped"] == found["mac_skip_a"] == 0
            assert found["cycles"] == bound["cycles"]


@pytest.mark.parametrize("target", npu_models.TARGETS)
@pytest.mark.parametrize("name", npu_models.MODELS)
def test_what_is_left_of_a_run_is_the_oracles(name: str, target: str, data_root: Path) -> None:
    """Identities and bound are asserted inside."""
    require("oracle")
    path = npu_models.path_of(data_root, name)
    done = converted(path, target)
    found = against_oracle(done, path, npu_of(target), runs=2)
    assert done.npu is not None
    assert done.npu.spilled == ()
    assert found.differing == found.unknown == 0
    assert found.tensors >= 3


@pytest.mark.parametrize("shape", BLOCKS, ids=str)
def test_fusion_with_random_inputs(shape: Block) -> None:
    one, two = npu_fusion.fused_and_not(shape, "dram")
    assert npu_fusion.dram(two) >= 2.2 * npu_fusion.dram(one)
    assert one["cycles"] <= 0.9 * two["cycles"]


def test_foretold_zeros_of_the_same_inputs_are_those_counted(data_root: Path) -> None:
    """Padding, strides and two dimensions: the first layer of KWS, and its 1x1 convolutions."""
    path = npu_models.path_of(data_root, "mlperf/mlperf_kws_dscnn_int8")
    done = converted(path, "esn-s")
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, done.plan.inputs[0].shape).astype(np.int8)
    predicted = zero_rates(done.plan.data, [[x]])
    layers = {layer.number: layer for layer in layers_of(done, [x])}
    for number, layer in layers.items():
        if layer.mac.geometry.groups > 1:
            assert number not in predicted
            continue
        (group,) = layer.mac.weights.groups
        plan = alone(layer, layer.weights, format_of(group))
        on = machine(plan, npu_of("esn-s"), NpuOptions())
        c = counted(plan, on, layer.inputs, BARE)
        rate = c["mac_skip_a"] / (c["mac_skip_a"] + c["mac_issued"])
        assert rate == pytest.approx(predicted[number], abs=1e-9)
    assert len(predicted) == 6


def test_zeros_of_an_ecg_stream_are_foretold(data_root: Path) -> None:
    """From other seconds of the same records, within 2 points; the whole table is npu_ecg.py's."""
    require("data", (data_root / "data" / "mitdb").is_dir())
    recordings = [Ecg(data_root / "data" / "mitdb", name) for name in DS1]
    rate = npu_ecg.SAMPLE_RATE_HZ
    calibration, signal = (
        np.concatenate([r.samples[at * rate : (at + 3) * rate] for r in recordings])
        for at in (npu_ecg.CALIBRATION, npu_ecg.COUNTED))
    done = npu_ecg.converted("ecg_c48_16x1_75")
    predicted = zero_rates(done.plan.data, npu_ecg.fed(done, calibration))
    found = npu_ecg.hops(done, [signal])
    assert len(predicted) == 10
    for step, foretold in predicted.items():
        assert abs(foretold - found.zero_rate(step)) <= 0.02, step


def test_convert_foretells_zeros_from_calibration_data(data_root: Path) -> None:
    """ad01: 12 real inputs foretell those of 13 others within 2 points."""
    path = npu_models.path_of(data_root, "mlperf/mlperf_ad01_int8")
    plain = converted(path, "esn-s")
    assert plain.zero_rates == {}
    io = plain.plan.inputs[0]
    stored = np.load(data_root / "models" / "inputs" / "mlperf_ad01_int8_inputs.npz")["x"]
    real = dequantize(stored.reshape(-1, *io.shape), io)
    calibration = {import_tflite(path.read_bytes(), path.name).inputs[0]: real[:12]}
    done = converted(path, "esn-s", Options(golden=False, calibration=calibration))
    session = Session(done.plan, backend="esn-s")
    assert session.npu is not None
    skipped, products = (np.zeros(len(done.plan.layers)) for _ in range(2))
    for x in real[12:]:
        session.run(x)
        assert session.npu.last is not None
        for step, mark in enumerate(session.npu.last.marks):
            skipped[step] += mark["mac_skip_a"]
            products[step] += mark["mac_skip_a"] + mark["mac_issued"]
    assert len(done.zero_rates) == 10
    for step, rate in done.zero_rates.items():
        assert abs(skipped[step] / products[step] - rate) <= 0.02


@pytest.mark.parametrize("kind", ["none", "all"])
def test_masked_stores_change_no_byte(kind: str) -> None:
    plan: pm.PlanModel = block(Block(24, 40, 40, 3), None)
    lower_and_check(plan, options=NpuOptions(zero_stores=kind))


def test_masked_stores_save_writes_and_hardly_a_cycle(data_root: Path) -> None:
    path = npu_models.path_of(data_root, "mlperf/mlperf_kws_dscnn_int8")
    none, filled, every = (npu_stores.stores(path, kind) for kind in npu_stores.KINDS)
    assert filled["sram_wr_bytes"] < 0.9 * none["sram_wr_bytes"]
    assert none["cycles"] - filled["cycles"] == filled["vec_store_skipped"] > 0
    assert every["cycles"] > filled["cycles"]


def test_pointwise_layers_take_about_what_vela_estimates(data_root: Path) -> None:
    require("vela")
    vela = shutil.which("vela")
    assert vela is not None
    for name in npu_vela.MODELS:
        found = list(npu_vela.compared(data_root / "models" / f"{name}.tflite", vela))
        assert len(found) >= 3
        for layer, ours, theirs in found:
            assert 0.45 <= ours / theirs <= 1.5, layer
