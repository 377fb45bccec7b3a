"""Vectors, masks, the requantizer and the table unit against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.graph.ir import Array
from edgesparse.npu.isa import PER_TENSOR, SINGLE_ROUNDING, Op
from edgesparse.plan import model as pm
from edgesparse.plan.arithmetic import apply
from edgesparse.quantize.fixedpoint import Rounding, divide_half_away, requantize
from edgesparse.runtime.npu import BARE
from npu_program import Image, cfg, configuration, ins, run, stream

TARGETS = st.sampled_from(["esn-s", "esn-m"])
SEEDS = st.integers(0, 1 << 30)
LANES = {"esn-s": 16, "esn-m": 32}
BOUND = replace(BARE, bound=True)


def some_bytes(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def load_vectors(image: Image, values: Array, first: int = 0) -> list[bytes]:
    """values [positions, vl] into vectors from `first` on, NPOS and VL being theirs."""
    address = image.place(values)
    return [
        *stream(15, address, (values.shape[1], len(values))), ins(Op.VLD, v=first, stream=15)]


def rounding_of(single: bool) -> Rounding:
    return Rounding.SINGLE if single else Rounding.DOUBLE


@given(TARGETS, SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_req_is_the_requantization_of_plans(
    target: str, seed: int, single: bool, per_tensor: bool, masked: bool
) -> None:
    rng = np.random.default_rng(seed)
    image = Image(configuration(target))
    vl, positions = int(rng.integers(1, LANES[target] + 1)), int(rng.integers(1, 9))
    # |acc << shift| < 2^31: what plans prove (I-43)
    count = 1 if per_tensor else vl
    multiplier = rng.integers(0, 1 << 31, count).astype(np.int32)
    shift = rng.integers(-31, 4, count).astype(np.int8)
    bias = rng.integers(-(1 << 26), 1 << 26, vl).astype(np.int32)
    zero = int(rng.integers(-128, 128))
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2))
    code = [
        *cfg(VL=vl, NPOS=positions, OUTZP=zero, QMIN=low, QMAX=high,
             REQMODE=PER_TENSOR * per_tensor | SINGLE_ROUNDING * single),
        *stream(0, image.place(bias)), ins(Op.VLDA, stream=0)]
    if per_tensor:
        code += cfg(QMULT=int(multiplier[0]), QSHIFT=int(shift[0]))
    else:
        code += [*stream(1, image.place(multiplier)), *stream(2, image.place(shift))]
    names = {} if per_tensor else {"multiplier": 1, "shift": 2}
    machine = image.machine(*code, ins(Op.REQ, mask=1 if masked else 0, **names))
    counters = run(machine).counters
    expected = requantize(
        bias, (multiplier, shift), zero, (low, high), rounding_of(single))
    np.testing.assert_array_equal(machine.vectors[:positions, :vl], [expected] * positions)
    bits = sum(1 << i for i in range(vl) if expected[i] != zero)
    assert machine.masks[:positions].tolist() == [bits if masked else 0] * positions
    assert counters["req_cyc"] == 1 + positions * -(-vl // image.config.requant_rate)


@pytest.mark.parametrize("mode", [PER_TENSOR, PER_TENSOR | SINGLE_ROUNDING])
def test_req_wraps_where_no_plan_goes(mode: int) -> None:
    machine = Image().machine(
        *cfg(ACCINIT=-(1 << 31), REQMODE=mode, QMULT=(1 << 31) - 1, QSHIFT=30, OUTZP=-128),
        ins(Op.VLDA, constant=1), ins(Op.REQ))
    run(machine)
    assert set(machine.vectors[0, :16]) <= {-128, 127}


def scaled(zero_point: int, multiplier: int, shift: int) -> pm.Scaled:
    return pm.Scaled(zero_point=zero_point, multiplier=abs(multiplier), shift=shift)


SCALED = st.tuples(
    st.integers(-128, 127), st.integers(-(2**31) + 1, 2**31 - 1), st.integers(-31, 0))


@given(TARGETS, SEEDS, SCALED, SCALED, st.booleans())
def test_vaddq_is_stage_add(
    target: str, seed: int, a: tuple[int, int, int], b: tuple[int, int, int], single: bool
) -> None:
    rng = np.random.default_rng(seed)
    left = int(rng.integers(0, 21))
    out = (int(rng.integers(-128, 128)), int(rng.integers(0, 1 << 31)), int(rng.integers(-31, 1)))
    stage = pm.Add(
        operand=0, left_shift=left, value=scaled(*a), other=scaled(*b),
        out=scaled(*out),
        negate_value=a[1] < 0, negate_other=b[1] < 0, qmin=-100, qmax=90,
        rounding=rounding_of(single))
    registers = cfg(
        LSHIFT=left, A_ZP=a[0], A_MULT=a[1], A_SHIFT=a[2], B_ZP=b[0], B_MULT=b[1], B_SHIFT=b[2],
        O_ZP=out[0], O_MULT=out[1], O_SHIFT=out[2], QMIN=-100, QMAX=90,
        REQMODE=SINGLE_ROUNDING if single else 0)
    two_operands(target, rng, registers, stage, Op.VADDQ)


@given(TARGETS, SEEDS, st.integers(-31, 15), st.booleans())
def test_vmulq_is_stage_mul(target: str, seed: int, shift: int, single: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b, zero = (int(v) for v in rng.integers(-128, 128, 3))
    multiplier = int(rng.integers(0, 1 << 31))
    stage = pm.Mul(
        operand=0, value_zero_point=a, other_zero_point=b,
        out=scaled(zero, multiplier, shift), qmin=-128, qmax=127,
        rounding=rounding_of(single))
    registers = cfg(
        A_ZP=a, B_ZP=b, O_ZP=zero, O_MULT=multiplier, O_SHIFT=shift,
        REQMODE=SINGLE_ROUNDING if single else 0)
    two_operands(target, rng, registers, stage, Op.VMULQ)


def no_past(*of: object) -> Array:
    raise AssertionError(f"neither Add nor Mul remembers anything: {of}")


def two_operands(
    target: str, rng: np.random.Generator, registers: list[bytes], stage: pm.Add | pm.Mul, op: Op
) -> None:
    image = Image(configuration(target))
    vl, positions = int(rng.integers(1, LANES[target] + 1)), int(rng.integers(1, 3))
    x, y = some_bytes(rng, positions, vl), some_bytes(rng, positions, vl)
    machine = image.machine(
        *cfg(VL=vl, NPOS=positions), *load_vectors(image, x), *load_vectors(image, y, 2),
        *registers, ins(op, v=4, x=0, y=2))
    counters = run(machine).counters
    expected = apply(stage, x.astype(np.int64), lambda _: y, no_past)
    np.testing.assert_array_equal(machine.vectors[4 : 4 + positions, :vl], expected)
    assert counters["req_cyc"] == 1 + 3 * positions * -(-vl // image.config.requant_rate)


@given(TARGETS, SEEDS)
def test_lanes_are_looked_up_compared_clamped_and_summed(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = Image(configuration(target))
    vl, positions = int(rng.integers(1, LANES[target] + 1)), int(rng.integers(1, 3))
    x, y = some_bytes(rng, positions, vl), some_bytes(rng, positions, vl)
    table = some_bytes(rng, 256)
    count = int(rng.integers(1, 200))
    machine = image.machine(
        *cfg(VL=vl, NPOS=positions, QMIN=-50, QMAX=60), *load_vectors(image, x),
        *load_vectors(image, y, 2),
        ins(Op.VMAX, v=4, x=0, y=2), ins(Op.VCLAMP, v=6, x=0),
        *(ins(Op.ACCV, acc=3, v=v) for v in (0, 0, 2)),
        ins(Op.LUT, v=0, **{"from": 0}, table=image.place(table)),
        ins(Op.AVGR, v=2, acc=3, count=count))
    counters = run(machine).counters
    total = 2 * x.astype(np.int64) + y
    vectors = machine.vectors.reshape(-1, 2, 32)[:, :positions, :vl]
    np.testing.assert_array_equal(vectors[2], np.maximum(x, y))
    np.testing.assert_array_equal(vectors[3], np.clip(x, -50, 60))
    np.testing.assert_array_equal(vectors[0], table[x.astype(np.int64) + 128])
    np.testing.assert_array_equal(
        machine.accumulators[3 : 3 + positions, :vl].view(np.int32), total)
    np.testing.assert_array_equal(
        vectors[1], np.clip(divide_half_away(total, np.int64(count)), -50, 60))
    assert not machine.vectors[:, vl:].any()
    assert counters["lut_cyc"] == 1 + positions * -(-vl // image.config.table_rate)
    assert counters["vec_cyc"] == 7 * positions  # 2 VLD, VMAX, VCLAMP, 3 ACCV


@given(TARGETS, SEEDS, st.booleans())
def test_packed_vectors_come_back(target: str, seed: int, ring: bool) -> None:
    """MSK, VSTC and VLDC; in a ring the bytes wrap one by one."""
    rng = np.random.default_rng(seed)
    image = Image(configuration(target))
    lanes = LANES[target]
    vl, positions, zero = int(rng.integers(1, lanes + 1)), int(rng.integers(1, 5)), -7
    x = some_bytes(rng, positions, vl)
    x[rng.random(x.shape) < 0.5] = zero
    pitch = lanes // 8 + vl
    unit = image.config.banks * 4
    room = -(-positions * pitch // unit) * unit
    number = image.place_ring(np.zeros(room, np.uint8))
    first = int.from_bytes(image.rings[0][4:8], "little")
    start = int(rng.integers(0, room)) if ring else first
    at = stream(3, start, (pitch, positions), ring=number if ring else None)
    machine = image.machine(
        *cfg(VL=vl, NPOS=positions, INZP=zero), *load_vectors(image, x),
        ins(Op.MSK, mask=2, v=0), *at, ins(Op.VSTC, v=0, stream=3, mask=2), *at,
        ins(Op.VLDC, v=4, stream=3))
    counters = run(machine).counters
    np.testing.assert_array_equal(machine.vectors[4 : 4 + positions, :vl], x)
    stored = machine.scratchpad[first : first + room].view(np.int8)
    for p, row in enumerate(x):
        bits = np.packbits(row != zero, bitorder="little").view(np.int8)
        packed = np.concatenate([np.pad(bits, (0, lanes // 8 - len(bits))), row[row != zero]])
        where = (start - (0 if ring else first) + p * pitch + np.arange(len(packed))) % room
        np.testing.assert_array_equal(stored[where], packed)
    used = int((x != zero).sum()) + positions * lanes // 8
    assert counters["sram_wr_bytes"] == used
    assert counters["vec_cyc"] == positions * (1 + 1 + 1 + 2)  # VLD, MSK, VSTC, VLDC


def test_every_byte_of_an_access_wraps() -> None:
    """A vector from every byte of a ring of 64, to a ring that is as long as all of them."""
    image = Image()
    content = np.arange(1, 65, dtype=np.int8)
    target, source = image.place_ring(np.zeros(1024, np.int8)), image.place_ring(content)
    machine = image.machine(
        *stream(0, 0, (1, 64), ring=source), *stream(1, 1009, (16, 64), ring=target),
        ins(Op.LOOP, count=64, body=2), ins(Op.VLD, stream=0), ins(Op.VST, stream=1))
    run(machine)
    read = content[(np.arange(64)[:, None] + np.arange(16)) % 64].reshape(-1)
    np.testing.assert_array_equal(machine.scratchpad[:1024], np.roll(read, 1009))
    np.testing.assert_array_equal(machine.scratchpad[1024:1088], content)


@given(TARGETS, SEEDS)
def test_a_masked_store_leaves_other_lanes(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = Image(configuration(target))
    vl, positions = int(rng.integers(1, LANES[target] + 1)), int(rng.integers(1, 5))
    a, b = (some_bytes(rng, positions, vl) * (rng.random((positions, vl)) < 0.4) for _ in "ab")
    old = some_bytes(rng, positions, vl)
    out = image.place(old)
    machine = image.machine(
        *cfg(VL=vl, NPOS=positions), *load_vectors(image, a.astype(np.int8)),
        ins(Op.MSK, mask=1, v=0), *load_vectors(image, b.astype(np.int8), 4),
        ins(Op.MSK, mask=5, v=4), ins(Op.MAND, mask=1, x=1, y=5),
        *stream(0, out, (vl, positions)), ins(Op.VST, v=0, stream=0, mask=1))
    counters = run(machine).counters
    both = (a != 0) & (b != 0)
    stored = machine.scratchpad[out : out + old.size].view(np.int8).reshape(old.shape)
    np.testing.assert_array_equal(stored, np.where(both, a, old))
    skipped = int((~both.any(axis=1)).sum())
    assert counters["vec_store_skipped"] == skipped
    assert counters["sram_wr_bytes"] == both.sum()
    assert counters["vec_cyc"] == 5 * positions + positions - skipped
    bound = run(machine, BOUND).counters
    assert (bound["vec_cyc"], bound["vec_store_skipped"]) == (6 * positions, 0)


@given(TARGETS, SEEDS)
def test_bytes_are_gathered_and_scattered(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = Image(configuration(target))
    vl, cols = int(rng.integers(1, LANES[target] + 1)), int(rng.integers(40, 400))
    x = some_bytes(rng, cols)
    source, target_at = image.place(x), image.room(cols)
    picked = rng.integers(0, cols, vl).astype(np.uint16)
    put = rng.permutation(cols)[:vl].astype(np.uint16)
    machine = image.machine(
        *cfg(VL=vl, COLS=cols), *stream(0, source), *stream(1, target_at),
        *stream(2, image.place(picked)), *stream(3, image.place(put)),
        ins(Op.GATH, v=1, x=0, index=2), ins(Op.SCAT, v=1, x=1, index=3))
    counters = run(machine).counters
    expected = np.zeros(cols, np.int8)
    expected[put] = x[picked]
    np.testing.assert_array_equal(machine.vectors[1, :vl], x[picked])
    np.testing.assert_array_equal(
        machine.scratchpad[target_at : target_at + cols].view(np.int8), expected)
    banks = image.config.banks
    slots = sum(
        int(np.bincount(np.unique((at + index.astype(np.int64)) // 4) % banks).max())
        for at, index in ((source, picked), (target_at, put)))
    assert counters["vec_cyc"] == 2 + slots


def test_fill_and_bias_take_all_banks() -> None:
    image = Image()
    at = image.room(100)
    bias = np.arange(16, dtype=np.int32) << 24
    machine = image.machine(
        ins(Op.FILL, address=at + 1, length=65, value=0x80), *stream(0, image.place(bias)),
        *cfg(NPOS=8), ins(Op.VLDA, stream=0))
    counters = run(machine).counters
    assert (machine.scratchpad[at + 1 : at + 66] == 0x80).all()
    assert machine.scratchpad[at] == machine.scratchpad[at + 66] == 0
    np.testing.assert_array_equal(
        machine.accumulators[:, :16], np.broadcast_to(bias, (8, 16)))
    assert counters["vec_cyc"] == 1 + 3 + 1 + 2


def test_registers_are_as_new_in_every_run() -> None:
    image = Image()
    at = image.room(16)
    machine = image.machine(
        *stream(0, at), ins(Op.VST, v=3, stream=0), *cfg(ACCINIT=5, REQMODE=1, QMULT=1 << 30),
        ins(Op.VLDA, constant=1), *cfg(QSHIFT=1), ins(Op.REQ, v=3, mask=1))
    for _ in range(2):
        run(machine)
        assert not machine.scratchpad[at : at + 16].any()
        assert (machine.vectors[3, :16] == 5).all()


def test_a_ring_turns_from_run_to_run_and_reset_turns_it_back() -> None:
    image = Image()
    number = image.place_ring(np.zeros(64, np.uint8))
    code = [
        *stream(0, 0, ring=number), *cfg(ACCINIT=1, REQMODE=1, QMULT=1 << 30, QSHIFT=1),
        ins(Op.VLDA, constant=1), ins(Op.REQ), ins(Op.VST, stream=0),
        ins(Op.RADV, ring=number, bytes=32)]
    machine = image.machine(*code)
    run(machine)
    assert machine.scratchpad[:64].tolist() == [1] * 16 + [0] * 48
    run(machine)
    assert machine.scratchpad[:64].tolist() == ([1] * 16 + [0] * 16) * 2
    machine.reset()
    assert not machine.scratchpad[:64].any()
    run(machine)
    assert machine.scratchpad[:64].tolist() == [1] * 16 + [0] * 48
