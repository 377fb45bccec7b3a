"""The pytest plugin: on-device tests in a user's own suite, on emulated boards and on a port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import edgesparse as es
from command_line import dense_layer
from ecg_stream import ecg_plan
from edgesparse.errors import BadInput
from edgesparse.link import open_link
from edgesparse.link.deploy import running
from edgesparse.link.images import images
from edgesparse.profiling.device import INSTRUCTIONS, TICKS, DeviceLayer, DeviceProfile
from edgesparse.profiling.device_budget import parse_device_budget
from edgesparse.testing import open_device
from link_device import on_a_pty
from needs import require

SUITE = """
import edgesparse as es

def test_layer_in_time(edgesparse_device):
    found = edgesparse_device.assert_latency(es.load("layer.esp"), "20ms@64MHz")
    assert found.layers[0].cost > 1000

def test_layer_too_slow(edgesparse_device):
    edgesparse_device.assert_latency(es.load("layer.esp"), "1_000 instructions")

def test_layer_exact(edgesparse_device):
    edgesparse_device.assert_exact(es.load("layer.esp"))

def test_stream_exact(edgesparse_device):
    edgesparse_device.assert_exact(es.load("ecg.esp"))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with SUITE and its plans."""
    pytester.makepyfile(SUITE)
    es.convert(dense_layer(rows=64, columns=64), "cortex-m4").save(pytester.path / "layer.esp")
    ecg_plan().save(pytester.path / "ecg.esp")
    return pytester


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_a_suite_runs_on_an_emulated_board(suite: pytest.Pytester, cpu: str) -> None:
    for name in ("arm", "qemu", "cmake"):
        require(name)
    ran = suite.runpytest("--edgesparse-cpu", cpu)
    ran.assert_outcomes(passed=3, failed=1)
    ran.stdout.fnmatch_lines([
        f"*AssertionError: * on qemu:{cpu}: * QEMU instructions for a run, * ms; the budget 1_000 "
        "instructions is 1,000 QEMU instructions. The slowest layers: y * (* %)"])
    assert "testing.py" not in ran.stdout.str()  # the traceback ends in the user's test


def test_a_device_on_a_port_gets_its_plan_back(suite: pytest.Pytester, tmp_path: Path) -> None:
    es.convert(dense_layer(), "cortex-m4").save(tmp_path / "old.esp")
    with on_a_pty(plan=tmp_path / "old.esp", store=True) as port:
        with open_link(port) as link:
            before = running(images(link))
        ran = suite.runpytest("--edgesparse-port", port, "-k", "exact or slow")
        with open_link(port) as link:
            after = running(images(link))
    ran.assert_outcomes(passed=2, failed=1, deselected=1)
    ran.stdout.fnmatch_lines([f"*BadInput: budget 1_000 instructions: {port} counts ticks"])
    assert after == before


def test_without_qemu_tests_fail_and_say_what_to_install(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(suite.path))
    ran = suite.runpytest("-k", "exact")
    ran.assert_outcomes(errors=2, deselected=2)
    ran.stdout.fnmatch_lines(["edgesparse_device: qemu-system-arm is not on the PATH*apt install*"])


def test_a_port_that_is_not_there_is_an_error(suite: pytest.Pytester) -> None:
    ran = suite.runpytest("--edgesparse-port", "no-such-port", "-k", "layer_exact")
    ran.assert_outcomes(errors=1, deselected=3)
    ran.stdout.fnmatch_lines(["edgesparse_device: no-such-port cannot be opened*"])


def test_pytest_starts_without_edgesparse() -> None:
    """The plugin is imported in every run of pytest on that machine."""
    code = ("import sys, pytest_edgesparse\n"
            "sys.exit(bool({'numpy', 'edgesparse', 'serial'} & sys.modules.keys()))")
    assert subprocess.run((sys.executable, "-c", code)).returncode == 0


def profile(unit: str, cycles: float | None = None) -> DeviceProfile:
    total = DeviceLayer(-1, "in all", 2, 900.0, 1000)
    return DeviceProfile("there", unit, (), total, False, 1_000_000, cycles)


@pytest.mark.parametrize(
    ("text", "found", "cost"),
    [
        ("3ms", profile(INSTRUCTIONS, 1.5), 2000),
        ("3 ms", profile(TICKS), 3000),
        ("1,500 instructions", profile(INSTRUCTIONS), 1500),
        ("7 ticks", profile(TICKS), 7),
    ])
def test_budgets(text: str, found: DeviceProfile, cost: float) -> None:
    assert parse_device_budget(text).cost(found) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("text", "found", "words"),
    [
        ("3ms", profile(INSTRUCTIONS), "give the budget as N instructions"),
        ("3ms@1MHz", profile(TICKS), "a clock of its own"),
        ("3 ticks", profile(INSTRUCTIONS), "counts QEMU instructions"),
        ("3 apples", profile(TICKS), "allowed are a time"),
        ("3ms@1", profile(INSTRUCTIONS, 1.0), "--clock 1"),
    ])
def test_budgets_that_say_nothing(text: str, found: DeviceProfile, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_device_budget(text).cost(found)


def test_other_bytes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose plan is not the one that is compared with: its inputs are seen otherwise."""
    layer, other = (es.convert(dense_layer(seed=seed), "cortex-m4") for seed in (0, 1))
    layer.save(tmp_path / "layer.esp")
    with on_a_pty(plan=tmp_path / "layer.esp") as port, open_device(port) as device:
        link = device.link(layer)
        monkeypatch.setattr(device.rig, "bring", lambda plan: link)
        with pytest.raises(AssertionError, match=r"output y of run 0 has \d of 4 bytes other"):
            device.assert_exact(other)
        device.assert_exact(layer)


def test_other_results_of_a_stream_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ecg_plan(8).save(tmp_path / "ecg.esp")
    monkeypatch.setattr("edgesparse.link.remote.check_runs", lambda link, plan: None)
    with on_a_pty(plan=tmp_path / "ecg.esp") as port, open_device(port) as device:
        link = device.link(ecg_plan(8))
        monkeypatch.setattr(device.rig, "bring", lambda plan: link)
        with pytest.raises(AssertionError, match=r"result \d+ is Beat\(.*there, Run\("):
            device.assert_exact(ecg_plan(8, beats=False))
