"""The four MAC instructions against sums in NumPy, and what they count."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.graph.ir import Array
from edgesparse.npu.isa import M_SHIFT, N_SHIFT, SKIP, WIDE_COLUMNS, Index, Op
from edgesparse.runtime.npu import BARE, Counters
from npu_program import Image, cfg, configuration, ins, run, stream

WEIGHTS, INDEX, X = 0, 1, 2
BOUND = replace(BARE, bound=True)


@dataclass(frozen=True)
class Window:
    """A MAC's registers, and the x it reads.

    offsets  [positions, lanes of x, COLS] bytes from the stream's address
    """

    target: str
    vl: int
    positions: int
    cols: int
    row: int
    row_pitch: int
    col_pitch: int
    x_stride: int
    zero_point: int
    ring: bool
    zeros: float
    seed: int

    @property
    def lanes(self) -> int:
        return configuration(self.target).lanes

    def offsets(self, lane_step: int, per_lane: bool) -> Array:
        lanes = np.arange(self.vl if per_lane else 1)
        k = np.arange(self.cols)
        column = k // self.row * self.row_pitch + k % self.row * self.col_pitch
        first = np.arange(self.positions)[:, None]
        if lane_step:
            first = first * self.vl + lanes
            at = first * self.x_stride
        else:
            at = first * self.x_stride + lanes
        return at[:, :, None] + column

    def registers(self) -> list[bytes]:
        return cfg(
            VL=self.vl, NPOS=self.positions, INZP=self.zero_point, COLS=self.cols,
            ROWLEN=self.row, ROWPITCH=self.row_pitch, COLPITCH=self.col_pitch,
            XSTRIDE=self.x_stride)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    target = draw(st.sampled_from(["esn-s", "esn-m"]))
    lanes = configuration(target).lanes
    cols = draw(st.integers(1, 70))
    return Window(
        target, draw(st.sampled_from([lanes, lanes, lanes - 1, 5, 1])),
        draw(st.integers(1, 8)), cols, draw(st.sampled_from([cols, 3, 1, 64])),
        draw(st.integers(-40, 40)), draw(st.sampled_from([1, 1, 2, -1, 7, 0])),
        draw(st.sampled_from([0, 1, 3, 16, -5])), draw(st.sampled_from([-128, 0, 127, 5])),
        draw(st.booleans()), draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        draw(st.integers(0, 1 << 30)))


@dataclass
class Bench:
    """An image with x in it.

    x  [positions, lanes of x, COLS] int64, zero point taken off: what the instruction sees
    """

    window: Window
    image: Image
    rng: np.random.Generator
    x: Array
    setup: list[bytes]

    @classmethod
    def of(cls, window: Window, lane_step: bool = False, per_lane: bool = False) -> Bench:
        image = Image(configuration(window.target))
        rng = np.random.default_rng(window.seed)
        offsets = window.offsets(lane_step, per_lane)
        low, size = int(offsets.min()), int(np.ptp(offsets)) + 1
        unit = image.config.banks * 4
        if window.ring:
            size = max(unit, size // 2 // unit * unit)  # so that most windows wrap
        content = rng.integers(-128, 128, size).astype(np.int8)
        content[rng.random(size) < window.zeros] = window.zero_point
        if window.ring:
            number, head = image.place_ring(content), int(rng.integers(0, 9)) * unit
            start = int(rng.integers(0, size))
            setup = [
                ins(Op.RADV, ring=number, bytes=head),
                *stream(X, start, ring=number)]
            seen = content[(head + start + offsets) % size]
        else:
            setup = stream(X, image.place(content) - low)
            seen = content[offsets - low]
        return cls(window, image, rng, seen.astype(np.int64) - window.zero_point, setup)

    def weights(self, rows: int, lanes: int, density: float = 1.0) -> Array:
        """[rows, lanes] int8, in the scratchpad behind stream WEIGHTS."""
        w = self.rng.integers(-128, 128, (rows, lanes)).astype(np.int8)
        w[self.rng.random(w.shape) >= density] = 0
        self.place(WEIGHTS, w)
        return w

    def place(self, number: int, data: Array) -> None:
        self.setup += stream(number, self.image.place(data))

    def sums(self, mac: bytes, expected: Array) -> Counters:
        """Run VLDA and the MAC; the sums are `expected` [positions, vl] more than before.

        The bound run gives the same sums and is never faster.
        """
        window, start = self.window, int(self.rng.integers(-(1 << 31), 1 << 31))
        machine = self.image.machine(
            *window.registers(), *cfg(ACCINIT=start), *self.setup,
            ins(Op.VLDA, constant=1), mac)
        first = run(machine).counters
        wanted = ((start + expected) & 0xFFFFFFFF).astype(np.uint32)
        got = machine.accumulators[: window.positions, : window.vl]
        np.testing.assert_array_equal(got, wanted)
        assert not machine.accumulators[:, window.vl :].any()
        machine.reset()
        bound = run(machine, BOUND).counters
        assert bound["cycles"] >= first["cycles"]
        assert bound["mac_skip_a"] == bound["mac_gated"] == 0
        dense = window.cols * window.vl * window.positions
        for counters in (first, bound):
            assert dense == sum(
                counters[name] for name in ("mac_issued", "mac_skip_w", "mac_skip_a"))
        return first


def _bits(flags: Array) -> Array:
    return np.packbits(flags, bitorder="little")


def _some_columns(bench: Bench, kind: Index) -> tuple[Array, Array | None, int]:
    """Columns of the stored steps, the index, and the format field."""
    cols, rng = bench.window.cols, bench.rng
    if kind == Index.DENSE:
        return np.arange(cols), None, kind
    columns = np.flatnonzero(rng.random(cols) < rng.random())
    if kind == Index.BITMASK:
        stored = np.zeros(cols, np.uint8)
        stored[columns] = 1
        return columns, _bits(stored), kind
    if kind == Index.N_OF_M:
        m = int(rng.choice([m for m in (2, 4, 8, 16) if cols % m == 0]))
        n = int(rng.integers(1, m))
        groups = np.stack([
            np.sort(rng.choice(m, n, replace=False)) for _ in range(cols // m)])
        width = m.bit_length() - 1
        bits = groups.reshape(-1)[:, None] >> np.arange(width) & 1
        columns = (groups + np.arange(cols // m)[:, None] * m).reshape(-1)
        return columns, _bits(bits.reshape(-1).astype(np.uint8)), kind | n << N_SHIFT | m << M_SHIFT
    wide = kind == Index.COLUMNS16
    return columns, columns.astype(np.uint16 if wide else np.uint8), kind


@given(windows(), st.sampled_from(list(Index)), st.booleans())
def test_macb_adds_what_it_stores(window: Window, kind: Index, skip: bool) -> None:
    if kind == Index.N_OF_M:
        window = replace(window, cols=window.cols * 2)
    bench = Bench.of(window)
    columns, index, format_field = _some_columns(bench, kind)
    if index is not None:
        bench.place(INDEX, index)
    steps = len(columns)
    w = bench.weights(steps, window.lanes)
    x = bench.x[:, 0, columns]
    counters = bench.sums(
        ins(Op.MACB, weights=WEIGHTS, x=X, steps=steps, index=INDEX if index is not None else 0,
            format=format_field | (SKIP if skip else 0)),
        x @ w[:, : window.vl].astype(np.int64))
    pairs = int((x != 0).sum()) if skip else steps * window.positions
    scan = -(-steps * window.positions // 16) if skip else 0
    decode = -(-window.cols // 32) if kind == Index.BITMASK else 0
    assert counters["mac_cyc"] == 4 + max(pairs, scan, decode) + skip
    assert counters["mac_issued"] == pairs * window.vl
    assert counters["mac_skip_w"] == (window.cols - steps) * window.vl * window.positions
    assert counters["mac_pad"] == pairs * (window.lanes - window.vl)
    assert counters["scan_extra"] == skip + max(0, scan - pairs)
    assert counters["index_cyc"] == max(0, decode - max(pairs, scan))
    assert counters["idx_bytes"] == (0 if index is None else index.nbytes)


@given(windows(), st.booleans())
def test_macv_multiplies_lane_by_lane(window: Window, skip: bool) -> None:
    bench = Bench.of(window, per_lane=True)
    w = bench.weights(window.cols, window.lanes)
    own = w[:, : window.vl].astype(np.int64).T  # [vl, cols]
    counters = bench.sums(
        ins(Op.MACV, weights=WEIGHTS, x=X, flags=SKIP if skip else 0),
        (bench.x * own).sum(axis=2))
    used = (bench.x != 0).any(axis=1)
    pairs = int(used.sum()) if skip else used.size
    assert counters["mac_cyc"] == 4 + pairs
    gated = (bench.x == 0).sum() - (~used).sum() * window.vl if skip else 0
    assert counters["mac_gated"] == gated
    assert counters["mac_skip_a"] == (used.size - pairs) * window.vl


def _fullest(addresses: Array, banks: int) -> int:
    """Distinct words in the fullest bank."""
    numbers = np.unique(addresses // 4)
    return int(np.bincount(numbers % banks).max())


@given(windows())
def test_macw_spreads_lanes_along_time(window: Window) -> None:
    window = replace(window, ring=False)
    bench = Bench.of(window, lane_step=True, per_lane=True)
    columns = np.flatnonzero(bench.rng.random(window.cols) < 0.5)
    deltas = np.diff(columns, prepend=-1) - 1
    bench.place(INDEX, deltas.astype(np.uint8))
    w = bench.weights(len(columns), 1, density=0.8)[:, 0]
    counters = bench.sums(
        ins(Op.MACW, weights=WEIGHTS, x=X, steps=len(columns), index=INDEX),
        bench.x[:, :, columns] @ w.astype(np.int64))
    address = int.from_bytes(bench.setup[0][4:8], "little")
    offsets = window.offsets(True, True) + address
    slots = sum(
        _fullest(offsets[p, :, k], bench.image.config.banks) if weight else 1
        for k, weight in zip(columns, w) for p in range(window.positions))
    assert counters["mac_cyc"] == 4 + slots
    assert counters["gather_conflict_cyc"] == slots - len(columns) * window.positions
    assert counters["mac_issued"] == np.count_nonzero(w) * window.vl * window.positions


@pytest.mark.parametrize("banks", [1, 2, 4])
def test_lanes_side_by_side_take_consecutive_words(banks: int) -> None:
    """Sixteen bytes are four words, or five."""
    image = Image(replace(configuration(), banks=banks))
    x = image.room(64)
    for offset in range(4):
        setup = [
            *stream(WEIGHTS, image.place(np.ones(1, np.int8))), *stream(INDEX, image.room(1)),
            *stream(X, x + offset)]
        machine = image.machine(
            *cfg(XSTRIDE=1), *setup, ins(Op.MACW, weights=WEIGHTS, x=X, steps=1, index=INDEX))
        slots = _fullest(x + offset + np.arange(16), banks)
        assert run(machine).counters["mac_cyc"] == 4 + slots


@given(windows(), st.sampled_from([1, 4]), st.booleans())
def test_macg_gathers_a_column_for_each_group(window: Window, group: int, wide: bool) -> None:
    bench = Bench.of(window)
    groups = window.lanes // group
    steps = int(bench.rng.integers(0, window.cols + 1))
    columns = bench.rng.integers(0, window.cols, (steps, groups))
    bench.place(INDEX, columns.astype(np.uint16 if wide else np.uint8))
    w = bench.weights(steps, window.lanes, density=0.7)
    of_lane = np.repeat(columns, group, axis=1)[:, : window.vl]
    x = bench.x[:, 0][:, of_lane]  # [positions, steps, vl]
    counters = bench.sums(
        ins(Op.MACG, weights=WEIGHTS, x=X, steps=steps, index=INDEX,
            format=group | (WIDE_COLUMNS if wide else 0)),
        (x * w[:, : window.vl]).sum(axis=1))
    used = w.reshape(steps, groups, group).any(axis=2).repeat(group, axis=1)[:, : window.vl]
    assert counters["mac_issued"] == used.sum() * window.positions
    assert counters["mac_cyc"] == (
        4 + steps * window.positions + counters["gather_conflict_cyc"])


@pytest.mark.parametrize("group", [1, 4])
def test_macg_waits_for_the_fullest_bank(group: int) -> None:
    """Columns 32 bytes apart are words of one bank; the same word is read once."""
    image = Image()
    groups = image.config.lanes // group
    columns = np.stack([
        np.arange(groups) * 32, np.zeros(groups), np.arange(groups) * 4, np.arange(groups) % 4])
    setup = [
        *stream(WEIGHTS, image.place(np.ones((4, 16), np.int8))),
        *stream(INDEX, image.place(columns.astype(np.uint16))),
        *stream(X, image.room(512))]
    machine = image.machine(
        *cfg(COLS=512, ROWLEN=512), *setup,
        ins(Op.MACG, weights=WEIGHTS, x=X, steps=4, index=INDEX, format=group | WIDE_COLUMNS))
    counters = run(machine).counters
    assert counters["mac_cyc"] == 4 + groups + 1 + -(-groups // 8) + 1


def test_skip_costs_a_cycle_when_nothing_is_zero() -> None:
    image = Image()
    setup = [
        *stream(WEIGHTS, image.place(np.ones((40, 16), np.int8)), (0, 9)),
        *stream(X, image.place(np.ones(40, np.int8)), (0, 9))]

    def cycles(format_field: int) -> int:
        mac = ins(Op.MACB, weights=WEIGHTS, x=X, steps=40, format=format_field)
        machine = image.machine(*cfg(COLS=40, ROWLEN=40, NPOS=8), *setup, mac)
        return run(machine).counters["cycles"]

    assert cycles(SKIP) - cycles(0) == 1


def test_scan_width_one_saves_energy_only() -> None:
    image = Image()
    setup = [
        *stream(WEIGHTS, image.place(np.ones((40, 16), np.int8))), *stream(X, image.room(40))]
    machine = image.machine(
        *cfg(COLS=40, ROWLEN=40, NPOS=2), *setup,
        ins(Op.MACB, weights=WEIGHTS, x=X, steps=40, format=SKIP))
    narrow = run(machine, replace(BARE, scan_width=1)).counters
    wide = run(machine).counters
    assert narrow["mac_cyc"] == 4 + 80 + 1
    assert wide["mac_cyc"] == 4 + 5 + 1
    for counters in (narrow, wide):
        assert counters["mac_issued"] == counters["w_bytes"] == 0
        assert counters["mac_skip_a"] == 40 * 2 * 16


def test_a_stream_starts_again_after_its_last_position() -> None:
    """Five uses of a stream of two by two positions."""
    image = Image()
    x = np.arange(1, 9, dtype=np.int8)
    setup = [
        *stream(WEIGHTS, image.place(np.ones((1, 16), np.int8))),
        *stream(X, image.place(x), (1, 2), (4, 2))]
    machine = image.machine(
        *setup, ins(Op.LOOP, count=5, body=1),
        ins(Op.MACB, weights=WEIGHTS, x=X, steps=1))
    run(machine)
    assert machine.accumulators[0, 0] == 1 + 2 + 5 + 6 + 1
