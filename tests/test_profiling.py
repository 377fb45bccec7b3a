"""Profiles: identities layer by layer, the bound, the dense twin, the energy estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from npu_models import path_of

import edgesparse as es
from edgesparse.cli.profile_view import show_profile
from edgesparse.errors import BadInput, WrongMachine
from edgesparse.graph.ir import Array
from edgesparse.npu.isa import COUNTERS, Space
from edgesparse.npu.lower import lower_npu
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import Npu
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.profiling.bound import bound_of, bound_run
from edgesparse.profiling.energy import EnergyModel, energy_of
from edgesparse.profiling.profile import CPU, MERGED, NPU, Profile
from edgesparse.profiling.run import HOPS, RUNS
from edgesparse.profiling.twin import dense_run, options_of, pruned_in_blocks, pruned_run
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.npu import BARE, NpuKnobs, NpuMachine, NpuRun
from edgesparse.runtime.npu_plan import program_of
from npu_plans import plan_of
from npu_run import MAC_PARTS, TIMES, columns, config, dense_products, in_lanes
from plan_builder import PlanBuilder, mac, random_weights, requant, stored
from profiled import AD, KWS, STREAM, plan_for
from random_plans import Grower

MODELS = (KWS, AD, STREAM)
DMA = {Space.FLASH_READ: "dma_flash_rd_bytes", Space.DRAM_READ: "dma_dram_rd_bytes",
       Space.DRAM_WRITE: "dma_dram_wr_bytes"}


def profiled(plan: Plan, x: Array | None = None, **knobs: int) -> Profile:
    options = es.ProfileOptions(knobs=NpuKnobs(**knobs))  # type: ignore[arg-type]
    found = es.profile(plan, x, on=plan.model.target, options=options)
    assert isinstance(found, Profile)
    return found


def watched(plan: Plan) -> tuple[es.Session, list[NpuRun]]:
    """A session on the NPU of the plan, and the runs it makes from now on."""
    session, runs = es.Session(plan, backend=plan.model.target), []
    assert session.npu is not None
    session.npu.watch = runs.append
    return session, runs


# ---- identities


@pytest.mark.parametrize("name", MODELS)
def test_identities_hold_for_every_layer(name: str, data_root: Path) -> None:
    """docs/NPU.md section 7: cycles, products of the geometry, lanes."""
    plan = plan_for(path_of(data_root, name))
    found = profiled(plan)
    assert found.runs == (HOPS if plan.model.stream else RUNS)
    for layer, step in zip(found.layers, plan.model.steps, strict=True):
        c = layer.counters
        assert c["cycles"] == sum(c[part] for part in TIMES), layer.name
        products = dense_products(step) * found.runs if layer.where == NPU else 0
        assert sum(c[part] for part in MAC_PARTS) == products, layer.name
        assert (c["mac_issued"] + c["mac_pad"]) % found.config.lanes == 0
        assert c["host_steps"] == (found.runs if layer.where == CPU else 0)
        assert layer.most_cycles >= layer.cycles
        assert min(layer.shares.values()) >= 0
        assert sum(layer.shares.values()) == pytest.approx(1 if c["cycles"] else 0)


@pytest.mark.parametrize("name", MODELS)
def test_layers_launch_and_rest_are_the_total(name: str, data_root: Path) -> None:
    plan = plan_for(path_of(data_root, name))
    found = profiled(plan, launch_cycles=700)
    assert found.launch_cycles == 700
    assert found.total.counters["cycles"] == found.runs * 700 + round(
        found.runs * found.rest_cycles) + sum(x.counters["cycles"] for x in found.layers)
    # END, and the wait for the store of the output: no more than its bytes and latency.
    assert 1 <= found.rest_cycles <= 100 + found.total.mean("dma_dram_wr_bytes")
    for counter in COUNTERS:
        if counter not in ("cycles", "launch_cyc", "issue", "insns", "cmd_fetch_bytes",
                           "stall_dma", "stall_fetch"):
            sums = sum(layer.counters[counter] for layer in found.layers)
            assert sums == found.total.counters[counter], counter


@pytest.mark.parametrize("name", MODELS)
def test_bytes_are_the_traffic_that_the_verifier_knows(name: str, data_root: Path) -> None:
    plan = plan_for(path_of(data_root, name))
    machine = NpuMachine(config(), program_of(plan, NativePlan(plan.data)))
    found = profiled(plan)
    for space, counter in DMA.items():
        assert found.total.mean(counter) == machine.traffic.dma_bytes[space]
        assert sum(x.mean(counter) for x in found.layers) == machine.traffic.dma_bytes[space]


def test_steps_of_the_cpu_and_merged_ones_are_named(data_root: Path) -> None:
    kws = profiled(plan_for(path_of(data_root, KWS)))
    assert [x.name for x in kws.layers if x.where == CPU] == ["Identity"]
    stream = profiled(plan_for(path_of(data_root, STREAM)))
    merged = [x for x in stream.layers if x.where == MERGED]
    assert len(merged) == 6
    assert all(x.cycles == 0 for x in merged)


# ---- the bound


@pytest.mark.parametrize("name", [
    KWS, AD, "mlperf/mlperf_ic_resnet8_int8", "mlperf/mlperf_vww_int8",
    "mlperf/mlperf_strm_ww_old_int8", "tflm/tflm_micro_speech"])
@pytest.mark.parametrize("target", ["esn-s", "esn-m"])
def test_no_input_takes_longer_than_the_bound(name: str, target: str, data_root: Path) -> None:
    """Up to the end of every layer: uniform, all at the zero point, the ends of the range."""
    plan = plan_for(path_of(data_root, name), target)
    session, runs = watched(plan)
    shape, zero = plan.inputs[0].shape, plan.inputs[0].zero_point
    rng = np.random.default_rng(1)
    for value in (zero, -128, 127, None, None, None):
        session.run(rng.integers(-128, 128, shape).astype(np.int8) if value is None
                    else np.full(shape, value, np.int8))
    held_below(plan, runs)
    assert len({run.counters["cycles"] for run in runs}) > 2


@pytest.mark.parametrize("resident", [False, True])
def test_no_hop_takes_longer_than_the_bound(resident: bool) -> None:
    plan = plan_for(path_of(Path(), STREAM), resident=resident)
    stream, runs = es.Stream(plan, backend="esn-s"), []
    assert stream.npu is not None
    stream.npu.watch = runs.append
    rng = np.random.default_rng(2)
    stream.push(np.zeros(16 * 20, np.int16))
    stream.push(rng.integers(-600, 600, 16 * 60).astype(np.int16))
    assert len(runs) >= 70
    held_below(plan, runs)


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_keep_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = in_lanes(Grower(rng).grow(int(rng.integers(1, 7))))
    npu = lower_npu(model, config(), NpuOptions(skip=bool(seed % 4))).npu
    plan = plan_of(replace(model, target="esn-s", config=1, npu=npu))
    session, runs = watched(plan)
    for kind in range(4):
        session.run([_values(rng, io, kind) for io in plan.inputs])
    held_below(plan, runs)


def _values(rng: np.random.Generator, io: IoInfo, kind: int) -> Array:
    uniform = rng.integers(-128, 128, io.shape).astype(np.int8)
    if kind == 0:
        return np.full(io.shape, io.zero_point, np.int8)
    return np.where(rng.random(io.shape) < kind / 4, uniform, io.zero_point).astype(np.int8)


def held_below(plan: Plan, runs: list[NpuRun]) -> None:
    """Runs end, and reach the end of each step, no later than the bound says."""
    assert runs
    limit = bound_run(plan)
    ends = np.cumsum([mark["cycles"] for mark in limit.marks])
    for run in runs:
        assert run.counters["cycles"] <= limit.counters["cycles"]
        assert (np.cumsum([mark["cycles"] for mark in run.marks]) <= ends).all()


def one_layer(zero_point: int) -> Plan:
    """Pointwise convolution of 64 channels over 24 columns, its input stored with a zero point."""
    rng = np.random.default_rng(0)
    b = PlanBuilder()
    x = b.input(1, 24, 64, zero_point=zero_point)
    w = random_weights(rng, 64, 64)
    source = mac(stored(w), w, rng.integers(-500, 500, 64), zero_point, in_w=24, in_c=64, out_w=24)
    b.tail(source, x, b.output(1, 24, 64), requant(np.full(64, 0.001), 0))
    model = in_lanes(b.plan())
    npu = lower_npu(model, config()).npu
    return plan_of(replace(model, target="esn-s", config=1, npu=npu))


def test_the_bound_is_reached_when_no_activation_is_zero() -> None:
    plan = one_layer(zero_point=-128)
    rng = np.random.default_rng(3)
    x = rng.integers(-127, 128, (1, 24, 64)).astype(np.int8)
    for knobs in ({}, {"launch_cycles": 0, "fetch": 0}, {"scan_width": 1}):
        found = profiled(plan, x, **knobs)
        assert found.total.cycles == found.total.bound_cycles
        assert [y.cycles for y in found.layers] == [y.bound_cycles for y in found.layers]
    x[0, 5, 8:] = -128  # six groups of zeros in one position
    assert profiled(plan, x).total.cycles < found.total.bound_cycles


def no_zeros() -> Plan:
    """Pointwise, depthwise without padding, pointwise with 16x1 blocks; results end at -127, one
    above the zero point."""
    rng = np.random.default_rng(4)
    b = PlanBuilder()
    x, first, second = (b.input(1, 24, 32, zero_point=-128), b.tensor(1, 24, 32, zero_point=-128),
                        b.tensor(1, 22, 32, zero_point=-128))
    last = b.output(1, 22, 32, zero_point=-128)
    one, taps, two = (random_weights(rng, 32, n) for n in (32, 3, 32))
    two[:, ::3] = 0
    shapes = ({"in_w": 24, "in_c": 32, "out_w": 24},
              {"in_w": 24, "in_c": 32, "out_w": 22, "kernel_w": 3, "groups": 32},
              {"in_w": 22, "in_c": 32, "out_w": 22})
    chain = zip((one, taps, two), shapes, (x, first, second), (first, second, last))
    for w, shape, reads, writes in chain:
        source = mac(stored(w), w, rng.integers(-500, 500, 32), -128, **shape)
        b.tail(source, reads, writes, requant(np.full(32, 0.002), -128, qmin=-127))
    model = in_lanes(b.plan(), form=columns(16))
    npu = lower_npu(model, config(), NpuOptions(resident=True)).npu  # else loads hide the rest
    return plan_of(replace(model, target="esn-s", config=1, npu=npu))


def test_the_bound_of_several_layers_is_reached_when_no_activation_is_zero() -> None:
    plan = no_zeros()
    rng = np.random.default_rng(3)
    found = profiled(plan, rng.integers(-127, 128, (4, 1, 24, 32)).astype(np.int8))
    assert [x.where for x in found.layers] == [NPU] * 3
    assert all(x.cycles == x.most_cycles == x.bound_cycles for x in found.layers)
    assert found.total.most_cycles == found.total.cycles == found.total.bound_cycles
    zeros = profiled(plan, np.full((1, 24, 32), -128, np.int8))
    assert zeros.total.cycles < zeros.total.bound_cycles == found.total.bound_cycles


def test_the_bound_names_what_is_not_in_it(data_root: Path) -> None:
    plan = plan_for(path_of(data_root, KWS))
    bound = bound_of(plan)
    assert bound.on_cpu == ("Identity",)
    assert bound.cycles == 500 + sum(bound.steps) + 1
    assert bound_of(plan, BARE).cycles < bound.cycles - 500


# ---- what it is compared with


def test_a_dense_plan_without_zeros_is_as_fast_as_its_twin() -> None:
    """Efficiency 1 but for the cycle that SKIP costs an instruction."""
    rng = np.random.default_rng(3)
    x = rng.integers(-127, 128, (1, 24, 64)).astype(np.int8)
    layer = profiled(one_layer(-128), x).layers[0]
    assert layer.counters["mac_skip_w"] == layer.counters["mac_skip_a"] == 0
    assert 0.98 < (layer.sparse_efficiency or 0) < 1
    assert layer.lane_use(16) == pytest.approx(1, abs=0.02)


def test_efficiency_is_the_share_of_skipped_work_that_is_saved(data_root: Path) -> None:
    plan = plan_for(path_of(data_root, STREAM))
    dense = plan_for(path_of(data_root, "ecg_c48_dense"))
    total = profiled(plan).total
    efficiency = total.dense_cycles / total.cycles / (total.dense_macs / total.mean("mac_issued"))
    assert total.sparse_efficiency == pytest.approx(efficiency)
    assert 0.2 < efficiency < 1  # the DMA of what is left and the instructions are not skipped
    # The twin takes what the dense net does, less a few channels that pruning made constant.
    assert total.dense_cycles == pytest.approx(profiled(dense).total.dense_cycles, rel=0.03)


def test_without_a_dense_twin_there_is_no_efficiency(capsys: pytest.CaptureFixture[str]) -> None:
    """A layer that fits the scratchpad because it is sparse: 80 KB a slice, 5 % of it stored."""
    rng = np.random.default_rng(0)
    b = PlanBuilder()
    x = b.input(1, 8, 1000)
    w = random_weights(rng, 16, 5000)
    w[:, rng.permutation(5000)[250:]] = 0
    source = mac(stored(w), w, np.zeros(16), 0, in_w=8, in_c=1000, out_w=4, kernel_w=5)
    b.tail(source, x, b.output(1, 4, 16), requant(np.full(16, 0.001), 0))
    model = in_lanes(b.plan(), form=columns(16))
    npu = lower_npu(model, config()).npu
    found = profiled(plan_of(replace(model, target="esn-s", config=1, npu=npu)))
    assert [layer.where for layer in found.layers] == [NPU]
    for layer in (*found.layers, found.total):
        assert layer.mean("mac_issued") > 0
        assert layer.dense_cycles == 0
        assert layer.sparse_efficiency is None
    assert np.isnan(found.energy_ratio(EnergyModel()))
    show_profile(found, ["layer"], "plan")
    assert "a layer would not fit the NPU" in capsys.readouterr().out


def test_the_dense_twin_of_a_dense_plan_is_its_bound_without_skipping() -> None:
    plan = one_layer(-128)
    unskipped = lower_npu(plan.model, config(), NpuOptions(skip=False)).npu
    other = plan_of(replace(plan.model, npu=unskipped))
    found = dense_run(plan.model, config(), NpuKnobs()).counters
    assert found == bound_run(other).counters


def test_pruned_twins_take_fewer_cycles(data_root: Path) -> None:
    plan = plan_for(path_of(data_root, "ecg_c48_dense"))
    cycles = [pruned_run(plan.model, config(), share, NpuOptions(resident=False)).counters["cycles"]
              for share in (0.0, 0.5, 0.75, 0.9)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > 2 * cycles[2]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.75, 1.0])
def test_pruning_zeroes_whole_blocks_the_smallest_first(share: float) -> None:
    rng = np.random.default_rng(0)
    w = rng.integers(1, 100, (40, 24)).astype(np.int8) * rng.choice([-1, 1], (40, 24))
    pruned = pruned_in_blocks(w.astype(np.int8), 16, share)
    kept = pruned != 0
    blocks = [kept[first : first + 16] for first in (0, 16, 32)]
    assert all((b.all(axis=0) | ~b.any(axis=0)).all() for b in blocks)
    assert sum((~b.any(axis=0)).sum() for b in blocks) == round(share * 3 * 24)
    np.testing.assert_array_equal(pruned[kept], w[kept])
    if 0 < share < 1:
        sums = [np.abs(w[first : first + 16].astype(int)).sum(axis=0) for first in (0, 16, 32)]
        gone = [s[~b.any(axis=0)] for s, b in zip(sums, blocks)]
        left = [s[b.any(axis=0)] for s, b in zip(sums, blocks)]
        assert np.concatenate(gone).max() <= np.concatenate(left).min()


def test_options_are_those_of_the_plan() -> None:
    plan = plan_for(path_of(Path(), STREAM), resident=True)
    assert options_of(plan.model) == NpuOptions(resident=True)
    for text in ("", "no JSON", "{}", '{"npu": {"resident": true}}', "[1]"):
        assert options_of(replace(plan.model, options=text)) == NpuOptions()


# ---- energy


def test_energy_is_the_sum_of_what_is_counted() -> None:
    counters = dict.fromkeys(COUNTERS, 0) | {
        "mac_issued": 110, "mac_gated": 10, "sram_rd_bytes": 20, "sram_wr_bytes": 4,
        "dma_dram_rd_bytes": 3, "dma_dram_wr_bytes": 2, "dma_flash_rd_bytes": 7,
        "cmd_fetch_bytes": 16}
    energy = energy_of(counters, EnergyModel())
    assert energy.mac == pytest.approx(100 * 0.3)
    assert energy.sram == pytest.approx((20 + 4 + 3 + 2 + 7) * 1.25)
    assert energy.dram == pytest.approx(5 * 162.5)
    assert energy.flash == pytest.approx((7 + 16) * 162.5)
    assert energy.total == energy.mac + energy.sram + energy.dram + energy.flash


def test_scan_width_one_saves_energy_and_no_time(data_root: Path) -> None:
    plan = plan_for(path_of(data_root, KWS))
    wide, narrow = profiled(plan), profiled(plan, scan_width=1)
    assert narrow.total.counters["mac_issued"] == wide.total.counters["mac_issued"]
    assert narrow.total.energy(EnergyModel()).mac == wide.total.energy(EnergyModel()).mac
    assert wide.total.cycles < 0.75 * narrow.total.cycles
    assert narrow.total.cycles >= 0.98 * narrow.total.bound_cycles


# ---- inputs and the host


def test_inputs_come_from_the_seed_or_the_user(data_root: Path) -> None:
    plan = plan_for(path_of(data_root, AD))
    first, again, other = (
        es.profile(plan, on="esn-s", options=es.ProfileOptions(seed=seed)) for seed in (0, 0, 1))
    assert isinstance(first, Profile)
    assert isinstance(again, Profile)
    assert isinstance(other, Profile)
    assert first.total.counters == again.total.counters != other.total.counters
    x = np.random.default_rng(0).integers(-128, 128, (RUNS, *plan.inputs[0].shape)).astype(np.int8)
    assert profiled(plan, x).total.counters == first.total.counters
    assert profiled(plan, x[0]).runs == 1


def test_a_stream_takes_samples() -> None:
    plan = plan_for(path_of(Path(), STREAM))
    found = profiled(plan, np.zeros(16 * 30, np.int16))
    assert found.stream
    assert 20 <= found.runs <= 30
    with pytest.raises(BadInput, match="too few for a run"):
        profiled(plan, np.zeros(4, np.int16))
    with pytest.raises(BadInput, match="samples are a list"):
        es.profile(plan, [np.zeros(4, np.int16)])


@pytest.mark.parametrize("name", [AD, STREAM])
def test_the_host_gives_shares_of_time(name: str, data_root: Path) -> None:
    plan = plan_for(path_of(data_root, name))
    found = es.profile(plan, on="host")
    assert isinstance(found, es.HostProfile)
    assert [layer.name for layer in found.layers] == [layer.name for layer in plan.layers]
    assert {layer.runs for layer in found.layers} == {found.runs} == {HOPS if name == STREAM
                                                                      else RUNS}
    assert sum(layer.share for layer in found.layers) == pytest.approx(1)
    assert all(layer.share > 0 for layer in found.layers)


def test_plans_of_other_machines_are_refused_with_the_way_out() -> None:
    plan = plan_for(path_of(Path(), STREAM))
    with pytest.raises(WrongMachine, match="convert the model with --target esn-m"):
        es.profile(plan, on="esn-m")
    with pytest.raises(WrongMachine, match="convert the model with --target esn"):
        es.profile(es.convert(path_of(Path(), STREAM)), on="esn-s")
    with pytest.raises(BadInput, match="host, esn-lab, esn-m, esn-s or qemu:CPU is allowed"):
        es.profile(plan, on="cortex-m4")
    with pytest.raises(WrongMachine, match="configuration 77"):
        bound_of(plan_of(replace(plan.model, config=77, npu=replace(_npu(plan), config=77))))


def _npu(plan: Plan) -> Npu:
    assert plan.model.npu is not None
    return plan.model.npu


def test_a_plan_that_is_all_the_cpus_has_no_energy_to_compare(
    capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing moves and nothing multiplies where instructions do not come from flash."""
    b = PlanBuilder()
    backwards = pm.Copy(dims=(12,), in_offset=11, in_strides=(-1,), out_strides=(1,))
    b.tail(backwards, b.input(4, 3), b.output(4, 3))
    npu = lower_npu(b.plan(), config()).npu
    plan = plan_of(replace(b.plan(), target="esn-s", config=1, npu=npu))
    found = profiled(plan, launch_cycles=0, fetch=False)
    assert [layer.where for layer in found.layers] == [CPU]
    assert np.isnan(found.energy_ratio(EnergyModel()))
    show_profile(found, ["load"], "plan")
    assert "of dense" not in capsys.readouterr().out
