"""edgesparse profile on devices: emulated boards counted exactly, real ports by their clock."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import device_instructions
import numpy as np
import pytest

import edgesparse as es
from command_line import Ran, dense_layer
from ecg_stream import ecg_plan
from edgesparse.errors import BadInput, DeviceRefused
from edgesparse.plan.plan import Plan
from edgesparse.profiling.device import INSTRUCTIONS, DeviceProfile, profile_emulated
from link_device import on_a_pty
from needs import require
from test_house import only_one

HOP = 32
"""Samples of a hop: two output columns a run."""


def tools() -> None:
    for name in ("arm", "qemu", "cmake"):
        require(name)


@cache
def profiled(cpu: str) -> DeviceProfile:
    tools()
    found = es.profile(
        device_instructions.stream_plan(cpu, HOP), device_instructions.samples(), on=f"qemu:{cpu}")
    assert isinstance(found, DeviceProfile)
    return found


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_instructions_are_those_that_a_plugin_of_qemu_counts(cpu: str) -> None:
    """But for what it costs to count, which the plugin does not see: about 85 instructions a layer
    and 200 a hop."""
    found = profiled(cpu)
    with only_one("measure"):
        counted = device_instructions.count(
            cpu, device_instructions.stream_plan(cpu, HOP),
            device_instructions.samples().tobytes(), HOP)
    assert found.unit == INSTRUCTIONS
    assert found.runs == len(counted.regions)
    own = 110 * len(found.layers) + 250
    assert 0 < found.total.cost - np.mean(counted.regions) < own
    assert 0 < found.total.most - max(counted.regions) < own
    assert 0 < found.rest < 0.3 * found.total.cost  # front end and decoder


def test_the_same_input_takes_the_same_instructions_in_every_layer() -> None:
    again = profile_emulated(
        device_instructions.stream_plan("cortex-m4", HOP), device_instructions.samples(),
        "qemu:cortex-m4")
    assert again == profiled("cortex-m4")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "layer.esp"
    es.convert(dense_layer(rows=64, columns=64), "cortex-m4").save(path)
    return path


def test_the_table_names_layers_unit_and_assumption(layer: Path, tmp_path: Path) -> None:
    tools()
    ran = Ran("profile", layer, "--on", "qemu:cortex-m4", "--clock", "32MHz")
    assert (ran.code, ran.err) == (0, "")
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 100
    for words in ("layer.esp on qemu:cortex-m4: QEMU instructions a run, mean of 3 runs", "in all",
                  "1.3 cycles per instruction (targets/cortex-m4.toml), at 32 MHz", "100.0 %"):
        assert words in ran.out
    told = Ran("profile", layer, "--on", "qemu:cortex-m4", "--json").json
    total = told["total"]
    assert (told["unit"], told["assumed_cycles_per_instruction"]) == ("QEMU instructions", 1.3)
    assert total["ms"] == pytest.approx(total["cost"] * 1.3 / 64e3)
    assert total["cost"] == pytest.approx(
        told["rest"] + sum(layer["cost"] for layer in told["layers"]))
    (tmp_path / "before.json").write_text(json.dumps(told))
    ran = Ran("profile", layer, "--on", "qemu:cortex-m4", "--compare", tmp_path / "before.json")
    assert ran.code == 0
    assert "QEMU instructions a run: on qemu:cortex-m4 against qemu:cortex-m4" in ran.out
    assert "1.00" in ran.out
    ran = Ran("profile", layer, "--on", "host", "--compare", tmp_path / "before.json")
    assert ran.code == 2
    assert "QEMU instructions and shares of time do not compare" in ran.err


def test_without_an_assumption_there_are_no_milliseconds(layer: Path) -> None:
    tools()
    ran = Ran("profile", layer, "--on", "qemu:cortex-m33")
    assert ran.code == 0
    assert "no milliseconds: nobody has assumed" in ran.out
    assert " ms" not in ran.out.split("\n\n")[1]


def test_what_does_not_run_there_is_refused(layer: Path) -> None:
    tools()
    for arguments, words in (
        ((), "one of --on and --port is needed"),
        (("--on", "host", "--port", "x"), "one of --on and --port is needed"),
        (("--on", "qemu:cortex-m4", "--trace", layer.parent / "t.json"), "no emulated cycles"),
        (("--on", "qemu:cortex-m9"), "there are cortex-m4"),
        (("--on", "qemu:cortex-m4", "--clock", "0MHz"), "--clock 0MHz: a number above 0"),
    ):
        ran = Ran("profile", layer, *arguments)
        assert (ran.code, words in ran.err) == (2, True), ran.err
    with pytest.raises(DeviceRefused, match="esn-s"):
        es.profile(es.convert(dense_layer(rows=64, columns=32), "esn-s"), on="qemu:cortex-m4")


def test_a_real_port_gives_ticks_and_milliseconds(tmp_path: Path) -> None:
    ecg_plan().save(tmp_path / "ecg.esp")
    with on_a_pty(plan=tmp_path / "ecg.esp") as port:
        told = Ran("profile", tmp_path / "ecg.esp", "--port", port, "--json").json
        ran = Ran("profile", tmp_path / "ecg.esp", "--port", port)
        other = Ran("profile", tmp_path / "ecg.esp", "--port", port, "--input", tmp_path / "x.npy")
    assert (told["on"], told["unit"], told["hz"]) == (port, "ticks", 1_000_000)
    assert told["assumed_cycles_per_instruction"] is None
    assert told["total"]["ms"] == pytest.approx(told["total"]["cost"] / 1000)
    assert {layer["runs"] for layer in told["layers"]} == {100}
    assert ran.code == 0
    assert "measured: a tick is 1000 ns of the device's clock" in ran.out
    assert other.code == 2


def test_a_port_has_to_run_the_plan(tmp_path: Path, layer: Path) -> None:
    ecg_plan().save(tmp_path / "ecg.esp")
    with on_a_pty(plan=tmp_path / "ecg.esp") as port:
        ran = Ran("profile", layer, "--port", port)
    assert ran.code == 2
    assert "bring it there with edgesparse deploy" in ran.err


def test_samples_that_do_not_fit_are_refused() -> None:
    tools()
    plan: Plan = ecg_plan()
    for samples, words in ((np.zeros(8, np.int16), "too few for a run"),
                           (np.zeros((2, 3, 4), np.int16), "an array"),
                           (np.zeros(8, np.complex64), "int16 or float")):
        with pytest.raises(BadInput, match=words):
            profile_emulated(plan, samples, "qemu:cortex-m4")
