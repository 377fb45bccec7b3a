"""Frames against what another implementation makes of them, at the sizes where they break."""

from __future__ import annotations

import binascii

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.link import smp
from edgesparse.link.framing import (
    Decoder,
    Framing,
    crc16,
    decode_cobs,
    encode,
    encode_cobs,
)
from edgesparse.link.smp import Command, Group, Op
from link_device import LockstepPort
from needs import require

ECHO = Command(Group.OS, 0, Op.WRITE, "echo")
framings = pytest.mark.parametrize("framing", Framing)


def test_crc16_is_xmodems() -> None:
    assert crc16(b"123456789") == 0x31C3  # the check value of CRC-16/XMODEM


@pytest.mark.parametrize(("data", "coded"), [
    (b"", "01"), (b"\0", "0101"), (b"\0\0", "010101"), (b"\x11\x22\0\x33", "0311220233"),
    (b"\x11\0\0\0", "0211010101"),
])
def test_cobs_is_that_of_the_paper(data: bytes, coded: str) -> None:
    assert encode_cobs(data).hex() == coded.replace(" ", "")
    assert decode_cobs(encode_cobs(data)) == data


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 3)), max_size=5))
def test_cobs_comes_back(runs: list[tuple[int, int]]) -> None:
    data = b"".join(b"\x55" * ones + bytes(zeros) for ones, zeros in runs)
    coded = encode_cobs(data)
    assert 0 not in coded
    assert decode_cobs(coded) == data


@framings
@given(messages=st.lists(st.binary(min_size=1, max_size=700), max_size=4), cut=st.integers(1, 99))
def test_frames_come_back_however_they_are_cut(
    framing: Framing, messages: list[bytes], cut: int
) -> None:
    line = b"".join(encode(framing, message) for message in messages)
    decoder = Decoder(framing)
    out = [m for at in range(0, len(line), cut) for m in decoder.feed(line[at:at + cut])]
    assert out == messages
    assert decoder.bad == 0


@framings
def test_a_broken_frame_is_counted_and_the_next_one_is_read(framing: Framing) -> None:
    frame = encode(framing, b"\x09\0\0\x01\0\0\0\0\xa0" * 30)
    for at in range(len(frame)):
        decoder = Decoder(framing)
        damaged = frame[:at] + bytes((frame[at] ^ 0x41,)) + frame[at + 1:]
        assert frame_of(framing) not in decoder.feed(damaged)
        # The end of the damaged frame may be what was damaged; then the next one goes with it.
        assert decoder.feed(frame_line(framing) * 2)[-1:] == [frame_of(framing)]


def frame_of(framing: Framing) -> bytes:
    return f"next in {framing.value}".encode()


def frame_line(framing: Framing) -> bytes:
    return encode(framing, frame_of(framing))


def echo_of(size: int, density: float, rng: np.random.Generator) -> bytes:
    """An echo request of `size` bytes; the text's bytes are zero with these odds."""
    values = np.where(rng.random(size) < density, 0, rng.integers(1, 128, size)).astype(np.uint8)
    for length in range(size, -1, -1):
        message = smp.encode(ECHO, 7, {"d": values[:length].tobytes().decode("ascii")})
        if len(message) <= size:
            break
    assert len(message) == size
    return message


@framings
@pytest.mark.parametrize("density", [0.0, 0.003, 0.1, 1.0])
@pytest.mark.parametrize("buffer", [256, 512, 1024])
def test_the_device_takes_frames_up_to_its_buffer(
    framing: Framing, density: float, buffer: int
) -> None:
    """Sizes about the buffer's and about groups of 254: nothing lost, and one more is too long."""
    rng = np.random.default_rng(buffer)
    port = LockstepPort(buffer)
    for size in (*range(buffer - 6, buffer + 1), 252, 253, 254, 255, 256):
        message = echo_of(size, density, rng)
        [reply] = Decoder(framing).feed(port.exchange(encode(framing, message)))
        decoded = smp.decode(reply)
        assert decoded is not None
        assert smp.encode(ECHO, 7, {"d": decoded.map["r"]}) == message
    for size in (buffer + 1, buffer + 2, buffer + 300):
        assert port.exchange(encode(framing, echo_of(size, density, rng))) == b""
        assert port.exchange(encode(framing, echo_of(buffer, density, rng))) != b""
    port.close()


def test_the_device_answers_in_the_framing_of_each_request() -> None:
    port = LockstepPort(256)
    message = smp.encode(ECHO, 1, {"d": "x"})
    for framing in (Framing.COBS, Framing.CONSOLE, Framing.COBS, Framing.CONSOLE):
        assert len(Decoder(framing).feed(port.exchange(encode(framing, message)))) == 1
    port.close()


@pytest.mark.parametrize("noise", [
    b"\x01", b"\x02\x0a", b"\x04", b"\x04\x14AAAA\n", b"\x06", b"\x06\x09", b"\x06\x09AA",
    b"boot\r\n", b"\x06\x09//8AAAAA\n", b"\xff" * 300, b"\n\n", b"\x02\x0a\x05\x01",
])
@framings
def test_noise_costs_one_frame_at_most(framing: Framing, noise: bytes) -> None:
    """What the noise began may swallow the frame that follows it."""
    port = LockstepPort(256)
    frame = encode(framing, smp.encode(ECHO, 1, {"d": "x"}))
    port.exchange(noise)
    port.exchange(frame)
    assert port.exchange(frame)
    port.close()


@framings
def test_frames_are_those_of_the_smp_package(framing: Framing) -> None:
    require("interop")
    from smp import os_management, packet

    theirs = os_management.EchoWriteRequest(d="hello" * 60, sequence=9)
    ours = smp.encode(ECHO, 9, {"d": "hello" * 60})
    assert bytes(theirs) == ours
    if framing is Framing.CONSOLE:
        assert b"".join(packet.encode(ours, line_length=128)) == encode(framing, ours)


def test_line_noise_does_not_break_the_decoder() -> None:
    rng = np.random.default_rng(5)
    for framing in Framing:
        decoder = Decoder(framing)
        for _ in range(300):
            decoder.feed(rng.integers(0, 256, 200, dtype=np.uint8).tobytes())
        end = b"\0" if framing is Framing.COBS else b"\n"
        assert decoder.feed(end + frame_line(framing))[-1:] == [frame_of(framing)]


def test_a_reply_that_is_no_smp_is_none() -> None:
    good = bytes.fromhex("0b00000100000100a0")
    assert smp.decode(good) is not None
    for bad in (b"", good[:8], good + b"\0", b"\x0a" + good[1:], good[:8] + b"\x01",
                good[:3] + b"\x02" + good[4:] + b"\0"):
        assert smp.decode(bad) is None
    assert binascii.hexlify(good)
