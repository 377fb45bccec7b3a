"""LSTM layers under the streaming transform, and models that are streams already."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgesparse.ops as ops
from command_line import Ran
from edgesparse.convert import Options, convert_model
from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Quant
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Run
from edgesparse.streaming.incremental import incremental
from edgesparse.streaming.plan import StreamOptions
from edgesparse.streaming.simulate import Simulator
from graph_builder import GraphBuilder
from streaming_nets import conv


@pytest.mark.parametrize("hop", [1, 4, 5])
def test_a_windowed_lstm_starts_anew_in_every_window(hop: int, models_dir: Path) -> None:
    """The stream gives what a session that is reset before every window gives, and says so."""
    path = models_dir / "generated/legacy_lstm_int8.tflite"
    plain = Session(convert_model(path).plan)
    done = convert_model(path, options=Options(stream=StreamOptions(hop)))
    for layer in ("tfl.unidirectional_sequence_lstm", "tfl.unidirectional_sequence_lstm1"):
        assert any(n.startswith(f"{layer}: computed in full") for n in done.notes), done.notes
    assert any("starts anew in every window" in note for note in done.notes)
    _, window, channels = plain.plan.inputs[0].shape
    signal = np.random.default_rng(8).integers(-128, 128, (3 * window + 2, channels))
    signal = signal.astype(np.int16)
    events = Stream(done.plan).push(signal)
    runs = [event for event in events if isinstance(event, Run)]
    assert len(runs) > 10
    seen = set()
    for run in runs:
        plain.reset()
        columns = signal[run.sample + 1 - window : run.sample + 1].astype(np.int8)
        expected = plain.run(columns[None])
        np.testing.assert_array_equal(run.outputs[0], expected)
        seen.add(np.asarray(expected).tobytes())
    assert len(seen) > len(runs) // 2


def test_columns_before_an_lstm_are_reused() -> None:
    """A convolution in front of it is not recomputed."""
    b = GraphBuilder(np.random.default_rng(9))
    x = b.input(1, 60, 3, quant=Quant((0.05,), (-9,)))
    y = conv(b, x, "valid", 8, 5)
    graph = b.graph(lstm_after(b, y, 6))
    made = incremental(graph, 4)
    assert [s.reason[:16] for s in made.stopped] == ["its state starts"]
    hop, whole = Simulator(made.graph), Simulator(graph)
    signal = np.random.default_rng(10).integers(-128, 128, (1, 180, 3)).astype(np.int8)
    columns = {n.outputs[0]: made.graph.tensors[n.outputs[0]].columns for n in made.graph.nodes
               if isinstance(n.op, ops.Conv)}
    assert list(columns.values()) == [4]
    for k in range(0, 180, 4):
        found = hop.run({made.graph.inputs[0]: signal[:, k : k + 4]})[made.graph.outputs[0]]
        if k >= 56:
            whole.reset()
            expected = whole.run({x: signal[:, k - 56 : k + 4]})[graph.outputs[0]]
            np.testing.assert_array_equal(found, expected)


def lstm_after(b: GraphBuilder, x: str, units: int) -> str:
    """An LSTM of random weights; returns its output."""
    rng = np.random.default_rng(11)
    channels = b.shape(x)[2]
    scales = Quant((0.01,) * 4 * units, (0,) * 4 * units, 0)
    w, r = (b.constant(rng.integers(-127, 128, (4 * units, depth)).astype(np.int8), scales)
            for depth in (channels, units))
    bias = b.constant(rng.integers(-500, 500, 4 * units).astype(np.int32))
    return b.apply(ops.Lstm(4), x, w, r, bias, quant=Quant((1 / 128,), (0,)))


@pytest.mark.parametrize(("name", "step"), [
    ("tflm/tflm_dtln_lstm", "one column"), ("mww/mww_v2_vad", "3 columns")])
def test_a_model_with_its_own_state_is_no_window(name: str, step: str, models_dir: Path) -> None:
    with pytest.raises(Unsupported, match=f"each run is one step of {step}") as refusal:
        convert_model(models_dir / f"{name}.tflite", options=Options(stream=StreamOptions(1)))
    assert "without --stream" in refusal.value.suggestion


def test_convert_says_that_the_state_of_a_windowed_lstm_goes_on(
    models_dir: Path, tmp_path: Path
) -> None:
    path = models_dir / "tflm/tflm_mnist_lstm_int8.tflite"
    ran = Ran("convert", path, "-o", tmp_path / "m.esp")
    assert "goes on from run to run" in ran.out
    assert convert_model(models_dir / "tflm/tflm_dtln_lstm.tflite").notes == ()
