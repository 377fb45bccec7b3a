"""What the verifier refuses, one test a reason; and what only data can stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.errors import BadInput, NpuRefused, NpuTrapped
from edgesparse.npu.isa import (
    M_SHIFT,
    N_SHIFT,
    SKIP,
    TRANSPOSE,
    WIDE_COLUMNS,
    Config,
    Index,
    Op,
    Space,
)
from edgesparse.runtime.npu import BARE, NpuMachine, NpuProgram
from npu_program import END, NO_DRAM, Image, cfg, configuration, ins, stream

NPU = configuration()
ALL = NPU.scratchpad_bytes
BLOBS = (bytes(100),)


def program(*code: bytes, **fields: int) -> NpuProgram:
    made = NpuProgram(b"".join([*code, END]), config=NPU.id, blobs=BLOBS, dram_bytes=100, steps=3)
    return replace(made, **fields)


def refusal(made: NpuProgram) -> tuple[str, int]:
    with pytest.raises(NpuRefused) as caught:
        NpuMachine(NPU, made)
    return caught.value.trap, caught.value.instruction


def accepted(*code: bytes, **fields: int) -> None:
    NpuMachine(NPU, program(*code, **fields))


def dma(external: int = 0, address: int = 0, size: int = 10, *, op: Op = Op.DMA,
        space: int = Space.FLASH_READ, **fields: int) -> bytes:
    return ins(op, space=space, external=external, address=address, bytes=size, **fields)


WAIT = ins(Op.DWAIT)


# ---- the program as a whole


def test_another_configuration_is_refused() -> None:
    assert refusal(program(config=2))[0] == "BADCFG"
    with pytest.raises(NpuRefused, match="BADCFG"):
        NpuMachine(replace(NPU, lanes=12), program())


def test_half_an_instruction_is_refused() -> None:
    with pytest.raises(BadInput, match="17 bytes of commands"):
        NpuMachine(NPU, NpuProgram(bytes(17)))


def test_a_program_must_end() -> None:
    assert refusal(NpuProgram(ins(Op.NOP))) == ("END", 1)
    assert refusal(NpuProgram(b"")) == ("END", 0)
    assert refusal(program(ins(Op.LOOP, count=2, body=1)))[0] == "END"  # only inside a loop
    assert refusal(program(ins(Op.NOP), prologue=1)) == ("END", 1)  # a prologue without
    assert refusal(program(END, ins(Op.NOP), prologue=2)) == ("END", 0)  # with one too early
    assert refusal(program(prologue=1)) == ("END", 1)  # no run behind it
    accepted(END, prologue=1)


def test_transfers_must_be_waited_for_before_the_end() -> None:
    assert refusal(program(dma())) == ("DMAHAZ", 1)
    assert refusal(program(dma(channel=1), WAIT)) == ("DMAHAZ", 2)
    accepted(dma(), WAIT)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    assert refusal(program(prologue=2))[0] == "BADVALUE"
    assert refusal(program(state_bytes=101))[0] == "BADVALUE"


def test_what_never_runs_is_looked_at_too() -> None:
    assert refusal(program(END, bytes([200] + 15 * [0]))) == ("BADOP", 1)


# ---- fields and registers


@pytest.mark.parametrize("code", [
    ins(Op.VLDA, acc=8, constant=1), ins(Op.VMAX, v=8), ins(Op.VMAX, y=8), ins(Op.LUT, v=9),
    ins(Op.MAND, mask=1, x=9, y=1), ins(Op.SET, stream=16), ins(Op.SET, ring=33),
    ins(Op.DWAIT, channel=8), ins(Op.CFG, register=len(Config)), ins(Op.MSK, mask=0),
    ins(Op.MAND, mask=1, x=1), ins(Op.VSTC)])
def test_a_register_that_is_not_there_is_refused(code: bytes) -> None:
    assert refusal(program(code)) == ("BADREG", 0)


@pytest.mark.parametrize("code", [
    ins(Op.VLDA, acc=7, constant=1), ins(Op.VMAX, v=7), ins(Op.ACCV, v=7),
    ins(Op.MSK, mask=8), ins(Op.REQ, mask=8)])
def test_registers_of_all_positions_must_be_there(code: bytes) -> None:
    assert refusal(program(*cfg(REQMODE=1, NPOS=2), code)) == ("BADREG", 2)
    accepted(*cfg(REQMODE=1, NPOS=1), code)


@pytest.mark.parametrize(("number", "stream_field"), [(Op.MACB, "index"), (Op.REQ, "shift")])
def test_streams_named_in_words_must_be_there(number: Op, stream_field: str) -> None:
    formats = {"format": Index.COLUMNS8} if number is Op.MACB else {}
    code = ins(number, **{stream_field: 16}, **formats)
    assert refusal(program(*stream(0, 0), code))[0] == "BADREG"


@pytest.mark.parametrize(("name", "least", "most"), [
    ("VL", 1, 16), ("NPOS", 1, 8), ("INZP", -128, 127), ("OUTZP", -128, 127),
    ("QMIN", -128, 127), ("QMAX", -128, 127), ("REQMODE", 0, 3), ("QMULT", 0, 2**31 - 1),
    ("QSHIFT", -31, 30), ("COLS", 1, 65536), ("ROWLEN", 1, 65536), ("DROWS", 1, 1 << 24),
    ("A_ZP", -128, 127), ("A_MULT", -(2**31) + 1, 2**31 - 1), ("A_SHIFT", -31, 0),
    ("B_ZP", -128, 127), ("B_MULT", -(2**31) + 1, 2**31 - 1), ("B_SHIFT", -31, 0),
    ("O_ZP", -128, 127), ("O_MULT", 0, 2**31 - 1), ("O_SHIFT", -31, 15), ("LSHIFT", 0, 20)])
def test_configuration_registers_have_ranges(name: str, least: int, most: int) -> None:
    accepted(*cfg(**{name: least}), *cfg(**{name: most}))
    for value in (least - 1, most + 1):
        assert refusal(program(*cfg(**{name: value}))) == ("BADVALUE", 0)


def n_of_m(n: int, m: int) -> int:
    return Index.N_OF_M | n << N_SHIFT | m << M_SHIFT


@pytest.mark.parametrize("code", [
    ins(Op.STRD, count=0), ins(Op.FILL, length=0), ins(Op.FILL, length=1, value=256),
    ins(Op.VLDA, constant=2), ins(Op.VLDA, constant=1, stream=1), ins(Op.HOST, step=3),
    ins(Op.MARK, step=3), ins(Op.AVGR, count=0), ins(Op.AVGR, count=1 << 31),
    ins(Op.MACV, flags=1), ins(Op.MACB, steps=15), ins(Op.MACB, steps=16, index=1),
    ins(Op.MACB, format=5), ins(Op.MACB, format=Index.COLUMNS8, steps=17),
    ins(Op.MACB, format=Index.COLUMNS8 | 1 << 9), ins(Op.MACB, format=Index.COLUMNS8 | 1 << 16),
    ins(Op.MACB, format=n_of_m(2, 3), steps=8), ins(Op.MACB, format=n_of_m(4, 4), steps=16),
    ins(Op.MACB, format=n_of_m(0, 4)), ins(Op.MACB, format=n_of_m(2, 4), steps=7),
    ins(Op.MACW, steps=17), ins(Op.MACW, format=1), ins(Op.MACG, format=2),
    ins(Op.MACG, format=16), ins(Op.MACG, format=1 | SKIP), ins(Op.MACG, format=4, steps=17),
    END[:1] + b"\1" + END[2:]])
def test_values_out_of_range_are_refused(code: bytes) -> None:
    made = program(*stream(0, 0), *stream(1, 0), *cfg(COLS=16), code)
    assert refusal(made) == ("BADVALUE", 3)


def test_m_divides_the_columns() -> None:
    code = [*stream(0, 0), *cfg(COLS=18), ins(Op.MACB, format=n_of_m(1, 4), steps=4)]
    assert refusal(program(*code)) == ("BADVALUE", 2)


@pytest.mark.parametrize("op", [Op.REQ, Op.VADDQ, Op.VMULQ, Op.VCLAMP, Op.AVGR])
def test_a_clamp_that_nothing_passes_is_refused(op: Op) -> None:
    count = {"count": 1} if op is Op.AVGR else {}
    code = ins(op, **count)
    assert refusal(program(*cfg(REQMODE=1, QMIN=5, QMAX=4), code)) == ("BADVALUE", 3)
    accepted(*cfg(REQMODE=1, QMIN=5, QMAX=5), code)


def test_vaddq_does_not_shift_to_the_left() -> None:
    assert refusal(program(*cfg(O_SHIFT=1), ins(Op.VADDQ)))[0] == "BADVALUE"
    accepted(*cfg(O_SHIFT=15), ins(Op.VMULQ))


def test_factors_of_a_tensor_name_no_streams() -> None:
    assert refusal(program(*cfg(REQMODE=1), ins(Op.REQ, shift=1)))[0] == "BADVALUE"


# ---- streams and rings


def test_a_stream_must_be_set() -> None:
    for code in (ins(Op.VLD, stream=3), ins(Op.STRD, stream=3, count=1), ins(Op.MACB, steps=1)):
        assert refusal(program(code)) == ("STREAM", 0)


def test_a_stream_has_four_dimensions() -> None:
    code = stream(0, 0, *[(1, 2)] * 5)
    assert refusal(program(*code)) == ("STREAM", 5)


def test_a_ring_must_be_there() -> None:
    assert refusal(program(ins(Op.SET, ring=1))) == ("STREAM", 0)
    assert refusal(program(ins(Op.RADV, bytes=32))) == ("STREAM", 0)


def test_rings_are_made_in_the_prologue_only() -> None:
    ring = ins(Op.RING, address=0, size=32)
    assert refusal(program(ring)) == ("BADOP", 0)
    accepted(ring, END, prologue=2)


@pytest.mark.parametrize(("code", "trap"), [
    (ins(Op.RING, address=16, size=32), "ALIGN"), (ins(Op.RING, address=0, size=48), "ALIGN"),
    (ins(Op.RING, address=0, size=0), "BADVALUE"),
    (ins(Op.RING, address=ALL - 32, size=64), "OOB"), (ins(Op.HOST), "BADOP"),
    (dma(space=Space.DRAM_READ), "BADVALUE"), (dma(space=Space.DRAM_WRITE), "BADVALUE")])
def test_a_prologue_has_rules_of_its_own(code: bytes, trap: str) -> None:
    assert refusal(program(code, END, prologue=2)) == (trap, 0)


def test_a_ring_turns_by_whole_lines_of_banks() -> None:
    ring = ins(Op.RING, address=0, size=64)
    assert refusal(program(ring, END, ins(Op.RADV, bytes=16), prologue=2)) == ("ALIGN", 2)


@pytest.mark.parametrize("code", [
    [*stream(0, 2), ins(Op.VLDA)], [*stream(0, 0, (2, 2)), ins(Op.VLDA), ins(Op.VLDA)],
    [*stream(0, 0), *stream(1, 1), ins(Op.MACB, index=1, format=Index.COLUMNS16)],
    [*stream(0, 0), *stream(1, 1), ins(Op.MACG, index=1, format=1 | WIDE_COLUMNS)],
    [*stream(0, 0), *stream(1, 1), ins(Op.GATH, index=1)],
    [*stream(0, 0), *stream(1, 1), ins(Op.REQ, multiplier=1)]])
def test_words_stand_aligned(code: list[bytes]) -> None:
    assert refusal(program(*code)) == ("ALIGN", len(code) - 1)


# ---- every byte lies in its memory


@pytest.mark.parametrize(("size", "code"), [
    (16, ins(Op.VLD)), (16, ins(Op.VST)), (18, ins(Op.VSTC, mask=1)), (18, ins(Op.VLDC)),
    (64, ins(Op.VLDA)), (5, ins(Op.GATH, index=1)), (5, ins(Op.SCAT, index=1)),
    (80, ins(Op.MACB, weights=0, x=1, steps=5)), (5, ins(Op.MACB, weights=1, x=0, steps=5)),
    (2, ins(Op.MACB, weights=1, x=1, steps=1, index=0, format=Index.BITMASK)),
    (4, ins(Op.MACB, weights=1, x=1, steps=2, index=0, format=Index.COLUMNS16)),
    (80, ins(Op.MACV, weights=0, x=1)), (20, ins(Op.MACV, weights=1, x=0)),
    (20, ins(Op.MACW, weights=1, x=0, steps=1, index=1)),
    (3, ins(Op.MACW, weights=1, x=1, steps=3, index=0)),
    (3, ins(Op.MACW, weights=0, x=1, steps=3, index=1)),
    (48, ins(Op.MACG, weights=1, x=1, steps=3, index=0, format=1)),
    (24, ins(Op.MACG, weights=1, x=1, steps=3, index=0, format=4 | WIDE_COLUMNS)),
    (64, ins(Op.REQ, multiplier=0, shift=1)), (16, ins(Op.REQ, multiplier=1, shift=0))])
def test_an_access_may_end_where_the_scratchpad_does(size: int, code: bytes) -> None:
    """Bitmasks cover 9 columns in two bytes, other instructions 5."""
    cols = 9 if size == 2 else 5
    setup = [*stream(1, 0), *cfg(COLS=cols, ROWLEN=cols, XSTRIDE=1)]
    aligned = 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1
    accepted(*setup, *stream(0, ALL - size), code)
    assert refusal(program(*setup, *stream(0, ALL - size + aligned), code))[0] == "OOB"


def test_fixed_addresses_lie_in_the_scratchpad() -> None:
    accepted(ins(Op.FILL, address=ALL - 3, length=3), ins(Op.LUT, table=ALL - 256))
    assert refusal(program(ins(Op.FILL, address=ALL - 3, length=4)))[0] == "OOB"
    assert refusal(program(ins(Op.LUT, table=ALL - 255)))[0] == "OOB"


def test_a_stream_that_runs_backwards_stays_above_0() -> None:
    code = [*stream(0, 32, (-16, 5)), ins(Op.LOOP, count=3, body=1), ins(Op.VLD)]
    accepted(*code)
    code[2] = ins(Op.LOOP, count=4, body=1)
    assert refusal(program(*code)) == ("OOB", 3)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(-50, 50), st.integers(-50, 50),
       st.integers(-9, 9), st.integers(1, 8))
def test_columns_are_proved_to_the_byte(
    cols: int, row: int, row_pitch: int, x_stride: int, col_pitch: int, positions: int
) -> None:
    k, p = np.arange(cols), np.arange(positions)[:, None]
    offsets = p * x_stride + k // row * row_pitch + k % row * col_pitch
    setup = [
        *cfg(COLS=cols, ROWLEN=row, ROWPITCH=row_pitch, COLPITCH=col_pitch, XSTRIDE=x_stride,
             NPOS=positions), *stream(1, 0)]
    mac = ins(Op.MACB, weights=1, x=0, steps=cols)
    lowest, highest = -int(offsets.min()), ALL - 1 - int(offsets.max())
    accepted(*setup, *stream(0, lowest), mac, *stream(0, highest), mac)
    assert refusal(program(*setup, *stream(0, highest + 1), mac))[0] == "OOB"
    if lowest > 0:
        assert refusal(program(*setup, *stream(0, lowest - 1), mac))[0] == "OOB"


@pytest.mark.parametrize("code", [
    dma(external=91), dma(external=100, size=1), dma(address=ALL - 9),
    dma(external=91, space=Space.DRAM_READ), dma(external=19, space=Space.DRAM_WRITE)])
def test_transfers_stay_inside(code: bytes) -> None:
    """A blob and an arena of 100 bytes, the first 20 of it state."""
    assert refusal(program(code, WAIT, state_bytes=20)) == ("OOB", 0)


def test_transfers_may_touch_every_byte() -> None:
    accepted(
        dma(90, ALL - 10), WAIT, dma(0, 0, 100, space=Space.DRAM_READ), WAIT,
        dma(20, 0, 80, space=Space.DRAM_WRITE), WAIT, state_bytes=20)


@pytest.mark.parametrize(("pitches", "flags"), [
    ({"DEPITCH": 31}, 0), ({"DSPITCH": ALL // 3}, 0), ({"DSPITCH": -1}, 0),
    ({"DSPITCH": ALL // 8}, TRANSPOSE)])
def test_every_row_of_a_transfer_stays_inside(pitches: dict[str, int], flags: int) -> None:
    code = dma(op=Op.DMA2, space=flags, size=10)
    assert refusal(program(*cfg(DROWS=4, **pitches), code, WAIT))[0] == "OOB"
    accepted(*cfg(DROWS=4, DEPITCH=30, DSPITCH=16), code, WAIT)


def test_a_blob_must_be_there() -> None:
    assert refusal(program(dma(blob=1), WAIT)) == ("BADBLOB", 0)
    assert refusal(program(dma(size=10 | 1 << 24), WAIT)) == ("BADBLOB", 0)


@pytest.mark.parametrize("code", [
    dma(size=0), dma(space=3), dma(space=TRANSPOSE), dma(space=8),
    dma(space=Space.DRAM_READ, blob=1), dma(space=Space.DRAM_READ, size=1 | 1 << 24)])
def test_transfers_of_no_kind_are_refused(code: bytes) -> None:
    assert refusal(program(code, WAIT)) == ("BADVALUE", 0)


# ---- pending transfers


READ = dma(0, 100, 20)
WRITE = dma(0, 100, 20, space=Space.DRAM_WRITE)


@pytest.mark.parametrize("touch", [ins(Op.VLD), ins(Op.VST)])
def test_what_a_transfer_fills_is_left_alone(touch: bytes) -> None:
    for address in (85, 100, 119):
        assert refusal(program(*stream(0, address), READ, touch, WAIT)) == ("DMAHAZ", 2)
        accepted(*stream(0, address), READ, WAIT, touch)
    for address in (84, 120):
        accepted(*stream(0, address), READ, touch, WAIT)


def test_what_a_transfer_reads_may_be_read() -> None:
    accepted(*stream(0, 100), WRITE, ins(Op.VLD), WAIT)
    assert refusal(program(*stream(0, 100), WRITE, ins(Op.VST), WAIT)) == ("DMAHAZ", 2)


def test_gaps_of_strided_accesses_are_free() -> None:
    """Columns at 0, 40, 80 ... and rows at 20, 60, 100 ... do not meet."""
    rows = [*cfg(DROWS=4, DEPITCH=20, DSPITCH=40), dma(0, 20, 20, op=Op.DMA2)]
    for pitch, fine in ((40, True), (50, False)):
        code = [
            *stream(0, 0), *stream(1, 4096), *rows, *cfg(COLS=6, COLPITCH=pitch, ROWLEN=6),
            ins(Op.MACB, weights=1, x=0, steps=6), WAIT]
        if fine:
            accepted(*code)
        else:
            assert refusal(program(*code))[0] == "DMAHAZ"


@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([Op.MACB, Op.MACV, Op.MACW]))
def test_hazards_are_found_to_the_byte(seed: int, transposed: bool, mac: Op) -> None:
    """Rows of a transfer against columns of a MAC: refused if, and only if, they share a byte."""
    rng = np.random.default_rng(seed)
    rows, size = int(rng.integers(1, 7)), int(rng.integers(1, 9))
    cols, row, positions, vl = (int(n) for n in rng.integers(1, (12, 5, 4, 6)))
    pitch, row_pitch, col_pitch, x_stride = (int(n) for n in rng.integers(-40, 41, 4))
    start, x = (int(n) for n in rng.integers(1000, 1100, 2))
    r, j = np.indices((rows, size))
    filled = start + (j * pitch + r if transposed else r * pitch + j)
    k, p, lane = np.ogrid[:cols, :positions, :vl]
    column = x + k // row * row_pitch + k % row * col_pitch
    read = {
        Op.MACB: column + p * x_stride + 0 * lane, Op.MACV: column + p * x_stride + lane,
        Op.MACW: column + (p * vl + lane) * x_stride}[mac]
    code = [
        *cfg(DROWS=rows, DSPITCH=pitch, COLS=cols, ROWLEN=row, ROWPITCH=row_pitch,
             COLPITCH=col_pitch, XSTRIDE=x_stride, NPOS=positions, VL=vl),
        dma(0, start, size, op=Op.DMA2, space=TRANSPOSE * transposed),
        *stream(0, 30000), *stream(1, x),
        ins(mac, weights=0, x=1, **({} if mac is Op.MACV else {"steps": cols * (mac is Op.MACB)})),
        WAIT]
    if np.intersect1d(filled, read).size:
        assert refusal(program(*code)) == ("DMAHAZ", len(code) - 2)
    else:
        accepted(*code)


def test_transfers_do_not_overlap() -> None:
    assert refusal(program(READ, dma(0, 119, 5, channel=1), WAIT)) == ("DMAHAZ", 1)
    assert refusal(program(READ, dma(0, 119, 5, space=2), WAIT)) == ("DMAHAZ", 1)
    assert refusal(program(WRITE, dma(19, 300, 5, space=1), WAIT)) == ("DMAHAZ", 1)
    assert refusal(program(WRITE, dma(19, 300, 5, space=2), WAIT)) == ("DMAHAZ", 1)
    accepted(WRITE, dma(20, 300, 5, space=2), dma(19, 400, 9), WAIT)
    both = dma(0, 300, 20, space=Space.DRAM_READ)
    accepted(both, dma(0, 340, 20, space=Space.DRAM_READ), WAIT)


def test_a_ring_is_touched_as_a_whole() -> None:
    """Its head stands elsewhere in the next run."""
    code = [
        ins(Op.RING, address=96, size=64), END, *stream(0, 32, ring=0), READ, ins(Op.VLD), WAIT]
    assert refusal(program(*code, prologue=2)) == ("DMAHAZ", 4)


def test_the_cpu_finds_nothing_pending() -> None:
    assert refusal(program(READ, ins(Op.HOST), WAIT)) == ("DMAHAZ", 1)


def test_a_wait_is_for_its_channel() -> None:
    code = [*stream(0, 100), dma(0, 100, 20, channel=2), ins(Op.DWAIT, channel=1), ins(Op.VLD)]
    assert refusal(program(*code)) == ("DMAHAZ", 3)


def test_so_many_transfers_may_be_pending() -> None:
    many = [dma(0, 32 * i, 8) for i in range(65)]
    assert refusal(program(*many, WAIT)) == ("LIMIT", 64)
    accepted(*many[:64], WAIT)


# ---- loops and the length of a run


@pytest.mark.parametrize("code", [
    [ins(Op.LOOP, count=2, body=0)], [ins(Op.LOOP, count=0, body=9)],
    [ins(Op.LOOP, count=2, body=65), *[ins(Op.NOP)] * 65],
    [ins(Op.LOOP, count=2, body=1), ins(Op.LOOP, count=2, body=1), ins(Op.NOP)]])
def test_a_loop_is_short_and_complete(code: list[bytes]) -> None:
    assert refusal(program(*code))[0] == "LOOP"


def test_loops_nest_four_deep() -> None:
    nest = [ins(Op.LOOP, count=2, body=n) for n in range(5, 0, -1)]
    assert refusal(program(*nest, ins(Op.NOP))) == ("LOOP", 4)
    made = NpuMachine(NPU, program(*nest[1:], ins(Op.NOP)))
    assert made.traffic.instructions == 1 + 2 + 4 + 8 + 16 + 1


def test_a_run_that_is_too_long_is_refused() -> None:
    body = [ins(Op.LOOP, count=1 << 12, body=2), ins(Op.LOOP, count=1 << 12, body=1), ins(Op.NOP)]
    assert refusal(program(*body))[0] == "LIMIT"


def test_hazards_that_take_too_long_to_disprove_are_refused() -> None:
    """Even columns against odd rows, over and over."""
    rows = [
        *cfg(DROWS=8000, DEPITCH=0, DSPITCH=2), dma(0, 1, 1, op=Op.DMA2),
        *cfg(COLS=4000, COLPITCH=4, ROWLEN=4000, VL=1)]
    code = [
        *rows, *stream(0, 0), *stream(1, 0), *cfg(NPOS=8, XSTRIDE=2),
        ins(Op.LOOP, count=99, body=1), ins(Op.MACW, weights=1, x=0, steps=0, index=1), WAIT]
    assert refusal(program(*code))[0] == "LIMIT"


# ---- data


def stops(image: Image, *code: bytes) -> tuple[str, int, str]:
    machine = image.machine(*code)
    with pytest.raises(NpuTrapped) as caught:
        machine.run(NO_DRAM, BARE)
    return caught.value.trap, caught.value.info, str(caught.value)


@pytest.mark.parametrize(("format_field", "index", "steps", "info"), [
    (Index.COLUMNS8, [0, 5], 2, 5), (Index.COLUMNS16, [4, 0, 0, 1], 2, 256),
    (Index.BITMASK, [0b111], 2, 2), (Index.BITMASK, [0b100001], 2, 2)])
def test_a_wrong_column_stops_macb(
    format_field: int, index: list[int], steps: int, info: int
) -> None:
    image = Image()
    setup = [*stream(0, image.place(np.array(index, np.uint8))), *stream(1, image.room(100))]
    trap, what, text = stops(
        image, *cfg(COLS=5, ROWLEN=5), *setup,
        ins(Op.MACB, weights=1, x=1, steps=steps, index=0, format=format_field))
    assert (trap, what) == ("FMT", info)
    assert "MACB acc=a0 weights=s1 x=s1 steps=2" in text


@pytest.mark.parametrize("code", [
    ins(Op.MACW, weights=1, x=1, steps=3, index=0),
    ins(Op.MACG, weights=1, x=1, steps=1, index=0, format=4),
    ins(Op.GATH, x=1, index=0), ins(Op.SCAT, x=1, index=0)])
def test_a_wrong_column_stops_the_others(code: bytes) -> None:
    """Deltas 1, 0, 3 reach column 6 of 5; numbers 6 are none at once."""
    image = Image()
    index = [1, 0, 3, 0] if code[0] == Op.MACW else [6, 0] * 20
    setup = [*stream(0, image.place(np.array(index, np.uint8))), *stream(1, image.room(100))]
    trap, info, _ = stops(image, *cfg(COLS=5, ROWLEN=5), *setup, code)
    assert (trap, info) == ("FMT", 6)


@pytest.mark.parametrize(("multiplier", "shift"), [(-1, 0), (1, 31), (1, -32)])
def test_a_wrong_factor_stops_req(multiplier: int, shift: int) -> None:
    image = Image()
    factors, shifts = np.ones(16, np.int32), np.zeros(16, np.int8)
    factors[9], shifts[9] = multiplier, shift
    trap, lane, _ = stops(
        image, *stream(0, image.place(factors)), *stream(1, image.place(shifts)),
        ins(Op.REQ, multiplier=0, shift=1))
    assert (trap, lane) == ("FMT", 9)
