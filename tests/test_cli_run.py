"""edgesparse run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer, two_outputs
from npu_plans import all_on_cpu, plan_of


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "one.esp"
    es.convert(dense_layer()).save(path)
    return path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "two.esp"
    es.convert(two_outputs()).save(path)
    return path


def some_runs(count: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, (count, 1, 8)).astype(np.int8)


def test_the_first_axis_is_runs(one: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", some_runs())
    ran = Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert ran.code == 0
    assert "3 runs" in ran.out
    y = np.load(tmp_path / "y.npy")
    assert y.shape == (3, 1, 4)
    session = es.Session(es.load(one))
    assert np.array_equal(y, np.stack([session.run(x) for x in some_runs()]))


def test_one_run_may_lack_the_axis_of_runs(one: Path, tmp_path: Path) -> None:
    x = some_runs(1)[0]
    np.save(tmp_path / "x.npy", x)
    ran = Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("1 run ->")
    assert np.array_equal(np.load(tmp_path / "y.npy"), es.Session(es.load(one)).run(x))


def test_floats_are_quantized(one: Path, tmp_path: Path) -> None:
    x = some_runs()
    np.save(tmp_path / "x.npy", ((x.astype(np.float32) - 3) * 0.05).astype(np.float32))
    Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), es.Session(es.load(one)).run(x))


def test_several_inputs_and_outputs_go_by_name(two: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (5, 1, 4)).astype(np.int8)
    y = rng.integers(-128, 128, (5, 1, 6)).astype(np.int8)
    np.savez(tmp_path / "in.npz", y=y, x=x)
    ran = Ran("run", two, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz",
              "--json")
    assert ran.code == 0, ran.err
    assert ran.json["runs"] == 5
    assert ran.json["outputs"]["b"] == {"shape": [5, 1, 6], "dtype": "int8"}
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["a"], np.maximum(x, 0))
        assert np.array_equal(found["b"], np.maximum(y, 0))


def test_several_outputs_do_not_fit_into_npy(two: Path, tmp_path: Path) -> None:
    ran = Ran("run", two, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert ran.code == 2
    assert ".npz" in ran.err


def test_wrong_names_are_named(two: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 1, 4), np.int8), z=np.zeros((1, 1, 6), np.int8))
    ran = Ran("run", two, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    assert ran.code == 2
    assert "'z'" in ran.err
    assert "'y'" in ran.err


@pytest.mark.parametrize(("x", "word"), [
    (np.zeros((3, 1, 9), np.int8), "[runs, 1, 8]"),
    (np.zeros(8, np.int8), "[1, 8], or [runs, 1, 8]"),
    (np.zeros((3, 1, 8), np.int16), "int8"),
    (np.full((3, 1, 8), np.nan, np.float32), "NaN"),
    (np.zeros((0, 1, 8), np.int8), "[0, 1, 8]"),
    (np.array([None]), "plain arrays"),
])
def test_what_does_not_fit_is_refused(one: Path, tmp_path: Path, x: np.ndarray, word: str) -> None:
    np.save(tmp_path / "x.npy", x)
    ran = Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert ran.code == 2
    assert word in ran.err
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize("name", ["host", "esn-x", "warp"])
def test_an_unknown_backend_is_refused(one: Path, tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "x.npy", some_runs())
    ran = Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy",
              "--backend", name)
    assert ran.code == 2
    assert name in ran.err
    assert "portable" in ran.err


def test_a_plan_without_a_program_does_not_run_on_the_npu(one: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", some_runs())
    ran = Ran("run", one, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy",
              "--backend", "esn-s")
    assert ran.code == 2
    assert "--target esn-lab or esn-m or esn-s" in ran.err


def test_a_program_runs_on_its_npu(one: Path, tmp_path: Path) -> None:
    plan, x = plan_of(all_on_cpu(es.load(one).model)), some_runs()
    plan.save(tmp_path / "npu.esp")
    np.save(tmp_path / "x.npy", x)
    ran = Ran("run", tmp_path / "npu.esp", "--input", tmp_path / "x.npy",
              "--output", tmp_path / "y.npy", "--backend", "esn-s", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["backend"] == "esn-s"
    assert np.array_equal(np.load(tmp_path / "y.npy"), es.Session(plan).run(x))


def test_the_ecg_model_runs(tmp_path: Path) -> None:
    es.convert(ECG).save(tmp_path / "ecg.esp")
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 1440, 1), np.float32))
    ran = Ran("run", tmp_path / "ecg.esp", "--input", tmp_path / "x.npy",
              "--output", tmp_path / "y.npy")
    assert ran.code == 0
    assert np.load(tmp_path / "y.npy").shape == (2, 1, 180, 4)
