"""The wire layout of model.py's dataclasses, derived from their annotations and nothing else."""

from __future__ import annotations

import struct
import types
import typing
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum, IntEnum, auto
from functools import cache
from typing import Any

from edgesparse.plan.model import STRUCTS
from edgesparse.plan.scalars import Scalar, Vector

# Format letters of the struct module.
NUMBERS = {
    "byte": "b", "ubyte": "B", "bool": "?", "int16": "h", "uint16": "H",
    "int32": "i", "uint32": "I", "float32": "f",
}
ENUM = Scalar("ubyte")


class Kind(Enum):
    SCALAR = auto()
    VECTOR = auto()
    STRING = auto()
    STRUCT = auto()
    TABLE = auto()
    UNION = auto()


@dataclass(frozen=True)
class Field:
    """How one field is stored.

    slot      its place in the vtable; a union's table stands in the slot after its type
    type      the class of an enum, struct or table; bytes, tuple or ndarray for a vector
    number    of a scalar
    vector    of a vector of numbers
    members   of a union, in the order of the schema
    many      a vector of strings, structs, tables, or of tables that wrap one union (`Stage`)
    nullable  None when it is absent
    required  always in the file, `required` in the schema; a vector even when it is empty
    """

    name: str
    slot: int
    kind: Kind
    type: Any = None
    number: Scalar | None = None
    vector: Vector | None = None
    members: tuple[type, ...] = ()
    many: bool = False
    nullable: bool = False
    required: bool = False

    @property
    def one_union(self) -> bool:
        return self.kind is Kind.UNION and not self.many

    @property
    def slots(self) -> int:
        return 2 if self.one_union else 1


@cache
def layout(cls: type) -> tuple[Field, ...]:
    """The fields of a dataclass of model.py in the order of the schema."""
    hints = typing.get_type_hints(cls, include_extras=True)
    out: list[Field] = []
    slot = 0
    for f in fields(cls):
        one = _field(f.name, slot, hints[f.name])
        if f.default is MISSING and f.default_factory is MISSING:
            one = replace(one, required=one.kind not in (Kind.SCALAR, Kind.STRING))
        out.append(one)
        slot += one.slots
    return tuple(out)


def _field(name: str, slot: int, hint: Any) -> Field:
    arms = typing.get_args(hint) if _is_union(hint) else (hint,)
    nullable = type(None) in arms
    arms = tuple(arm for arm in arms if arm is not type(None))
    if len(arms) > 1:
        return Field(name, slot, Kind.UNION, members=arms, nullable=nullable)
    (hint,) = arms
    if typing.get_origin(hint) is typing.Annotated:
        base, mark = typing.get_args(hint)
        if isinstance(mark, Scalar):
            return Field(name, slot, Kind.SCALAR, number=mark)
        return Field(name, slot, Kind.VECTOR, typing.get_origin(base) or base, vector=mark,
                     nullable=nullable)
    if typing.get_origin(hint) is tuple:
        one = _field(name, slot, typing.get_args(hint)[0])
        return Field(name, slot, one.kind, one.type, members=one.members, many=True)
    if hint is str:
        return Field(name, slot, Kind.STRING, nullable=nullable)
    if issubclass(hint, IntEnum):
        return Field(name, slot, Kind.SCALAR, hint, number=ENUM)
    kind = Kind.STRUCT if hint in STRUCTS else Kind.TABLE
    return Field(name, slot, kind, hint, nullable=nullable)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


@dataclass(frozen=True)
class StructLayout:
    """Byte offsets of the fields of a struct, each aligned to its own size."""

    offsets: tuple[int, ...]
    formats: tuple[str, ...]
    align: int
    size: int


@cache
def struct_layout(cls: type) -> StructLayout:
    offsets, formats, position, align = [], [], 0, 1
    for f in layout(cls):
        assert f.number is not None
        letter = NUMBERS[f.number.type]
        size = struct.calcsize("<" + letter)
        position = round_up(position, size)
        offsets.append(position)
        formats.append("<" + letter)
        position, align = position + size, max(align, size)
    return StructLayout(tuple(offsets), tuple(formats), align, round_up(position, align))


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
