"""Stream: what it accepts, refuses and says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgesparse as es
from edgesparse.errors import BadInput, NativeError
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_state import stream_state_bytes
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Run, SignalState
from edgesparse.streaming.frontend import MISSING
from everything import everything
from stream_plans import (
    comparable,
    continuous_plan,
    full_stream_plan,
    incremental_plan,
    random_signal,
)


@pytest.fixture
def stream() -> Stream:
    return Stream(Plan.from_bytes(write_plan(full_stream_plan())))


def windows(channels: int = 2) -> Stream:
    model = incremental_plan(np.random.default_rng(1), channels=channels)
    return Stream(Plan.from_bytes(write_plan(model)))


def test_it_says_what_it_is(stream: Stream) -> None:
    assert es.Stream is Stream
    assert (stream.channels, stream.rate, stream.samples, stream.missing) == (1, 360.0, 0, 0)
    assert stream.signal is SignalState.GOOD
    assert (windows().channels, windows().rate) == (2, 0.0)


def test_a_plan_of_windows_is_refused() -> None:
    with pytest.raises(BadInput, match=r"--stream hop=N"):
        Stream(Plan.from_bytes(write_plan(everything())))


def test_an_unknown_backend_is_refused(stream: Stream) -> None:
    with pytest.raises(BadInput, match="'fast': portable"):
        Stream(stream.plan, backend="fast")


def test_a_signal_of_another_rate_is_refused(stream: Stream) -> None:
    """Case A16: a plan for one rate, a signal of another."""
    with pytest.raises(BadInput, match="360 Hz, the signal has 250 Hz; resample it"):
        Stream(stream.plan, rate=250)
    assert Stream(stream.plan, rate=360.0).rate == 360
    assert Stream(windows().plan, rate=77).rate == 0  # the plan does not say


@pytest.mark.parametrize("samples", [
    np.zeros((2, 2), np.int16), np.zeros((1, 2, 1), np.int16), np.int16(3)])
def test_samples_of_another_shape_are_refused(stream: Stream, samples: object) -> None:
    with pytest.raises(BadInput, match=r"\[n\] or \[n, 1\] is allowed"):
        stream.push(np.asarray(samples))
    with pytest.raises(BadInput, match=r"\[n, 2\] is allowed"):
        windows().push(np.zeros(4, np.int16))
    assert stream.samples == 0


@pytest.mark.parametrize("samples", [
    np.array([32768]), np.array([-32769]), np.array([40000], np.uint16)])
def test_numbers_that_are_no_int16_are_refused(stream: Stream, samples: object) -> None:
    with pytest.raises(BadInput, match="int16 is allowed"):
        stream.push(np.asarray(samples))


def test_types_that_are_no_samples_are_refused(stream: Stream) -> None:
    for samples in (np.array(["1"]), np.array([True]), np.array([1j])):
        with pytest.raises(BadInput, match="int16 or float"):
            stream.push(samples)


def test_any_integer_type_and_layout_is_taken(stream: Stream) -> None:
    signal = random_signal(np.random.default_rng(2), 300)
    expected = comparable(stream.push(signal))
    for same in (signal.astype(np.int64), signal.astype(">i2"), np.repeat(signal, 2)[::2],
                 signal[:, None], signal.tolist()):
        stream.reset()
        assert comparable(stream.push(same)) == expected


def test_float_is_mv_with_a_front_end_and_nan_is_missing(stream: Stream) -> None:
    signal = random_signal(np.random.default_rng(2), 300)
    signal[[10, 11, 200]] = MISSING
    expected = comparable(stream.push(signal))
    missing = stream.missing
    adc = np.where(signal == MISSING, np.nan, signal.astype(np.float64))
    adc += 0.4 * np.sign(adc) * (np.abs(adc) < 32767)
    stream.reset()
    assert comparable(stream.push(adc / 200)) == expected  # 200 ADC units per mV
    assert stream.missing == missing >= 3


@pytest.mark.parametrize("value", [1024.0, -163.84, np.inf])
def test_mv_that_the_adc_does_not_hold_are_refused(stream: Stream, value: float) -> None:
    """ADC units given as floats show themselves by that."""
    with pytest.raises(BadInput, match=r"sample 1 is .* mV, .* ADC units .* floats are mV"):
        stream.push(np.array([0, value]))
    assert stream.samples == 0


def test_float_is_real_and_integers_are_stored_without_a_front_end() -> None:
    stored = np.random.default_rng(3).integers(-128, 128, (60, 2)).astype(np.int16)
    stored[7, 1] = MISSING
    stream = windows()
    source = stream.plan.inputs[0]
    expected = comparable(stream.push(stored))
    assert len(expected) > 5
    real = (stored.astype(np.float64) - source.zero_point) * source.scale
    stream.reset()
    assert comparable(stream.push(np.where(stored == MISSING, np.nan, real))) == expected
    assert stream.missing == 1


def test_integers_that_no_input_stores_are_refused_without_a_front_end() -> None:
    stream, wild = windows(), np.zeros((60, 2), np.int16)
    wild[:7] = 1024
    wild[9, 0] = MISSING
    with pytest.raises(BadInput, match=r"14 of 120 samples are outside -128 \.\. 127.*frontend="):
        stream.push(wild)
    assert stream.samples == 0
    clamped = comparable(stream.push_raw(wild))
    stream.reset()
    assert comparable(stream.push(np.where(wild == 1024, 127, wild))) == clamped


def test_after_a_flush_only_a_reset_goes_on(stream: Stream) -> None:
    signal = random_signal(np.random.default_rng(3), 500)
    first = comparable([*stream.push(signal), *stream.flush()])
    assert stream.flush() == []
    with pytest.raises(NativeError, match=r"flush\(\) has ended the record; reset\(\)"):
        stream.push(signal)
    assert stream.samples == 500
    stream.reset()
    assert stream.samples == 0
    assert comparable([*stream.push(signal), *stream.flush()]) == first


def test_nothing_is_pushed_by_a_flush_without_beats() -> None:
    model = continuous_plan(np.random.default_rng(4))
    stream = Stream(Plan.from_bytes(write_plan(model)))
    assert len(stream.push(np.zeros(20, np.int16))) == 2
    assert stream.flush() == []


def test_outputs_of_a_run_stay_as_they_were(stream: Stream) -> None:
    """A copy: the arena is overwritten by the next run."""
    signal = random_signal(np.random.default_rng(5), 600)
    runs = [e for e in stream.push(signal) if isinstance(e, Run)]
    assert len({run.outputs[0].tobytes() for run in runs}) > 5
    assert all(run.outputs[0].shape == (1, 2, 4) for run in runs)


def test_a_negative_budget_is_refused(stream: Stream) -> None:
    with pytest.raises(BadInput, match="0 or more"):
        stream.budget(-1)


def test_the_state_that_is_stated_is_the_state_that_is_used(stream: Stream) -> None:
    """Bytes of the arena that a long stream changes end where state_bytes does, but for the run's
    own; a byte less in the plan is refused."""
    model = full_stream_plan()
    table = model.stream
    assert table is not None
    size = stream_state_bytes(table, 1, 3)
    end = table.state_offset + size
    assert model.state_bytes - 16 < end <= model.state_bytes
    assert stream.native.arena.size == NativePlan(stream.plan.data).info().ram_bytes
    before = stream.native.arena[table.state_offset : end].copy()
    assert not before.any()
    stream.push(random_signal(np.random.default_rng(6), 5000))
    changed = np.flatnonzero(stream.native.arena[table.state_offset : end])
    assert changed.size > size // 3
    assert not stream.native.arena[end : model.state_bytes].any()


def test_a_stream_of_a_day_uses_no_more_memory_than_one_of_a_second(stream: Stream) -> None:
    """The arena is all there is, and counters go on counting."""
    arena = stream.native.arena
    chunk = random_signal(np.random.default_rng(7), 20_000)
    for _ in range(10):
        events = stream.push(chunk)
        assert len(events) < 3000
    assert stream.samples == 200_000
    assert stream.native.arena is arena


def test_self_test_and_stream_do_not_disturb_each_other() -> None:
    from edgesparse.convert import _golden

    model = full_stream_plan()
    plan = Plan.from_bytes(write_plan(replace(model, golden=_golden(model, 3))))
    stream = Stream(plan)
    signal = random_signal(np.random.default_rng(8), 400)
    expected = comparable(stream.push(signal))
    assert stream.native.self_test()
    assert comparable(stream.push(signal)) == expected
