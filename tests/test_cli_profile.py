"""edgesparse profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from npu_models import path_of

import edgesparse as es
from command_line import ECG, Ran, dense_layer
from edgesparse.profiling.profile import SHARES
from edgesparse.profiling.run import HOPS
from profiled import KWS, STREAM, plan_for


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "stream.esp"
    plan_for(path_of(Path(), STREAM)).save(path)
    return path


def layer_plan(path: Path, target: str = "esn-s") -> Path:
    """A fully connected layer of 64 outputs."""
    es.convert(dense_layer(rows=64, columns=32), target).save(path)
    return path


def test_the_tables_fit_80_columns_and_have_every_layer(stream: Path) -> None:
    ran = Ran("profile", stream, "--on", "esn-s")
    assert ran.code == 0
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80
    for words in ("emulated cycles a hop, mean of 200 hops", "stem1_1 #1", "block6_1 +1", "above",
                  "launch", "in all", "whatever the input", "with every weight stored",
                  "an estimate", "flash (assumed)"):
        assert words in ran.out


def test_steps_of_the_cpu_are_named(tmp_path: Path, data_root: Path) -> None:
    plan_for(path_of(data_root, KWS)).save(tmp_path / "kws.esp")
    ran = Ran("profile", tmp_path / "kws.esp", "--on", "esn-s")
    line = next(line for line in ran.out.splitlines() if line.startswith("Identity"))
    assert "on the CPU" in line
    assert "in none of these cycles: Identity" in ran.out
    told = Ran("profile", tmp_path / "kws.esp", "--on", "esn-s", "--json").json
    assert told["on_cpu"] == ["Identity"]


def test_json_adds_up_and_names_its_units(stream: Path) -> None:
    told = Ran("profile", stream, "--on", "esn-s", "--json").json
    assert (told["kind"], told["on"], told["runs"]) == ("edgesparse profile", "esn-s", HOPS)
    assert told["knobs"] == {"launch_cycles": 500, "fetch": True, "scan_width": 16}
    total, layers = told["total"], told["layers"]
    sums = sum(layer["emulated_cycles"] for layer in layers)
    assert total["emulated_cycles"] == pytest.approx(
        sums + told["launch_cycles"] + told["rest_cycles"])
    assert total["emulated_cycles"] <= total["most_emulated_cycles"]
    assert total["most_emulated_cycles"] <= total["bound_emulated_cycles"]
    for layer in layers:
        assert set(layer["shares"]) == set(SHARES)
        parts = layer["energy_pj"]
        assert parts["total"] == pytest.approx(
            parts["mac"] + parts["sram"] + parts["dram"] + parts["flash"])
    energy = told["energy"]
    assert energy["assumed"] == ["flash_pj_per_byte"]
    assert [x["flash_pj_per_byte"] for x in energy["ratio_to_dense"]] == [16.25, 162.5, 325.0]
    assert all(0 < x["ratio"] < 1 for x in energy["ratio_to_dense"])


def test_knobs_change_what_is_counted(stream: Path) -> None:
    def cycles(*options: object) -> float:
        told = Ran("profile", stream, "--on", "esn-s", "--json", *options).json
        found: float = told["total"]["emulated_cycles"]
        return found

    plain = cycles()
    assert cycles("--launch", 2000) == plain + 1500
    assert cycles("--no-fetch") < plain
    assert cycles("--no-fetch", "--scan-width", 1) >= cycles("--no-fetch")


def test_input_is_that_of_run_and_of_push(tmp_path: Path, stream: Path) -> None:
    plan = layer_plan(tmp_path / "x.esp")
    np.save(tmp_path / "x.npy", np.full((3, 1, 32), 3, np.int8))  # the zero point
    told = Ran("profile", plan, "--on", "esn-s", "--input", tmp_path / "x.npy", "--json").json
    assert told["runs"] == 3
    assert told["total"]["counters"]["mac_issued"] == 0
    assert told["total"]["counters"]["mac_skip_a"] > 0
    np.save(tmp_path / "s.npy", np.zeros(16 * 40, np.int16))
    told = Ran("profile", stream, "--on", "esn-s", "--input", tmp_path / "s.npy", "--json").json
    assert 30 <= told["runs"] <= 40
    np.savez(tmp_path / "s.npz", a=np.zeros(4), b=np.zeros(4))
    for bad in ("s.npz", "no.npy"):
        assert Ran("profile", stream, "--on", "esn-s", "--input", tmp_path / bad).code == 2
    np.save(tmp_path / "y.npy", np.zeros((3, 1, 31), np.int8))
    assert Ran("profile", plan, "--on", "esn-s", "--input", tmp_path / "y.npy").code == 2


def test_a_plan_of_another_target_is_refused_with_the_way_out(tmp_path: Path) -> None:
    ran = Ran("profile", layer_plan(tmp_path / "m.esp", "esn-m"), "--on", "esn-s")
    assert ran.code == 2
    assert "convert the model with --target esn-s" in ran.err
    ran = Ran("profile", layer_plan(tmp_path / "h.esp", "host"), "--on", "esn-m")
    assert ran.code == 2
    assert "the plan has no program for an NPU; convert the model with --target" in ran.err
    assert Ran("profile", tmp_path / "h.esp", "--on", "cortex-m4").code == 2


def test_the_host_shows_shares_and_no_times(stream: Path) -> None:
    ran = Ran("profile", stream, "--on", "host")
    assert ran.code == 0
    assert "share of the time of all layers" in ran.out
    told = Ran("profile", stream, "--on", "host", "--json").json
    assert all(set(layer) == {"step", "name", "runs", "share"} for layer in told["layers"])


# ---- comparison


def saved(path: Path, *arguments: object) -> Path:
    path.write_text(Ran("profile", *arguments, "--json").out)
    return path


def test_two_profiles_are_set_side_by_side(tmp_path: Path, stream: Path) -> None:
    before = saved(tmp_path / "a.json", stream, "--on", "esn-s")
    resident = tmp_path / "resident.esp"
    plan_for(path_of(Path(), STREAM), resident=True).save(resident)
    told = Ran("profile", resident, "--on", "esn-s", "--compare", before, "--json").json
    old = json.loads(before.read_text())
    assert [row["name"] for row in told["comparison"]] == [
        *(layer["name"] for layer in told["layers"]), "in all"]
    for row, ours, theirs in zip(told["comparison"], [*told["layers"], told["total"]],
                                 [*old["layers"], old["total"]]):
        assert (row["now"], row["before"]) == (ours["emulated_cycles"], theirs["emulated_cycles"])
        if row["before"]:
            assert row["ratio"] == pytest.approx(row["now"] / row["before"])
            assert row["energy_ratio"] == pytest.approx(row["now_pj"] / row["before_pj"])
    assert told["comparison"][-1]["ratio"] < 0.5
    ran = Ran("profile", resident, "--on", "esn-s", "--compare", before, "--launch", 0)
    assert ran.code == 0
    assert "note: launch_cycles 0 against 500 before" in ran.out
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80


def test_layers_that_only_one_has_are_shown(tmp_path: Path, stream: Path) -> None:
    before = saved(tmp_path / "a.json", stream, "--on", "esn-s")
    changed = json.loads(before.read_text())
    changed["layers"][2]["name"] = "gone"
    before.write_text(json.dumps(changed))
    rows = Ran("profile", stream, "--on", "esn-s", "--compare", before, "--json").json["comparison"]
    assert [row["name"] for row in rows if row["now"] is None] == ["gone"]
    assert sum(row["before"] is None for row in rows) == 1
    assert Ran("profile", stream, "--on", "esn-s", "--compare", before).code == 0


def test_what_cannot_be_compared_is_refused(tmp_path: Path, stream: Path) -> None:
    other = tmp_path / "other.esp"
    es.convert(ECG, "esn-s", es.Options(golden=False)).save(other)
    layer = layer_plan(tmp_path / "layer.esp")
    good = json.loads(saved(tmp_path / "good.json", stream, "--on", "esn-s").read_text())

    def refused(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        ran = Ran("profile", stream, "--on", "esn-s", "--compare", tmp_path / name)
        assert ran.code == 2
        return ran.err

    assert "a profile of ecg_c48_4x1_75.tflite, this is ecg_c48_16x1_75.tflite" in refused(
        "b.json", saved(tmp_path / "c.json", other, "--on", "esn-s").read_text())
    assert "profiles of the same model file" in refused(
        "b.json", saved(tmp_path / "c.json", layer, "--on", "esn-s").read_text())
    assert "made on host, this is on esn-s" in refused(
        "b.json", saved(tmp_path / "c.json", stream, "--on", "host").read_text())
    assert "not a JSON file" in refused("b.json", "{")
    for text in ("[]", "{}", "null", '{"kind": "other"}'):
        assert "not what" in refused("b.json", text)
    assert "version 0" in refused("b.json", json.dumps(good | {"version": 0}))
    assert "not a JSON file" in refused("b.json", "[" * 100_000)
    assert "damaged" in refused("b.json", json.dumps({k: good[k] for k in good if k != "on"}))
    for cost in (10**400, -1, float("nan")):
        total = good["total"] | {"emulated_cycles": cost}
        assert "damaged" in refused("b.json", json.dumps(good | {"total": total}))
    for damage in ({"layers": [{}]}, {"layers": None}, {"layers": [3]}, {"total": {}},
                   {"total": {"emulated_cycles": "many", "energy_pj": {"total": 1}}}):
        assert "the profile is damaged" in refused("b.json", json.dumps(good | damage))
    assert Ran("profile", stream, "--on", "esn-s", "--compare", tmp_path / "no.json").code == 2
