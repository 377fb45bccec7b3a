"""verify() of a stream plan: core, plain reference and windows of the oracle; what it refuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer
from edgesparse.comparison import StreamReport, VerifyOptions
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.stimuli import stream_stimulus
from edgesparse.streaming.events import Beat, Event, Run, SignalState, StateChange
from edgesparse.streaming.plan import StreamOptions
from edgesparse.streaming.reference import ReferenceStream
from edgesparse.verify import verify
from edgesparse.verify_stream import EVENTS, INT8_REFERENCE, RUNS
from needs import require
from quantize_inputs import SOURCES
from tflite_chain import Net

BEATS = StreamOptions(8, frontend="ecg360", beats=True)
FEW = VerifyOptions(inputs=8)


def made(options: StreamOptions, model: str | Path | bytes = ECG) -> Plan:
    return es.convert(model, options=es.Options(stream=options))


def checked(
    plan: Plan, model: str | Path | bytes = ECG, options: VerifyOptions = FEW
) -> StreamReport:
    report = verify(plan, model, options)
    assert isinstance(report, StreamReport)
    return report


@pytest.fixture(scope="module")
def beats() -> Plan:
    return made(BEATS)


def changed(plan: Plan, **new: object) -> Plan:
    return Plan.from_bytes(write_plan(replace(plan.model, **new)))  # type: ignore[arg-type]


def with_bias(plan: Plan) -> Plan:
    steps = list(plan.model.steps)
    at = next(i for i, step in enumerate(steps) if isinstance(step.source, pm.Mac))
    source = steps[at].source
    assert isinstance(source, pm.Mac)
    steps[at] = replace(steps[at], source=replace(source, bias=source.bias + 700))
    return changed(plan, steps=tuple(steps), golden=None)


# ---- what is compared


def test_a_stream_of_beats_is_compared_in_three_ways(beats: Plan) -> None:
    require("oracle")
    calls: list[int] = []
    report = checked(beats, options=replace(FEW, progress=lambda: calls.append(1)))
    assert report.passed
    assert report.self_test is True
    assert report.notes == ()
    assert report.judge.startswith("tflite-runtime")
    assert (report.samples, report.windows, len(calls)) == (3 * 1440 * 2, 8, 8)
    assert report.runs > report.samples // 16
    assert report.chunks > 300
    assert report.beats > 10
    runs, events, windows = report.parts
    assert (runs.tensor, events.tensor) == (RUNS, EVENTS)
    assert runs.elements == 4 * report.runs
    assert events.elements > report.runs + report.beats + 5
    # The first window has 180 columns from the start, the others 50 with all of their past.
    assert windows.elements == 4 * (180 + 7 * 50)


@pytest.mark.parametrize("options", [
    StreamOptions(8), StreamOptions(40, mode="incremental"), StreamOptions(12),
    StreamOptions(8, frontend="ecg360")], ids=["columns", "windows", "stopped", "front end"])
def test_other_streams_of_the_model_are_compared_too(options: StreamOptions) -> None:
    require("oracle")
    report = checked(made(options))
    assert report.passed
    assert report.beats == 0
    assert all(part.elements > 1000 for part in (report.parts[0], report.parts[2]))


def test_the_stimulus_takes_a_signal_through_every_state(beats: Plan) -> None:
    signal = stream_stimulus((8640, 1), 600, np.random.default_rng(0))
    stream = es.Stream(beats)
    events = stream.push(signal)
    assert {e.state for e in events if isinstance(e, StateChange)} == set(SignalState)
    assert sum(isinstance(e, Beat) for e in events) > 10


def test_an_lstm_is_compared_with_an_oracle_that_starts_anew(models_dir: Path) -> None:
    require("oracle")
    model = models_dir / "generated" / "legacy_lstm_int8.tflite"
    report = checked(made(StreamOptions(4), model), model, VerifyOptions(inputs=12))
    assert report.passed
    assert report.windows == 12


def test_a_stream_model_of_mlperf(models_dir: Path) -> None:
    require("oracle")
    model = models_dir / "mlperf" / "mlperf_strm_ww_old_int8.tflite"
    report = checked(made(StreamOptions(3), model), model)
    assert report.passed
    assert report.windows == 8


@pytest.mark.parametrize(("layers", "compared"), [
    (((3, 1, 0), (3, 8, 16)), 3 * 2 * 8), (((3, 1, 0), (3, 8, 16), (3, 8, 16)), 0),
    (((3, 8, 16), (3, 8, 16)), 3 * 20)], ids=["some", "none", "the first window only"])
def test_columns_that_no_window_has_are_not_compared_and_said(
    layers: tuple[tuple[int, int, int], ...], compared: int
) -> None:
    """Padded layers behind one that is not see columns from before the record.

    layers  (kernel, dilation, columns of padding on the left), over windows of 20 columns
    """
    require("oracle")
    net = Net(np.random.default_rng(0))
    y = net.expand(net.input(1, 20, 2), 1)
    for kernel, dilation, pad in layers:
        if pad:
            y = net.pad(y, (0, 0), (0, 0), (pad, 0), (0, 0))
        y = net.conv(y, 3, (1, kernel), dilation=(1, dilation), padding="valid")
    model = net.build(net.squeeze(y, 1))
    report = checked(made(StreamOptions(1, mode="continuous"), model), model)
    assert report.passed
    assert report.parts[2].elements == compared
    assert any("more past than a window" in note for note in report.notes) == (compared == 0)


def test_a_quantized_model_is_rebuilt_from_its_data(data_root: Path) -> None:
    model = data_root / "models" / "har" / "har_ashwinbyte_fp32.tflite"
    data, _ = SOURCES["har/har_ashwinbyte_fp32"].halves(data_root)
    calibration = {input_name(model): data}
    plan = es.convert(model, options=es.Options(
        calibration=calibration, stream=StreamOptions(17)))
    report = checked(plan, model, replace(FEW, calibration=calibration))
    assert report.passed
    assert report.judge == INT8_REFERENCE
    with pytest.raises(es.BadInput, match="calibration data"):
        checked(plan, model)


def input_name(model: Path) -> str:
    from edgesparse.importers.tflite import import_tflite

    return import_tflite(model.read_bytes(), model.name).inputs[0]


# ---- what is found


def test_a_plan_that_computes_something_else_differs_from_the_windows(beats: Plan) -> None:
    require("oracle")
    report = checked(with_bias(beats))
    assert not report.passed
    assert report.self_test is None
    assert [part.differing > 0 for part in report.parts] == [False, False, True]
    assert report.first is report.parts[2]
    assert report.first.first is not None
    assert report.first.first.ours != report.first.first.theirs


class Altered(ReferenceStream, ABC):
    """A reference that is wrong, as if the core were."""

    def push(self, frames: Iterable[Iterable[int]]) -> list[Event]:
        return [self.alter(e) for e in super().push(frames)]

    @abstractmethod
    def alter(self, event: Event) -> Event: ...


class OtherByte(Altered):
    def alter(self, event: Event) -> Event:
        if isinstance(event, Run) and event.column == 100:
            outputs = tuple(y ^ np.int8(1) for y in event.outputs)
            return replace(event, outputs=outputs)
        return event


class OtherBeat(Altered):
    def alter(self, event: Event) -> Event:
        return replace(event, position=event.position + 1) if isinstance(event, Beat) else event


@pytest.mark.parametrize(("altered", "part"), [(OtherByte, 0), (OtherBeat, 1)])
def test_a_core_that_is_not_the_reference_is_found(
    altered: type[Altered], part: int, beats: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("oracle")
    monkeypatch.setattr("edgesparse.verify_stream.ReferenceStream", altered)
    report = checked(beats)
    assert [one.differing > 0 for one in report.parts] == [i == part for i in range(3)]
    assert report.first is report.parts[part]
    assert not report.passed


def test_results_that_are_missing_differ(beats: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    require("oracle")

    class Longer(ReferenceStream):
        def push(self, frames: Iterable[Iterable[int]]) -> list[Event]:
            return super().push([*frames, *([[0]] * 16)])

    monkeypatch.setattr("edgesparse.verify_stream.ReferenceStream", Longer)
    report = checked(beats)
    assert report.parts[0].differing > 0
    assert report.parts[1].differing > 0


def test_a_self_test_that_fails_is_no_pass(beats: Plan) -> None:
    require("oracle")
    golden = beats.model.golden
    assert golden is not None
    report = checked(changed(beats, golden=replace(golden, trace_crc=golden.trace_crc ^ 1)))
    assert report.differing == 0
    assert report.self_test is False
    assert not report.passed


# ---- what is refused


def test_a_model_the_plan_cannot_be_of_is_refused(beats: Plan, models_dir: Path) -> None:
    vww = models_dir / "mlperf" / "mlperf_vww_int8.tflite"
    words = models_dir / "mlperf" / "mlperf_strm_ww_old_int8.tflite"
    for plan, model in ((beats, dense_layer()), (beats, vww), (beats, words),
                        (made(StreamOptions(3), words), ECG),
                        (made(StreamOptions(8, mode="incremental")), words)):
        with pytest.raises(es.BadInput, match="no model of this plan"):
            checked(plan, model)


def test_the_command_says_what_was_compared(beats: Plan, tmp_path: Path) -> None:
    require("oracle")
    path = tmp_path / "s.esp"
    beats.save(path)
    command = ("verify", path, "--inputs", 4, "--against")
    ran = Ran(*command, ECG)
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert "in 4 windows by tflite-runtime 2.14.0 BUILTIN_REF" in ran.out
    assert ["windows:", beats.outputs[0].name, "1,320", "0"] in rows
    assert "self test passed" in ran.out
    assert "every byte is equal" in ran.out
    found = Ran(*command, ECG, "--json").json
    assert found["passed"] is True
    assert found["windows"] == 4
    other = Ran(*command, ECG.with_name("ecg_c48_dense.tflite"))
    assert other.code == 1
    assert "another file" in other.out
    assert "first difference: windows: " in other.out
    (tmp_path / "x.tflite").write_bytes(dense_layer())
    refused = Ran(*command, tmp_path / "x.tflite")
    assert refused.code == 2
    assert "no model of this plan" in " ".join(refused.err.split())


def test_a_damaged_plan_exits_with_1_and_says_where(beats: Plan, tmp_path: Path) -> None:
    require("oracle")
    path = tmp_path / "s.esp"
    with_bias(beats).save(path)
    ran = Ran("verify", path, "--inputs", 4, "--against", ECG)
    assert ran.code == 1
    assert "equal" not in ran.out
