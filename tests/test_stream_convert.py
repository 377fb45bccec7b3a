"""convert --stream and Options.stream: modes, tables, refusals, what is printed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer
from edgesparse.cli.stream_option import show_stream
from edgesparse.convert import convert_model
from edgesparse.errors import BadInput, Unsupported
from edgesparse.graph.ir import Graph
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.ops import AvgPool
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_model import Stream, StreamMode
from edgesparse.plan.write import write_plan
from edgesparse.streaming.events import Run
from edgesparse.streaming.plan import StreamOptions, streamed
from edgesparse.streaming.simulate import Simulator
from graph_builder import GraphBuilder
from streaming_nets import build


def table(plan: Plan) -> Stream:
    assert plan.model.stream is not None
    return plan.model.stream


def plan_of(graph: Graph, options: StreamOptions) -> tuple[Plan, Graph]:
    made = streamed(graph, options)
    low = replace(lower(made.graph), stream=made.table)
    return Plan.from_bytes(write_plan(assemble(low, "host", "test", "").model)), made.graph


# ---- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "padding", "hop", "mode"), [
    ("strided", "causal", 16, StreamMode.CONTINUOUS), ("tcn", "valid", 5, StreamMode.CONTINUOUS),
    ("strided", "same", 16, StreamMode.INCREMENTAL), ("ds_cnn", "causal", 6,
                                                      StreamMode.INCREMENTAL)])
@pytest.mark.parametrize("head", [False])
def test_pushed_columns_are_the_simulators_runs(
    net: str, padding: str, hop: int, mode: StreamMode, head: bool
) -> None:
    """Without a front end samples are stored input values, saturating; the hop model says the rest.
    """
    plan, hop_graph = plan_of(build(net, padding, 400, head=head), StreamOptions(hop))
    spec = table(plan)
    assert spec.mode is mode
    signal = np.random.default_rng(1).integers(-150, 150, 600).astype(np.int16)
    stream = es.Stream(plan)
    runs = [e for e in stream.push_raw(signal) if isinstance(e, Run)]
    zero_point = plan.inputs[0].zero_point
    columns = np.concatenate([
        np.full(spec.lead, zero_point), np.clip(signal, -128, 127)]).astype(np.int8)
    simulator, expected = Simulator(hop_graph), []
    (x,), (y,) = hop_graph.inputs, hop_graph.outputs
    for k in range(len(columns) // hop):
        part = columns[k * hop : (k + 1) * hop].reshape(hop_graph.tensors[x].shape)
        expected.append(simulator.run({x: part})[y])
    assert len(runs) == len(expected) - spec.first_run > 5
    for run, values in zip(runs, expected[spec.first_run :]):
        assert np.array_equal(run.outputs[0].reshape(-1), values.reshape(-1))


def test_auto_says_why_it_is_not_continuous() -> None:
    made = streamed(build("tcn", "same", 200, head=False), StreamOptions(5))
    assert made.table.mode is StreamMode.INCREMENTAL
    assert made.notes[0].startswith("not continuous: ")
    assert "looks" in made.notes[0]
    with pytest.raises(Unsupported, match="padding='causal'"):
        streamed(build("tcn", "same", 200, head=False), StreamOptions(5, mode="continuous"))


def test_a_head_over_the_whole_window_is_named() -> None:
    made = streamed(build("strided", "valid", 400), StreamOptions(16))
    assert made.table.mode is StreamMode.INCREMENTAL
    assert any("whole window" in note for note in made.notes)


@pytest.mark.parametrize("hop", [8, 32, 360])
def test_the_ecg_model_is_continuous(hop: int) -> None:
    options = StreamOptions(hop=hop, frontend="ecg360", beats=True)
    made = convert_model(ECG, options=es.Options(stream=options))
    spec = table(made.plan)
    assert made.notes == ()
    assert (spec.mode, spec.rate_mhz, spec.stride, spec.behind, spec.exact) == (
        StreamMode.CONTINUOUS, 360_000, 8, 0, 0)
    assert spec.delay == 288 + 72 + 15 + 32 + 2 * (hop - 8) - 2
    assert es.Session(made.plan).self_test()
    again = convert_model(ECG, options=es.Options(stream=options))
    assert again.plan.data == made.plan.data


# ---- the hop of the model ----------------------------------------------------------------------


@pytest.mark.parametrize(("net", "padding", "stride"), [
    ("conv_pool", "same", 32), ("strided", "causal", 16), ("tcn", "valid", 1),
    ("ds_cnn", "same", 4), ("ecg_c48", "valid", 8)])
def test_without_a_hop_it_is_the_total_stride(net: str, padding: str, stride: int) -> None:
    graph = build(net, padding, 1440, head=False)
    made = streamed(graph, StreamOptions())
    assert made.table.hop == made.options.hop == stride
    assert made.notes[0].startswith(f"hop {stride} was chosen")
    assert not any("multiple" in note for note in made.notes)
    if stride > 1:
        assert any("multiple" in note for note in streamed(graph, StreamOptions(stride // 2)).notes)


def test_a_layer_that_keeps_nothing_does_not_make_the_hop_longer() -> None:
    """A pool of the whole window has a stride of it, and one column."""
    b = GraphBuilder(np.random.default_rng(3))
    y = b.conv(b.input(1, 40, 2), 4, (1, 3), stride=(1, 2))
    graph = b.graph(b.apply(AvgPool((1, 19), (1, 19)), y))
    assert streamed(graph, StreamOptions(mode="incremental")).table.hop == 2


@pytest.mark.parametrize("text", ["auto", "mode=auto", "hop=8"])
def test_convert_says_which_hop_it_chose(text: str, tmp_path: Path) -> None:
    out = tmp_path / "s.esp"
    ran = Ran("convert", ECG, "-o", out, "--stream", text)
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert "a run takes 8 columns" in said
    assert ("hop 8 was chosen: the model's total stride" in said) == (text != "hop=8")
    assert out.read_bytes() == es.convert(ECG, options=es.Options(stream=StreamOptions(8))).data


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "said"), [
    (StreamOptions(0), "1 to 1440 is allowed"),
    (StreamOptions(1441), "1 to 1440 is allowed"),
    (StreamOptions(8, mode="fast"), "auto, incremental, continuous is allowed"),
    (StreamOptions(8, frontend="ecg250"), "none, ecg360 is allowed"),
    (StreamOptions(8, mode="incremental", beats=True), "beats need mode=continuous"),
    (StreamOptions(12, beats=True), "beats need mode=continuous"),
    (StreamOptions(8, frontend="ecg360", rate=250), "is for 360 Hz, the rate is 250"),
    *((StreamOptions(8, rate=rate, frontend=frontend), f"stream rate {rate}: 0, or 0.001 to")
      for rate in (math.nan, math.inf, -5.0, 1e-4, 4294967.5) for frontend in ("none", "ecg360")),
    (StreamOptions(8, units=100), "only a front end has them"),
    (StreamOptions(8, frontend="ecg360", units=0), "both must be above 0"),
    (StreamOptions(8, frontend="ecg360", units=1e30), "check the gain"),
])
def test_options_that_do_not_fit_are_refused(options: StreamOptions, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        es.convert(ECG, options=es.Options(stream=options))


def test_models_that_are_no_signal_are_refused() -> None:
    with pytest.raises(es.Unsupported, match=r"x \(stream\): .*\[1, T, C\]"):
        es.convert(dense_layer(), options=es.Options(stream=StreamOptions(1)))


def test_beats_need_columns_of_a_beat_and_classes() -> None:
    graph = build("strided", "causal", 400, head=False)
    with pytest.raises(BadInput, match="one channel"):
        streamed(replace(graph, tensors={
            **graph.tensors, graph.inputs[0]: replace(
                graph.tensors[graph.inputs[0]], shape=(1, 400, 2))}),
            StreamOptions(16, frontend="ecg360"))


# ---- the command line ----------------------------------------------------------------------------


def test_convert_says_how_the_plan_streams(tmp_path: Path) -> None:
    out = tmp_path / "s.esp"
    ran = Ran("convert", ECG, "-o", out, "--stream", "hop=8,frontend=ecg360,beats=yes")
    assert ran.code == 0
    assert ("stream continuous, equal to a run over the whole record; a run takes 8 columns, 16 "
            "samples at 360 Hz; at most 405 samples to a beat's report") in " ".join(
        ran.out.split())
    options = StreamOptions(8, frontend="ecg360", beats=True)
    assert out.read_bytes() == es.convert(ECG, options=es.Options(stream=options)).data
    inspected = Ran("inspect", out)
    assert "stream continuous" in inspected.out
    memory = Ran("inspect", out, "--json").json
    (state,) = (r for r in memory["memory_map"] if r["kind"] == "stream")
    assert state["offset"] + state["bytes"] == memory["state_bytes"]
    assert memory["stream"]["delay_samples"] == 405


def test_convert_says_what_stops_reuse(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "s.esp", "--stream", "hop=12", "--json")
    assert ran.json["stream"]["mode"] == "incremental"
    assert ran.json["stream"]["window"] == 1440
    notes = ran.json["notes"]
    assert notes[0].startswith("not continuous")
    assert any("multiple of 8" in note for note in notes)
    shown = Ran("convert", ECG, "-o", tmp_path / "s.esp", "--stream", "hop=12")
    assert "not continuous" in shown.out
    assert "kept 2 times" in " ".join(shown.out.split())
    small = Ran("convert", ECG, "-o", tmp_path / "s.esp", "--stream", "hop=12,phases=no", "--json")
    assert small.json["state_bytes"] < ran.json["state_bytes"]
    compact = Ran(
        "convert", ECG, "-o", tmp_path / "s.esp", "--stream", "hop=12,compact=yes", "--json")
    assert compact.json["state_bytes"] < ran.json["state_bytes"]
    assert any("computed in full" in note and "multiple of 8" in note
               for note in small.json["notes"])


@pytest.mark.parametrize(("text", "said"), [
    ("8", "'8' is not understood"), ("hop=8,hop=9", "hop is given twice"),
    ("hop=8,speed=1", "'speed=1' is not understood"), ("hop=8,auto", "'auto' is not understood"),
    ("hop=8.5", "a whole number is allowed"), ("hop=8,rate=x", "a number is allowed"),
    ("hop=8,beats=maybe", "yes or no is allowed"),
    ("hop=8,phases=2", "yes or no is allowed"), ("", "'' is not understood")])
def test_a_stream_option_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "s.esp", "--stream", text)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert list(tmp_path.iterdir()) == []


def test_the_words_of_a_plan_agree_with_their_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "s.esp", "--stream", "hop=8, rate = 180")
    assert "a run takes 8 columns, 8 samples at 180 Hz; at most 7 samples to its run" in ran.out
    show_stream(Stream(mode=StreamMode.CONTINUOUS, hop=1, delay=0, state_offset=0))
    shown = capsys.readouterr().out
    assert "a run takes 1 column, 1 sample; each sample is in a run at once" in shown


def test_a_plan_without_a_stream_says_none(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "p.esp", "--json")
    assert ran.json["stream"] is None
    assert ran.json["notes"] == []


def test_options_of_windows_are_named_where_there_are_none() -> None:
    graph = build("tcn", "causal", 200, head=False)
    notes = streamed(graph, StreamOptions(4, phases=False, compact=True)).notes
    assert [note.split()[0] for note in notes] == ["phases", "compact"]
    assert not streamed(graph, StreamOptions(4)).notes


# ---- what a target with kernels gets -----------------------------------------------------------


def ecg_steps(target: str) -> tuple[pm.PlanModel, list[pm.Step]]:
    options = es.Options(stream=StreamOptions(hop=16, frontend="ecg360", beats=True))
    model = convert_model(ECG, target, options).plan.model
    return model, [s for s in model.steps if isinstance(s.source, pm.Mac)]


def test_a_residual_lives_in_the_ring_of_the_next_layer() -> None:
    """The six blocks need no step that copies their input: it is written to the ring, and their Add
    reads the ring's newest columns."""
    model, macs = ecg_steps("cortex-m4")
    assert len(model.steps) == len(macs) + 1  # the input's
    operands = [
        model.tensors[body.operand].place
        for step in macs for body in step.branches[0].stages if isinstance(body, pm.Add)]
    assert len(operands) == 6
    assert {(p.ring_role, p.ring_lag, p.columns) for p in operands} == {(pm.RingRole.VIEW, 0, 2)}


def test_a_target_that_widens_inputs_gets_scratch_for_it() -> None:
    """4x1 blocks of two and more columns: a word an input. The first layer, dense, eight columns of
    one channel: four patches of seven inputs as int16, rounded up to eight, and one as int8."""
    _, wide = ecg_steps("cortex-m4")
    _, narrow = ecg_steps("host")
    assert [s.scratch_bytes for s in wide[:3]] == [2 * 4 * 8 + 8, 4 * 80, 4 * 160]
    assert [s.scratch_bytes for s in narrow[:3]] == [4 * 7, 4 * 80, 2 * 160]
