"""Each kind of kernel on a small plan made by hand: every byte is the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgesparse.graph.ir import Array
from edgesparse.npu.lower import lower_npu
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding
from edgesparse.runtime.npu import NpuKnobs
from npu_run import (
    Checked,
    Form,
    bitmask,
    columns,
    config,
    dense,
    even,
    in_lanes,
    lower_and_check,
    machine_of,
    n_of_m,
)
from plan_builder import PlanBuilder, add, mac, requant, scaled, stored, values

LAB = config("esn-lab")
KEEP = NpuOptions(resident=False, keep=True)
KINDS: dict[str, Form] = {
    "dense": dense, "columns": columns(16), "bitmask": bitmask, "1:2": n_of_m(1, 2),
    "2:4": n_of_m(2, 4), "3:8": n_of_m(3, 8), "4x1": columns(4), "1x1": columns(1),
    "columns, even": even(columns(16)), "bitmask, even": even(bitmask),
    "4x1, even": even(columns(4))}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def sparse(rng: np.random.Generator, rows: int, cols: int) -> Array:
    """[rows, cols] int8 that every kind can hold: of each 2 columns at most one is stored."""
    w = rng.integers(-127, 128, (rows, cols)).astype(np.int8)
    w[:, np.arange(cols) % 2 != rng.integers(2)] = 0
    w[:, rng.random(cols) < 0.3] = 0
    return w


class Net:
    """A chain of steps; `x` is the tensor the next one reads."""

    def __init__(self, rng: np.random.Generator, *shape: int) -> None:
        self.rng, self.b = rng, PlanBuilder()
        self.x = self.b.input(*shape, zero_point=-7)
        self.shape = shape

    def zero_point(self) -> int:
        return int(self.b.tensors[self.x].place.zero_point)

    def conv(
        self, rows: int, kernel: tuple[int, int] = (1, 1), *tail: pm.StageBody, **fields: Any
    ) -> Net:
        """fields of Geometry; out_h and out_w follow from pads on both sides. requantized_to: the
        zero point of Requant, that of the tensor is -128."""
        h, w, c = self.shape
        groups, aim = fields.get("groups", 1), fields.pop("requantized_to", -128)
        sizes = []
        for n, k, axis, pad in ((h, kernel[0], "h", "top"), (w, kernel[1], "w", "left")):
            span = (k - 1) * fields.get(f"dilation_{axis}", 1) + 1
            sizes.append((n + 2 * fields.get(f"pad_{pad}", 0) - span)
                         // fields.get(f"stride_{axis}", 1) + 1)
        weights = sparse(self.rng, rows, kernel[0] * kernel[1] * c // groups)
        source = mac(
            stored(weights), weights, self.rng.integers(-500, 500, rows), self.zero_point(),
            in_h=h, in_w=w, in_c=c, out_h=sizes[0], out_w=sizes[1], kernel_h=kernel[0],
            kernel_w=kernel[1], **fields)
        gain = self.rng.uniform(0.5, 2, rows) * 0.02 / np.sqrt(weights.shape[1])
        return self._put(source, (sizes[0], sizes[1], rows), requant(gain, aim), *tail)

    def load(self, *tail: pm.StageBody) -> Net:
        return self._put(pm.Load(), self.shape, *tail)

    def _put(self, source: pm.Source, shape: tuple[int, ...], *tail: pm.StageBody) -> Net:
        for stage in tail:
            if isinstance(stage, (pm.MaxPool, pm.AvgPool)):
                shape = (stage.window.out_h, stage.window.out_w, shape[2])
            elif isinstance(stage, pm.Mean):
                shape = (1, 1, shape[2])
        y = self.b.tensor(*shape, zero_point=-128)
        self.b.tail(source, self.x, y, *tail)
        self.x, self.shape = y, shape
        return self

    def plan(self, form: Form = dense, lanes: int = 16) -> pm.PlanModel:
        y = self.b.output(*self.shape, zero_point=-128)
        self.b.tail(pm.Load(), self.x, y)
        return in_lanes(self.b.plan(), lanes, form)


def check(plan: pm.PlanModel, *, cpu: int = 0) -> Checked:
    """On the lab's scratchpad with every result kept, on esn-s, and in tiles."""
    kept = lower_and_check(plan, LAB, KEEP)
    assert len(kept.lowered.host) == cpu
    assert kept.tensors == 2 * (len(plan.steps) - cpu)
    lower_and_check(plan, LAB, NpuOptions(resident=True, skip=False))
    lower_and_check(plan, options=NpuOptions(intermediates="dram"))
    return kept


