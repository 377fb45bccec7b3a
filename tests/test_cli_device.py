"""edgesparse device."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Ran
from edgesparse.device import registry
from edgesparse.device.registry import open_port
from edgesparse.errors import LinkLost
from edgesparse.link import images, open_link
from edgesparse.plan.model import PlanModel
from edgesparse.plan.write import write_plan
from everything import everything
from needs import require
from stream_plans import full_stream_plan

require("arm")
require("qemu")
require("cmake")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield
    for entry in registry.entries():
        registry.stop(entry)


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)  # here it is our child; of a command that has ended, init's


def test_start_list_stop(tmp_path: Path) -> None:
    plan = tmp_path / "stream.esp"
    plan.write_bytes(write_plan(full_stream_plan()))
    started = Ran("device", "start", "--plan", plan, "--json")
    assert (started.code, started.json["name"]) == (0, "cortex-m4")
    with open_link(started.json["port"]) as link:
        [image] = images.images(link)
        assert image.active
    second = Ran("device", "start", "--icount", "--flash", tmp_path / "flash.bin")
    assert "cortex-m4-2 runs on socket://127.0.0.1:" in second.out
    listed = Ran("device", "list")
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["cortex-m4", "cortex-m4", "runs"], ["cortex-m4-2", "cortex-m4", "runs"]]
    assert Ran("device", "stop", "cortex-m4").out == "cortex-m4 stopped\n"
    assert Ran("device", "stop", "--all").out == "cortex-m4-2 stopped\n"
    assert (tmp_path / "flash.bin").exists()
    assert not Path(started.json["folder"]).exists()
    assert Ran("device", "list").out == "no devices\n"
    assert Ran("device", "list", "--json").json == {"devices": []}


def test_a_port_that_cannot_be_opened_is_told_with_the_devices_there_are() -> None:
    started = Ran("device", "start", "--name", "old", "--json").json
    with pytest.raises(LinkLost) as typo:
        open_port("odl", 115200)
    assert str(typo.value) == (
        "odl cannot be opened: No such file or directory; and no device has been started by this "
        "name, there is old")
    end(started["pid"])
    with pytest.raises(LinkLost, match="Connection refused; device old has ended, start it again"):
        open_port("old", 115200)
    for path in ("/dev/no-such-port", "socket://127.0.0.1:1"):
        with pytest.raises(LinkLost, match=r"(directory|refused)$"):
            open_port(path, 115200)


def test_a_device_that_has_ended_is_listed_once_more() -> None:
    started = Ran("device", "start", "--name", "old", "--json").json
    end(started["pid"])
    [row] = Ran("device", "list", "--json").json["devices"]
    assert (row["name"], row["alive"]) == ("old", False)
    assert Ran("device", "list").out == "no devices\n"
    assert not Path(started["folder"]).exists()
    started = Ran("device", "start", "--name", "old", "--json").json
    end(started["pid"])
    assert Ran("device", "start", "--name", "old").code == 0
    assert Ran("device", "stop", "old").out == "old stopped\n"


def test_a_device_that_does_not_stop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its QEMU is halted: others wait for an answer, so its socket takes no more."""
    pid = Ran("device", "start", "--name", "halted", "--json").json["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(registry, "ASK_S", 0.2)
            impatient.setattr(registry, "STOP_S", 0.5)
            assert Ran("device", "list", "--json").json["devices"][0]["alive"]
            stopped = Ran("device", "stop", "halted")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert stopped.code != 0
    assert stopped.err == f"error: halted does not stop; end process {pid}\n"


def test_what_is_refused(tmp_path: Path) -> None:
    assert Ran("device", "start", "--name", "a", "--flash", tmp_path / "f.bin").code == 0
    for arguments, message in (
        (("start", "--cpu", "z80"), "no such device; there are cortex-m4"),
        (("start", "--name", "a"), "such a device runs already"),
        (("start", "--name", "a/b"), "letters, digits"),
        (("start", "--flash", tmp_path / "f.bin"), "this is the flash of a"),
        (("start", "--flash", tmp_path / "no" / "f.bin"), "there is no directory"),
        (("start", "--plan", tmp_path / "no.esp"), "No such file"),
        (("start", "--firmware", tmp_path / "no.elf"), "no such firmware"),
        (("stop", "b"), "no such device; there is a"),
        (("stop",), "give the NAME"),
        (("stop", "a", "--all"), "give the NAME")):
        ran = Ran("device", *arguments)
        assert ran.code == 2
        assert message in ran.err


@pytest.mark.parametrize(
    ("plan", "message"), [
        (replace(full_stream_plan(), arena_bytes=8 << 20), "8,388,608 bytes of RAM"),
        (everything(), "has a program for an NPU")])
def test_a_plan_that_does_not_run_there_is_not_left_there(
    plan: PlanModel, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.esp"
    path.write_bytes(write_plan(plan))
    ran = Ran("device", "start", "--plan", path)
    assert ran.code == 2
    assert "the plan does not run on a cortex-m4" in ran.err
    assert message in ran.err
    assert registry.entries() == ()


@pytest.mark.parametrize(
    ("program", "package"), [
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi"), ("qemu-system-arm", "qemu-system-arm"),
        ("cmake", "cmake")])
def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str, package: str
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else which(name))
    ran = Ran("device", "start")
    assert ran.code == 2
    assert f"{program} is not on the PATH" in ran.err
    assert f"apt install {package}" in ran.err


def test_firmware_that_does_not_build_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                               ) -> None:
    def fails(command: tuple[object, ...], **_: object) -> subprocess.CompletedProcess[str]:
        text = b"" if "--version" in command else ""
        return subprocess.CompletedProcess(command, 1, text, "main.c: error: no")  # type: ignore[arg-type]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", fails)
    ran = Ran("device", "start")
    assert ran.code == 2
    assert "the firmware does not build" in ran.err
    assert "main.c: error: no" in ran.err


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    registry.state_folder().mkdir(parents=True)
    record = registry.state_folder() / "x.json"
    record.write_text("{}")
    ran = Ran("device", "list")
    assert ran.code == 2
    assert "no record of a device" in ran.err
    record.unlink()


def test_a_device_outlives_the_command(tmp_path: Path) -> None:
    """Started by a process of its own, as a shell does."""
    done = subprocess.run(
        [sys.executable, "-m", "edgesparse", "device", "start", "--name", "own"],
        capture_output=True, text=True, check=True)
    port = done.stdout.splitlines()[0].split()[-1]
    time.sleep(0.1)
    with open_link(port) as link:
        assert link.echo("x") == "x"
    assert Ran("device", "stop", "own").code == 0
