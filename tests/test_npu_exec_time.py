"""Transfers, instruction fetch, marks, traces and the bound: what takes time, and where it goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.errors import BadInput, NpuTrapped
from edgesparse.graph.ir import Array
from edgesparse.npu.isa import COUNTERS, SKIP, TRANSPOSE, Engine, Op, Space
from edgesparse.runtime.npu import BARE, NO_STEP, NpuKnobs, NpuMachine, NpuProgram, cycle_bound
from npu_program import END, NO_DRAM, Image, cfg, configuration, identities, ins, run, stream

NPU = configuration()


def machine(
    *code: bytes, dram: int = 0, steps: int = 0, blobs: tuple[bytes, ...] = ()
) -> NpuMachine:
    return NpuMachine(NPU, NpuProgram(
        b"".join([*code, END]), config=NPU.id, blobs=blobs, dram_bytes=dram, steps=steps))


# ---- transfers


@given(st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_dma2_moves_rows_there_and_back(seed: int, transposed: bool, flash: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, size = int(rng.integers(1, 9)), int(rng.integers(1, 20))
    outer, inner = size + int(rng.integers(0, 5)), (rows if transposed else size) + 3
    start = int(rng.integers(0, 7))
    source = rng.integers(0, 256, start + rows * outer).astype(np.uint8)
    code = [
        *cfg(DROWS=rows, DEPITCH=outer, DSPITCH=inner),
        ins(Op.DMA2, channel=1, space=(0 if flash else 1) | TRANSPOSE * transposed,
            external=start, address=8, bytes=size),
        ins(Op.DWAIT, channel=1),
        ins(Op.DMA2, channel=2, space=Space.DRAM_WRITE | TRANSPOSE * transposed,
            external=start + len(source), address=8, bytes=size),
        ins(Op.DWAIT, channel=2)]
    dram = np.concatenate([source, np.zeros_like(source)])
    m = machine(*code, dram=len(dram), blobs=(source.tobytes(),))
    counters = m.run(dram, BARE).counters
    identities(counters, NPU.lanes)
    cells = source[start + np.arange(rows)[:, None] * outer + np.arange(size)]
    r, j = np.indices((rows, size))
    inside = 8 + (j * inner + r if transposed else r * inner + j)
    np.testing.assert_array_equal(m.scratchpad[inside], cells)
    assert np.count_nonzero(m.scratchpad) == np.count_nonzero(cells)
    back = dram[len(source) + start + np.arange(rows)[:, None] * outer + np.arange(size)]
    np.testing.assert_array_equal(back, cells)
    assert m.traffic.dma_bytes == {
        Space.FLASH_READ: rows * size * flash, Space.DRAM_READ: rows * size * (not flash),
        Space.DRAM_WRITE: rows * size}
    assert [counters[f"dma_{name}_bytes"] for name in ("flash_rd", "dram_rd", "dram_wr")] == list(
        m.traffic.dma_bytes.values())
    read = 64 + rows + rows * size * (2 if flash else 1)
    assert counters["dma_busy"] == read + 64 + rows + rows * size


def test_transfers_queue_and_computing_hides_them() -> None:
    """Two transfers of 164 and 264 cycles behind each other, 200 cycles of work meanwhile."""
    dram = np.zeros(300, np.uint8)
    code = [
        ins(Op.DMA, channel=0, space=Space.DRAM_READ, bytes=100),
        ins(Op.DMA, channel=1, space=Space.DRAM_READ, external=100, address=100, bytes=200),
        *[ins(Op.NOP)] * 200, ins(Op.DWAIT, channel=0), ins(Op.DWAIT, channel=1)]
    counters = machine(*code, dram=300).run(dram, BARE).counters
    identities(counters, NPU.lanes)
    assert counters["dma_busy"] == 164 + 264
    assert counters["issue"] == 2 + 200 + 2 + 1
    assert counters["cycles"] == 164 + 264 + 1  # END after the second has ended
    assert counters["stall_dma"] == counters["cycles"] - counters["issue"]


def test_waiting_for_nothing_takes_a_cycle() -> None:
    counters = run(machine(ins(Op.DWAIT, channel=3))).counters
    assert (counters["cycles"], counters["stall_dma"]) == (2, 0)


# ---- launch and fetch


def test_straight_code_comes_at_flash_bandwidth() -> None:
    """16 bytes in 32 cycles; the instruction itself runs while the next one comes."""
    m = machine(*[ins(Op.NOP)] * 9)
    counters = run(m, NpuKnobs(launch_cycles=100)).counters
    assert counters["cmd_fetch_bytes"] == 10 * 16
    assert counters["cycles"] == 100 + 10 * 32 + 1
    assert counters["stall_fetch"] == 10 * 32 - 9
    bare = run(m, replace(BARE, launch_cycles=7)).counters
    assert (bare["cycles"], bare["cmd_fetch_bytes"], bare["launch_cyc"]) == (17, 0, 7)


def test_a_loop_is_fetched_once() -> None:
    counters = run(
        machine(ins(Op.LOOP, count=1000, body=2), *[ins(Op.NOP)] * 2),
        NpuKnobs(launch_cycles=0)).counters
    assert counters["cmd_fetch_bytes"] == 4 * 16
    # three instructions come; the NOPs after the first two hide END
    assert counters["cycles"] == 3 * 32 + 1 + 1998 + 1


def test_what_a_loop_skips_is_fetched_too() -> None:
    m = machine(ins(Op.LOOP, count=0, body=3), *[ins(Op.NOP)] * 3)
    counters = run(m, NpuKnobs(launch_cycles=0)).counters
    assert (counters["insns"], counters["cmd_fetch_bytes"]) == (2, 5 * 16)
    assert counters["cycles"] == 5 * 32 + 1


def test_fetch_reaches_64_instructions_ahead() -> None:
    """While one long instruction runs, 64 come; the next ones wait for the flash again."""
    long = ins(Op.FILL, length=NPU.scratchpad_bytes)  # 1 + 65536 / 32 cycles
    counters = run(machine(long, *[ins(Op.NOP)] * 99), NpuKnobs(launch_cycles=0)).counters
    # Instruction 64 has come when the long one ends; 65 starts to come when the first NOP
    # begins, and END is instruction 100.
    ended = 32 + 1 + NPU.scratchpad_bytes // 32
    assert counters["cycles"] == ended + (100 - 64) * 32 + 1


# ---- marks, steps of the CPU, traces


def test_marks_divide_all_that_is_counted() -> None:
    image = Image()
    setup = stream(0, image.place(np.ones(16, np.int8)))
    m = image.machine(
        *setup, ins(Op.MARK, step=1), ins(Op.VLD, stream=0), ins(Op.MARK, step=0),
        ins(Op.LOOP, count=3, body=2), ins(Op.VLD, stream=0), ins(Op.MARK, step=1), steps=3)
    done = m.run(NO_DRAM, replace(BARE, launch_cycles=10))
    zero, one, two = done.marks
    assert (zero["vec_cyc"], one["vec_cyc"], one["launch_cyc"]) == (1, 3, 10)
    assert set(two.values()) == {0}
    rest = {name: done.counters[name] - zero[name] - one[name] for name in COUNTERS}
    assert {name: value for name, value in rest.items() if value} == {
        "cycles": 1, "issue": 1, "insns": 1}  # END
    for counters in done.marks:
        identities(counters, NPU.lanes)


def test_the_cpu_runs_its_steps_on_the_arena() -> None:
    code = [
        ins(Op.HOST, step=1), ins(Op.DMA, space=Space.DRAM_READ, bytes=4), ins(Op.DWAIT),
        ins(Op.HOST, step=0)]
    dram = np.zeros(4, np.uint8)
    called = []

    def host(step: int) -> None:
        called.append(step)
        dram[step] += 1 + step

    m = machine(*code, dram=4, steps=2)
    counters = m.run(dram, BARE, host=host).counters
    assert (called, dram.tolist(), counters["host_steps"]) == ([1, 0], [1, 2, 0, 0], 2)
    assert m.scratchpad[:4].tolist() == [0, 2, 0, 0]


def test_what_a_step_of_the_cpu_raises_comes_out() -> None:
    def host(step: int) -> None:
        raise BadInput(f"step {step}")

    m = machine(ins(Op.HOST, step=1), ins(Op.HOST, step=0), steps=2)
    with pytest.raises(BadInput, match="step 1"):
        m.run(NO_DRAM, BARE, host=host)


def test_a_step_that_nobody_runs_stops_the_machine() -> None:
    m = machine(ins(Op.NOP), ins(Op.HOST), steps=1)
    with pytest.raises(NpuTrapped, match=r"stopped: BADOP .* at instruction 1: HOST step=0"):
        m.run(NO_DRAM)


def _events(trace: Array) -> list[tuple[Engine, int, int, int]]:
    return [(Engine(e["engine"]), *(int(e[name]) for name in ("start", "end", "step")))
            for e in trace]


def test_a_trace_shows_every_engine() -> None:
    dram = np.zeros(64, np.uint8)
    code = [
        ins(Op.DMA, space=Space.DRAM_READ, bytes=36), *stream(0, 0), ins(Op.DWAIT),
        ins(Op.MARK, step=1), *cfg(REQMODE=1, NPOS=2),
        ins(Op.MACV, weights=0, x=0), ins(Op.REQ), ins(Op.LUT), ins(Op.VMAX),
        ins(Op.MARK, step=0), ins(Op.VMAX)]
    done = machine(*code, dram=64, steps=2).run(dram, BARE, trace=True)
    assert _events(done.trace) == [
        (Engine.DMA, 0, 100, 1), (Engine.STALL_DMA, 2, 99, 1), (Engine.MAC, 102, 108, 0),
        (Engine.REQ, 108, 117, 0), (Engine.LUT, 117, 126, 0), (Engine.VEC, 126, 128, 0),
        (Engine.VEC, 128, 130, NO_STEP)]
    assert not len(machine(*code, dram=64, steps=2).run(dram, BARE).trace)
    fetched = machine(ins(Op.NOP)).run(NO_DRAM, NpuKnobs(launch_cycles=5), trace=True)
    assert _events(fetched.trace) == [
        (Engine.STALL_FETCH, 5, 37, NO_STEP), (Engine.STALL_FETCH, 38, 69, NO_STEP)]


# ---- limits and the bound


def test_a_run_stops_at_the_limit_it_is_given() -> None:
    m = machine(ins(Op.LOOP, count=100, body=1), ins(Op.NOP))
    with pytest.raises(NpuTrapped, match="stopped: LIMIT"):
        m.run(NO_DRAM, replace(BARE, max_instructions=50))
    assert (m.counters()["insns"], m.counters()["cycles"]) == (50, 50)
    assert run(m, replace(BARE, max_instructions=102)).counters["insns"] == 102


@given(st.floats(0, 1), st.integers(0, 1 << 30))
def test_the_bound_is_met_when_nothing_is_zero(zeros: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = Image()
    x = np.ones(640, np.int8)
    x[rng.random(640) < zeros] = 0
    setup = [
        *stream(0, image.place(np.ones((40, 16), np.int8)), (0, 99)),
        *stream(1, image.place(x), (40, 16)), *stream(2, image.room(16), (0, 99))]
    m = image.machine(
        *cfg(COLS=40, ROWLEN=40, REQMODE=1, QMULT=1 << 30, QSHIFT=1), *setup,
        ins(Op.LOOP, count=16, body=4), ins(Op.VLDA, constant=1),
        ins(Op.MACB, weights=0, x=1, steps=40, format=SKIP), ins(Op.REQ, mask=1),
        ins(Op.VST, stream=2, mask=1))
    real = run(m, NpuKnobs()).counters
    bound = run(m, NpuKnobs(bound=True)).counters
    assert bound["cycles"] == run(m, NpuKnobs(bound=True)).counters["cycles"]
    assert real["cycles"] <= bound["cycles"]
    assert cycle_bound(image.config, m.program).counters == bound
    if x.all():
        assert real["cycles"] == bound["cycles"]


def test_an_arena_of_another_size_is_refused() -> None:
    m = machine(ins(Op.NOP), dram=10)
    with pytest.raises(BadInput, match="an arena of 9 bytes; the program needs 10"):
        m.run(np.zeros(9, np.uint8))
