"""Pushing samples through the C core gives what the plain Python reference says, however cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_model import Beats, Quality
from edgesparse.plan.write import write_plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Run, StateChange
from edgesparse.streaming.frontend import MISSING
from edgesparse.streaming.reference import ReferenceStream
from stream_plans import (
    chunked,
    comparable,
    continuous_plan,
    full_stream_plan,
    incremental_plan,
    random_front_end,
    random_signal,
)

SEEDS = range(12)


def check(model: pm.PlanModel, signal: Array, sizes: tuple[int, ...] = (7,)) -> list[object]:
    """The events of the reference; those of the core are the same."""
    data = write_plan(model)
    reference = ReferenceStream(data)
    frames = signal if signal.ndim == 2 else signal[:, None]
    expected = comparable([*reference.push(frames.tolist()), *reference.flush()])
    stream = Stream(Plan.from_bytes(data))
    got = [event for part in chunked(signal, sizes) for event in stream.push_raw(part)]
    got += stream.flush()
    assert comparable(got) == expected
    assert stream.missing == reference.missing
    assert stream.samples == len(signal)
    return [*got]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_front_end_on_any_signal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hop = int(rng.integers(1, 4)) * 2
    model = continuous_plan(rng, hop=hop, stride=2, front_end=random_front_end(rng))
    events = check(model, random_signal(rng, 1500))
    outputs = np.stack([e.outputs[0] for e in events if isinstance(e, Run)])
    assert len(np.unique(outputs)) > 20


def random_beats(rng: np.random.Generator) -> Beats:
    bits = int(rng.integers(1, 16))
    table = rng.integers(0, (1 << bits) + 1, (2, 256)).astype(np.uint16)
    table[1, 0] = max(1, table[1, 0])
    return Beats(
        probability=table[0], power=table[1], p_bits=bits,
        threshold=int(rng.integers(0, 2 << bits)), position_shift=-int(rng.integers(0, 400)),
        refractory=int(rng.integers(0, 100)))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_beat_decoder(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = continuous_plan(
        rng, hop=4 * int(rng.integers(1, 4)), stride=int(rng.choice([1, 2, 4])),
        exact=int(rng.integers(0, 9)), behind=int(rng.integers(0, 6)), beats=random_beats(rng),
        classes=int(rng.integers(1, 17)))
    signal = rng.integers(-128, 128, 2000).astype(np.int16)
    events = check(model, signal, (1, 50, 3))
    beats = [e for e in events if isinstance(e, Beat)]
    assert len(beats) > 10
    assert all(0 <= beat.position < len(signal) for beat in beats)


def random_quality(rng: np.random.Generator) -> Quality:
    def some(limit: int) -> int:
        return int(rng.integers(0, limit))

    quality = Quality(
        flat_range=some(5), flat_samples=some(40), saturation=20000 + some(20000),
        saturated_samples=some(12), missing_run=some(9), missing_window=8 * some(6),
        missing_most=some(12), noise_samples=some(30), noise_limit=some(50000),
        recover_samples=1 + some(20), settle_samples=some(60), guard_samples=some(30))
    return replace(quality, noise_margin=some(quality.noise_limit // 4 + 1),
                   missing_margin=some(quality.missing_most // 4 + 1))


@pytest.mark.parametrize("seed", range(20))
def test_any_quality(seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = full_stream_plan()
    assert full.stream is not None
    stream = full.stream
    model = continuous_plan(
        rng, front_end=stream.front_end, beats=stream.beats, quality=random_quality(rng))
    events = check(model, random_signal(rng, 4000), (1, 9, 200))
    assert sum(isinstance(e, StateChange) for e in events) > 10


@pytest.mark.parametrize(("hop", "window"), [(5, 12), (1, 9), (12, 12), (4, 12)])
def test_windows_of_frames_of_several_channels(hop: int, window: int) -> None:
    """Every reported run is that of one whole window, from the first one on."""
    rng = np.random.default_rng(hop)
    model = incremental_plan(rng, hop, window)
    signal = rng.integers(-200, 200, (100, 2)).astype(np.int16)
    signal[rng.random((100, 2)) < 0.05] = MISSING
    events = check(model, signal, (3, 1, 11))
    runs = [e for e in events if isinstance(e, Run)]
    assert [run.column for run in runs] == list(range(len(runs)))
    assert [run.sample for run in runs] == list(range(window - 1, 100, hop))
    source = model.steps[-1].source
    assert isinstance(source, pm.Mac)
    held = ReferenceStream(write_plan(incremental_plan(rng, 1, window)))  # only to hold values
    values = []
    for frame in signal.tolist():
        held.push([frame])
        values.append(list(held._held))
    columns = np.clip(values, -128, 127)
    w = source.weights.groups[0].values.reshape(3, window, 2).astype(np.int64)
    for run in runs:
        seen = columns[run.sample - window + 1 : run.sample + 1]
        total = (w * seen).sum(axis=(1, 2)) + source.bias
        expected = np.clip(np.round(total * 0.003), -128, 127)
        assert np.abs(run.outputs[0].ravel() - expected).max() <= 1


def test_a_record_of_any_length_flushes() -> None:
    signal = random_signal(np.random.default_rng(3), 400)
    for length in (0, 1, 2, 3, 15, 16, 17, 31, 97, 256, 399):
        check(full_stream_plan(), signal[:length])


def test_a_record_without_a_sample_that_is_there() -> None:
    events = check(full_stream_plan(), np.full(500, MISSING, np.int16))
    assert not any(isinstance(e, Beat) for e in events)


@pytest.mark.parametrize("plan", ["continuous", "incremental"])
def test_results_do_not_depend_on_how_samples_are_cut(plan: str) -> None:
    """Case A10: 1 x 16000, 50 x 320, 16000 x 1; and cut at random."""
    rng = np.random.default_rng(8)
    model = full_stream_plan() if plan == "continuous" else incremental_plan(rng, channels=1)
    signal = random_signal(rng, 16000)
    stream = Stream(Plan.from_bytes(write_plan(model)))
    results = []
    for sizes in ((16000,), (320,), (1,), tuple(rng.integers(1, 700, 50).tolist()), (0, 13)):
        stream.reset()
        events = [e for part in chunked(signal, sizes) for e in stream.push_raw(part)]
        results.append(comparable([*events, *stream.flush()]))
    assert all(result == results[0] for result in results)
    assert len(results[0]) > 1000


def test_two_streams_of_one_plan_share_nothing() -> None:
    rng = np.random.default_rng(9)
    plan = Plan.from_bytes(write_plan(full_stream_plan()))
    signals = [random_signal(rng, 1000) for _ in range(2)]
    alone = [comparable(Stream(plan).push_raw(signal)) for signal in signals]
    streams = [Stream(plan), Stream(plan)]
    together: list[list[object]] = [[], []]
    for parts in zip(*(chunked(signal, (37,)) for signal in signals)):
        for events, stream, part in zip(together, streams, parts):
            events += comparable(stream.push_raw(part))
    assert together == alone


def test_the_delay_is_kept_and_nearly_reached() -> None:
    """From a beat's position to the sample with which it is reported; nothing bad in between."""
    model = full_stream_plan()
    assert model.stream is not None
    model = replace(model, stream=replace(model.stream, quality=None))
    stream = Stream(Plan.from_bytes(write_plan(model)))
    signal = random_signal(np.random.default_rng(10), 20000)
    waits = [
        r - event.position
        for r in range(len(signal)) for event in stream.push_raw(signal[r : r + 1])
        if isinstance(event, Beat)]
    assert len(waits) > 100
    assert stream.delay - 4 <= max(waits) <= stream.delay


def test_the_reference_can_fail() -> None:
    """One tap, one table entry or one limit further, and events differ."""
    model = full_stream_plan()
    assert model.stream is not None
    spec = model.stream
    assert spec.front_end is not None
    assert spec.beats is not None
    assert spec.quality is not None
    signal = random_signal(np.random.default_rng(11), 20000)
    taps = spec.front_end.taps.copy()
    taps[8] += 40
    power = spec.beats.power.copy()
    power[1:] //= 2
    changes = (
        replace(spec, front_end=replace(spec.front_end, taps=taps)),
        replace(spec, beats=replace(spec.beats, power=power)),
        replace(spec, quality=replace(spec.quality, guard_samples=300)),
        replace(spec, quality=replace(spec.quality, settle_samples=300)),
        replace(spec, quality=replace(spec.quality, recover_samples=10)),
        replace(spec, quality=replace(spec.quality, noise_margin=0)),
        replace(spec, quality=replace(spec.quality, missing_margin=0)),
    )
    expected = comparable(ReferenceStream(write_plan(model)).push(signal[:, None].tolist()))
    for changed in changes:
        plan = Plan.from_bytes(write_plan(replace(model, stream=changed)))
        assert comparable(Stream(plan).push_raw(signal)) != expected
