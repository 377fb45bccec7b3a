"""edgesparse verify."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer
from edgesparse.plan import model as pm
from edgesparse.plan.write import write_plan
from edgesparse.runtime.npu_backend import NpuBackend
from needs import require
from npu_plans import all_on_cpu, plan_of


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "ecg.esp"
    es.convert(ECG).save(path)
    return path


@pytest.fixture
def damaged(plan: Path, tmp_path: Path) -> Path:
    """The plan with one bias changed, sealed again."""
    model = es.load(plan).model
    step = model.steps[4]
    assert isinstance(step.source, pm.Mac)
    bias = step.source.bias.copy()
    bias[0] += 2000
    steps = list(model.steps)
    steps[4] = replace(step, source=replace(step.source, bias=bias))
    path = tmp_path / "damaged.esp"
    path.write_bytes(write_plan(replace(model, steps=tuple(steps), golden=None)))
    return path


def test_equal_bytes_are_fine(plan: Path) -> None:
    require("oracle")
    ran = Ran("verify", plan, "--against", ECG, "--inputs", 4)
    assert ran.code == 0
    assert "4 inputs on portable, judged by tflite-runtime 2.14.0 BUILTIN_REF" in ran.out
    assert "every byte is equal" in ran.out


def test_a_difference_exits_with_1_and_names_tensor_and_layer(damaged: Path) -> None:
    require("oracle")
    ran = Ran("verify", damaged, "--against", ECG, "--inputs", 4)
    assert ran.code == 1
    assert "first difference: tensor ecg_" in ran.out
    assert "of layer ecg_" in ran.out
    assert "equal" not in ran.out
    found = Ran("verify", damaged, "--against", ECG, "--inputs", 4, "--json")
    assert found.code == 1
    assert found.json["passed"] is False
    assert found.json["differing"] > 0


def test_json_lists_every_tensor(plan: Path) -> None:
    require("oracle")
    found = Ran("verify", plan, "--against", ECG, "--inputs", 3, "--seed", 7, "--json").json
    assert found["passed"] is True
    assert found["differing"] == 0
    assert found["inputs"] == 3
    assert len(found["tensors"]) == 11


def test_without_an_oracle_it_exits_with_2(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgesparse.oracle.find_spec", lambda _: None)
    ran = Ran("verify", plan, "--against", ECG)
    assert ran.code == 2
    assert "edgesparse[oracle]" in ran.err


def test_an_unknown_backend_is_refused(plan: Path) -> None:
    require("oracle")
    ran = Ran("verify", plan, "--against", ECG, "--backend", "warp")
    assert ran.code == 2
    assert "portable" in ran.err


def test_a_program_is_verified_on_its_npu(plan: Path, tmp_path: Path) -> None:
    require("oracle")
    model = all_on_cpu(es.load(plan).model)
    plan_of(model).save(tmp_path / "npu.esp")
    ran = Ran("verify", tmp_path / "npu.esp", "--against", ECG, "--backend", "esn-s", "--inputs",
              "2", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["backend"] == "esn-s"
    assert ran.json["not_seen"] == []
    assert len(ran.json["tensors"]) == len(model.steps) + 1


def test_results_that_only_the_scratchpad_had_are_counted(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("oracle")
    traced = NpuBackend.run_traced
    monkeypatch.setattr(
        NpuBackend, "run_traced", lambda self, read: dict([*traced(self, read).items()][2:]))
    plan_of(all_on_cpu(es.load(plan).model)).save(tmp_path / "npu.esp")
    ran = Ran("verify", tmp_path / "npu.esp", "--against", ECG, "--backend", "esn-s", "--inputs",
              "1")
    assert ran.code == 0, ran.err
    assert "2 results of esn-s are not in the arena" in ran.out


def test_a_model_edgesparse_quantized_is_verified_with_its_data(tmp_path: Path) -> None:
    model, data, plan = (tmp_path / name for name in ("m.tflite", "x.npz", "m.esp"))
    model.write_bytes(dense_layer("float32"))
    np.savez(data, x=np.random.default_rng(0).normal(size=(20, 1, 8)).astype(np.float32))
    assert Ran("convert", model, "-o", plan, "--calibrate", data).code == 0
    ran = Ran("verify", plan, "--against", model, "--calibrate", data)
    assert ran.code == 0, ran.err
    assert "dB against float" in ran.out
    ran = Ran("verify", plan, "--against", model)
    assert ran.code == 0
    assert "note: " in ran.out
