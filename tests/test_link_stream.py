"""What runs on the device, through the link, equals what runs here."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import BadInput, LinkRefused
from edgesparse.graph.ir import Array
from edgesparse.link import Framing, inference, smp
from edgesparse.link.framing import encode
from edgesparse.link.stream import PUSH, DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Event, Run
from everything import everything
from link_device import LockstepPort, lockstep
from stream_plans import comparable, full_stream_plan, random_signal


@cache
def stream_plan() -> Plan:
    return Plan.from_bytes(write_plan(full_stream_plan()))


@cache
def window_plan() -> Plan:
    return Plan.from_bytes(write_plan(everything()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    stream_plan().save(folder / "stream.esp")
    window_plan().save(folder / "window.esp")
    return folder


def expected(signal: Array, runs: bool) -> list[object]:
    stream = Stream(stream_plan())
    events = [*stream.push(signal), *stream.flush()]
    return comparable(wanted(events, runs))


def wanted(events: list[Event], runs: bool) -> list[Event]:
    return [event for event in events if runs or not isinstance(event, Run)]


def streamed(stream: DeviceStream, signal: Array) -> list[object]:
    events = [*stream.push(signal), *stream.finish()]
    return comparable(events)


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("buffer", [256, 1024])
def test_a_stream_gives_what_it_gives_here(
    folder: Path, framing: Framing, runs: bool, buffer: int
) -> None:
    signal = random_signal(np.random.default_rng(3), 4000)
    shapes = [out.shape for out in stream_plan().outputs]
    with lockstep(buffer, folder / "stream.esp", framing) as link:
        for _ in range(2):
            stream = DeviceStream(link, runs, shapes)
            assert streamed(stream, signal) == expected(signal, runs)
        assert link.stats()["drop"] == 0
        latency = inference.latency(link)
        assert latency.count == sum(latency.bins) > 0


def test_results_wait_until_they_are_acknowledged(folder: Path) -> None:
    """Never acknowledged, they fill the ring; then samples wait too, and nothing is lost."""
    signal = random_signal(np.random.default_rng(3), 4000)
    with lockstep(1024, folder / "stream.esp") as link:
        stream = DeviceStream(link, runs=True)
        entries = {"sid": stream._sid, "i": 0, "ack": 0, "d": signal[:400].tobytes()}
        first = link.request(PUSH, entries)
        again = link.request(PUSH, entries)
        assert 0 < first["i"] < 400
        assert again == first
        here = Stream(stream_plan())
        events = [flat(event) for event in [*here.push(signal), *here.flush()]]
        assert streamed(stream, signal) == comparable(events)


def flat(event: Event) -> Event:
    if not isinstance(event, Run):
        return event
    outputs = np.concatenate([out.reshape(-1) for out in event.outputs])
    return Run(event.sample, event.column, event.skip, (outputs,))


def test_what_a_push_is_refused_for(folder: Path) -> None:
    with lockstep(1024, folder / "stream.esp") as link:
        stream = DeviceStream(link)
        good = {"sid": stream._sid, "i": 0, "ack": 0, "d": bytes(8)}
        for entries, code in (
            (good | {"sid": stream._sid ^ 1}, 1), (good | {"i": 1}, 2), (good | {"d": bytes(7)}, 5),
            (good | {"ack": 1}, 5), (good | {"i": "0"}, 5)):
            with pytest.raises(LinkRefused) as caught:
                link.request(PUSH, entries)
            assert (caught.value.group, caught.value.code) == (64, code)
        with pytest.raises(LinkRefused, match="a stream is open"):
            inference.run(link, [np.zeros(8, np.int8)])
        with pytest.raises(BadInput, match="the device takes int16"):
            stream.push(np.zeros(3))
        stream.close()
        with pytest.raises(LinkRefused, match="no such stream"):
            stream.poll()
        assert link.stats()["gap"] == 1


def test_a_frame_that_only_its_crc32_tells_is_refused(folder: Path) -> None:
    """Bits that a CRC-16 does not see: its own polynomial, added to the samples."""
    port = LockstepPort(1024, folder / "stream.esp")
    entries = {"sid": 5, "i": 0, "ack": 0, "d": bytes(64)}
    opened = smp.encode(smp.Command(smp.Group.EDGESPARSE, 1, smp.Op.WRITE, "open"), 1, {"sid": 5})
    port.exchange(encode(Framing.COBS, opened))
    message = bytearray(smp.encode(PUSH, 2, entries))
    at = message.index(bytes(64)) + 20
    message[at:at + 3] = b"\x01\x10\x21"  # x^16 + x^12 + x^5 + 1
    reply = port.exchange(encode(Framing.COBS, bytes(message)))
    assert b"\x62rc\x06" in reply
    assert zlib.crc32(bytes(message)) != 0
    port.close()


@pytest.mark.parametrize("framing", Framing)
def test_one_inference_gives_what_it_gives_here(folder: Path, framing: Framing) -> None:
    rng = np.random.default_rng(8)
    plan = window_plan()
    here = Session(plan)
    with lockstep(256, folder / "window.esp", framing) as link:
        for _ in range(3):
            inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in plan.inputs]
            for given, x in zip(here.native.inputs, inputs):
                given[:] = x.reshape(-1)
            here.native.run()
            there = inference.run(link, inputs)
            assert [y.tobytes() for y in there] == [y.tobytes() for y in here.native.outputs]
        assert link.stats()["infer"] == 3
        with pytest.raises(LinkRefused, match="a value or size is wrong"):
            inference.run(link, [np.zeros(100_000, np.int8)])


def test_self_test_and_profile(folder: Path) -> None:
    plan = window_plan()
    with lockstep(256, folder / "window.esp") as link:
        assert link.info()["run"] is True
        assert inference.self_test(link) >= 0
        before = inference.profile(link)
        inference.run(link, [np.zeros(x.shape, np.int8) for x in plan.inputs])
        after = inference.profile(link)
        assert len(after) == len(plan.model.steps)
        assert {b.runs - a.runs for a, b in zip(before, after)} == {1}
        inference.reset_state(link)
        with pytest.raises(LinkRefused, match="not supported"):
            DeviceStream(link)
