"""A bad, a slow and a hasty line to an emulated board: the content is exact, or there is a clear
error. tests/test_link_faults.py has far more runs, with the device's code on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import serial

from edgesparse.device import Device, DeviceOptions, nvm
from edgesparse.errors import LinkLost
from edgesparse.graph.ir import Array
from edgesparse.link import Framing, Link, images, inference, open_link, smp
from edgesparse.link.client import ECHO, Patience
from edgesparse.link.framing import Decoder, encode
from edgesparse.link.inference import RUN
from edgesparse.link.smp import Command
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from everything import everything
from faulty_line import FaultyLine
from link_device import Faults
from link_faults import Scene, one_run
from needs import require
from stream_plans import comparable
from test_link_faults import failed, stream_scene

for need in ("arm", "qemu", "cmake"):
    require(need)

PATIENCE = Patience(wait=0.15, tries=30)
"""QEMU answers within some milliseconds, unless the machine is busy."""


def window_plan(seed: int = 1) -> Plan:
    """Every kind of step, without the program for an NPU; its names differ by the seed."""
    model = everything()
    assert model.names is not None
    names = replace(model.names, model=f"m{seed}")
    return Plan.from_bytes(write_plan(replace(model, config=0, npu=None, names=names)))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = stream_scene(tmp_path_factory.mktemp("plan"))
    return replace(made, payload=lambda rng: window_plan(int(rng.integers(1 << 30))).data)


@contextmanager
def on_a_board(
    seed: int, framing: Framing, buffer: int, scene: Scene
) -> Iterator[tuple[Link, FaultyLine]]:
    cpu = ("cortex-m4", "cortex-m55")[seed % 2]
    with (Device.start(cpu, plan=scene.plan) as device, FaultyLine(device.port, seed) as line,
          open_link(line.url, framing, patience=PATIENCE) as link):
        yield link, line


def test_a_bad_line_corrupts_nothing(scene: Scene, pytestconfig: pytest.Config) -> None:
    """one_run() asserts what came out. More of them: pytest --device-link-runs 20."""
    runs = pytestconfig.getoption("--device-link-runs")
    outcomes = [one_run(seed, scene, comparable, on_a_board) for seed in range(runs)]
    mild = [outcome for outcome in outcomes if not outcome.harsh]
    assert [outcome for outcome in mild if outcome.error] == []
    assert len(failed(outcomes)) <= max(1, runs // 10), failed(outcomes)
    assert sum(outcome.repeats for outcome in outcomes) > 0


def test_unplugged_in_mid_upload_and_plugged_in_again(scene: Scene) -> None:
    plan = window_plan().data
    with Device.start("cortex-m4", plan=scene.plan) as device, FaultyLine(device.port) as line:
        def unplug(sent: int) -> None:
            if sent > len(plan) // 2:
                line.unplug()

        with open_link(line.url) as link, pytest.raises(LinkLost, match="still connected"):
            images.upload(link, plan, unplug)
        offsets: list[int] = []
        with open_link(line.url) as link:
            digest = images.upload(link, plan, offsets.append)
            assert offsets[0] > len(plan) // 2
            assert digest in [image.hash for image in images.images(link)]


def test_a_slow_receiver_gets_everything(scene: Scene) -> None:
    """20 KB/s, in pieces of 64 bytes."""
    with Device.start("cortex-m4", plan=scene.plan) as device, FaultyLine(device.port) as line:
        line.pace = 20_000
        with open_link(line.url, patience=Patience(wait=3.0)) as link:
            for _ in range(10):
                assert link.echo("y" * 900) == "y" * 900
            there = inference.run(link, scene.inputs)
            assert [y.tobytes() for y in there] == scene.outputs
            assert link.counters.repeats == 0
            assert link.stats()["overrun"] == 0


def test_a_host_that_does_not_read_loses_replies_and_not_the_device() -> None:
    """When the terminal is full the device waits a second for each reply, then drops it; when it is
    read again, all goes on."""
    options = DeviceOptions(pty=True)
    with (Device.start("cortex-m4", options=options) as device,
          open_link(device.port, patience=Patience(wait=2.0)) as link):
        frame = request(link, ECHO, {"d": "z" * 900})
        assert isinstance(link.port, serial.Serial)
        link.port.write_timeout = 1.5
        sent = 0
        with suppress(serial.SerialTimeoutException):
            for sent in range(1, 300):  # noqa: B007
                link.port.write(frame)
                time.sleep(0.005)
        link.port.timeout = 1.0
        whole = Decoder(Framing.COBS).feed(link.port.read(1_000_000))
        assert 0 < len(whole) < sent < 299
        assert link.echo("still here") == "still here"
        inference.memory(link)


def request(link: Link, command: Command, entries: dict[str, object], sequence: int = 7) -> bytes:
    return encode(Framing.COBS, smp.encode(command, sequence, entries))


def whole_buffer(link: Link) -> bytes:
    """An echo as long as the device's buffer."""
    size = link.buffer - 40
    while len(smp.encode(ECHO, 7, {"d": "x" * size})) < link.buffer:
        size += 1
    frame = request(link, ECHO, {"d": "x" * size})
    assert len(frame) > link.buffer
    return frame


