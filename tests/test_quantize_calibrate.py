"""Calibration data from files, and what a float graph is seen to hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array, Graph
from edgesparse.ops import Activation, Add, Mul, Reshape
from edgesparse.quantize.calibrate import MAX_EXAMPLES, calibrate
from edgesparse.quantize.ranges import BINS
from edgesparse.quantize.samples import check_samples, load_calibration
from graph_builder import GraphBuilder

RNG = np.random.default_rng(0)


@pytest.fixture
def graph() -> Graph:
    """One input [1, 6, 3]."""
    b = GraphBuilder(np.random.default_rng(0), real=True)
    y = b.conv(b.input(1, 6, 3), 4, (1, 3), activation=Activation.RELU)
    return b.graph(b.apply(Reshape((1, -1)), y))


@pytest.fixture
def two_inputs() -> Graph:
    """Inputs x0 [1, 4] and x1 [1, 4], called left and right by the user."""
    b = GraphBuilder(np.random.default_rng(0), real=True)
    y = b.apply(Add(), b.input(1, 4), b.input(1, 4))
    return replace(b.graph(y), input_names=("left", "right"), output_names=("sum",))


def normal(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


# ---- files


@pytest.mark.parametrize("shape", [(5, 1, 6, 3), (5, 6, 3)])
def test_a_single_array_is_the_single_input(graph: Graph, tmp_path: Path, shape: tuple) -> None:
    np.save(tmp_path / "x.npy", normal(*shape))
    np.savez(tmp_path / "x.npz", anything=normal(*shape))
    for name in ("x.npy", "x.npz"):
        found = load_calibration(tmp_path / name, graph)
        assert found.keys() == {"x0"}
        assert found["x0"].shape == (5, 1, 6, 3)
        np.testing.assert_array_equal(found["x0"].reshape(shape), normal(*shape))


def test_inputs_are_named_as_the_user_or_the_graph_names_them(
    two_inputs: Graph, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", left=normal(3, 4), right=2 * normal(3, 4))
    np.savez(tmp_path / "y.npz", x0=normal(3, 4), x1=2 * normal(3, 4))
    for name in ("x.npz", "y.npz"):
        found = load_calibration(tmp_path / name, two_inputs)
        np.testing.assert_array_equal(found["x1"], 2 * found["x0"])


def test_whole_numbers_are_taken_as_real_ones(graph: Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 6, 3), 255, np.uint8))
    assert (load_calibration(tmp_path / "x.npy", graph)["x0"] == 255.0).all()


def refused(path: Path, graph: Graph) -> str:
    with pytest.raises(BadInput) as error:
        load_calibration(path, graph)
    return str(error.value)


def test_names_and_counts_that_do_not_fit_are_refused(two_inputs: Graph, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.save(tmp_path / "x.npy", normal(3, 4))
    assert "'right' [samples, 1, 4]" in refused(tmp_path / "x.npy", two_inputs)
    np.savez(path, left=normal(3, 4))
    assert "left" in refused(path, two_inputs)
    np.savez(path, left=normal(3, 4), middle=normal(3, 4))
    assert "'middle' is no input" in refused(path, two_inputs)
    np.savez(path, left=normal(3, 4), right=normal(2, 4))
    assert "differ in the number of samples" in refused(path, two_inputs)
    np.savez(path)
    assert "no array" in refused(path, two_inputs)


@pytest.mark.parametrize(("array", "said"), [
    (np.zeros((5, 6, 2)), r"\[5, 6, 2\]"),
    (np.zeros((6, 3)), r"allowed is \[samples, 1, 6, 3\]"),
    (np.float32(1.0), "allowed is"),
    (np.zeros((0, 6, 3)), "no samples"),
    (np.zeros((2, 6, 3), np.complex64), "complex64"),
    (np.full((2, 6, 3), "a"), "dtype"),
    (np.where(np.arange(36).reshape(2, 6, 3) == 20, np.nan, 1), "sample 1 holds NaN"),
    (np.where(np.arange(36).reshape(2, 6, 3) == 2, -np.inf, 1), "sample 0 holds NaN or inf"),
    (np.full((1, 6, 3), 1e300), "infinity"),
])
def test_arrays_that_do_not_fit_are_refused(graph: Graph, array: Array, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_samples(graph, {"x0": array})


@pytest.mark.parametrize("content", [
    b"", b"PK\x03\x04 no zip", b"\x93NUMPY\x01\x00", b"text", b"\x93NUMPY\x01\x00\x10\x00garbage",
])
def test_a_damaged_file_is_refused(graph: Graph, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    assert "numpy.savez" in refused(tmp_path / "x.npz", graph)


def test_every_truncation_of_an_archive_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x0=normal(4, 6, 3))
    whole = path.read_bytes()
    for size in range(1, len(whole) - 1, 37):
        path.write_bytes(whole[:size])
        assert refused(path, graph)
    damaged = bytearray(whole)
    damaged[120] ^= 0xFF
    path.write_bytes(damaged)
    assert refused(path, graph)


def test_objects_and_missing_files_are_refused(graph: Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object))
    assert "plain arrays" in refused(tmp_path / "x.npy", graph)
    assert "No such file" in refused(tmp_path / "none.npy", graph)


# ---- calibration


def test_every_computed_tensor_is_seen_over_all_samples(graph: Graph) -> None:
    samples = normal(200, 1, 6, 3)
    found = calibrate(graph, {"x0": samples}, "minmax")
    assert found.samples == 200
    assert found.range("x0") == (samples.min(), samples.max())
    assert found.observed["t0"].count == 200 * 16
    assert found.observed["t0"].bins.size == BINS
    assert found.range("t0")[0] == 0.0  # behind a ReLU
    assert found.examples["x0"].shape == (MAX_EXAMPLES, 1, 6, 3)
    assert found.with_method("percentile:90").range("t0")[1] < found.range("t0")[1]


def test_data_that_say_nothing_are_refused(graph: Graph) -> None:
    with pytest.raises(BadInput, match="'x0' is zero throughout"):
        calibrate(graph, {"x0": np.zeros((5, 1, 6, 3))})
    with pytest.raises(BadInput, match="allowed are headroom"):
        calibrate(graph, {"x0": normal(5, 6, 3)}, "best")


def test_a_layer_that_overflows_is_named() -> None:
    b = GraphBuilder(np.random.default_rng(0), real=True)
    x = b.input(1, 4)
    graph = b.graph(b.apply(Mul(), x, x))
    samples = np.ones((3, 4), np.float32)
    samples[2] = 1e30
    with pytest.raises(BadInput, match="sample 2 makes layer 'layer0' NaN or infinite"):
        calibrate(graph, {"x0": samples})
