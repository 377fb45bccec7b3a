"""Sessions and streams on the emulated NPU: programs made by hand, mostly steps of the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgesparse as es
from edgesparse.errors import BadInput, NativeError, NpuRefused, NpuTrapped, WrongMachine
from edgesparse.npu.isa import Op, Space
from edgesparse.npu.written import arena_writes
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.runtime.npu import NpuKnobs
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from npu_plans import all_on_cpu, golden, plan_of, through_scratchpad, with_program
from npu_program import cfg, ins
from plan_builder import PlanBuilder, values
from random_plans import random_plan
from stream_plans import comparable, full_stream_plan, random_signal

RNG = 7


def copying(body_first: int = 0) -> Plan:
    """Input [4, 3] -> middle -> output [4, 3], each as it was: the first by DMA, the second by the
    CPU. body_first: bytes of the middle that the DMA leaves out."""
    b = PlanBuilder()
    x, middle, y = b.input(4, 3), b.tensor(4, 3), b.output(4, 3)
    b.tail(pm.Load(), x, middle)
    b.tail(pm.Load(), middle, y)
    model = b.plan()
    first, second = (model.tensors[t].place.offset for t in (x, middle))
    move = through_scratchpad(first + body_first, second + body_first, 12 - body_first)
    return plan_of(golden(with_program(model, *move, ins(Op.HOST, step=1))))


# ---- sessions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_program_of_cpu_steps_gives_what_the_steps_give(seed: int) -> None:
    """Rings included: three runs follow each other, then a reset."""
    rng = np.random.default_rng(seed)
    plan = plan_of(all_on_cpu(random_plan(rng)))
    npu, portable = Session(plan, backend="esn-s"), Session(plan)
    for _ in range(2):
        for _ in range(3):
            x = [values(rng, *io.shape) for io in plan.inputs]
            for ours, theirs in zip(*(
                    y if isinstance(y, tuple) else (y,) for y in (npu.run(x), portable.run(x)))):
                np.testing.assert_array_equal(ours, theirs)
        npu.reset()
        portable.reset()


def test_transfers_see_the_arena_of_the_session() -> None:
    session = Session(copying(), backend="esn-s")
    x = values(np.random.default_rng(RNG), 4, 3)
    np.testing.assert_array_equal(session.run(x), x)
    assert session.npu is not None
    assert session.npu.last is not None
    counters = session.npu.last.counters
    assert (counters["dma_dram_rd_bytes"], counters["dma_dram_wr_bytes"]) == (12, 12)
    assert (counters["host_steps"], counters["launch_cyc"]) == (1, 500)
    session.npu.knobs = NpuKnobs(launch_cycles=0)
    session.run(x)
    assert session.npu.last.counters["launch_cyc"] == 0


def test_the_portable_session_of_such_a_plan_runs_its_steps() -> None:
    session = Session(copying())
    x = values(np.random.default_rng(RNG), 4, 3)
    np.testing.assert_array_equal(session.run(x), x)
    assert session.npu is None


def test_traced_is_what_the_cpu_wrote_and_what_is_whole_in_the_arena() -> None:
    x = values(np.random.default_rng(RNG), 4, 3)
    whole = Session(copying(), backend="esn-s").run_traced(x)
    assert sorted(whole) == [1, 2]
    np.testing.assert_array_equal(whole[1], x)
    assert sorted(Session(copying(1), backend="esn-s").run_traced(x)) == [2]


def test_overwritten_results_are_not_traced() -> None:
    b = PlanBuilder()
    x, middle = b.input(4, 3), b.tensor(4, 3)
    y = b.output(4, 3)
    again = b.same_place(middle)
    b.tail(pm.Load(), x, middle)
    b.tail(pm.Load(), middle, y)
    b.tail(pm.Load(), y, again)
    model = b.plan()
    at = [model.tensors[t].place.offset for t in (x, middle, y)]
    plan = plan_of(with_program(
        model, *through_scratchpad(at[0], at[1], 12), *through_scratchpad(at[1], at[2], 12),
        *through_scratchpad(at[2], at[1], 12)))
    assert sorted(Session(plan, backend="esn-s").run_traced(values(
        np.random.default_rng(RNG), 4, 3))) == [y, again]


def test_the_self_test_compares_the_outputs_of_the_program() -> None:
    assert Session(copying(), backend="esn-s").self_test()
    model = copying().model
    assert model.golden is not None
    wrong = replace(model.golden, outputs=model.golden.outputs ^ np.int8(1))
    assert not Session(plan_of(replace(model, golden=wrong)), backend="esn-s").self_test()
    with pytest.raises(NativeError, match="no golden vector"):
        Session(plan_of(replace(model, golden=None)), backend="esn-s").self_test()


# ---- refusals -----------------------------------------------------------------------------------


def test_a_plan_without_a_program_is_refused() -> None:
    plan = plan_of(replace(copying().model, npu=None))
    for what in (Session, Stream):
        with pytest.raises(WrongMachine, match="has no program"):
            what(plan if what is Session else plan_of(full_stream_plan()), backend="esn-s")


def test_a_plan_for_another_configuration_is_refused() -> None:
    with pytest.raises(WrongMachine, match=r"configuration 1 \(esn-s\), esn-m is 2; .*on esn-s"):
        Session(copying(), backend="esn-m")
    with pytest.raises(WrongMachine, match=r"configuration 77 \(unknown here\)"):
        Session(plan_of(all_on_cpu(random_plan(np.random.default_rng(0)), config=77)), "esn-s")


def test_an_unsound_program_is_refused_by_the_verifier() -> None:
    model = with_program(copying().model, ins(Op.VST))
    with pytest.raises(NpuRefused, match="STREAM"):
        Session(plan_of(model), backend="esn-s")


def test_an_unknown_backend_names_those_there_are() -> None:
    with pytest.raises(BadInput, match="portable, esn-lab, esn-m, esn-s is allowed"):
        Session(copying(), backend="esn-x")


def test_a_run_that_stops_raises_and_the_next_one_runs() -> None:
    session = Session(copying(), backend="esn-s")
    x = values(np.random.default_rng(RNG), 4, 3)
    assert session.npu is not None
    session.npu.knobs = NpuKnobs(max_instructions=2)
    with pytest.raises(NpuTrapped, match="LIMIT"):
        session.run(x)
    session.npu.knobs = NpuKnobs()
    np.testing.assert_array_equal(session.run(x), x)


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_on_the_npu_gives_the_same_events() -> None:
    plan = plan_of(all_on_cpu(full_stream_plan()))
    signal = random_signal(np.random.default_rng(RNG), 20_000)
    npu, portable = Stream(plan, backend="esn-s"), Stream(plan)
    for _ in range(2):
        events = [[*s.push(signal), *s.flush()] for s in (npu, portable)]
        assert len(events[0]) > 10
        assert comparable(events[0]) == comparable(events[1])
        npu.reset()
        portable.reset()


def test_a_stream_whose_run_stops_has_ended() -> None:
    """Push and flush; what the run raised comes out, and only a reset allows more."""
    plan = plan_of(all_on_cpu(full_stream_plan()))
    signal = random_signal(np.random.default_rng(RNG), 500)
    stream = Stream(plan, backend="esn-s")
    assert stream.npu is not None
    expected = stream.push(signal)
    stream.reset()
    for cut in (0, 400):
        stream.push(signal[:cut])
        stream.npu.knobs = NpuKnobs(max_instructions=1)
        with pytest.raises(NpuTrapped, match="LIMIT"):
            stream.push(signal) if cut == 0 else stream.flush()
        runs = stream.runs
        with pytest.raises(NativeError, match="has ended the record"):
            stream.push(signal)
        assert stream.flush() == []
        assert stream.runs == runs
        stream.npu.knobs = NpuKnobs()
        stream.reset()
    assert comparable(stream.push(signal)) == comparable(expected)


# ---- what a program writes ----------------------------------------------------------------------


def test_written_bytes_are_those_of_the_transfers() -> None:
    commands = b"".join((
        ins(Op.DMA, space=Space.DRAM_READ, bytes=4),
        ins(Op.DMA, space=Space.DRAM_WRITE, external=6, bytes=2), *cfg(DROWS=3, DEPITCH=-4),
        ins(Op.DMA2, space=Space.DRAM_WRITE, external=20, bytes=1)))
    assert np.flatnonzero(arena_writes(commands, 24)).tolist() == [6, 7, 12, 16, 20]


def test_the_whole_way_is_public() -> None:
    assert es.WrongMachine is WrongMachine
    assert es.NpuTrapped is NpuTrapped