@contextmanager
def busy_board() -> Iterator[tuple[Link, Callable[[], bytes]]]:
    """A board, and what keeps it busy for a while: a run of its plan."""
    plan = window_plan()
    with Device.start("cortex-m4", plan=plan) as device, open_link(device.port) as link:
        inputs = [np.zeros(x.shape, np.int8) for x in plan.inputs]
        inference.run(link, inputs)
        yield link, lambda: request(link, RUN, {}, 9)


def replies(link: Link, count: int) -> list[int]:
    """Sequences of so many replies, or of those that came in 3 s."""
    link.port.timeout = 0.3
    decoder, found = Decoder(Framing.COBS), list[int]()
    end = time.monotonic() + 3
    while len(found) < count and time.monotonic() < end:
        for message in decoder.feed(link.port.read(max(link.port.in_waiting, 1))):
            reply = smp.decode(message)
            assert reply is not None
            found.append(reply.sequence)
    return found


def test_a_whole_buffer_at_once_is_taken_while_the_device_runs() -> None:
    with busy_board() as (link, run):
        for _ in range(5):
            link.port.write(run() + whole_buffer(link))
            assert replies(link, 2) == [9, 7]
        assert link.stats()["overrun"] == 0


def test_more_than_the_ring_holds_is_counted_and_recovered_from() -> None:
    """The board is reset and hashes a megabyte while buffers wait for it; how fast they come in
    is QEMU's affair, so it has several tries."""
    flash = np.random.default_rng(1).bytes(nvm.SLOT)
    with (Device.start("cortex-m4", plan=flash) as device,
          open_link(device.port, patience=PATIENCE) as link):
        overrun = 0
        for _ in range(8):
            device.freeze()
            device.reset()
            sent = whole_buffer(link) * 20
            link.port.write(sent)
            device.thaw()
            replies(link, 20)
            overrun = link.stats()["overrun"]
            if overrun:
                break
        assert 0 < overrun < len(sent)
        digest = images.upload(link, window_plan().data)
        images.try_out(link, digest)
        assert link.stats()["overrun"] == overrun
        link.reset()
        inference.self_test(link)


def outputs_here(plan: Plan, inputs: list[Array]) -> list[bytes]:
    session = Session(plan).native
    for given, x in zip(session.inputs, inputs):
        given[:] = x.reshape(-1)
    session.run()
    return [y.tobytes() for y in session.outputs]


def test_faults_are_where_they_are_asked_for(scene: Scene) -> None:
    """Else the runs above would hold nothing: a line that loses all loses all."""
    with (Device.start("cortex-m4", plan=scene.plan) as device, FaultyLine(device.port) as line,
          open_link(line.url, patience=Patience(wait=0.05, tries=3)) as link):
        assert outputs_here(Plan.load(Path(scene.plan)), scene.inputs) == scene.outputs
        line.there = Faults(twice=1.0)
        link.echo("x")
        line.there = Faults()
        assert link.stats()["frames"] > link.counters.requests
