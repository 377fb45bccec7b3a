"""The ECG model as an endless run: the record's logits, the definition's beats, and faults."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ecg_stream import MODEL, definition, ecg_plan, record
from edgesparse.convert import Options, int8_graph
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_model import StreamMode
from edgesparse.plan.write import write_plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Event, Run, SignalState, StateChange
from edgesparse.streaming.frontend import MISSING, AdcInput, FrontEndState, ecg360
from needs import require
from stream_plans import chunked, comparable

SECONDS = 360
WARM = 130
"""Steps of a window that have not seen all of their past: receptive field 1039 inputs."""


@pytest.fixture(scope="module")
def normal(data_root: Path) -> Array:
    """40 s of record 208: N and V beats."""
    require("ecg")
    return record(data_root, 208, 422_820, 40 * SECONDS)


@cache
def window_graph() -> Graph:
    graph, _ = int8_graph(MODEL.read_bytes(), "ecg", Options())
    return graph


def whole_record_logits(inputs: Array) -> Array:
    """[steps, 4] int8: the model over all inputs [time] int8, from windows that overlap."""
    graph = window_graph()
    (x,), (y,) = graph.inputs, graph.outputs
    size, zero_point = graph.tensors[x].columns, graph.tensors[x].zero_point
    steps = len(inputs) // 8
    out = np.zeros((0, 4), np.int8)
    while len(out) < steps:
        start = 8 * max(0, len(out) - WARM)
        window = np.full(size, zero_point, np.int8)
        part = inputs[start : start + size]
        window[: len(part)] = part
        logits = evaluate(graph, {x: window.reshape(graph.tensors[x].shape)})[y].reshape(-1, 4)
        out = np.concatenate([out, logits[len(out) - start // 8 :]])
    return out[:steps]


def beats_of(events: list[Event]) -> list[Beat]:
    return [e for e in events if isinstance(e, Beat)]


def changes_of(events: list[Event]) -> list[StateChange]:
    return [e for e in events if isinstance(e, StateChange)]


def streamed(signal: Array, hop: int = 8) -> list[Event]:
    stream = Stream(ecg_plan(hop))
    return [*stream.push(signal), *stream.flush()]


# ---- the definition ------------------------------------------------------------------------------


@pytest.mark.parametrize("hop", [8, 32])
def test_logits_are_those_of_the_whole_record_and_beats_those_of_the_definition(
    hop: int, normal: Array
) -> None:
    signal = normal[: 15 * SECONDS]
    events = streamed(signal, hop)
    stream = ecg_plan(hop).model.stream
    assert stream is not None
    assert stream.mode is StreamMode.CONTINUOUS
    runs = [e for e in events if isinstance(e, Run)]
    assert [run.column for run in runs] == list(range(0, hop // 8 * len(runs), hop // 8))
    assert [run.sample for run in runs] == [2 * hop * (k + 1) - 2 for k in range(len(runs))]
    logits = np.concatenate([run.outputs[0].reshape(-1, 4) for run in runs])

    integer = definition()
    graph = window_graph()
    x, y = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    extended = np.concatenate([signal, np.full(4 * SECONDS, signal[-1])])
    inputs = integer.input_scale(x.scale, x.zero_point).quantize(integer.front_end(extended))
    whole = whole_record_logits(inputs)
    assert len(logits) > len(signal) // 16
    assert np.array_equal(logits, whole[: len(logits)])

    found = integer.decode(whole, integer.tables(y.scale, y.zero_point))
    inside = found.position < len(signal)
    expected = [
        Beat(*one) for one in zip(
            found.position[inside].tolist(), found.kind[inside].tolist(),
            found.strength[inside].tolist())]
    assert len(expected) > 20
    assert beats_of(events) == expected


@pytest.mark.parametrize("seed", range(4))
def test_the_front_end_is_the_definition(seed: int) -> None:
    integer = definition()
    rng = np.random.default_rng(seed)
    signal = (rng.integers(-32767, 32768, 999) if seed % 2
              else rng.choice([-32767, 32767], 999))
    adc = AdcInput(0.0248, -16)
    front_end = FrontEndState(ecg360(adc), adc.zero_point)
    front_end.settle(int(signal[0]))
    got = [q for q in map(front_end.push, signal.tolist()) if q is not None]
    scale = integer.input_scale(adc.scale, adc.zero_point)
    assert got == scale.quantize(integer.front_end(signal)).tolist()


def test_the_hop_does_not_change_a_beat(normal: Array) -> None:
    small, large = (beats_of(streamed(normal, hop)) for hop in (8, 32))
    assert len(small) > 60
    assert small == large


def test_chunks_do_not_change_anything(normal: Array) -> None:
    signal = normal[: 12 * SECONDS].copy()
    signal[1000:1800] = MISSING
    stream = Stream(ecg_plan())
    results = []
    for sizes in ((len(signal),), (320,), (1,), (7, 500, 1, 33)):
        stream.reset()
        events = [e for part in chunked(signal, sizes) for e in stream.push(part)]
        results.append(comparable([*events, *stream.flush()]))
    assert all(result == results[0] for result in results)


def test_every_beat_comes_within_the_declared_delay(normal: Array) -> None:
    stream = Stream(ecg_plan())
    waits = [
        r - beat.position for r in range(len(normal) // 2)
        for beat in beats_of(stream.push(normal[r : r + 1]))]
    assert len(waits) > 25
    assert stream.delay == 405
    assert min(waits) >= 376
    assert max(waits) <= stream.delay


# ---- faults: case A12 ----------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "state", "entered"), [
    (0, SignalState.FLAT, 359), (600, SignalState.FLAT, 359), (1000, SignalState.SATURATED, 71),
    (-1024, SignalState.SATURATED, 71), (32767, SignalState.SATURATED, 71),
    (MISSING, SignalState.MISSING, 36)])
def test_a_minute_without_a_signal_has_a_state_and_no_beats(
    value: int, state: SignalState, entered: int
) -> None:
    """60 s of zeros, of a constant, of an end of the range (1000 units are 5 mV), of nothing."""
    events = streamed(np.full(60 * SECONDS, value, np.int16))
    assert changes_of(events) == [StateChange(entered, state)]
    assert beats_of(events) == []


@pytest.mark.parametrize("before", [0, 700, 1000, -1023, MISSING])
def test_ten_seconds_flat_then_normal(before: int, normal: Array) -> None:
    """It recovers, and from settle_samples on every beat of the plain signal is there."""
    signal = normal[: 20 * SECONDS]
    flat = np.full(10 * SECONDS, before, np.int16)
    events = streamed(np.concatenate([flat, signal]))
    entered, left = changes_of(events)
    assert entered.state is not SignalState.GOOD
    assert left.state is SignalState.GOOD
    lost = left.sample - len(flat)
    assert 70 <= lost <= 360 + 72
    assert all(beat.position >= left.sample + 360 for beat in beats_of(events))
    plain = [b.position for b in beats_of(streamed(signal)) if b.position >= lost + 360]
    found = [b.position - len(flat) for b in beats_of(events)]
    assert len(plain) > 20
    assert len(found) == len(plain)
    assert np.abs(np.subtract(found, plain)).max() <= 6


@pytest.mark.parametrize("level", [0, 400, 1000, MISSING])
def test_a_lead_that_falls_off_and_comes_back(level: int, normal: Array) -> None:
    """No beat in the gap, none at its edges; those before it and after it stay."""
    gap = np.full(8 * SECONDS, level, np.int16)
    head, tail = normal[: 10 * SECONDS], normal[10 * SECONDS : 25 * SECONDS]
    events = streamed(np.concatenate([head, gap, tail]))
    beats = [b.position for b in beats_of(events)]
    end = len(head) + len(gap)
    assert not [p for p in beats if len(head) - 54 <= p < end + 72 + 360]
    plain = [b.position for b in beats_of(streamed(normal[: 25 * SECONDS]))]
    kept = [p for p in plain if p < len(head) - 54]
    assert len(kept) > 12
    assert np.abs(np.subtract(beats[: len(kept)], kept)).max() <= 6
    after = [p for p in plain if p >= len(head) + 2 * SECONDS + 72]
    assert len([p for p in beats if p > end]) >= len(after)
    states = [change.state for change in changes_of(events)]
    assert states[-1] is SignalState.GOOD
    assert len(states) == 2


def test_one_sample_in_a_hundred_missing_changes_no_beat_by_much(normal: Array) -> None:
    signal = normal.copy()
    signal[np.random.default_rng(1).random(len(signal)) < 0.01] = MISSING
    plain, holed = beats_of(streamed(normal)), beats_of(streamed(signal))
    assert len(holed) == len(plain) > 60
    assert max(abs(a.position - b.position) for a, b in zip(plain, holed)) <= 6
    assert changes_of(streamed(signal)) == []


def test_a_short_gap_is_bridged(normal: Array) -> None:
    """36 samples, 0.1 s, are held and say nothing; one more is a state."""
    for gap, states in ((36, []), (37, [SignalState.MISSING, SignalState.GOOD])):
        signal = normal[: 10 * SECONDS].copy()
        signal[1500 : 1500 + gap] = MISSING
        assert [change.state for change in changes_of(streamed(signal))] == states


def test_a_signal_that_clips_is_saturated_until_it_does_no_more(normal: Array) -> None:
    signal = normal[: 20 * SECONDS].astype(np.int64)
    signal[3000:3720] = 1023
    events = streamed(signal.astype(np.int16))
    assert [c.state for c in changes_of(events)] == [SignalState.SATURATED, SignalState.GOOD]
    assert changes_of(events)[1].sample == 3720 + 71


def test_noise_that_hides_the_signal_is_said_so(normal: Array) -> None:
    signal = normal[: 20 * SECONDS].astype(np.float64)
    signal[2000:5000] += np.random.default_rng(2).normal(0, 120, 3000)
    events = streamed(np.round(signal).astype(np.int16))
    assert [c.state for c in changes_of(events)] == [SignalState.NOISY, SignalState.GOOD]
    assert not [b for b in beats_of(events) if 2340 <= b.position < 5000]


@pytest.mark.parametrize("what", ["noise", "missing"])
def test_a_signal_at_a_limit_does_not_make_the_state_flicker(what: str) -> None:
    """Three minutes of noise, some half seconds of it above the limit, some below; or of one
    sample in five missing by chance, which is the limit."""
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 102 if what == "noise" else 20, 180 * SECONDS).round().astype(np.int16)
    if what == "missing":
        noise[rng.random(len(noise)) < 0.2] = MISSING
    plan = ecg_plan()
    stream = plan.model.stream
    assert stream is not None
    assert stream.quality is not None
    bare = replace(stream, quality=replace(stream.quality, noise_margin=0, missing_margin=0))
    without = Plan.from_bytes(write_plan(replace(plan.model, stream=bare, golden=None)))
    changes, many = (changes_of(Stream(p).push(noise)) for p in (plan, without))
    assert {change.state.name for change in many} == {"GOOD", "NOISY" if what == "noise" else
                                                      "MISSING"}
    assert len(changes) <= 5
    assert len(many) > 60


@pytest.mark.parametrize("number", [101, 106, 119, 203, 223])
def test_no_record_loses_a_beat_to_its_own_quality(number: int, data_root: Path) -> None:
    """Half a minute of other people: GOOD from end to end."""
    require("ecg")
    assert changes_of(streamed(record(data_root, number, 30_000, 30 * SECONDS))) == []


def test_a_budget_that_is_too_small_is_counted_and_changes_nothing(normal: Array) -> None:
    signal = normal[: 10 * SECONDS]
    stream = Stream(ecg_plan())
    stream.budget(1e-9)
    events = [*stream.push(signal), *stream.flush()]
    runs = sum(isinstance(e, Run) for e in events)
    assert stream.overruns == runs
    assert stream.worst_seconds > 0
    assert stream.samples == len(signal)
    assert comparable(events) == comparable(streamed(signal))
    stream.reset()
    stream.budget(4.0)
    stream.push(signal)
    assert stream.overruns == 0
