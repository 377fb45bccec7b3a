"""edgesparse stream --port: what a device finds is what this computer finds, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from command_line import Ran
from ecg_stream import ecg_plan
from edgesparse.cli.stream_view import LiveView
from edgesparse.errors import LinkLost, LinkTimeout
from edgesparse.graph.ir import Array
from edgesparse.link import Link, open_link
from edgesparse.link.remote import RemoteStream
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.replay import Replay
from link_device import NO_WAIT, LockstepPort, on_a_pty

SECONDS = 12
TIMES = ("wall_s", "worst_run_s", "times_real_time", "overruns")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plans with beats, without, and a signal with a gap and a lead that falls off."""
    folder = tmp_path_factory.mktemp("stream")
    ecg_plan().save(folder / "beats.esp")
    ecg_plan(beats=False).save(folder / "runs.esp")
    t = np.arange(360 * SECONDS)
    signal = 40 * np.sin(t / 97) + 250 * np.exp(-(((t % 290) - 150) / 8) ** 2)
    signal[1800:1900] = -32768
    signal[3000:3300] = 0
    np.save(folder / "x.npy", signal.astype(np.int16))
    return folder


@pytest.fixture(scope="module", params=["beats.esp", "runs.esp"])
def device(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Path, str]]:
    with on_a_pty(plan=folder / request.param) as port:
        yield folder / request.param, port


def lines(plan: Path, *more: object) -> tuple[list[str], dict[str, object]]:
    """The events as they are printed, and the summary without what is measured."""
    ran = Ran("stream", plan, "--source", plan.parent / "x.npy", "--rate", 360, "--json", *more)
    assert (ran.code, ran.err) == (0, "")
    *events, last = ran.out.splitlines()
    summary = {key: value for key, value in json.loads(last).items() if key not in TIMES}
    return events, summary


@pytest.mark.parametrize("more", [[], ["--runs"], ["--chunk-ms", "37"], ["--seconds", "5.5"]])
def test_events_are_the_same_bytes(device: tuple[Path, str], more: list[str]) -> None:
    plan, port = device
    here, there = lines(plan, *more), lines(plan, "--port", port, *more)
    assert len(here[0]) > 3
    assert there == here


def test_annotations_are_the_same_file(folder: Path) -> None:
    said = ("stream", folder / "beats.esp", "--source", folder / "x.npy", "--rate", 360)
    with on_a_pty(plan=folder / "beats.esp") as port:
        assert Ran(*said, "--annotations", folder / "here.atr").code == 0
        ran = Ran(*said, "--annotations", folder / "there.atr", "--port", port)
    assert ran.code == 0
    assert (folder / "there.atr").read_bytes() == (folder / "here.atr").read_bytes()
    for words in ("on the device, by its clock", "times real time, through the link"):
        assert words in ran.out


def test_in_real_time_a_push_is_timed_over_the_link(folder: Path) -> None:
    with on_a_pty(plan=folder / "beats.esp") as port:
        ran = Ran("stream", folder / "beats.esp", "--source", folder / "x.npy", "--rate", 360,
                  "--realtime", "--seconds", 1, "--port", port)
    assert ran.code == 0
    assert "ms a push of one chunk" in ran.out
    assert "over the link there" in ran.out
    assert "behind the clock at most" in ran.out


def test_the_live_view_shows_what_the_device_counts(folder: Path) -> None:
    samples: Array = np.load(folder / "x.npy")
    with on_a_pty(plan=folder / "beats.esp") as port, open_link(port) as link:
        stream = RemoteStream(link, Plan.load(folder / "beats.esp"), runs=False)
        replay = Replay(stream, 360, time_pushes=True)
        console = Console(width=80, force_terminal=True, record=True)
        with LiveView(console, replay, "x") as view:
            view.show(samples[:2000], replay.push(samples[:2000]))
            console.print(view.picture())
        text = console.export_text()
    here = Stream(ecg_plan())
    here.push(samples[:2000])
    assert here.runs > 100
    assert f"missing samples: {here.missing}" in text
    assert f"of {here.runs} deadlines" in text


def test_another_plan_is_refused_with_the_way_out(folder: Path) -> None:
    with on_a_pty(plan=folder / "runs.esp") as port:
        ran = Ran("stream", folder / "beats.esp", "--source", folder / "x.npy", "--rate", 360,
                  "--port", port)
        assert ran.code == 2
        assert "bring it there with edgesparse deploy" in ran.err
        ran = Ran("stream", folder / "runs.esp", "--source", folder / "x.npy", "--rate", 360,
                  "--port", port, "--budget-ms", 5)
    assert ran.code == 2
    assert "the device's firmware has the budget" in ran.err


def stream_over(port: LockstepPort, plan: Path) -> RemoteStream:
    return RemoteStream(Link(port, patience=NO_WAIT), Plan.load(plan), runs=False)


def test_a_lost_link_says_how_far_it_came(folder: Path) -> None:
    port = LockstepPort(1024, folder / "beats.esp")
    stream = stream_over(port, folder / "beats.esp")
    stream.push(np.zeros(720, np.int16))
    port.exchange = lambda data: b""  # type: ignore[method-assign]
    with pytest.raises(LinkTimeout, match="720 samples had been taken, the results up to there"):
        stream.push(np.zeros(360, np.int16))
    port.process.kill()


def test_a_device_that_was_reset_is_noticed(folder: Path) -> None:
    with on_a_pty(plan=folder / "beats.esp") as port, open_link(port) as link:
        stream = RemoteStream(link, Plan.load(folder / "beats.esp"), runs=False)
        stream.push(np.zeros(720, np.int16))
        link.reset()
        with pytest.raises(LinkLost, match="the device was reset, or another client"):
            stream.push(np.zeros(360, np.int16))
