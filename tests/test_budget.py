"""convert --budget: the bound against a time, and what would meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from npu_models import path_of

import edgesparse as es
from command_line import ECG, Ran
from edgesparse.errors import BadInput
from edgesparse.profiling.bound import bound_of
from edgesparse.profiling.budget import Budget, judge, parse_budget
from edgesparse.profiling.predicted import predict
from profiled import ECG as STREAM
from profiled import plan_for

HOP = "hop=8,mode=continuous,frontend=ecg360,beats=yes"
SPARSE = path_of(Path(), "ecg_c48_16x1_75")
DENSE = path_of(Path(), "ecg_c48_dense")


@pytest.mark.parametrize(("text", "cycles", "hz"), [
    ("20ms@64MHz", 1_280_000, 64_000_000), ("1.5ms@64MHz", 96_000, 64_000_000),
    ("250us@100kHz", 25, 100_000), ("2s@1.1GHz", 2_200_000_000, 1_100_000_000),
    ("0.1ms@12.5MHz", 1250, 12_500_000), ("3MS@1mhz", 3000, 1_000_000),
    ("1us@1.9MHz", 1, 1_900_000), ("cycles=1234", 1234, None)])
def test_budgets_are_whole_cycles_that_pass(text: str, cycles: int, hz: int | None) -> None:
    assert parse_budget(text) == Budget(text, cycles, hz)


@pytest.mark.parametrize("text", [
    "", "20ms", "64MHz", "20@64MHz", "ms@64MHz", "20ms@64", "-1ms@64MHz", "20 ms@64MHz",
    "20ms@64MHz ", "1e3ms@64MHz", "cycles=", "cycles=-4", "cycles=1.5", "20ns@64MHz", ".5ms@1MHz",
    "cycles=" + "9" * 5000, "9" * 5000 + "ms@64MHz", "0." + "9" * 5000 + "ms@64MHz"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="20ms@64MHz, or cycles=N is allowed"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["cycles=0", "0ms@64MHz", "1us@1kHz"])
def test_a_budget_of_no_cycle_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="1 or more is allowed"):
        parse_budget(text)


def test_a_bound_may_use_the_budget_up() -> None:
    plan = plan_for(SPARSE)
    cycles = bound_of(plan).cycles
    options = es.Options(golden=False, stream=STREAM)
    exactly = judge(plan, Budget("", cycles), SPARSE, options)
    assert exactly.met
    assert exactly.alternatives == ()
    assert not judge(plan, Budget("", cycles - 1), SPARSE, options).met


def test_what_would_meet_it_does_when_it_is_tried(tmp_path: Path) -> None:
    """The ways that are listed, taken; the layers are those that cost most."""
    ran = Ran("convert", SPARSE, "-o", tmp_path / "x.esp", "--target", "esn-s", "--stream", HOP,
              "--budget", "cycles=15000", "--json")
    assert ran.code == 1
    assert not (tmp_path / "x.esp").exists()
    told = ran.json["budget"]
    assert (told["met"], told["emulated_cycles"]) == (False, 15000)
    bound = bound_of(plan_for(SPARSE))
    assert told["bound_emulated_cycles"] == bound.cycles
    costs = [layer["emulated_cycles"] for layer in told["costly"]]
    assert costs == sorted(bound.steps, reverse=True)[:5]
    found = {other["what"]: other["emulated_cycles"] for other in told["alternatives"]}
    assert [o["meets"] for o in told["alternatives"]] == [c <= 15000 for c in found.values()]
    assert list(found.values()) == sorted(found.values())
    assert found["--target esn-s --npu-resident"] == bound_of(plan_for(
        SPARSE, resident=True)).cycles
    assert found["--target esn-m"] == bound_of(plan_for(SPARSE, "esn-m")).cycles
    assert "--target esn-s" not in found  # that is what was asked for
    assert not any(what.startswith("50 %") for what in found)  # there are more zeros already
    again = Ran("convert", SPARSE, "-o", tmp_path / "x.esp", "--target", "esn-s", "--stream", HOP,
                "--budget", "cycles=15000", "--npu-resident", "--json")
    assert again.code == 0
    assert again.json["budget"]["met"] is True
    assert (tmp_path / "x.esp").exists()


def test_the_text_names_layers_ways_and_the_hop(tmp_path: Path) -> None:
    ran = Ran("convert", DENSE, "-o", tmp_path / "x.esp", "--target", "esn-s", "--stream", HOP,
              "--budget", "1ms@64MHz")
    assert ran.code == 1
    assert "budget missed, no plan was written: the bound is" in ran.err
    assert "emulated cycles a hop, 1.8" in ran.err
    for words in ("costs most", "stem3_1", "75 % of weights zero in 16x1 blocks", "met"):
        assert words in ran.out
    none = Ran("convert", DENSE, "-o", tmp_path / "x.esp", "--target", "esn-s", "--stream", HOP,
               "--budget", "cycles=100")
    assert none.code == 1
    assert "none of these meets it" in none.out


def test_a_met_budget_says_what_is_not_in_it(tmp_path: Path, data_root: Path) -> None:
    kws = path_of(data_root, "mlperf/mlperf_kws_dscnn_int8")
    ran = Ran("convert", kws, "-o", tmp_path / "x.esp", "--target", "esn-s", "--budget",
              "5ms@64MHz")
    assert ran.code == 0
    assert "the budget 5ms@64MHz is 320,000: met" in ran.out
    assert "not in the bound, on the CPU: Identity" in ran.out


def test_the_host_has_neither_bound_nor_prediction(tmp_path: Path) -> None:
    ran = Ran("convert", ECG, "-o", tmp_path / "x.esp", "--target", "host", "--budget",
              "20ms@64MHz")
    assert ran.code == 2
    assert "nothing is known of the time that target host takes" in ran.err
    assert ("name one of esn-lab, esn-m, esn-s (bound in cycles) or cortex-m4, cortex-m55 "
            "(predicted instructions)") in ran.err
    assert not (tmp_path / "x.esp").exists()


def test_inspect_shows_the_bound(tmp_path: Path) -> None:
    plan = plan_for(SPARSE)
    plan.save(tmp_path / "x.esp")
    cycles = bound_of(plan).cycles
    assert f"at most {cycles:,} emulated cycles a hop" in Ran("inspect", tmp_path / "x.esp").out
    told = Ran("inspect", tmp_path / "x.esp", "--json").json["npu"]
    assert (told["bound_emulated_cycles"], told["no_bound"]) == (cycles, None)


# ---- Cortex-M: predicted instructions


def on_core(path: Path, *more: object) -> Ran:
    return Ran("convert", ECG, "-o", path, "--stream", HOP, "--budget", *more)


def test_a_core_is_held_to_predicted_instructions(tmp_path: Path) -> None:
    path = tmp_path / "x.esp"
    ran = on_core(path, "44ms@64MHz", "--target", "cortex-m4")
    assert ran.code == 0
    amount = predict(es.Plan.load(path), "cortex-m4").instructions
    milliseconds = 1.3 * amount / 64e3
    assert (f"budget predicted are {amount:,} QEMU instructions a hop, {milliseconds:.4g} ms at "
            "64 MHz and 1.3 cycles an instruction (assumed); the budget 44ms@64MHz is 2,166,153: "
            "met") in ran.out
    told = on_core(path, f"instructions={amount}", "--target", "cortex-m4", "--json").json
    assert told["budget"]["met"] is True
    assert told["budget"]["predicted_instructions"] == amount
    assert told["budget"]["assumed_cycles_per_instruction"] == 1.3
    assert told["budget"]["costly"][0]["instructions"] < amount


def test_a_missed_budget_on_a_core_writes_nothing_and_names_ways(tmp_path: Path) -> None:
    path = tmp_path / "x.esp"
    ran = Ran("convert", DENSE, "-o", path, "--stream", HOP, "--budget",
              "instructions=20000@cortex-m4")
    assert ran.code == 1
    assert not path.exists()
    assert "budget missed, no plan was written: predicted are" in ran.err
    for words in ("costs most", "block1_1 +1", "90 % of weights zero in", "missed",
                  "none of these meets it"):
        assert words in ran.out
    told = Ran("convert", DENSE, "-o", path, "--stream", HOP, "--budget",
               "instructions=20000@cortex-m4", "--json").json["budget"]
    costs = [other["instructions"] for other in told["alternatives"]]
    assert len(costs) == 3
    assert costs == sorted(costs)
    assert costs[0] < told["predicted_instructions"]  # zeros are worth something


def test_cycles_of_a_core_are_made_instructions_by_the_assumption(tmp_path: Path) -> None:
    told = on_core(tmp_path / "x.esp", "cycles=1300000@cortex-m4", "--json").json["budget"]
    assert (told["instructions"], told["clock_hz"]) == (1_000_000, None)


def test_a_budget_may_name_the_target_once_or_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.esp"
    assert on_core(path, "44ms@64MHz@cortex-m55").code == 0
    assert es.Plan.load(path).model.target == "cortex-m55"
    assert on_core(path, "44ms@64MHz@cortex-m55", "--target", "cortex-m55").code == 0
    ran = on_core(path, "44ms@64MHz@cortex-m55", "--target", "cortex-m4")
    assert ran.code == 2
    assert "--budget is for cortex-m55, --target says cortex-m4; leave one of them out" in ran.err
    for text in ("44ms@64MHz@cortex-m5", "cycles=9@cortex-m5"):
        ran = on_core(path, text)
        assert ran.code == 2
        assert "target 'cortex-m5' is not known; there are cortex-m4, cortex-m55" in ran.err


@pytest.mark.parametrize(("text", "target", "words"), [
    ("instructions=5", "esn-s", "esn-s is bounded in emulated cycles; a time or cycles=N"),
    ("cycles=1", "cortex-m4", "less than one instruction at 1.3 cycles an instruction (assumed)"),
    ("instructions=0", "cortex-m4", "1 or more is allowed")])
def test_budgets_that_mean_nothing_there_are_refused(
    text: str, target: str, words: str, tmp_path: Path
) -> None:
    ran = on_core(tmp_path / "x.esp", text, "--target", target)
    assert ran.code == 2
    assert words in ran.err
