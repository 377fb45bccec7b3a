"""The client and the device together: commands, refusals, repeats."""

from __future__ import annotations

import hashlib
import socket
import threading

import numpy as np
import pytest
import serial

from edgesparse.errors import BadInput, LinkLost, LinkRefused, LinkTimeout
from edgesparse.link import Framing, framing, images, open_link, smp
from edgesparse.link.client import INFO, Link, Patience
from edgesparse.link.framing import encode
from edgesparse.link.smp import Command, Group, Op
from link_device import NO_WAIT, Faults, LockstepPort, lockstep, on_a_pty

PLAN = np.random.default_rng(1).integers(0, 256, 20_000, dtype=np.uint8).tobytes()
SHA = hashlib.sha256(PLAN).digest()
framings = pytest.mark.parametrize("framing", Framing)
stores = pytest.mark.parametrize("store", [False, True], ids=["ram", "store"])


@framings
def test_echo_and_info(framing: Framing) -> None:
    with lockstep(framing=framing) as link:
        assert link.buffer == 1024
        assert link.echo("ä" * 100) == "ä" * 100
        assert link.info()["run"] is False
        assert link.stats()["frames"] == 4


def test_unknown_commands_are_refused_by_name() -> None:
    with lockstep() as link:
        with pytest.raises(LinkRefused, match="refused to dance: not supported") as caught:
            link.request(Command(Group.OS, 99, Op.READ, "dance"), {})
        assert caught.value.code == 8
        with pytest.raises(LinkRefused, match="no plan runs"):
            link.request(Command(Group.EDGESPARSE, 9, Op.WRITE, "run"), {})


@framings
@stores
def test_an_update_from_upload_to_confirm(framing: Framing, store: bool) -> None:
    seen: list[int] = []
    with lockstep(framing=framing, store=store) as link:
        assert images.upload(link, PLAN, seen.append) == SHA
        assert seen == sorted(seen)
        assert seen[-1] == len(PLAN)
        [image] = images.try_out(link, SHA)
        assert (image.hash, image.pending, image.confirmed) == (SHA, True, False)
        with pytest.raises(LinkRefused, match="only the plan that runs"):
            images.confirm(link, SHA)
        with pytest.raises(LinkRefused, match="no plan with this hash"):
            images.try_out(link, bytes(32))
        link.reset()
        assert images.images(link)[0].active
        with pytest.raises(LinkRefused, match="a trial needs both slots"):
            images.erase(link)
        with pytest.raises(LinkRefused, match="a trial needs both slots"):
            images.upload(link, PLAN + b"\0")
        [image] = images.confirm(link, SHA)
        assert image.confirmed
        assert images.confirm(link, SHA) == (image,)
        images.upload(link, PLAN[:999])
        images.erase(link)
        assert images.images(link) == (image,)


@stores
def test_an_unconfirmed_trial_is_over_after_a_reset(store: bool) -> None:
    with lockstep(store=store) as link:
        images.upload(link, PLAN)
        images.try_out(link, SHA)
        link.reset()
        link.reset()
        [image] = images.images(link)
        assert not image.active
        assert not image.confirmed


@stores
def test_an_upload_goes_on_where_it_stopped(store: bool) -> None:
    with lockstep(store=store) as link:
        seen: list[int] = []

        def unplug(sent: int) -> None:
            seen.append(sent)
            if sent > 9000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            images.upload(link, PLAN, unplug)
        again: list[int] = []
        images.upload(link, PLAN, again.append)
        assert again[0] == seen[-1]
        images.upload(link, PLAN[:5000], seen.append)
        assert images.images(link)[0].hash == hashlib.sha256(PLAN[:5000]).digest()


