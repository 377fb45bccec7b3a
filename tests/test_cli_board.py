"""deploy and stream on emulated boards: as a user types them, and when things go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import Ran, dense_layer
from ecg_stream import ecg_plan
from edgesparse.device import Device, DeviceOptions, build_firmware
from edgesparse.link import deploy as deployment
from edgesparse.link.client import Link
from edgesparse.link.images import upload
from needs import require

for tool in ("arm", "qemu", "cmake"):
    require(tool)

two_cpus = pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ecg.esp, old.esp, and x.npy: 10 s of a made heart with a gap."""
    folder = tmp_path_factory.mktemp("board")
    ecg_plan().save(folder / "ecg.esp")
    es.convert(dense_layer(), "cortex-m4").save(folder / "old.esp")
    t = np.arange(3600)
    signal = 40 * np.sin(t / 97) + 250 * np.exp(-(((t % 290) - 150) / 8) ** 2)
    signal[1800:1900] = -32768
    np.save(folder / "x.npy", signal.astype(np.int16))
    return folder


@contextmanager
def board(cpu: str, plan: Path | None = None, image: str = "firmware") -> Iterator[Device]:
    options = DeviceOptions(firmware=build_firmware(cpu, image))
    with Device.start(cpu, plan=plan, options=options) as device:
        yield device


@two_cpus
def test_deploy_and_stream_give_what_runs_here(folder: Path, cpu: str) -> None:
    said = ("stream", folder / "ecg.esp", "--source", folder / "x.npy", "--rate", 360, "--json",
            "--runs")
    here = Ran(*said).out.splitlines()
    with board(cpu) as device:
        done = Ran("deploy", folder / "ecg.esp", "--port", device.port)
        there = Ran(*said, "--port", device.port).out.splitlines()
        again = Ran("deploy", folder / "ecg.esp", "--port", device.port)
        other = Ran("deploy", folder / "old.esp", "--port", device.port)
    assert (done.code, done.err) == (0, "")
    for words in ("no plan runs", "test    passed on the device", "ecg.esp runs, confirmed"):
        assert words in done.out
    assert len(here) > 200
    assert there[:-1] == here[:-1]
    ours, theirs = json.loads(here[-1]), json.loads(there[-1])
    assert theirs["runs"] > 200
    for key in ("runs", "missing", "samples", "beats", "signal_seconds"):
        assert theirs[key] == ours[key], key
    assert "nothing to do" in again.out
    assert [("made for host" in ran.out) for ran in (done, other)] == [True, False]


def interrupted_upload(
    link: Link, plan: bytes, progress: Callable[[int], None]
) -> bytes:
    def stop_half_way(sent: int) -> None:
        progress(sent)
        if sent > len(plan) // 2:
            raise KeyboardInterrupt

    return upload(link, plan, stop_half_way)


def test_ctrl_c_in_an_upload_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with board("cortex-m4", folder / "old.esp") as device:
        with monkeypatch.context() as patch:
            patch.setattr(deployment, "upload", interrupted_upload)
            ran = Ran("deploy", folder / "ecg.esp", "--port", device.port)
        assert ran.code == 130
        assert "bytes and runs what it ran; the same command goes on there" in ran.err
        told = Ran("deploy", folder / "ecg.esp", "--port", device.port, "--json").json
    half = (folder / "ecg.esp").stat().st_size // 2
    assert half < told["resumed_at"] < half + 1024
    assert told["outcome"] == "confirmed"


@pytest.mark.parametrize("image", ["firmware_hangs", "firmware_faults"])
def test_a_plan_that_brings_the_device_down_is_taken_back(folder: Path, image: str) -> None:
    """The firmware of this test hangs or faults when a plan is on trial."""
    with board("cortex-m4", folder / "old.esp", image) as device:
        ran = Ran("deploy", folder / "ecg.esp", "--port", device.port)
        told = Ran("deploy", folder / "old.esp", "--port", device.port, "--json").json
    assert ran.code == 1
    assert "the device did not start it, or stopped it again" in ran.err
    assert "the old plan" in ran.err
    assert "runs again" in ran.err
    assert told["outcome"] == "nothing_to_do"


def test_a_plan_that_is_too_large_is_refused_before_the_upload(tmp_path: Path) -> None:
    es.convert(dense_layer(rows=1100, columns=1000)).save(tmp_path / "large.esp")
    with board("cortex-m4") as device:
        ran = Ran("deploy", tmp_path / "large.esp", "--port", device.port)
    assert ran.code == 2
    assert "larger than a slot" in ran.err
    assert "prune the model further" in ran.err


def test_a_started_device_is_a_port_by_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three commands of the README."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Ran("device", "start", "--name", "m4").code == 0
    try:
        assert Ran("deploy", folder / "ecg.esp", "--port", "m4").code == 0
        ran = Ran("stream", folder / "ecg.esp", "--port", "m4", "--source", folder / "x.npy",
                  "--rate", 360, "--seconds", 5)
        assert ran.code == 0
        assert "through the link" in ran.out
    finally:
        assert Ran("device", "stop", "m4").code == 0
    assert Ran("deploy", folder / "ecg.esp", "--port", "m4").code == 1
