"""Another sampling rate: refused, or made when asked for (case A16)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from edgesparse.graph.ir import Array
from edgesparse.signals import MISSING, Adc, Signal, at_rate, read_record, resampled
from needs import require


def sine(rate_hz: float, hz: float = 5.0, seconds: float = 4.0) -> Array:
    return np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)


def of(samples: Array, rate_hz: float, adc: Adc | None = None) -> Signal:
    return Signal(samples, rate_hz, adc, "hand")


def test_a_plan_for_250_hz_refuses_360_hz_unless_asked() -> None:
    signal = of(np.zeros(360, np.int16), 360.0)
    with pytest.raises(es.BadInput, match="hand: 360 Hz, needed are 250 Hz: ask for resampling"):
        at_rate(signal, 250.0)
    found = at_rate(signal, 250.0, resample=True)
    assert (found.rate_hz, len(found)) == (250.0, 250)


def test_the_same_rate_is_left_alone() -> None:
    signal = of(np.arange(10, dtype=np.int16), 360.0)
    assert at_rate(signal, 360.0) is signal
    assert at_rate(signal, 360.0, resample=True) is signal


@pytest.mark.parametrize(("old", "new"), [(360, 250), (250, 360), (128, 360), (360, 180)])
def test_a_sine_stays_the_same_sine(old: float, new: float) -> None:
    adc = Adc(1000, 500)
    samples = np.rint(1000 * sine(old) + 500).astype(np.int16)
    found = resampled(of(samples, old, adc), new)
    assert found.adc == adc
    assert found.samples.dtype == np.int16
    assert len(found) == math.ceil(len(samples) * new / old)
    inside = slice(int(new / 4), -int(new / 4))
    assert np.abs(found.millivolts()[inside] - sine(new)[: len(found)][inside]).max() < 0.005


def test_a_tone_above_half_the_new_rate_is_filtered_out() -> None:
    found = resampled(of(sine(360, hz=150).astype(np.float32), 360.0), 180.0)
    assert np.abs(found.samples[20:-20]).max() < 0.02


def test_the_ends_are_held_and_not_pulled_to_zero() -> None:
    found = resampled(of(np.full(500, 1024, np.int16), 360.0, Adc(200, 1024)), 250.0)
    assert np.abs(found.samples.astype(int) - 1024).max() <= 1


def test_a_gap_stays_a_gap_and_does_not_spread() -> None:
    samples = np.full(720, 100, np.int16)
    samples[359:396] = MISSING  # 0.1 s
    found = resampled(of(samples, 360.0), 250.0)
    gap = np.flatnonzero(found.missing)
    assert (gap[0], gap[-1]) == (249, 274)  # between inputs 358 and 359; 394 and 395
    assert (np.diff(gap) == 1).all()
    assert np.abs(found.samples[~found.missing].astype(int) - 100).max() <= 1
    mv = resampled(of(np.where(samples == MISSING, np.nan, 0.5).astype(np.float32), 360.0), 250.0)
    assert (mv.missing == found.missing).all()
    assert resampled(of(np.full(9, MISSING, np.int16), 360.0), 250.0).missing.all()


def test_a_full_scale_step_saturates_instead_of_wrapping() -> None:
    samples = np.repeat(np.array([-32767, 32767], np.int16), 300)
    found = resampled(of(samples, 360.0), 250.0).samples
    assert found.min() == -32767
    assert found.max() == 32767
    assert (found[:190] < 0).all()
    assert (found[230:] > 0).all()


def test_rates_without_a_small_ratio_are_refused() -> None:
    with pytest.raises(es.BadInput, match="no ratio of whole numbers up to 10000"):
        resampled(of(np.zeros(10, np.int16), 360.0), 360.0 * math.pi)
    with pytest.raises(es.BadInput, match="sampling rate 0"):
        resampled(of(np.zeros(10, np.int16), 360.0), 0.0)


def test_a_record_at_128_hz_becomes_one_at_360_hz(data_root: Path) -> None:
    require("ecg")
    path = data_root / "data" / "svdb" / "800"
    require("data", path.with_suffix(".hea").is_file())
    record = read_record(path, 0)
    found = at_rate(record, 360.0, resample=True)
    assert len(found) == 648_000
    assert found.seconds == record.seconds == 1800
    # Every 45th output falls on a 16th input: a low pass of half the old rate keeps it about there.
    apart = found.samples[::45].astype(int) - record.samples[::16]
    assert np.sqrt(np.mean(apart**2.0)) < 0.05 * record.samples.std()
