"""The ECG benchmarks run, hold what they promise, and open no record of DS2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ecg_noise import lifeless, other_lines, silent_lines
from noise import (
    HIGHEST,
    LOWEST,
    MUSCLE,
    RATE_HZ,
    WANDER,
    Band,
    band_noise,
    noise_power,
    qrs_power,
    with_gaps,
    with_noise,
)
from records import DS1, Ecg

from ecg_stream import DS1 as TRAINING_HALF
from ecg_stream import ecg_plan
from edgesparse.errors import BadInput
from edgesparse.signals import MISSING
from needs import require

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def tables(script: str, *arguments: object) -> list[list[list[str]]]:
    """Every Markdown table that a script prints: rows of cells, the heads first."""
    done = subprocess.run(
        (sys.executable, BENCHMARKS / script, *map(str, arguments)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[list[list[str]]] = []
    inside = False
    for line in done.stdout.splitlines():
        if line.startswith("| "):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        inside = line.startswith("| ")
    return [[rows[0], *rows[2:]] for rows in found]


def number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


# ---- records


def test_only_records_of_ds1_are_opened(tmp_path: Path) -> None:
    assert tuple(map(str, TRAINING_HALF)) == DS1
    for name in ("100", "202", "234", "102", "x"):
        with pytest.raises(BadInput, match="the records of DS1 are allowed"):
            Ecg(tmp_path, name)


# ---- noise


@pytest.mark.parametrize("band", [WANDER, MUSCLE])
def test_noise_lies_in_its_band_and_has_power_1(band: Band) -> None:
    noise = band_noise(band, 36_000, np.random.default_rng(1))
    power = np.abs(np.fft.rfft(noise)) ** 2
    hz = np.fft.rfftfreq(len(noise), 1 / RATE_HZ)
    inside = (hz >= band.low_hz) & (hz <= band.high_hz)
    assert power[~inside].sum() < 1e-9 * power.sum()
    assert np.mean(noise**2) == pytest.approx(1)
    assert np.array_equal(noise, band_noise(band, 36_000, np.random.default_rng(1)))
    half = inside & (hz < (band.low_hz + band.high_hz) / 2)
    assert power[half].sum() / power.sum() == pytest.approx(0.5, abs=0.15)


def test_a_ratio_of_signal_to_noise_is_of_the_height_of_the_qrs() -> None:
    """A QRS of 400 units: S = 20,000; its smallest and largest heights do not count."""
    samples = np.zeros(40_000, np.int16)
    peaks = np.arange(100, 40_000, 400)
    samples[peaks], samples[peaks + 5] = 300, -100
    samples[peaks[0]], samples[peaks[7]] = 1000, 0
    assert qrs_power(samples, peaks) == pytest.approx(400**2 / 8)
    for snr, ratio in ((6, 3.98), (0, 1.0), (12, 15.85)):
        power = noise_power(20_000, snr)
        assert 20_000 / power == pytest.approx(ratio, rel=0.01)
        noise = band_noise(MUSCLE, len(samples), np.random.default_rng(2))
        added = with_noise(np.zeros_like(samples), noise, power).astype(np.float64)
        assert np.mean(added**2) == pytest.approx(power, rel=0.01)


def test_noise_stays_in_the_range_of_the_adc_and_gaps_are_marked() -> None:
    loud = with_noise(np.zeros(999, np.int16), np.linspace(-2, 2, 999), 1e6)
    assert (loud.min(), loud.max()) == (LOWEST, HIGHEST)
    holed = with_gaps(np.ones(100_000, np.int16), 0.01, np.random.default_rng(0))
    assert (holed == MISSING).mean() == pytest.approx(0.01, abs=0.001)
    assert set(np.unique(holed)) == {MISSING, 1}


# ---- what must hold


def test_no_beat_is_invented_on_a_line_without_a_signal() -> None:
    """Case A12, in every state of a signal and in what is too little for one."""
    rows = lifeless(ecg_plan(), silent_lines())
    assert [row[1] for row in rows] == [0] * len(rows)
    states = {name for row in rows for name in str(row[2]).split(", ")}
    assert states == {"GOOD", "NOISY", "FLAT", "SATURATED", "MISSING"}


def test_no_beat_is_invented_in_wander_and_steps() -> None:
    rows = {name: beats for name, beats, *_ in lifeless(ecg_plan(), other_lines())}
    assert [beats for name, beats in rows.items() if "muscle" not in str(name)] == [0, 0, 0]
    assert len(rows) == 5


# ---- the scripts


@pytest.fixture
def one(data_root: Path) -> tuple[object, ...]:
    require("ecg")
    return ("--data-root", data_root, "--records", "208", "--seconds", "60")


def test_latency_is_at_most_what_is_declared(one: tuple[object, ...]) -> None:
    ((_, own, marked),) = tables("ecg_latency.py", *one)
    assert number(own[1]) > 80
    assert number(own[2]) <= number(own[3]) <= number(own[4]) <= number(own[5]) == 405
    assert abs(number(marked[2]) - number(own[2])) < 10


def test_overruns_are_counted_and_change_nothing(one: tuple[object, ...]) -> None:
    ((_, *rows),) = tables("ecg_overruns.py", *one)
    assert len(rows) == 5
    assert {row[5] for row in rows} == {"0"}
    assert {row[4] for row in rows} == {"21,600"}
    none, every, *_, real_time = rows
    assert number(none[2]) == 0
    assert every[2] == every[1]
    assert number(real_time[2]) < number(every[2]) / 10


def test_beats_are_found_in_noise(one: tuple[object, ...]) -> None:
    """A minute that the net has seen in training: figures of noise beside the clean one."""
    (_, *rows), lines = tables("ecg_noise.py", *one)
    figures = {row[0]: list(map(number, row[1:3])) for row in rows}
    assert len(figures) == 6
    assert min(figures["clean"]) > 98
    for name in ("1 % of samples missing", "baseline wander, 12 dB", "muscle noise, 12 dB"):
        assert min(figures[name]) > 94, name
    assert len(lines) > 15


def test_sparse_plans_are_smaller_than_dense_ones_of_their_width() -> None:
    for heads, *rows in tables("ecg_sparse_vs_dense.py", "--rounds", 1):
        plans = {row[0]: number(row[heads.index("plan, bytes")]) for row in rows}
        assert len(plans) == 6
        assert all(plans[name] < 0.6 * plans["C48 dense"] for name in plans if "%" in name)
        assert all(number(row[1]) > 0 for row in rows)
        for row in rows:
            stored, macs = (number(row[heads.index(of)]) for of in ("MACs stored", "MACs"))
            assert (stored < 0.3 * macs) == ("%" in row[0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_a_stream_repeats_itself_in_memory_that_does_not_grow(one: tuple[object, ...]) -> None:
    paths, memory = tables("ecg_throughput.py", *one, "--hours", "0.05,0.2")
    assert all(number(row[1]) > 1 for row in paths[1:])
    assert len(paths) == 5
    for row in memory[1:]:
        assert abs(float(row[2]) - float(row[1])) < 1
