"""The ECG demo: front end, decoder, windows, and the beats it finds."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import edgesparse as es
from command_line import Ran
from edgesparse.demo import ecg, ecg_signal
from edgesparse.demo.ecg import EcgResult, Recording
from edgesparse.demo.ecg_picture import liveliest, terminal_strip
from edgesparse.demo.ecg_signal import Beats
from needs import require

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def definition() -> ModuleType:
    """demos/ecg/reference_decoder.py, which the network was trained with."""
    path = ROOT / "demos" / "ecg" / "reference_decoder.py"
    spec = spec_from_file_location("reference_decoder", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["reference_decoder"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def result() -> EcgResult:
    require("ecg")
    return ecg.run_ecg(ecg.packaged_recording(), ecg.packaged_plan())


# ---- against the definition


@pytest.mark.parametrize("samples", [1, 2, 17, 1000, 5001])
def test_the_front_end_is_the_one_of_training(definition: ModuleType, samples: int) -> None:
    rng = np.random.default_rng(samples)
    lead = np.cumsum(rng.normal(0, 0.05, samples)) + rng.normal()
    ours, theirs = ecg_signal.front_end(lead), definition.front_end(lead)
    assert ours.dtype == np.float32
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-6
    assert np.array_equal(ecg_signal.flushed(lead), definition.flushed(lead))


@pytest.mark.parametrize("seed", range(5))
def test_the_decoder_is_the_one_of_training(definition: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (2000, 4)).astype(np.float32)
    ours, theirs = ecg_signal.decode(logits), definition.decode(logits)
    assert len(ours) > 100
    assert np.allclose(ours.position, theirs.position, rtol=0, atol=1e-9)
    assert np.array_equal(ours.kind, theirs.kind)


def test_no_beats_come_out_of_silence() -> None:
    assert len(ecg_signal.decode(np.full((500, 4), -8.0))) == 0
    assert len(ecg_signal.decode(np.zeros((0, 4)))) == 0


# ---- the packaged recording


def test_the_beats_are_those_of_the_model_card(result: EcgResult) -> None:
    """MODEL_CARD.md, "To check another implementation"."""
    card = (ROOT / "demos" / "ecg" / "MODEL_CARD.md").read_text()
    assert "503 beats, 387 N, 1 S, 115 V" in card
    assert len(result.beats) == 503
    assert result.counts == {"N": 387, "S": 1, "V": 115}
    first = [127.49, 335.51, 544.18, 751.49, 943.46, 1135.28]
    assert result.beats.position[:6] == pytest.approx(first, abs=0.005)
    assert result.beats.position[-1] == pytest.approx(107871.49, abs=0.005)


def test_every_window_costs_less_than_its_budget(result: EcgResult) -> None:
    assert len(result.window_seconds) == ecg.window_count(result.recording, result.plan) == 133
    assert result.hop_seconds == pytest.approx(50 * 16 / 360)
    assert result.headroom > 1


def test_windows_join_to_what_longer_overlaps_give(result: EcgResult) -> None:
    """A window that starts elsewhere sees the same history: the receptive field is covered."""
    lead = result.recording.lead_mv[:20_000]
    shifted = Recording(np.concatenate([np.full(16 * 7, lead[0]), lead]), "208", "", True)
    plain = ecg.run_ecg(Recording(lead, "208", "", True), result.plan).beats
    moved = ecg.run_ecg(shifted, result.plan).beats
    settled = plain.position > 7 * 360
    inside = moved.position - 16 * 7 > 7 * 360
    assert moved.position[inside] - 16 * 7 == pytest.approx(plain.position[settled], abs=1e-6)
    assert np.array_equal(moved.kind[inside], plain.kind[settled])


def test_a_recording_shorter_than_a_window_works(result: EcgResult) -> None:
    short = Recording(result.recording.lead_mv[:360], "208", "", True)
    assert len(ecg.run_ecg(short, result.plan).beats) <= 3


# ---- other recordings


def test_records_of_a_database_are_read(data_root: Path) -> None:
    require("ecg")
    recording = ecg.read_recording(data_root / "data" / "mitdb", "208")
    packaged = ecg.packaged_recording()
    assert recording.trained
    assert recording.part == "lead MLII"
    part = recording.lead_mv[422820 : 422820 + len(packaged.lead_mv)]
    assert np.allclose(part, packaged.lead_mv, atol=1e-9)


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    require("ecg")
    with pytest.raises(es.BadInput, match="nothere"):
        ecg.read_recording(tmp_path, "nothere")


def test_another_rate_is_refused(data_root: Path) -> None:
    require("ecg")
    folder = data_root / "data" / "svdb"
    name = sorted(path.stem for path in folder.glob("*.hea"))[0]
    with pytest.raises(es.BadInput, match="360 Hz is needed"):
        ecg.read_recording(folder, name)


@pytest.mark.parametrize("package", ["sleepecg", "wfdb"])
def test_without_its_packages_it_says_how_to_get_them(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ecg, "find_spec", lambda _: None)
    more = () if package == "sleepecg" else ("--record", "100", "--data", tmp_path)
    ran = Ran("demo", "ecg", *more)
    assert ran.code == 2
    assert package in ran.err
    assert "pip install 'edgesparse[ecg]'" in ran.err


# ---- the command


def test_the_command_shows_beats_cost_and_strip() -> None:
    require("ecg")
    ran = Ran("demo", "ecg")
    assert ran.code == 0
    for words in ("MIT-BIH record 208, channel 0 from sample 422820: 5 min 00 s",
                  "trained on this record", "Not a medical device",
                  "75% of 52,016 weights", "RAM", "flash", "a window of 8 s"):
        assert words in ran.out
    table = ran.out[ran.out.index("beats") :].splitlines()[1:4]
    rows = {line.split()[0]: line.split() for line in table}
    assert rows["N"][-2] == "387"
    assert rows["S"][-2] == "1"
    assert rows["V"][-2] == "115"
    assert sum("\u2800" <= c <= "\u28ff" for c in ran.out) == 7 * 76
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80


def test_no_picture_draws_no_strip() -> None:
    require("ecg")
    ran = Ran("demo", "ecg", "--no-picture")
    assert ran.code == 0
    assert not any("\u2800" <= c <= "\u28ff" for c in ran.out)


def test_json_has_every_beat_and_the_picture_is_a_png(tmp_path: Path) -> None:
    require("ecg")
    ran = Ran("demo", "ecg", "--json", "--picture", tmp_path / "strip.png")
    found = ran.json
    assert found["beats"] == len(found["positions"]) == len(found["classes"]) == 503
    assert found["classes"].count("V") == 115
    assert found["training_record"] is True
    assert found["medical_device"] is False
    assert 0.74 < found["zeros"] < 0.76
    assert found["macs_stored"] < 0.3 * found["macs"]
    assert (tmp_path / "strip.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


# ---- pictures


def test_the_liveliest_stretch_has_the_most_changes_of_class() -> None:
    position = np.arange(0.0, 36_000, 360)
    kind = np.zeros(100, np.int64)
    kind[51:60:2] = 2
    start = liveliest(Beats(position, kind), 36_000, 3_600)
    changes = np.count_nonzero(np.diff(kind[start // 360 : start // 360 + 10]))
    assert changes >= 8
    assert liveliest(Beats(position, np.zeros(100, np.int64)), 36_000, 3_600) == 0


def test_the_strip_shows_the_trace_and_letters_at_the_beats() -> None:
    lead = np.zeros(3_600)
    lead[1_790:1_810] = 1.0
    strip = terminal_strip(lead, Beats(np.array([1_800.0]), np.array([2])), 0, 3_600, 50)
    lines = strip.plain.split("\n")
    assert lines[0] == " " * 25 + "V" + " " * 24
    assert len(lines) == 9
    assert "\u2800" not in lines[7]
    assert lines[1].count("\u2800") >= 48
    assert lines[-1].startswith("0:00")
    assert any(span.style == "bold red" for span in strip.spans)
