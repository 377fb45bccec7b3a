"""Instructions of the NPU as text, from the table of isa.py."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from edgesparse.npu import isa
from edgesparse.npu.isa import Config, Index, Instruction, Kind, Op, Space

LAYOUT = struct.Struct("<BBBBIII")
ROWS = {row.op: row for row in isa.TABLE}
PREFIX = {Kind.ACC: "a", Kind.VEC: "v", Kind.ONE_VEC: "v", Kind.STREAM: "s", Kind.RING: "r",
          Kind.CHANNEL: "ch"}
INDENT = "  "


@dataclass(frozen=True)
class Decoded:
    """The fields of one instruction as they stand in its bytes, none checked."""

    op: int
    fields: tuple[int, int, int, int, int, int]


def decode(commands: bytes) -> Iterator[Decoded]:
    """Whole instructions of `commands`, one by one; bytes behind the last are left out."""
    whole = len(commands) // isa.INSTRUCTION_BYTES * isa.INSTRUCTION_BYTES
    for op, a, b, c, i0, i1, i2 in LAYOUT.iter_unpack(commands[:whole]):
        yield Decoded(op, (a, b, c, i0, i1, i2))


def instruction_text(instruction: Decoded) -> str:
    """ "MACB acc=a0 weights=s1 x=s2 steps=40 format=COLUMNS8+SKIP index=s3"."""
    if instruction.op not in ROWS:
        return f"op {instruction.op}"
    row = ROWS[Op(instruction.op)]
    parts = [
        f"{name}={_value(row, name, kind, value)}"
        for name, kind, value in zip(row.names, row.fields, instruction.fields, strict=True)
        if kind is not Kind.NONE]
    return " ".join([row.op.name, *parts])


def disassemble(commands: bytes) -> str:
    """One line an instruction: its number, indented by loops, and its fields by name."""
    lines = []
    ends: list[int] = []
    for number, instruction in enumerate(decode(commands)):
        while ends and number >= ends[-1]:
            ends.pop()
        lines.append(f"{number:5} {INDENT * len(ends)}{instruction_text(instruction)}")
        if instruction.op == Op.LOOP:
            ends.append(number + 1 + instruction.fields[4])
    return "\n".join(lines)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _value(row: Instruction, name: str, kind: Kind, value: int) -> str:
    if row.op is Op.CFG and kind is Kind.CONFIG:
        return Config(value).name if value in Config._value2member_map_ else str(value)
    if kind in PREFIX:
        return f"{PREFIX[kind]}{value}"
    if kind in (Kind.MASK, Kind.RING_OR_NONE):
        letter = "m" if kind is Kind.MASK else "r"
        return f"{letter}{value - 1}" if value else "none"
    if kind is Kind.I32:
        return str(_signed(value))
    if name == "space":
        return _space(value)
    if name in ("format", "flags"):
        return _format(row.op, value)
    return str(value)


def _space(value: int) -> str:
    space = value & ~isa.TRANSPOSE
    name = Space(space).name if space in Space._value2member_map_ else str(space)
    return f"{name}+TRANSPOSE" if value & isa.TRANSPOSE else name


def _format(op: Op, value: int) -> str:
    skip = ["SKIP"] if value & isa.SKIP else []
    if op is Op.MACV:
        return "+".join(skip) or "0"
    if op is Op.MACG:
        wide = ["WIDE"] if value & isa.WIDE_COLUMNS else []
        return "+".join([f"GROUP{value & isa.GROUP_BITS}", *wide])
    if op is not Op.MACB:
        return str(value)
    kind = value & isa.INDEX_BITS
    name = Index(kind).name if kind in Index._value2member_map_ else str(kind)
    if kind == Index.N_OF_M:
        name = f"{value >> isa.N_SHIFT & 255}_OF_{value >> isa.M_SHIFT}"
    return "+".join([name, *skip])
