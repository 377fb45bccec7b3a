"""demos/ecg: the float net in NumPy, the split, and the script that scores the shipped nets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgesparse.demo import ecg
from needs import require

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # demos/ is no part of the package

from demos.ecg import folded, score_ds2, split  # noqa: E402

if TYPE_CHECKING:
    from edgesparse.graph.ir import Array

TINY = folded.Shape((2, 3, 4))


def tiny_net(rng: np.random.Generator) -> list[folded.Folded]:
    specs = (*TINY.specs(), TINY.head())
    return [
        folded.Folded(
            s, rng.normal(size=(s.outputs, s.inputs, s.kernel)).astype(np.float32) / s.kernel,
            rng.normal(size=s.outputs).astype(np.float32))
        for s in specs]


# ---- the split


def test_the_halves_and_the_folds() -> None:
    assert set(split.DS1) == ecg.TRAINED_ON
    assert len(split.DS1) == len(set(split.DS2)) == 22
    assert not set(split.DS1) & set(split.DS2)
    assert sorted(name for fold in split.FOLDS for name in fold) == sorted(split.DS1)


# ---- the float net


def by_definition(net: list[folded.Folded], x: Array) -> Array:
    """One output after the other: sum over taps of weight times the input that tap sees."""
    for layer in net:
        spec, y = layer.spec, []
        for t in range(-(-x.shape[1] // spec.stride)):
            total = layer.bias.astype(np.float64)
            for tap in range(spec.kernel):
                at = t * spec.stride - spec.dilation * (spec.kernel - 1 - tap)
                if at >= 0:
                    total = total + layer.weight[:, :, tap] @ x[:, at]
            y.append(total)
        out = np.stack(y, axis=1) + (x if spec.residual else 0)
        x = out if spec.head else np.maximum(out, 0)
    return x.T


def test_the_float_net_is_what_its_layers_say() -> None:
    rng = np.random.default_rng(0)
    net, x = tiny_net(rng), rng.normal(size=333)
    ours = folded.run_folded(net, x)
    assert ours.shape == (42, 4)
    np.testing.assert_allclose(ours, by_definition(net, x[None]), rtol=1e-4, atol=1e-4)


def test_a_bias_moves_the_logits_and_nothing_else() -> None:
    rng = np.random.default_rng(1)
    net, x = tiny_net(rng), rng.normal(size=100)
    moved = folded.run_folded(folded.with_bias(net, (0.0, 0.0, -0.7, 0.5)), x)
    wanted = folded.run_folded(net, x) + np.array([0.0, 0.0, -0.7, 0.5])
    np.testing.assert_allclose(moved, wanted, atol=1e-5)


def test_a_float_net_survives_its_file_and_another_shape_is_refused(tmp_path: Path) -> None:
    net = tiny_net(np.random.default_rng(2))
    folded.save(tmp_path / "net.npz", net)
    for mine, read in zip(net, folded.load(tmp_path / "net.npz", TINY), strict=True):
        assert mine.spec == read.spec
        np.testing.assert_array_equal(mine.weight, read.weight)
        np.testing.assert_array_equal(mine.bias, read.bias)
    with pytest.raises(ValueError, match="widths"):
        folded.load(tmp_path / "net.npz", folded.SHAPES["ecg_c15_dense"])


# ---- scoring


def test_beats_are_those_of_the_demo_and_scores_go_with_their_class() -> None:
    require("ecg")
    recording = ecg.packaged_recording()
    result = ecg.run_ecg(recording, ecg.packaged_plan())
    net = score_ds2.Net(ecg.MODEL, result.plan, [], "")
    signal = recording.signal
    part = score_ds2.Recording("208", signal.centred(), None)  # type: ignore[arg-type]
    beats = score_ds2.core_beats(net, part).reported
    assert beats.samples.tolist() == result.beats.position.tolist()
    assert [ecg.CLASSES.index(symbol) for symbol in beats.symbols] == result.beats.kind.tolist()
    assert beats.scores is not None
    np.testing.assert_allclose(beats.scores.sum(axis=1), 1, atol=1e-6)
    assert (beats.scores.argmax(axis=1) == result.beats.kind).all()


def test_ds2_is_not_scored_by_accident(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = score_ds2.LOG.read_text()
    monkeypatch.setattr(sys, "argv", ["score_ds2", "--records", "ds2"])
    with pytest.raises(SystemExit) as stopped:
        score_ds2.main()
    assert stopped.value.code == 2
    assert "--this-counts" in capsys.readouterr().err
    assert score_ds2.LOG.read_text() == before


def test_a_scoring_is_counted_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(score_ds2, "LOG", tmp_path / "DS2.md")
    score_ds2.LOG.write_text("# Scorings\n")
    net = score_ds2.Net("some_net", ecg.packaged_plan(), [], "0123abcd")
    assert [score_ds2.counted([net]) for _ in range(2)] == [1, 2]
    text = score_ds2.LOG.read_text()
    assert text.startswith("# Scorings\n")
    assert text.count("0123abcd  some_net.tflite") == 2
