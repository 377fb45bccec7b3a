"""Instructions on Cortex-M cores are foretold from the steps of a plan."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran, dense_layer
from edgesparse.cortex.dsp import dsp_work
from edgesparse.cortex.estimate import estimate, format_cost
from edgesparse.cortex.mve import mve_work
from edgesparse.cortex.regular import Whole, whole_of
from edgesparse.cortex.rows import rows_as, sweep_of
from edgesparse.cortex.sweeps import pass_of
from edgesparse.errors import BadInput, WrongMachine
from edgesparse.plan import model as pm
from edgesparse.profiling.predicted import cores, predict
from edgesparse.sparsity.choose import formats_of
from edgesparse.sparsity.formats import Bsr, Dense, Format
from edgesparse.target import InstructionCosts, load_target
from needs import require
from test_house import ROOT, only_one

sys.path.append(str(ROOT / "benchmarks"))

import instruction_models as models

SHORTCUT = 104
"""The seed of a random net with an addition."""
HOP = "hop=8,mode=continuous,frontend=ecg360,beats=yes"
SEEN_ON_DEVICE = ("mlperf_ad01_int8", "ecg_c48_4x1_75 hop 8", "ecg 2x4 75 %")
"""Of the judged plans: one of layers by themselves, one of a stream, one of blocks. All of them:
tools/fit_instructions.py."""


def costs_of(target: str) -> InstructionCosts:
    costs = load_target(target).instructions
    assert costs is not None
    return costs


# ---- what is counted


def test_columns_are_computed_four_by_four() -> None:
    assert sweep_of(11) == {4: 2, 3: 1}
    assert sweep_of(8) == {4: 2}
    assert sweep_of(1) == {1: 1}


def branch(*stages: pm.StageBody) -> pm.Branch:
    return pm.Branch(channels=8, output=1, stages=stages)


def pool(kernel: int, stride: int, columns: int) -> pm.MaxPool:
    window = pm.Window(in_w=columns, out_w=(columns - kernel) // stride + 1, kernel_w=kernel,
                       stride_w=stride)
    return pm.MaxPool(window=window, qmin=-128, qmax=127)


def mean(running: pm.Running | None = None) -> pm.Mean:
    scaled = pm.Scaled(zero_point=0, shift=0, multiplier=1 << 30)
    return pm.Mean(in_zero_point=0, scaled=scaled, qmin=-128, qmax=127, running=running,
                   rounding=pm.Rounding.DOUBLE)


def test_a_pool_computes_what_lies_below_it_window_by_window() -> None:
    found = pass_of(branch(pool(3, 2, 9)), 9, 4)
    assert found.sweep == {3: 4}  # overlapping columns are computed again
    (level,) = found.levels
    assert (level.stage, level.columns, level.taps) == (0, 4, 12)


def test_pools_over_pools_multiply() -> None:
    found = pass_of(branch(pool(2, 2, 8), pool(2, 1, 4), mean()), 8, 1)
    assert [(level.columns, level.taps) for level in found.levels] == [(6, 12), (3, 6), (1, 3)]
    assert found.sweep == {2: 6}


def test_a_running_mean_cuts_the_columns_where_it_is_pushed() -> None:
    running = pm.Running(ring=0, each=False, fresh=6, columns=20)
    assert running.tail == 2
    found = pass_of(branch(mean(running)), 6, 1)
    assert found.sweep == Counter({4: 1, 2: 1})
    assert found.levels[0].pushes == 2


# ---- steps that kernels take whole


def layer(
    form: Format, columns: int, shape: tuple[int, int] = (8, 32), **changed: Any
) -> Whole:
    """A layer with one tap and weights everywhere."""
    rows, cols = shape
    geometry = pm.Geometry(in_w=columns, in_c=cols, out_w=columns, rows=rows)
    return Whole(geometry, rows_as(form, np.ones(shape, np.int8)), in_place=True, **changed)


@pytest.mark.parametrize(("form", "columns", "changed", "dsp", "mve"), [
    (Dense(), 1, {}, True, True), (Dense(), 8, {"right": False}, True, False),
    (Dense(), 8, {"each": False}, True, False),
    (Bsr(1, 4), 8, {}, True, True), (Bsr(1, 4), 1, {}, False, True),
    (Bsr(4, 4), 1, {}, True, True), (Bsr(4, 4), 1, {"shape": (6, 32)}, False, True),
    (Bsr(4, 1), 2, {}, True, True), (Bsr(4, 1), 2, {"shape": (8, 300)}, False, True),
    (Bsr(1, 4), 8, {"shape": (8, 1022)}, True, True),
    (Bsr(1, 4), 8, {"shape": (8, 1026)}, False, False),
    (Bsr(1, 16), 8, {}, False, False), (Bsr(8, 1), 8, {}, False, False),
    (Dense(), 8, {"shape": (260, 8), "adds": True}, True, False)])
def test_kernels_take_what_they_were_made_for(
    form: Format, columns: int, changed: dict[str, Any], dsp: bool, mve: bool
) -> None:
    """An index of 16 bits, rows that are no multiple of 4, shifts to the left, patches that have
    to be padded and are long, blocks without a loop: each core leaves others to tiles."""
    step = layer(form, columns, **changed)
    assert (dsp_work(step) is not None, mve_work(step) is not None) == (dsp, mve)


def test_blocks_are_counted_by_turns_of_the_loops() -> None:
    """Rows of 5, 4 and 0 blocks: whole turns of four and what is left; vectors of four."""
    w = np.zeros((3, 32), np.int8)
    w[0, :20] = w[1, 4:20] = 1
    rows = rows_as(Bsr(1, 4), w)
    assert rows.counts == (5, 4, 0)
    assert (rows.whole_rounds(4), rows.left_over(4), rows.rounds(4)) == (2, 1, 3)


def test_a_patch_in_a_ring_is_copied_where_the_ring_ends_within() -> None:
    geometry = pm.Geometry(in_w=12, in_c=4, out_w=8, rows=8, kernel_w=5)
    rows = rows_as(Dense(), np.ones((8, 20), np.int8))
    assert Whole(geometry, rows).copied_rows == 0
    assert Whole(geometry, rows, ring=16).copied_rows == pytest.approx(4 / 16)
    assert Whole(geometry, rows, ring=16, in_place=True).copied_rows == 0
    assert Whole(geometry, rows, scattered=True).copied_rows == 1


def test_whole_steps_end_with_scaling_or_an_addition() -> None:
    plan = models.plan_of_net(SHORTCUT, "cortex-m4").model
    ends = {step: tuple(type(stage).__name__ for stage in step.branches[0].stages)
            for step in plan.steps}
    whole = {step for step in plan.steps if whole_of(plan, step) is not None}
    assert {ends[step] for step in whole} == {("Requant",), ("Requant", "Add")}
    assert {ends[step] for step in plan.steps if step not in whole} == {
        ("MaxPool",), ("AvgPool",), ("Softmax",)}


def test_a_plain_bias_is_not_taken_whole() -> None:
    npu = es.convert(dense_layer(), "esn-s").model
    assert [whole_of(npu, step) for step in npu.steps] == [None]


# ---- costs


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("columns", [1, 64])
def test_every_encoding_of_a_target_has_costs(target: str, columns: int) -> None:
    """One without would take no instructions, and be chosen everywhere."""
    w = np.ones((64, 128), np.int8)
    cost = format_cost(costs_of(target), columns)
    dense, *others = (cost(form, w) for form in formats_of(128, load_target(target).encodings))
    assert dense > 0.05 * w.size * columns
    assert [n for n in others if n < 0.7 * dense] == []  # nothing is zero: nothing is gained


def test_a_fit_finds_the_costs_that_made_the_counts() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "fit_instructions.py"))
    truth = InstructionCosts("dsp", {
        "steps": 400.0, "dense x4 sums": 9.0, "dense x1 sums": 30.0, "mac columns": 50.0,
        "runs": 70.0})
    plans = []
    for seed in range(130, 150):
        plan = models.plan_of_net(seed, "cortex-m4")
        told = estimate(plan.model, truth)
        plans.append(tool["Counted"]("net", plan, told.steps, told.instructions))
    found = InstructionCosts("dsp", tool["fit"]("dsp", plans))
    for plan in plans:
        assert estimate(plan.plan.model, found).instructions == pytest.approx(plan.run, rel=0.002)


def test_no_judged_model_is_fitted(data_root: Path) -> None:
    fitted = [case.name for case in models.fitted(data_root)]
    judged = [case.name for case in models.judged(data_root)]
    assert len(fitted) > 80
    assert len(judged) > 30
    assert set(fitted) & set(judged) == set()
    assert len(set(fitted)) == len(fitted)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_predictions_are_within_15_percent_on_the_device(target: str, data_root: Path) -> None:
    for name in ("arm", "qemu", "cmake"):
        require(name)
    tool = runpy.run_path(str(ROOT / "tools" / "fit_instructions.py"))
    cases = [case for case in models.judged(data_root) if case.name in SEEN_ON_DEVICE]
    with only_one("measure"):
        plans = tool["counted"](target, cases)
    assert len(plans) == len(SEEN_ON_DEVICE)
    errors = {plan.name: estimate(plan.plan.model, costs_of(target)).instructions / plan.run - 1
              for plan in plans}
    assert {name: e for name, e in errors.items() if abs(e) > 0.15} == {}
    for plan in plans:  # what is a good part of the run is foretold by itself, not by chance
        told = estimate(plan.plan.model, costs_of(target)).steps
        assert [(found, step) for found, step in zip(told, plan.steps)
                if step > 0.05 * plan.run and abs(found / step - 1) > 0.3] == []


# ---- commands


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "stream.esp"
    assert Ran("convert", ECG, "-o", path, "--target", "cortex-m4", "--stream", HOP).code == 0
    return path


def test_profile_tells_layers_that_add_up(stream: Path) -> None:
    ran = Ran("profile", stream, "--on", "cortex-m4")
    assert ran.code == 0
    for words in ("QEMU instructions a hop, predicted, not run", "stem2_1", "front end, decoder",
                  "1.3 cycles an instruction are assumed", "ms at 64 MHz"):
        assert words in ran.out
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80
    told = Ran("profile", stream, "--on", "cortex-m4", "--json").json
    assert (told["kind"], told["on"], told["stream"]) == (
        "edgesparse prediction", "cortex-m4", True)
    assert told["predicted_instructions"] == told["rest"] + sum(
        layer["instructions"] for layer in told["layers"])
    assert told["assumed_cycles_per_instruction"] == 1.3
    assert min(layer["instructions"] for layer in told["layers"]) > 100


def test_profile_tells_the_time_at_a_clock(stream: Path) -> None:
    amount = predict(es.Plan.load(stream), "cortex-m4").instructions
    ran = Ran("profile", stream, "--on", "cortex-m4", "--clock", "32MHz")
    assert f"{1.3 * amount / 32e3:.4g} ms at 32 MHz" in ran.out
    told = Ran("profile", stream, "--on", "cortex-m4", "--clock", "32MHz", "--json").json
    assert told["clock_hz"] == 32_000_000
    assert told["milliseconds"] == pytest.approx(1.3 * amount / 32e3)
    ran = Ran("profile", stream, "--on", "cortex-m4", "--clock", "nanMHz")
    assert ran.code == 2
    assert "--clock nanMHz: a number above 0" in ran.err


def test_a_core_without_prediction_is_told_which_have_one(stream: Path) -> None:
    ran = Ran("profile", stream, "--on", "cortex-m5")
    assert ran.code == 2
    assert "qemu:CPU is allowed, and for the command cortex-m4, cortex-m55, predicted" in ran.err


def test_convert_and_inspect_tell_the_same_sum(stream: Path, tmp_path: Path) -> None:
    amount = predict(es.Plan.load(stream), "cortex-m4").instructions
    assert f"core: predicted {amount:,} QEMU instructions a hop" in Ran("inspect", stream).out
    assert Ran("inspect", stream, "--json").json["core"] == {"predicted_instructions": amount}
    ran = Ran("convert", ECG, "-o", tmp_path / "x.esp", "--target", "cortex-m4", "--stream", HOP)
    assert f"core: predicted {amount:,} QEMU instructions a hop" in ran.out
    host = Ran("convert", ECG, "-o", tmp_path / "y.esp", "--json").json
    assert host["core"] is None


def test_a_plan_of_another_machine_is_refused() -> None:
    for target in ("host", "esn-s"):
        with pytest.raises(WrongMachine, match="convert the model with --target cortex-m55"):
            predict(es.convert(dense_layer(), target), "cortex-m55")
    with pytest.raises(BadInput, match="cortex-m4, cortex-m55 is allowed"):
        predict(es.convert(dense_layer(), "cortex-m4"), "host")
    assert cores() == ("cortex-m4", "cortex-m55")


def test_what_needs_a_run_is_refused(stream: Path, tmp_path: Path) -> None:
    ran = Ran("profile", stream, "--on", "cortex-m4", "--trace", tmp_path / "x.json")
    assert ran.code == 2
    assert "predicted and nothing runs; leave --input, --trace and --compare out" in ran.err