def window(h: int, w: int, kernel: int, stride: int, pad: int = 0) -> pm.Window:
    return pm.Window(
        in_h=h, in_w=w, kernel_h=min(kernel, h), kernel_w=kernel, stride_h=stride,
        stride_w=stride, pad_top=min(pad, h - 1), pad_left=pad,
        out_h=max(1, (h + 2 * min(pad, h - 1) - min(kernel, h)) // stride + 1),
        out_w=(w + 2 * pad - kernel) // stride + 1)


# ---- convolutions -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 40])
def test_fully_connected_in_every_packing(
    rng: np.random.Generator, kind: str, rows: int
) -> None:
    check(Net(rng, 1, 1, 48).conv(rows).plan(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_conv_1d_with_stride_halo_and_dilation(rng: np.random.Generator, kind: str) -> None:
    net = Net(rng, 1, 29, 8).conv(24, (1, 3), pad_left=1).conv(17, (1, 5), stride_w=2, pad_left=3)
    check(net.conv(16, (1, 3), dilation_w=4, pad_left=4).plan(KINDS[kind]))


@pytest.mark.parametrize("masks", ["none", "filled", "all"])
def test_a_masked_store_leaves_out_only_what_the_fill_has_written(
    rng: np.random.Generator, masks: str
) -> None:
    """A Requant may aim at another zero point than that of the tensor, which the halo has."""
    net = Net(rng, 1, 20, 8).conv(16, (1, 3), requantized_to=100).conv(16, (1, 3), pad_left=1)
    lower_and_check(net.plan(), LAB, NpuOptions(zero_stores=masks, keep=True))


@pytest.mark.parametrize("kind", ["dense", "columns", "4x1", "2:4"])
def test_conv_2d(rng: np.random.Generator, kind: str) -> None:
    net = Net(rng, 7, 9, 4).conv(18, (3, 3), pad_top=1, pad_left=1)
    check(net.conv(8, (3, 2), stride_h=2, stride_w=2).conv(3).plan(KINDS[kind]))


def test_a_window_dilated_along_both_axes_is_walked_row_by_row(rng: np.random.Generator) -> None:
    net = Net(rng, 8, 9, 5)
    check(net.conv(19, (3, 2), dilation_h=2, dilation_w=3, pad_top=2, pad_left=1).plan())


@pytest.mark.parametrize("positions", [1, 7, 8, 9, 16, 17])
def test_positions_at_the_edge_of_a_group(rng: np.random.Generator, positions: int) -> None:
    check(Net(rng, 1, positions, 6).conv(20).plan())


@pytest.mark.parametrize("channels", [1, 3, 16, 19])
def test_depthwise(rng: np.random.Generator, channels: int) -> None:
    net = Net(rng, 6, 7, channels).conv(channels, (3, 3), groups=channels, pad_top=1, pad_left=1)
    check(net.conv(channels, (2, 3), groups=channels, stride_w=2).plan())


def test_other_groups_are_steps_of_the_cpu(rng: np.random.Generator) -> None:
    checked = check(Net(rng, 1, 9, 8).conv(8).conv(12, groups=2).conv(8).plan(), cpu=1)
    assert checked.lowered.host == ((1, "2 groups of 4 channels have no code"),)


def test_thirty_two_lanes(rng: np.random.Generator) -> None:
    net = Net(rng, 1, 11, 6).conv(40, (1, 3), pad_left=1).conv(33)
    lower_and_check(net.plan(lambda w: dense(w, 32), 32), config("esn-m"), KEEP)


def test_a_slice_larger_than_its_share_comes_in_parts(rng: np.random.Generator) -> None:
    checked = lower_and_check(Net(rng, 1, 1, 1500).conv(20).plan())
    assert checked.counters["dma_flash_rd_bytes"] > 2 * 1500 * 16
    assert not checked.lowered.host


# ---- tails --------------------------------------------------------------------------------------


def test_every_elementwise_stage_in_registers(rng: np.random.Generator) -> None:
    net = Net(rng, 1, 21, 20)
    whole = net.b.constant(values(rng, 21, 20), 5)
    once = net.b.constant(values(rng, 1, 20), -3)
    table = pm.Lut(table=rng.permutation(np.arange(-128, 128)).astype(np.int8))
    product = pm.Mul(
        operand=once, value_zero_point=4, other_zero_point=-3, out=scaled(9, 0.01),
        qmin=-100, qmax=101, rounding=Rounding.SINGLE)
    net.conv(20, (1, 1), table, pm.Clamp(qmin=-90, qmax=88), add(whole, (1, 5, -20)), product)
    net.load(add(whole, (-128, 5, 3), negate_other=True), table).load(product)
    check(net.plan())


def test_a_residual_of_the_input_itself(rng: np.random.Generator) -> None:
    """The input has a halo for the convolution, and is the operand too."""
    net = Net(rng, 5, 6, 18)
    net.conv(18, (3, 3), pad_top=1, pad_left=1)
    net.conv(18, (3, 3), add(net.x, (-128, -128, 0)), pad_top=1, pad_left=1)
    check(net.plan())


@pytest.mark.parametrize(("size", "kernel", "pool"), [
    ((1, 16), (1, 3), (1, 2)), ((1, 17), (1, 3), (1, 3)), ((6, 8), (3, 3), (2, 2)),
    ((4, 5), (1, 1), (2, 1))])
def test_a_pool_joins_a_convolution(
    rng: np.random.Generator, size: tuple[int, int], kernel: tuple[int, int],
    pool: tuple[int, int],
) -> None:
    """Rows that no window takes are not computed."""
    shape = pm.Window(
        in_h=size[0], in_w=size[1], kernel_h=pool[0], kernel_w=pool[1], stride_h=pool[0],
        stride_w=pool[1], out_h=size[0] // pool[0], out_w=size[1] // pool[1])
    tail = (pm.Clamp(qmin=-100, qmax=90), pm.MaxPool(window=shape, qmin=-99, qmax=80),
            pm.Clamp(qmin=-80, qmax=70))
    net = Net(rng, *size, 5)
    pads = {"pad_top": kernel[0] // 2, "pad_left": kernel[1] // 2}
    check(net.conv(21, kernel, *tail, **pads).plan())


def test_a_pool_joins_a_depthwise_convolution(rng: np.random.Generator) -> None:
    pool = pm.MaxPool(window=window(4, 6, 2, 2), qmin=-128, qmax=127)
    net = Net(rng, 4, 6, 35).conv(35, (3, 3), pool, groups=35, pad_top=1, pad_left=1)
    check(net.plan())


# ---- steps without weights ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pm.MaxPool, pm.AvgPool])
@pytest.mark.parametrize("pad", [0, 1])
def test_pools_count_only_what_is_inside(
    rng: np.random.Generator, kind: Any, pad: int
) -> None:
    net = Net(rng, 6, 7, 19).load(kind(window=window(6, 7, 3, 2, pad), qmin=-120, qmax=110))
    net.load(kind(window=window(*net.shape[:2], 2, 1), qmin=-128, qmax=127))
    check(net.plan())


def test_mean(rng: np.random.Generator) -> None:
    stage = pm.Mean(in_zero_point=-7, scaled=scaled(3, 1.3 / 35), qmin=-128, qmax=127,
                    rounding=Rounding.SINGLE)
    check(Net(rng, 5, 7, 33).load(stage).plan())


def test_copies_move_boxes_and_fill(rng: np.random.Generator) -> None:
    b = PlanBuilder()
    x, turned, y = b.input(4, 5, 3), b.tensor(5, 4, 3), b.output(6, 7, 3)
    b.tail(pm.Copy(dims=(5, 4, 3), in_strides=(3, 15, 1), out_strides=(12, 3, 1)), x, turned)
    b.tail(pm.Copy(dims=(5, 4, 3), in_strides=(12, 3, 1), out_offset=24,
                   out_strides=(21, 3, 1), fill=True, fill_value=-9), turned, y)
    checked = lower_and_check(in_lanes(b.plan()), LAB, KEEP)
    assert checked.tensors == 4
    lower_and_check(in_lanes(b.plan()), options=NpuOptions(intermediates="dram"))


def test_results_are_computed_into_the_parts_of_a_concatenation(rng: np.random.Generator) -> None:
    """Two tensors with the pitch of a third, which stands where both are."""
    b = PlanBuilder()
    x, whole = b.input(9, 6), b.tensor(9, 40)
    for first, rows in ((0, 17), (17, 23)):
        w = sparse(rng, rows, 6)
        source = mac(stored(w), w, rng.integers(-9, 9, rows), 0, in_w=9, out_w=9)
        b.tail(source, x, b.part(whole, first, rows), requant(np.full(rows, 0.01), 0))
    w = sparse(rng, 5, 40)
    y = b.output(9, 5)
    b.tail(mac(stored(w), w, rng.integers(-9, 9, 5), 0, in_w=9, out_w=9), whole, y,
           requant(np.full(5, 0.01), 0))
    for options in (KEEP, NpuOptions(intermediates="dram")):
        lower_and_check(in_lanes(b.plan()), LAB, options)


# ---- rings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("append", [1, 2, 3])
def test_rings_remember_over_many_runs(rng: np.random.Generator, append: int) -> None:
    """A window of 7 columns and a lag, 12 channels that a ring holds 16 or more bytes apart."""
    b = PlanBuilder()
    ring = b.ring(11, 12, -5)
    x, y = b.input(append, 12, zero_point=-5), b.output(3, 9)
    b.tail(pm.Load(), x, b.append(ring, append))
    w = sparse(rng, 9, 36)
    source = mac(stored(w), w, rng.integers(-99, 99, 9), -5, in_w=7, in_c=12, out_w=3, kernel_w=3,
                 stride_w=2)
    b.tail(source, b.view(ring, 7, 3), y, requant(np.full(9, 0.01), 0))
    for form in (dense, columns(16), columns(4)):
        lower_and_check(in_lanes(b.plan(), form=form), runs=30)


@pytest.mark.parametrize(("dims", "in_strides", "out_strides"), [
    ((48,), (1,), (1,)), ((2, 24), (24, 1), (24, 1)), ((2, 6), (12, 2), (6, 1)),
    ((4, 12), (12, 1), (12, 1)), ((10,), (1,), (1,))])
def test_copies_from_a_ring_step_over_the_gaps_between_its_columns(
    dims: tuple[int, ...], in_strides: tuple[int, ...], out_strides: tuple[int, ...]
) -> None:
    """12 channels, which a ring holds 32 bytes apart and the plan does not."""
    b = PlanBuilder()
    ring = b.ring(11, 12, -5)
    x, y = b.input(1, 12, zero_point=-5), b.output(4, 12)
    b.tail(pm.Load(), x, b.append(ring, 1))
    b.tail(pm.Copy(dims=dims, in_strides=in_strides, out_strides=out_strides, fill=True,
                   fill_value=3), b.view(ring, 7, 3), y)
    assert lower_and_check(b.plan(), runs=30).lowered.host == ()


# ---- what does not fit --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [8192, 6144, 4096])
def test_tiles_and_spills_give_the_same_bytes(rng: np.random.Generator, size: int) -> None:
    net = Net(rng, 16, 12, 8).conv(24, (3, 3), pad_top=1, pad_left=1)
    net.conv(24, (3, 3), add(net.x, (-128, -128, 0)), pad_top=1, pad_left=1)
    net.conv(24, (3, 3), groups=24, stride_h=2, stride_w=2)
    net.load(pm.AvgPool(window=window(*net.shape[:2], 2, 2), qmin=-128, qmax=127))
    plan = net.conv(10).plan()
    checked = lower_and_check(plan, config(scratchpad_bytes=size))
    lines = " ".join(checked.lowered.report)
    assert "tiles" in lines
    assert "go through the arena" in lines
    moved = checked.counters["dma_dram_rd_bytes"] + checked.counters["dma_dram_wr_bytes"]
    assert moved > sum(size for _, size in checked.lowered.spilled)


def test_a_step_that_does_not_fit_at_all_is_the_cpus(rng: np.random.Generator) -> None:
    plan = Net(rng, 4, 4, 64).conv(20, (3, 3)).conv(16).plan()
    checked = lower_and_check(plan, config(scratchpad_bytes=4096))
    assert [step for step, _ in checked.lowered.host] == [0]
    assert "bytes of scratchpad" in checked.lowered.host[0][1]


@pytest.mark.parametrize("resident", [False, True])
def test_rings_that_do_not_fit_stay_with_the_cpu(rng: np.random.Generator, resident: bool) -> None:
    """The largest goes, and with it what appends to it and reads it; the other ring stays."""
    b = PlanBuilder()
    large, small = b.ring(400, 16, -5), b.ring(8, 16, -5)
    x, ends = b.input(1, 16, zero_point=-5), [b.output(1, 9), b.output(1, 9)]
    for ring, y in zip((large, small), ends, strict=True):
        w = sparse(rng, 9, 48)
        source = mac(stored(w), w, rng.integers(-99, 99, 9), -5, in_w=3, in_c=16, out_w=1,
                     kernel_w=3)
        b.tail(pm.Load(), x, b.append(ring, 1))
        b.tail(source, b.view(ring, 3, 1), y, requant(np.full(9, 0.01), 0))
    options = NpuOptions(resident=resident)
    checked = lower_and_check(in_lanes(b.plan()), config(scratchpad_bytes=4096), options, runs=20)
    assert [step for step, _ in checked.lowered.host] == [0, 1]
    assert "all 2 rings take 13,056 bytes" in checked.lowered.host[0][1]


def test_more_rings_than_there_are_stay_with_the_cpu(rng: np.random.Generator) -> None:
    b = PlanBuilder()
    x = b.input(1, 16, zero_point=-5)
    for _ in range(4):
        ring, y = b.ring(8, 16, -5), b.output(3, 16)
        b.tail(pm.Load(), x, b.append(ring, 1))
        b.tail(pm.Load(), b.view(ring, 3, 2), y)
    checked = lower_and_check(b.plan(), config(rings=3), runs=20)
    assert [step for step, _ in checked.lowered.host] == [0, 1]


def test_the_bound_is_exact_where_no_activation_is_zero(rng: np.random.Generator) -> None:
    """A zero point that no input has: skipping finds nothing, and costs a cycle at most."""
    b = PlanBuilder()
    x, y = b.input(9, 24, zero_point=-128), b.output(9, 40)
    w = sparse(rng, 40, 24)
    b.tail(mac(stored(w), w, np.zeros(40, int), -128, in_w=9, out_w=9), x, y,
           requant(np.full(40, 0.001), 0))
    plan = in_lanes(b.plan())
    cycles = []
    for skip in (True, False):
        lowered = lower_npu(plan, config(), NpuOptions(skip=skip))
        machine = machine_of(plan, lowered, config())
        arena = rng.integers(-127, 128, plan.arena_bytes).astype(np.int8)
        found = machine.run(arena.copy()).counters
        assert found["mac_skip_a"] == 0
        assert machine.run(arena, NpuKnobs(bound=True)).counters["cycles"] == found["cycles"]
        cycles.append((found["cycles"], found["mac_cyc"]))
    macs = 3 * 2  # slices, groups of up to 8 positions
    assert 0 <= cycles[0][1] - cycles[1][1] <= macs


@pytest.mark.parametrize("kind", ["columns", "4x1", "1x1"])
@pytest.mark.parametrize("channels", [40, 301])
def test_slices_without_any_weight(rng: np.random.Generator, kind: str, channels: int) -> None:
    """The second of three slices is all zeros, beside others with 8- or 16-bit column numbers."""
    b = PlanBuilder()
    x, y = b.input(14, channels), b.output(14, 48)
    w = sparse(rng, 48, channels)
    w[16:32] = 0
    source = mac(stored(w), w, rng.integers(-99, 99, 48), 0, in_w=14, out_w=14)
    b.tail(source, x, y, requant(np.full(48, 0.01), 0))
    for resident in (False, True):
        options = NpuOptions(resident=resident)
        lower_and_check(in_lanes(b.plan(), form=KINDS[kind]), LAB, options)
