"""The memory planner and the dead-channel folding on the models of MLPerf Tiny."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import Conversion, Options, convert_model
from edgesparse.footprint import model_cost
from edgesparse.importers.tflite import import_tflite
from int8_models import converted, judge
from needs import require

INT8 = ("ad01", "kws_dscnn", "vww", "strm_ww_old", "ic_resnet8", "ic_resnet_6blk")
FLOAT = ("ad01_fp32", "kws_dscnn_fp32", "vww_fp32", "ic_resnet8_fp32", "ad_ToyCar_dynrange")
CEILINGS = {"ad01": 2_600, "kws_dscnn": 22_800, "ic_resnet8": 55_000}
"""Bytes of RAM, KB of 1,000 bytes."""


def int8(models_dir: Path, name: str) -> Conversion:
    return converted(models_dir / "mlperf" / f"mlperf_{name}_int8.tflite")


def quantized(models_dir: Path, name: str) -> Conversion:
    """A float model, quantized over three made inputs: enough to give every tensor a range."""
    path = models_dir / "mlperf" / f"mlperf_{name}.tflite"
    graph = import_tflite(path.read_bytes(), name)
    rng = np.random.default_rng(0)
    calibration = {
        t: rng.uniform(-1, 1, (3, *graph.tensors[t].shape)).astype(np.float32)
        for t in graph.inputs}
    return convert_model(path, options=Options(calibration, method="minmax", golden=False))


def test_every_model_of_the_folder_is_here(models_dir: Path) -> None:
    found = {path.stem.removeprefix("mlperf_") for path in (models_dir / "mlperf").glob("*.tflite")}
    assert found == {f"{name}_int8" for name in INT8} | {*FLOAT}


@pytest.mark.parametrize("name", INT8)
def test_an_int8_model_takes_as_few_bytes_as_any_placement(name: str, models_dir: Path) -> None:
    memory = int8(models_dir, name).memory
    assert memory.peak == memory.bound > 0
    assert memory.ratio == 1.0


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_model_takes_as_few_bytes_as_any_placement(name: str, models_dir: Path) -> None:
    done = quantized(models_dir, name)
    assert done.memory.peak == done.memory.bound == done.plan.ram_bytes > 0
    assert done.memory.ratio == 1.0


@pytest.mark.parametrize("name", CEILINGS)
def test_ram_stays_below_its_ceiling(name: str, models_dir: Path) -> None:
    assert int8(models_dir, name).plan.ram_bytes <= CEILINGS[name]


def test_vww_loses_what_never_changes_and_not_one_byte(data_root: Path, models_dir: Path) -> None:
    """Exact dead-channel folding, in the plan: MACs and weights that the device still has."""
    require("oracle")
    model = import_tflite((models_dir / "mlperf" / "mlperf_vww_int8.tflite").read_bytes(), "vww")
    assert model_cost(model) == (7_489_664, 208_112)
    layers = int8(models_dir, "vww").plan.layers
    assert sum(layer.macs for layer in layers) <= 3_750_000
    assert sum(layer.dense_bytes for layer in layers) <= 30_000
    row = judge(data_root, "models/mlperf/mlperf_vww_int8")
    assert (row.report.inputs, row.differing) == (32, 0)