@stores
def test_what_an_upload_has_to_say(store: bool) -> None:
    command = images.UPLOAD
    with lockstep(store=store) as link:
        for entries, code in (
            ({"data": b"x"}, 20), ({"off": 0, "data": b"x"}, 21),
            ({"off": 0, "data": b"x", "len": 9}, 24),
            ({"off": 0, "data": b"x", "len": 9, "sha": bytes(31)}, 24),
            ({"off": 0, "data": b"x", "len": 1 << 20, "sha": SHA}, 30),
            ({"off": 0, "data": b"xx", "len": 1, "sha": SHA}, 31),
            ({"off": 0, "data": b"x", "len": 1, "sha": SHA}, 24)):
            with pytest.raises(LinkRefused) as caught:
                link.request(command, entries)
            assert caught.value.code == code
        for wrong in ({"off": "0", "data": b""}, {"off": 1 << 40, "data": b""}):
            with pytest.raises(LinkRefused):
                link.request(command, wrong)
        assert link.request(command, {"off": 500, "data": b"x"}) == {"off": 0}


def test_a_write_that_comes_again_is_not_done_again() -> None:
    """A run of nothing to run is refused alike; an upload's first piece would begin anew."""
    port = LockstepPort(1024)
    entries = {"off": 0, "data": b"abc", "len": 9, "sha": SHA}
    frame = encode(Framing.COBS, smp.encode(images.UPLOAD, 3, entries))
    second = encode(Framing.COBS, smp.encode(images.UPLOAD, 4, {"off": 3, "data": b"def"}))
    read = encode(Framing.COBS, smp.encode(INFO, 5, {}))
    assert port.exchange(frame) == port.exchange(frame)
    reply = port.exchange(second)
    assert port.exchange(second) == reply
    port.exchange(read)
    assert port.exchange(second) == b""  # late: nobody waits for it
    link = Link(port, Framing.COBS, NO_WAIT, sequence=10)
    assert link.stats()["dup"] == 3
    assert link.request(images.UPLOAD, {"off": 0, "data": b"", "len": 9, "sha": SHA}) == {"off": 6}
    link.close()


def test_a_late_reply_is_not_taken_for_the_next_one() -> None:
    with lockstep() as link:
        port = link.port
        assert isinstance(port, LockstepPort)
        for number in range(300):
            if number % 7 == 0:
                port.late = port.exchange(encode(Framing.COBS, smp.encode(INFO, number % 255, {})))
            assert link.echo(str(number)) == str(number)
        assert link.counters.stale > 20


class OneLate(LockstepPort):
    """What the device has to say comes with the next thing that is sent to it."""

    pending = b""

    def write(self, data: bytes) -> int:
        self.held += self.pending
        self.pending = self.exchange(data)
        return len(data)


class Slow(LockstepPort):
    """Some bytes at a time, as a slow line gives them."""

    def read(self, size: int = 1) -> bytes:
        return super().read(min(size, 5))


def test_every_reply_comes_one_request_late() -> None:
    with Link(OneLate(1024), Framing.COBS, NO_WAIT) as link:
        assert images.upload(link, PLAN) == SHA
        assert link.counters.stale > 20
        assert link.echo("x") == "x"


@framings
def test_a_slow_line(framing: Framing) -> None:
    with Link(Slow(1024), framing, Patience(wait=5.0)) as link:
        assert images.upload(link, PLAN) == SHA
        assert link.counters.repeats == 0


def test_a_silent_device_is_a_timeout() -> None:
    port = LockstepPort(256, there=Faults(drop=1.0))
    with pytest.raises(LinkTimeout, match=r"check that it runs.*no other program talks to it"):
        Link(port, Framing.COBS, NO_WAIT)
    port.close()


@stores
def test_a_reset_whose_reply_is_lost_happens_once(store: bool) -> None:
    with lockstep(store=store) as link:
        port = link.port
        assert isinstance(port, LockstepPort)
        images.upload(link, PLAN)
        images.try_out(link, SHA)
        port.back = Faults(drop=0.02)
        link.reset()
        port.back = Faults()
        assert images.images(link)[0].active  # a second reset would have ended the trial


