"""edgesparse convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer, unsupported_twice


@pytest.fixture
def float_model(tmp_path: Path) -> Path:
    path = tmp_path / "float.tflite"
    path.write_bytes(dense_layer("float32"))
    return path


@pytest.fixture
def bad_model(tmp_path: Path) -> Path:
    path = tmp_path / "bad.tflite"
    path.write_bytes(unsupported_twice())
    return path


def test_it_writes_the_plan_that_the_api_makes(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "ecg.esp")
    assert ran.code == 0
    assert ran.err == ""
    assert (tmp_path / "ecg.esp").read_bytes() == es.convert(ECG).data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ecg.esp"]


def test_the_table_fits_80_columns_and_has_every_layer(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "ecg.esp")
    lines = ran.out.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("layer")) :]
    table = table[: table.index("")]
    assert max(len(line.rstrip()) for line in table) <= 80
    assert len(table) == 1 + 10 + 1
    assert table[2].split()[:3] == ["stem2_1", "conv1d", "360x32"]
    assert "75.1 %" in table[2]
    assert "bsr 4x1" in table[2]


def test_ram_flash_and_reasons_are_said(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "ecg.esp")
    plan = es.load(tmp_path / "ecg.esp")
    assert f"RAM    {plan.ram_bytes:,} bytes; 1.00 x the lower bound" in ran.out
    assert f"flash  {plan.flash_bytes:,} bytes; " in ran.out
    assert "of the model's 78,856" in ran.out
    assert "block6_1 +1: stored as bsr 4x1: " in ran.out


def test_json_is_one_object_that_agrees_with_the_plan(tmp_path: Path) -> None:
    found = Ran("convert", ECG, "-o", tmp_path / "ecg.esp", "--json").json
    plan = es.load(tmp_path / "ecg.esp")
    assert found["ram_bytes"] == plan.ram_bytes
    assert found["flash_bytes"] == plan.flash_bytes == (tmp_path / "ecg.esp").stat().st_size
    assert found["digest"] == plan.digest
    assert found["ram_ratio"] == 1.0
    assert [layer["name"] for layer in found["layers"]] == [layer.name for layer in plan.layers]
    assert found["layers"][1]["macs"] == 360 * 32 * 80
    assert found["layers"][1]["reason"].startswith("bsr 4x1")
    assert found["totals"]["macs_stored"] == sum(la["macs_stored"] for la in found["layers"])
    assert found["quantization"] is None


def test_the_target_is_in_the_plan_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    assert Ran("convert", ECG, "-o", tmp_path / "a.esp", "--target", "cortex-m4").code == 0
    assert es.load(tmp_path / "a.esp").model.target == "cortex-m4"
    ran = Ran("convert", ECG, "-o", tmp_path / "b.esp", "--target", "z80")
    assert ran.code == 2
    assert "z80" in ran.err
    assert "cortex-m4" in ran.err
    assert not (tmp_path / "b.esp").exists()


def test_no_golden_leaves_the_self_test_out(tmp_path: Path) -> None:
    assert Ran("convert", ECG, "-o", tmp_path / "a.esp", "--no-golden").code == 0
    assert es.load(tmp_path / "a.esp").model.golden is None


def test_the_same_conversion_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.esp", "b.esp"):
        assert Ran("convert", ECG, "-o", tmp_path / name, "--seed", 3).code == 0
    assert (tmp_path / "a.esp").read_bytes() == (tmp_path / "b.esp").read_bytes()


def test_the_method_of_calibration_does_not_touch_an_int8_model(tmp_path: Path) -> None:
    for method in ("minmax", "percentile:99.9"):
        path = tmp_path / f"{method[:3]}.esp"
        assert Ran("convert", ECG, "-o", path, "--method", method).code == 0
        assert path.read_bytes() == es.convert(ECG).data


def test_folded_channels_are_said(models_dir: Path, tmp_path: Path) -> None:
    model = models_dir / "mlperf" / "mlperf_vww_int8.tflite"
    ran = Ran("convert", model, "-o", tmp_path / "vww.esp")
    assert "MACs 7.49 M -> 3.73 M, weights 208" in ran.out
    table = [line for line in ran.out.splitlines() if "conv2d" in line or "dwconv" in line]
    assert max(len(line.rstrip()) for line in table) <= 80


def test_inputs_have_the_names_of_the_model(models_dir: Path, tmp_path: Path) -> None:
    """Not those of the int8 tensors behind its QUANTIZE operators."""
    model = models_dir / "ecg" / "ecg_classifyheartbeats_quant.tflite"
    found = Ran("convert", model, "-o", tmp_path / "x.esp", "--json").json
    assert found["inputs"][0]["name"] == "input_1"
    assert found["outputs"][0]["name"] == "Identity"


# ---- float models


def test_a_float_model_without_data_is_refused_with_what_it_takes(float_model: Path) -> None:
    ran = Ran("convert", float_model, "-o", float_model.with_suffix(".esp"))
    assert ran.code == 2
    assert "--calibrate" in ran.err
    assert "8" in ran.err
    assert not float_model.with_suffix(".esp").exists()


@pytest.mark.parametrize("method", ["minmax", "percentile:99.9", "mse"])
def test_a_float_model_shows_its_quantization(float_model: Path, method: str) -> None:
    samples = float_model.with_name("x.npy")
    np.save(samples, np.random.default_rng(0).normal(size=(50, 1, 8)).astype(np.float32))
    arguments = ("convert", float_model, "-o", float_model.with_suffix(".esp"),
                 "--calibrate", samples, "--method", method)
    ran = Ran(*arguments)
    assert ran.code == 0, ran.err
    assert "SQNR dB" in ran.out
    assert "saturated" in ran.out
    found = Ran(*arguments, "--json").json
    assert found["quantization"]["samples"] == 50
    assert found["quantization"]["sqnr_db"] > 20
    assert found["inputs"][0]["float_io"]


def test_an_unknown_method_and_a_wrong_shape_are_refused(float_model: Path) -> None:
    samples = float_model.with_name("x.npz")
    np.savez(samples, x=np.ones((5, 9), np.float32))
    ran = Ran("convert", float_model, "-o", float_model.with_suffix(".esp"),
              "--calibrate", samples)
    assert ran.code == 2
    assert "[5, 9]" in ran.err
    np.savez(samples, x=np.ones((5, 8), np.float32))
    ran = Ran("convert", float_model, "-o", float_model.with_suffix(".esp"),
              "--calibrate", samples, "--method", "guess")
    assert ran.code == 2
    assert "minmax" in ran.err


# ---- --check


def test_check_lists_everything_at_once_and_writes_nothing(bad_model: Path) -> None:
    ran = Ran("convert", bad_model, "--check")
    assert ran.code == 2
    assert "NEG" in ran.out
    assert "ELU" in ran.out
    assert "2 unsupported parts" in ran.err
    found = Ran("convert", bad_model, "--check", "--json")
    assert found.code == 2
    assert len(found.json["unsupported"]) == 2
    assert list(bad_model.parent.iterdir()) == [bad_model]


def test_check_of_a_supported_model_is_fine() -> None:
    ran = Ran("convert", ECG, "--check", "--json")
    assert ran.code == 0
    assert ran.json["unsupported"] == []


def test_check_refuses_a_stream_and_a_budget() -> None:
    ran = Ran("convert", ECG, "--check", "--stream", "hop=8")
    assert ran.code == 2
    assert "leave --stream out" in ran.err
    ran = Ran("convert", ECG, "--check", "--budget", "20ms@64MHz")
    assert ran.code == 2
    assert "leave --budget out" in ran.err


def test_conversion_of_an_unsupported_model_names_all_parts(bad_model: Path) -> None:
    ran = Ran("convert", bad_model, "-o", bad_model.with_suffix(".esp"))
    assert ran.code == 2
    assert "NEG" in ran.err
    assert "ELU" in ran.err
    assert not bad_model.with_suffix(".esp").exists()


# ---- dumps


def test_dump_after_prints_the_graph(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "a.esp", "--dump-after", "conv1d")
    assert "after conv1d:\ngraph ecg_c48_4x1_75.tflite\n" in ran.out
    ran = Ran("convert", ECG, "-o", tmp_path / "a.esp", "--dump-after", "conv1d", "--json")
    assert "after conv1d" in ran.err
    assert ran.json["ram_bytes"] > 0


def test_dump_after_an_unknown_pass_names_the_passes(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "a.esp", "--dump-after", "magic")
    assert ran.code == 2
    assert "fold_constants" in ran.err
