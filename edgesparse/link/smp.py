"""Messages of the Simple Management Protocol: header, map, what a refusal means."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import cbor2

Map: TypeAlias = dict[str, Any]

HEADER = struct.Struct(">BBHHBB")
VERSION_2 = 0x08
SEQUENCES = 255
"""0 to 254; 255 stays free."""
CHECK = b"\x61c\x44"
"""The entry "c" of four bytes, which ends every map of our own group."""


class Group(IntEnum):
    OS = 0
    IMAGE = 1
    EDGESPARSE = 64


class Op(IntEnum):
    READ = 0
    WRITE = 2


@dataclass(frozen=True)
class Command:
    """what: for people, "the device refused to ..."."""

    group: Group
    number: int
    op: Op
    what: str


@dataclass(frozen=True)
class Reply:
    command: tuple[int, int, int]
    """group, number, op of the request."""
    sequence: int
    map: Map


SMP_CODES = {
    1: "unknown error", 2: "out of memory", 3: "an argument is wrong", 4: "timeout",
    5: "no such entry", 6: "not in this state", 7: "too long", 8: "not supported",
    9: "corrupt", 10: "busy", 11: "access denied"}
GROUP_CODES = {
    Group.IMAGE: {
        3: "the slot has no plan", 4: "the signature is missing or wrong",
        8: "it has no plan with this hash", 12: "flash error",
        14: "the slot runs until the next reset", 15: "the plan needs more RAM than there is",
        20: "no offset given", 21: "no length given", 22: "a plan of another format version",
        23: "not a plan, or damaged",
        24: "the SHA-256 is missing or is not that of the bytes in flash",
        25: "the plan is for another sample rate or number of channels",
        27: "older than the oldest version allowed",
        28: "a trial needs both slots",
        29: "the plan was made for another target", 30: "larger than a slot",
        31: "more bytes than announced", 32: "only the plan that runs can be confirmed"},
    Group.EDGESPARSE: {
        1: "no such stream, or the device was reset", 2: "samples before these are missing",
        3: "busy: a stream is open", 4: "no plan runs", 5: "a value or size is wrong",
        6: "the CRC-32 is missing or wrong", 7: "the self test gave other bytes",
        8: "results were lost, the ring is too small"}}


def crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def encode(command: Command, sequence: int, entries: Mapping[str, object]) -> bytes:
    """The message; in our own group with its CRC-32 over all before it."""
    ours = command.group is Group.EDGESPARSE
    body = cbor2.dumps({**entries, "c": bytes(4)} if ours else dict(entries))
    head = HEADER.pack(
        VERSION_2 | command.op, 0, len(body), command.group, sequence, command.number)
    message = head + body
    if ours:
        message = message[:-4] + crc32(message[:-4])
    return message


def decode(message: bytes) -> Reply | None:
    """None: not a whole reply."""
    if len(message) < HEADER.size:
        return None
    op, flags, length, group, sequence, number = HEADER.unpack_from(message)
    body = message[HEADER.size:]
    if op & ~0x02 != VERSION_2 | 1 or flags or length != len(body):
        return None
    stream = io.BytesIO(body)
    try:
        entries = cbor2.load(stream)
    except (cbor2.CBORDecodeError, ValueError, TypeError):
        return None
    if not isinstance(entries, dict) or stream.read(1):
        return None
    if group == Group.EDGESPARSE and not entries.keys() & {"rc", "err"}:
        if message[-7:-4] != CHECK or message[-4:] != crc32(message[:-4]):
            return None
        del entries["c"]
    return Reply((group, number, op & 2), sequence, entries)


def refusal(entries: Map) -> tuple[int | None, int, str] | None:
    """Group (None: SMP's own codes), code and text of a refusal; None: the reply is none."""
    match entries:
        case {"err": {"group": int(group), "rc": int(code)}}:
            known = GROUP_CODES.get(Group(group), {}) if group in list(Group) else {}
            return group, code, known.get(code, "unknown code")
        case {"rc": int(code)} if code:
            return None, code, SMP_CODES.get(code, "unknown code")
    return None