def test_the_store_reverts_to_the_plan_it_had() -> None:
    """Two plans: the confirmed one runs again when the other is not confirmed, and is erasable
    only as long as it is not in use."""
    other = PLAN[::-1]
    with lockstep(store=True) as link:
        for plan in (PLAN, other):
            images.try_out(link, images.upload(link, plan))
            link.reset()
            if plan is PLAN:
                images.confirm(link, SHA)
        first, second = images.images(link)
        assert (first.confirmed, first.active) == (True, False)
        assert (second.confirmed, second.active) == (False, True)
        link.reset()
        first, second = images.images(link)
        assert (first.active, second.active) == (True, False)
        with pytest.raises(LinkRefused, match="runs until the next reset"):
            images.erase(link, 0)
        images.erase(link, 1)
        assert images.images(link) == (first,)
        with pytest.raises(LinkRefused, match="no plan"):
            images.erase(link, 1)


@framings
def test_a_device_on_a_pty(framing: Framing) -> None:
    with on_a_pty() as name, open_link(name, framing) as link:
        assert images.upload(link, PLAN) == SHA


def test_a_device_behind_a_socket() -> None:
    """As QEMU gives a board's UART: -serial tcp:..."""
    device = LockstepPort(512)

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(4096):
                connection.sendall(device.exchange(data))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        with open_link(f"socket://127.0.0.1:{server.getsockname()[1]}") as link:
            assert images.upload(link, PLAN) == SHA
        thread.join(10)
    assert not thread.is_alive()
    device.close()


def test_a_port_that_is_not_there() -> None:
    with pytest.raises(LinkLost, match="cannot be opened"):
        open_link("no-such-port")


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", "127.0.0.1:", ":7", "127.0.0.1:0", "127.0.0.1:x", "a:99999"])
def test_an_address_without_a_port_says_what_is_wanted(address: str) -> None:
    with pytest.raises(BadInput, match="socket://HOST:PORT is needed, with a number of 1 to 65535"):
        open_link(f"socket://{address}")


def test_a_port_that_goes_away() -> None:
    class Unplugged(LockstepPort):
        def write(self, data: bytes) -> int:
            if len(data) > 500:
                raise serial.SerialException("gone")
            return super().write(data)

    port = Unplugged(1024)
    link = Link(port, Framing.COBS, NO_WAIT)
    with pytest.raises(LinkLost, match="still connected"):
        images.upload(link, PLAN)
    link.close()


def test_a_real_wait_ends() -> None:
    with on_a_pty() as name:
        port = serial.serial_for_url(name)
        link = Link(port, Framing.COBS, Patience(wait=0.02, tries=2))
        port.write = lambda data: len(data)
        with pytest.raises(LinkTimeout):
            link.echo("x")


class UsbPort(LockstepPort):
    """A port that goes with the device when that is reset; opened() anew it is there again."""

    gone = False

    def read(self, size: int = 1) -> bytes:
        if self.gone:
            raise serial.SerialException("no such device")
        return super().read(size)

    def exchange(self, data: bytes) -> bytes:
        answer = super().exchange(data)
        header = framing.Decoder(Framing.COBS).feed(data)
        self.gone |= any(message[0] == 0x0A and message[7] == 5 for message in header)
        return answer

    def close(self) -> None:
        if not self.gone:
            super().close()


def on_usb(absent: int) -> tuple[Link, UsbPort]:
    """absent: how often the port cannot be opened after a reset."""
    port = UsbPort(1024, store=True)
    tries = iter(range(absent))

    def reopen() -> UsbPort:
        if next(tries, None) is not None:
            raise LinkLost("the port cannot be opened")
        port.gone = False
        port.held = b""
        return port

    return Link(port, patience=NO_WAIT, sequence=0, reopen=reopen), port


def test_a_port_that_goes_with_the_device_is_opened_again() -> None:
    link, _ = on_usb(absent=3)
    with link:
        images.upload(link, PLAN)
        images.try_out(link, SHA)
        link.reset()
        assert images.images(link)[0].active
        assert link.echo("back") == "back"


def test_a_port_that_does_not_come_back_is_lost() -> None:
    link, port = on_usb(absent=1000)
    with pytest.raises(LinkLost):
        link.reset(timeout=0.5)
    port.gone = False
    port.close()
