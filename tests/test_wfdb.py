"""WFDB records: the cases that other readers get wrong, every format, real records."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import given
from hypothesis import strategies as st

import edgesparse as es
from edgesparse.graph.ir import Array
from edgesparse.signals import MISSING, Adc, Signal, read_record
from edgesparse.signals.wfdb_header import read_header
from needs import require

require("ecg")


@pytest.fixture(scope="module")
def cases(cases_dir: Path) -> Path:
    return cases_dir / "wfdb"


@pytest.fixture(scope="module")
def mitdb(data_root: Path) -> Path:
    require("data", (data_root / "data" / "mitdb").is_dir())
    return data_root / "data" / "mitdb"


def refused(path: Path, *words: str, lead: str | int | None = None) -> None:
    """Refused, naming the record and each of these words."""
    with pytest.raises(es.BadInput) as caught:
        read_record(path, lead)
    for word in (f"record {path.name}", *words):
        assert word in str(caught.value)


def test_a_checksum_of_0_is_taken_as_not_given(cases: Path) -> None:
    """All the cases but ck have it, and none sums up to 0."""
    assert read_header(cases / "crlf").channels[0].checksum is None
    assert int(ramp(cases).sum()) % 65536 == 217


def ramp(cases: Path) -> Array:
    """What all the cases hold: the samples of the one without any fault."""
    return read_record(cases / "crlf").samples


# ---- the cases ----------------------------------------------------------------------------------


def test_carriage_returns_and_a_last_line_without_an_end_are_read(cases: Path) -> None:
    found = read_record(cases / "crlf")
    assert (cases / "crlf.hea").read_bytes().count(b"\r\n") == 1
    assert len(found) == 999
    assert found.rate_hz == 360
    assert found.adc == Adc(200, 0)
    assert (found.name, found.lead) == ("crlf", "MLII")
    assert found.samples.dtype == np.int16
    assert not found.missing.any()
    assert found.samples[:5].tolist() == [0, 9, 19, 29, 39]
    assert found.millivolts()[4] == 39 / 200


def test_a_counter_frequency_is_not_taken_for_the_rate(cases: Path) -> None:
    found = read_record(cases / "cf")
    assert found.rate_hz == 360
    assert (found.samples == ramp(cases)).all()


def test_differences_are_added_up(cases: Path) -> None:
    assert read_record(cases / "f8").samples.tolist() == [0, 1, 2, 3, 4]


def test_invalid_samples_become_missing_ones(cases: Path) -> None:
    found = read_record(cases / "inv")
    assert found.missing.sum() == 10
    assert (found.samples[found.missing] == MISSING).all()
    assert np.isnan(found.millivolts()).sum() == 10
    assert (found.samples[~found.missing] == ramp(cases)[~found.missing]).all()


def test_a_record_without_the_unused_half_of_its_last_byte_triple_is_whole(cases: Path) -> None:
    assert (cases / "odd.dat").stat().st_size == 1499  # 999 samples need no more
    assert (read_record(cases / "odd").samples == ramp(cases)).all()


def test_a_record_without_a_length_is_as_long_as_its_file(cases: Path) -> None:
    found = read_record(cases / "nolen")
    assert len(found) == 1000  # 1500 bytes of format 212
    assert (found.samples[:999] == ramp(cases)).all()


def test_a_header_longer_than_the_data_is_refused(cases: Path) -> None:
    refused(cases / "trunc", "number of samples 2000", "trunc.dat", "3000 bytes", "1500")


def test_a_wrong_checksum_is_refused_unless_asked_for(cases: Path) -> None:
    refused(cases / "ck", "checksum", "12345", "217", "MLII")
    found = read_record(cases / "ck", ignore_checksum=True)
    assert (found.samples == ramp(cases)).all()


def test_a_year_is_no_date(cases: Path) -> None:
    refused(cases / "yr", "base date '2006'", "DD/MM/YYYY")


def test_a_date_in_the_place_of_the_time_is_refused(cases: Path) -> None:
    assert wfdb.rdheader(str(cases / "dash")).base_time is not None  # taken for 14 seconds
    refused(cases / "dash", "base time '14-Mar-2020'", "HH:MM:SS")


def test_a_gain_of_0_is_refused_unless_one_is_given(cases: Path) -> None:
    refused(cases / "g0", "gain 0", "MLII", "not calibrated")
    found = read_record(cases / "g0", gain=100.0)
    assert found.adc == Adc(100, 0)
    assert (found.samples == ramp(cases)).all()


def test_a_gain_that_contradicts_the_header_is_refused(cases: Path, tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match=r"record crlf: .* gain 200 in the header, 100 was given"):
        read_record(cases / "crlf", gain=100.0)
    assert read_record(cases / "crlf", gain=200.0).adc == Adc(200)
    other = write(tmp_path, "x 1 360 1\nx.dat 16 5/mmHg\n", b"\1\0")
    assert read_record(other, gain=100.0).adc == Adc(100)


def test_channels_of_different_rates_are_never_averaged(cases: Path) -> None:
    refused(cases / "mf", "no lead MLII", "0 ECG", "1 RESP")
    ecg, resp = read_record(cases / "mf", "ECG"), read_record(cases / "mf", 1)
    assert (len(ecg), ecg.rate_hz) == (900, 375)
    assert (len(resp), resp.rate_hz) == (300, 125)
    raw = np.fromfile(cases / "mf.dat", "<i2").reshape(300, 4)
    assert (ecg.samples == raw[:, :3].ravel()).all()
    assert (resp.samples == raw[:, 3]).all()


# ---- the whole kind of each fault ---------------------------------------------------------------


def write(folder: Path, header: str, data: bytes = b"", name: str = "x") -> Path:
    (folder / f"{name}.hea").write_text(header)
    (folder / f"{name}.dat").write_bytes(data)
    return folder / name


def test_every_missing_or_extra_byte_is_refused(tmp_path: Path) -> None:
    for size in range(13):
        path = write(tmp_path, "x 1 360 5\nx.dat 212 200 11 0 0 0 0 MLII\n", bytes(size))
        if size in (8, 9):  # 7.5 bytes, or three whole pairs
            assert len(read_record(path)) == 5
        else:
            refused(path, "number of samples 5 needs 8 bytes", f"holds {size}")


@pytest.mark.parametrize("fmt", ["16", "24", "32", "80", "212"])
@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_every_format_that_wfdb_writes_comes_back(tmp_path: Path, fmt: str, length: int) -> None:
    samples = np.array([4, -3, 100, 5, -100, 7, 1])[:length, None]  # no sum is 0
    wfdb.wrsamp("x", fs=250.5, units=["mV"], sig_name=["MLII"], d_signal=samples, fmt=[fmt],
                adc_gain=[123.5], baseline=[-7], write_dir=str(tmp_path))
    found = read_record(tmp_path / "x")
    assert found.samples.tolist() == samples[:, 0].tolist()
    assert found.adc == Adc(123.5, -7)
    assert found.rate_hz == 250.5
    data = bytearray((tmp_path / "x.dat").read_bytes())
    data[0] ^= 1
    (tmp_path / "x.dat").write_bytes(data)
    refused(tmp_path / "x", "checksum")


def packed_310(samples: list[int], fmt: str) -> bytes:
    """Formats 310 and 311, three 10-bit samples in four bytes, as signal(5) describes them."""
    out = b""
    for at in range(0, len(samples), 3):
        a, b, c = ((*samples[at : at + 3], 0, 0, 0)[i] & 0x3FF for i in range(3))
        if fmt == "310":
            word = (a << 1 | (c & 0x1F) << 11) | (b << 1 | (c >> 5) << 11) << 16
        else:
            word = a | b << 10 | c << 20
        out += word.to_bytes(4, "little")
    return out


@pytest.mark.parametrize("fmt", ["310", "311"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_ten_bit_formats_are_read(tmp_path: Path, fmt: str, length: int) -> None:
    samples = [0, -1, 300, -511, -512, 77][:length]
    path = write(tmp_path, f"x 1 360 {length}\nx.dat {fmt} 200 10 0 0 0 0 MLII\n",
                 packed_310(samples, fmt))
    found = read_record(path)
    assert found.samples.tolist() == [MISSING if s == -512 else s for s in samples]


@pytest.mark.parametrize(("fmt", "data", "expected"), [
    ("16", b"\x01\x00\x00\x80", [1, MISSING]), ("160", b"\x01\x80\x00\x00", [1, MISSING]),
    ("80", b"\x81\x00", [1, MISSING]),
    ("24", b"\x01\x00\x00\x00\x00\x80", [1, MISSING]),
    ("32", b"\x01\x00\x00\x00\x00\x00\x00\x80", [1, MISSING]),
    ("212", b"\x01\x80\x00", [1, MISSING]), ("8", b"\x01\x80", [1, -127])])
def test_each_format_has_its_invalid_sample(
    tmp_path: Path, fmt: str, data: bytes, expected: list[int]
) -> None:
    path = write(tmp_path, f"x 1 360 2\nx.dat {fmt} 200 11 0 0 0 0 MLII\n", data)
    assert read_record(path).samples.tolist() == expected


def test_values_that_int16_does_not_hold_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "x 1 360 2\nx.dat 32 200 32 0 0 0 0 MLII\n",
                 np.array([5, 40000], "<i4").tobytes())
    refused(path, "sample 1 is 40000", "-32767 .. 32767")


@pytest.mark.parametrize(("header", "words"), [
    ("", ("no record line",)),
    ("# only a comment\n", ("no record line",)),
    ("x\n", ("line 1", "number of signals")),
    ("x 1\nx.dat 16 200\n", ("line 1", "sampling rate")),
    ("x 1 fast 5\nx.dat 16 200\n", ("sampling rate 'fast'",)),
    ("x 1 0 5\nx.dat 16 200\n", ("sampling rate '0'",)),
    ("x 1 -360 5\nx.dat 16 200\n", ("sampling rate '-360'",)),
    ("x 1 360/ 5\nx.dat 16 200\n", ("sampling rate '360/'",)),
    ("x 1 360 0\nx.dat 16 200\n", ("number of samples '0'",)),
    ("x 1 360 5.5\nx.dat 16 200\n", ("number of samples '5.5'",)),
    ("x 1 360 5 25:00:00\nx.dat 16 200\n", ("base time '25:00:00'",)),
    ("x 1 360 5 12:00:61\nx.dat 16 200\n", ("base time '12:00:61'",)),
    ("x 1 360 5 12:00:00 31/02/2020\nx.dat 16 200\n", ("base date '31/02/2020'", "day")),
    ("x 1 360 5 12:00:00 2020-02-01\nx.dat 16 200\n", ("base date '2020-02-01'",)),
    ("x 1 360 5 12:00:00 01/02/2020 7\nx.dat 16 200\n", ("after the date '7'",)),
    ("x/2 1 360 5\ny 2\nz 3\n", ("record name 'x/2'", "segment")),
    ("x y 360 5\nx.dat 16 200\n", ("number of signals 'y'",)),
    ("x 2 360 5\nx.dat 16 200\n", ("announces 2 signals and describes 1",)),
    ("x 0 360 5\nx.dat 16 200\n", ("announces 0 signals and describes 1",)),
    ("# c\nx 1 360 5\n\nx.dat\n", ("line 4", "format ''")),
    ("x 1 360 5\nx.dat sixteen 200\n", ("line 2", "format 'sixteen'")),
    ("x 1 360 5\nx.dat 16x0 200\n", ("format '16x0'",)),
    ("x 1 360 5\nx y.dat 16 200\n", ("format 'y.dat'",)),
    ("x 1 360 5\n../x.dat 16 200\n", ("file name '../x.dat'",)),
    ("x 1 360 5\nx.dat 16 -200\n", ("gain '-200'",)),
    ("x 1 360 5\nx.dat 16 1e999\n", ("gain '1e999'",)),
    ("x 1 360 5\nx.dat 16 200 11 x 0 0 0 MLII\n", ("ADC zero 'x'",)),
    ("x 1 360 5\nx.dat 16 200 11 0 0 1.5 0 MLII\n", ("checksum '1.5'",)),
    ("x 1 360 5\nx.dat 516 200\n", ("format '516'", "xform")),
    ("x 1 360 5\nx.dat 61 200\n", ("format '61'",)),
    ("x 1 360 5\nx.dat 99 200\n", ("format '99'",)),
    ("x 1 360 5\nx.dat 16:3 200\n", ("skew 3",)),
    ("x 1 360 5\ngone.dat 16 200\n", ("gone.dat", "No such file")),
    ("x 1 360 5\nx.dat 16\n", ("gain 0", "not calibrated")),
    ("x 1 360 5\nx.dat 16 200/mmHg\n", ("units 'mmHg'", "mV")),
    ("x 1 360\nx.dat 16+10 200\n", ("not one whole frame",)),
])
def test_each_field_of_a_header_is_refused_by_name(
    tmp_path: Path, header: str, words: tuple[str, ...]
) -> None:
    refused(write(tmp_path, header, bytes(10)), *words)


def test_a_file_of_two_formats_is_refused(tmp_path: Path) -> None:
    header = "x 2 360 1\nx.dat 16 200 16 0 0 0 0 MLII\nx.dat 80 200 8 0 0 0 0 V1\n"
    refused(write(tmp_path, header, bytes(3)), "differ in format")


def test_a_missing_header_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none.hea", "No such file")


def test_units_are_converted_and_what_the_header_leaves_out_has_its_default(tmp_path: Path) -> None:
    data = np.array([1500, 1000], "<i2").tobytes()
    for text, adc in (("200", Adc(200)), ("200/mV", Adc(200)), ("200(1000)", Adc(200, 1000)),
                      ("2/uV", Adc(2000)), ("1000000/V", Adc(1000)), ("1e2(-5)/mV", Adc(100, -5))):
        assert read_record(write(tmp_path, f"x 1 360 2\nx.dat 16 {text}\n", data)).adc == adc
    header = "x 1 360 2\nx.dat 16 200 12 1024 1500 2500 0 MLII\n"
    assert read_record(write(tmp_path, header, data)).adc == Adc(200, 1024)


def test_a_byte_offset_is_skipped(tmp_path: Path) -> None:
    data = b"head" + np.array([7, 8], "<i2").tobytes()
    path = write(tmp_path, "x 1 360 2\nx.dat 16+4 200\n", data)
    assert read_record(path).samples.tolist() == [7, 8]


HEADERS = st.builds(
    "{} {} {} {} {}".format,
    st.sampled_from(["16", "16x1", "212", "80:0", "16+0", "311x1:0+0"]),
    st.sampled_from(["200", "200.5", "1e3", "2e-1", "200(1024)", "200(-3)/mV", "1000/uV", "0.5/V"]),
    st.sampled_from(["", "11", "12 1024", "12 -5 900", "12 0 -3 -4711"]),
    st.just(""), st.just(""))


@given(HEADERS, st.sampled_from(["360", "128.25", "360/512", "360/512(0)", "250/100.5(-3)"]),
       st.sampled_from(["", "5", "5 12:31", "5 1:2:3.25 1/2/2020", "5 10"]))
def test_what_passes_is_what_wfdb_reads(
    tmp_path_factory: pytest.TempPathFactory, fields: str, rate: str, rest: str
) -> None:
    folder = tmp_path_factory.mktemp("header")
    write(folder, f"x 1 {rate} {rest}\nx.dat {fields.rstrip()}\n")
    ours, theirs = read_header(folder / "x"), wfdb.rdheader(str(folder / "x"))
    channel = ours.channels[0]
    assert (ours.rate_hz, ours.length) == (theirs.fs, theirs.sig_len)
    assert (channel.file, channel.format) == (theirs.file_name[0], theirs.fmt[0])
    assert channel.per_frame == theirs.samps_per_frame[0]
    assert channel.byte_offset == (theirs.byte_offset[0] or 0)
    assert channel.baseline == theirs.baseline[0]
    scale = {"uV": 1000.0, "V": 0.001}.get(theirs.units[0], 1.0)
    assert channel.gain == pytest.approx(theirs.adc_gain[0] * scale)
    assert (channel.checksum or 0) == (theirs.checksum[0] or 0) % 65536


# ---- leads --------------------------------------------------------------------------------------


def test_the_lead_is_taken_by_name_wherever_it_stands(mitdb: Path) -> None:
    found = read_record(mitdb / "114")  # MLII is its second channel
    assert found.lead == "MLII"
    theirs = wfdb.rdrecord(str(mitdb / "114"), physical=False).d_signal[:, 1]
    assert (found.samples == theirs).all()


@pytest.mark.parametrize(("name", "leads"), [("102", "0 V5, 1 V2"), ("104", "0 V5, 1 V2")])
def test_a_record_without_mlii_asks_for_a_lead(mitdb: Path, name: str, leads: str) -> None:
    refused(mitdb / name, "no lead MLII", leads)
    assert read_record(mitdb / name, "V5").lead == "V5"
    refused(mitdb / name, "no lead III", leads, lead="III")
    refused(mitdb / name, "no signal 2", leads, lead=2)


def test_leads_of_the_same_name_are_asked_for_by_number(data_root: Path) -> None:
    path = data_root / "data" / "svdb" / "800"
    require("data", path.with_suffix(".hea").is_file())
    refused(path, "2 leads ECG", "by number", lead="ECG")
    assert read_record(path, 0).samples[0] == -101
    assert read_record(path, 1).samples[0] == 123
    assert read_record(path, 1).rate_hz == 128


# ---- real records -------------------------------------------------------------------------------


def test_all_of_mit_bih_is_as_its_headers_say(mitdb: Path) -> None:
    with (mitdb / "beat_counts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    for row in rows:
        for number in (0, 1):
            found = read_record(mitdb / row["record"], number)
            assert (len(found), found.rate_hz, found.adc) == (650_000, 360, Adc(200, 1024))
            assert found.lead == row[f"lead{number}"]


def test_a_path_may_name_any_file_of_the_record(mitdb: Path) -> None:
    found = [read_record(mitdb / name) for name in ("100", "100.hea", "100.dat", "100.atr")]
    assert all(isinstance(one, Signal) and one.name == "100" for one in found)


def test_a_wrong_header_of_a_real_record_is_found(mitdb: Path, tmp_path: Path) -> None:
    """A copy of record 100 with one bit changed somewhere in its samples."""
    data = bytearray((mitdb / "100.dat").read_bytes())
    data[300_000] ^= 0x10
    (tmp_path / "100.dat").write_bytes(data)
    (tmp_path / "100.hea").write_bytes((mitdb / "100.hea").read_bytes())
    with pytest.raises(es.BadInput, match=re.escape("checksum of signal 0 (MLII)")):
        read_record(tmp_path / "100")
    assert len(read_record(tmp_path / "100", ignore_checksum=True)) == 650_000
