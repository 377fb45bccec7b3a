"""The firmware on emulated boards, through its line."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_instructions import count

from edgesparse.device import BOARDS, Device, DeviceOptions, build_firmware, instructions, nvm
from edgesparse.errors import BadInput, DeviceFailed, LinkRefused
from edgesparse.link import Framing, Link, images, inference, open_link
from edgesparse.link.framing import encode
from edgesparse.link.inference import Cause
from edgesparse.link.smp import Command, Group, Op
from edgesparse.link.smp import encode as message
from edgesparse.link.stream import DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Run
from everything import everything
from needs import require
from stream_plans import comparable, full_stream_plan, random_signal
from test_house import only_one

require("arm")
require("qemu")
require("cmake")

RESET = Command(Group.OS, 5, Op.WRITE, "reset")
cpus = pytest.mark.parametrize("cpu", BOARDS)
two_cpus = pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])


@cache
def stream_plan() -> Plan:
    return Plan.from_bytes(write_plan(full_stream_plan()))


@cache
def window_plan() -> Plan:
    """Every kind of step, without the program for an NPU."""
    return Plan.from_bytes(write_plan(replace(everything(), config=0, npu=None)))


def sha(plan: Plan) -> bytes:
    return hashlib.sha256(plan.data).digest()


@contextmanager
def running(
    cpu: str = "cortex-m4", plan: Plan | bytes | None = None, flash: Path | None = None,
    image: str = "firmware", icount: int | None = None,
) -> Iterator[tuple[Device, Link]]:
    options = DeviceOptions(firmware=build_firmware(cpu, image))
    with (Device.start(cpu, flash, icount, plan, options) as device,
          open_link(device.port) as link):
        yield device, link


def active(link: Link) -> list[bytes]:
    return [image.hash for image in images.images(link) if image.active]


@cpus
def test_an_empty_board_starts_and_has_the_link_only(cpu: str) -> None:
    with running(cpu) as (_, link):
        assert link.buffer == 1024
        assert link.echo("é" * 100) == "é" * 100
        info = link.info()
        assert info["run"] is False
        assert info["tps"] >= 20_000_000
        assert info["isa"] == ("mve" if cpu == "cortex-m55" else "dsp")
        assert images.images(link) == ()
        with pytest.raises(LinkRefused, match="no plan runs"):
            inference.self_test(link)
        memory = inference.memory(link)
        assert memory.cause is Cause.POWER
        assert memory.arena_used == 0
        assert memory.arena > 1_900_000
        assert 0 < memory.stack_most < memory.stack / 4
        assert 2 * 1024 < memory.fixed < 16 * 1024
        assert link.stats()["overrun"] == 0


@cpus
def test_a_plan_from_the_factory_runs_and_gives_what_it_gives_here(cpu: str) -> None:
    rng = np.random.default_rng(3)
    plan = window_plan()
    here = Session(plan)
    with running(cpu, plan) as (_, link):
        [image] = images.images(link)
        assert (image.hash, image.confirmed, image.active) == (sha(plan), True, True)
        inference.self_test(link)
        for _ in range(2):
            inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in plan.inputs]
            for given, x in zip(here.native.inputs, inputs):
                given[:] = x.reshape(-1)
            here.native.run()
            there = inference.run(link, inputs)
            assert [y.tobytes() for y in there] == [y.tobytes() for y in here.native.outputs]
        steps = inference.profile(link)
        assert {step.runs for step in steps} == {2}
        memory = inference.memory(link)
        assert memory.arena_used == -(-plan.ram_bytes // 16) * 16 + 16 * len(steps)
        assert memory.stack_most < memory.stack / 4


@two_cpus
def test_a_stream_gives_the_events_it_gives_here(cpu: str) -> None:
    signal = random_signal(np.random.default_rng(3), 3000)
    here = Stream(stream_plan())
    expected = [e for e in (*here.push(signal), *here.flush()) if not isinstance(e, Run)]
    assert sum(isinstance(event, Beat) for event in expected) > 20
    with running(cpu, stream_plan()) as (_, link):
        stream = DeviceStream(link)
        events = [*stream.push(signal[:1000]), *stream.poll(), *stream.push(signal[1000:])]
        assert comparable([*events, *stream.finish()]) == comparable(expected)
        stats = link.stats()
        assert (stats["drop"], stats["overrun"], stats["gap"]) == (0, 0, 0)


@two_cpus
def test_an_update_from_upload_to_confirm(cpu: str, tmp_path: Path) -> None:
    flash = tmp_path / "flash.bin"
    with running(cpu, stream_plan(), flash) as (_, link):
        digest = images.upload(link, window_plan().data)
        images.try_out(link, digest)
        assert active(link) == [sha(stream_plan())]
        link.reset()
        assert active(link) == [digest]
        assert link.info()["in"] == 2
        assert inference.memory(link).cause is Cause.ASKED
        inference.self_test(link)
        images.confirm(link, digest)
        link.reset()
        assert active(link) == [digest]
    with running(cpu, flash=flash) as (_, link):
        assert active(link) == [digest]


def test_a_trial_that_is_not_confirmed_is_reverted() -> None:
    with running(plan=stream_plan()) as (device, link):
        images.try_out(link, images.upload(link, window_plan().data))
        link.reset()
        assert active(link) == [sha(window_plan())]
        device.reset()
        assert active(link) == [sha(stream_plan())]
        assert inference.memory(link).cause is Cause.POWER


@two_cpus
@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_power_cut_in_the_middle_of_an_upload(cpu: str, share: float, tmp_path: Path) -> None:
    flash = tmp_path / "flash.bin"
    with running(cpu, stream_plan(), flash) as (device, link):
        new = window_plan().data

        def cut(sent: int) -> None:
            if sent >= share * len(new):
                device.kill()
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            images.upload(link, new, cut)
    with running(cpu, flash=flash) as (_, link):
        assert active(link) == [sha(stream_plan())]
        images.try_out(link, images.upload(link, new))
        link.reset()
        assert active(link) == [sha(window_plan())]


def refused_plans() -> dict[int, bytes]:
    """By the code of docs/LINK.md section 5."""
    stream = full_stream_plan()
    good = bytearray(write_plan(stream))
    good[len(good) // 2] ^= 1
    return {
        15: write_plan(replace(stream, arena_bytes=8 << 20)),
        22: write_plan(replace(stream, format=2)),
        23: bytes(good),
        29: write_plan(everything()),
        30: bytes(nvm.SLOT + 1)}


def test_plans_that_do_not_fit_are_refused_and_the_old_one_runs() -> None:
    with running(plan=stream_plan()) as (_, link):
        for code, plan in refused_plans().items():
            with pytest.raises(LinkRefused) as caught:
                images.upload(link, plan)
            assert (caught.value.group, caught.value.code) == (1, code)
        assert [image.hash for image in images.images(link)] == [sha(stream_plan())]
        link.reset()
        assert active(link) == [sha(stream_plan())]


def test_a_plan_for_another_sample_rate_is_refused() -> None:
    with running(image="firmware_250hz") as (_, link):
        with pytest.raises(LinkRefused, match="sample rate") as caught:
            images.upload(link, stream_plan().data)
        assert caught.value.code == 25
        images.upload(link, window_plan().data)


@contextmanager
def bad_trial(cpu: str, image: str) -> Iterator[tuple[Link, str]]:
    """A trial of a plan that `image` makes misbehave, and what the line said meanwhile."""
    with running(cpu, stream_plan(), image=image) as (_, link):
        images.try_out(link, images.upload(link, window_plan().data))
        link.port.write(encode(Framing.COBS, message(RESET, 200, {})))
        link.port.timeout = 0.2
        said, end = b"", time.monotonic() + 10
        while not said.endswith(b"\n\0\n") and time.monotonic() < end:
            said += link.port.read(100)
        yield link, said.decode("latin-1")


@cpus
@pytest.mark.parametrize(
    ("image", "what", "cause"), [
        ("firmware_hangs", "WATCHDOG", Cause.WATCHDOG), ("firmware_faults", "FAULT", Cause.FAULT),
        ("firmware_overflows", "FAULT", Cause.FAULT)])
def test_a_trial_that_hangs_or_faults_is_reported_and_reverted(
    cpu: str, image: str, what: str, cause: Cause
) -> None:
    with bad_trial(cpu, image) as (link, said):
        assert f"\0\n{what} pc=0x" in said
        if image == "firmware_faults":
            assert "bfar=0xf0000000" in said
        memory = inference.memory(link)
        assert memory.cause is cause
        assert f"pc=0x{memory.pc:08x}" in said
        assert active(link) == [sha(stream_plan())]
        assert link.info()["run"] is True


def test_a_plan_that_always_faults_does_not_keep_the_link_away() -> None:
    """After three times it is not started any more, and another can be brought."""
    with running(plan=stream_plan(), image="firmware_always_faults") as (device, link):
        for _ in range(2):
            assert link.info()["run"] is False
            memory = inference.memory(link)
            assert memory.cause is Cause.FAULT
            assert memory.arena_used == 0
            assert images.upload(link, window_plan().data) == sha(window_plan())
            device.reset()


def test_a_fault_ends_the_run_where_a_debugger_is(tmp_path: Path) -> None:
    """With semihosting, a crash is a failed run at once, not a timeout."""
    options = DeviceOptions(firmware=build_firmware("cortex-m4", "firmware_faults"),
                            semihosting=True)
    with Device.start("cortex-m4", plan=stream_plan(), options=options) as device:
        with open_link(device.port) as link:
            images.try_out(link, images.upload(link, window_plan().data))
            assert device.process.poll() is None
            link.request(RESET, {})
        assert device.wait(10) == 1
        assert "FAULT pc=0x" in device.log


def test_a_full_slot_is_hashed_before_the_watchdog_minds() -> None:
    """86 million instructions, at a microsecond each."""
    with running(plan=np.random.default_rng(1).bytes(nvm.SLOT), icount=10) as (_, link):
        assert inference.memory(link).cause is Cause.POWER
        assert len(active(link)) == 1


def test_half_a_frame_is_forgotten_when_the_line_is_quiet() -> None:
    with running() as (_, link):
        whole = encode(Framing.COBS, message(Command(Group.OS, 0, Op.WRITE, "echo"), 9, {"d": "x"}))
        link.port.write(whole[:-3])
        time.sleep(1)
        assert link.echo("y") == "y"
        assert link.counters.repeats == 0


def test_a_host_that_does_not_read_costs_replies_only() -> None:
    """A terminal holds 4 KB and the ring 2; what is beyond them after a second is lost."""
    echo = message(Command(Group.OS, 0, Op.WRITE, "echo"), 9, {"d": "x" * 900})
    options = DeviceOptions(pty=True)
    with Device.start("cortex-m4", options=options) as device, open_link(device.port) as link:
        before = link.stats()
        for number in range(8):
            frame = bytearray(echo)
            frame[6] = number
            link.port.write(encode(Framing.COBS, bytes(frame)))
        time.sleep(2.5)
        link.port.reset_input_buffer()
        after = link.stats()
        assert after["frames"] - before["frames"] >= 7
        assert link.echo("z") == "z"
        assert inference.memory(link).cause is Cause.POWER


@cpus
def test_instructions_are_counted_exactly(cpu: str) -> None:
    """Per step: the same in each run, on each device, and whatever an instruction takes. In all
    what the plugin of benchmarks/device_instructions.py counts, but for what is between steps."""
    rng = np.random.default_rng(6)
    plan = window_plan()
    inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in plan.inputs]
    seen = []
    for icount in (7, 7, 9):
        with running(cpu, plan, icount=icount) as (_, link):
            tps = link.info()["tps"]
            assert instructions(5, tps, icount) == pytest.approx(5, rel=1e-5)
            before = inference.profile(link)
            for _ in range(2):
                inference.reset_state(link)
                inference.run(link, inputs)
                after = inference.profile(link)
                seen.append([b.ticks - a.ticks for a, b in zip(before, after)])
                before = after
    assert all(counts == seen[0] for counts in seen)
    with only_one("measure"):
        whole, _ = count(cpu, plan, b"".join(x.tobytes() for x in inputs)).regions
    assert 0.97 * whole < sum(seen[0]) < whole + 100 * len(seen[0])


def test_a_board_on_a_terminal() -> None:
    options = DeviceOptions(pty=True)
    with Device.start("cortex-m4", options=options) as device, open_link(device.port) as link:
        assert not device.port.startswith("socket:")
        assert images.upload(link, stream_plan().data) == sha(stream_plan())


def test_one_client_after_the_other() -> None:
    with Device.start("cortex-m4") as device:
        for number in range(3):
            with open_link(device.port) as link:
                assert link.echo(str(number)) == str(number)


def test_what_a_device_cannot_be_started_with(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there are cortex-m4"):
        Device.start("cortex-m3")
    short = tmp_path / "short.bin"
    short.write_bytes(b"\xff" * 100)
    with pytest.raises(BadInput, match="a flash file of cortex-m4 has 16,777,216 bytes"):
        Device.start("cortex-m4", short)
    with pytest.raises(BadInput, match="this one has 100"):
        Device.start("cortex-m4", short, plan=stream_plan())
    assert short.read_bytes() == b"\xff" * 100
    with pytest.raises(BadInput, match="no such firmware"):
        Device.start("cortex-m4", options=DeviceOptions(firmware=tmp_path / "none.elf"))
    with pytest.raises(BadInput, match="slots have 1,048,576"):
        Device.start("cortex-m4", plan=bytes(nvm.SLOT + 1))
    with pytest.raises(BadInput, match="icount 20: 0 to 10"):
        Device.start("cortex-m4", icount=20)
    with Device.start("cortex-m4") as device:
        device.kill()
        with pytest.raises(DeviceFailed, match="the device has ended"):
            device.reset()


def test_a_qemu_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOARDS, "cortex-m4", replace(BOARDS["cortex-m4"], machine="none-such"))
    with pytest.raises(DeviceFailed, match=r"QEMU does not start: .*unsupported machine type"):
        Device.start("cortex-m4")


def test_a_factory_image_is_what_the_store_would_have_written(tmp_path: Path) -> None:
    """The device confirms a plan itself; its newest record, but for the counts, is ours."""
    plan, flash = stream_plan(), tmp_path / "flash.bin"
    with running(flash=flash) as (_, link):
        digest = images.upload(link, plan.data)
        images.try_out(link, digest)
        link.reset()
        images.confirm(link, digest)
    written = flash.read_bytes()[:nvm.STORE]
    ours = nvm.factory_image(plan.data)

    def record(at: int) -> tuple[int, bytes, bytes]:
        fields = written[at:at + 120]
        return struct.unpack("<I", fields[4:8])[0], fields[8:100], fields[112:]

    records = [record(at) for at in range(0, nvm.SLOT_AT, 128) if written[at:at + 4] == b"ESS1"]
    _, state, mark = max(records)
    assert (state, mark) == (ours[8:100], ours[112:120])
    assert written[nvm.SLOT_AT:] == ours[nvm.SLOT_AT:nvm.STORE]
