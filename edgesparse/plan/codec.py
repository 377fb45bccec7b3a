"""FlatBuffers wire format for the dataclasses of model.py: one encoder, one checked decoder.

Both are driven by wire.py. Source of the format: the FlatBuffers documentation, "FlatBuffers
Internals".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

import flatbuffers
import numpy as np

from edgesparse.errors import DoesNotFit, PlanInvalid
from edgesparse.plan.scalars import Vector
from edgesparse.plan.wire import NUMBERS, Field, Kind, layout, struct_layout

T = TypeVar("T")
Inline = tuple[int, int, bytes | int]
"""What stands in a table: (alignment, slot, bytes, or the offset of what is elsewhere)."""


def encode(root: Any, identifier: bytes) -> bytes:
    """Return the FlatBuffer of a root table; the same model gives the same bytes.

    Equal strings, vectors and tables are stored once.
    Raises DoesNotFit when a number is too large for its field.
    """
    builder = _Builder()
    builder.Finish(_put_table(builder, root, type(root).__name__), file_identifier=identifier)
    return bytes(builder.Output())


class _Builder(flatbuffers.Builder):  # type: ignore[misc]
    """A builder that writes equal content once: `written` is content -> offset."""

    def __init__(self) -> None:
        super().__init__(1 << 16)
        self.written: dict[Hashable, int] = {}

    def vector(self, width: int, align: int, content: bytes) -> int:
        key = (width, align, content)
        if key not in self.written:
            self.StartVector(width, len(content) // width, align)
            self.push(content)
            self.written[key] = self.EndVector()
        return self.written[key]

    def offsets(self, targets: tuple[int, ...]) -> int:
        """A vector of offsets to what has been written."""
        if targets not in self.written:
            self.StartVector(4, len(targets), 4)
            for target in reversed(targets):
                self.PrependUOffsetTRelative(target)
            self.written[targets] = self.EndVector()
        return self.written[targets]

    def table(self, slots: int, inline: tuple[Inline, ...]) -> int:
        """A table of `slots` vtable slots; what points elsewhere has been written."""
        key = (slots, inline)
        if key not in self.written:
            self.StartObject(slots)
            for align, slot, content in inline:
                if isinstance(content, bytes):
                    self.Prep(align, len(content) - align)
                    self.push(content)
                else:
                    self.PrependUOffsetTRelative(content)
                self.Slot(slot)
            self.written[key] = self.EndObject()
        return self.written[key]

    def push(self, content: bytes) -> None:
        """Copy bytes before the head; room and alignment have been prepared."""
        self.head -= len(content)
        self.Bytes[self.head : self.head + len(content)] = content


def _put_table(b: _Builder, value: Any, path: str) -> int:
    """Write a table after everything it points to; returns its builder offset."""
    specs = layout(value.__class__)
    inline: list[Inline] = []
    for f in specs:
        inline += _put_field(b, f, getattr(value, f.name), f"{path}.{f.name}")
    # Wide ones first: no padding between them.
    inline.sort(key=lambda item: (-item[0], item[1]))
    return b.table(sum(f.slots for f in specs), tuple(inline))


def _put_field(b: _Builder, f: Field, value: Any, path: str) -> list[Inline]:
    """Write what stands outside the table; returns what stands inside it, nothing if absent."""
    if value is None:
        return []
    if f.many:
        present = f.required or len(value)
        return [(4, f.slot, _put_many(b, f, value, path))] if present else []
    if f.kind is Kind.SCALAR:
        assert f.number is not None
        if value == f.number.default:
            return []
        packed = _pack_number("<" + NUMBERS[f.number.type], value, path)
        return [(len(packed), f.slot, packed)]
    if f.kind is Kind.VECTOR:
        assert f.vector is not None
        present = f.required or f.nullable or len(value)
        return [(4, f.slot, _put_vector(b, f.vector, value, path))] if present else []
    if f.kind is Kind.STRING:
        return [(4, f.slot, b.CreateSharedString(value))] if value else []
    if f.kind is Kind.STRUCT:
        return [(struct_layout(f.type).align, f.slot, _pack_struct(value, path))]
    if f.kind is Kind.TABLE:
        return [(4, f.slot, _put_table(b, value, path))]
    return _put_union(b, f, value, path)


def _put_union(b: _Builder, f: Field, value: Any, path: str) -> list[Inline]:
    tag = bytes([f.members.index(type(value)) + 1])
    return [(4, f.slot + 1, _put_table(b, value, path)), (1, f.slot, tag)]


def _put_many(b: _Builder, f: Field, values: tuple[Any, ...], path: str) -> int:
    """Write a vector of strings, structs, tables or wrapped unions."""
    paths = [f"{path}[{i}]" for i in range(len(values))]
    if f.kind is Kind.STRUCT:
        plan = struct_layout(f.type)
        return b.vector(plan.size, plan.align, b"".join(map(_pack_struct, values, paths)))
    if f.kind is Kind.STRING:
        return b.offsets(tuple(map(b.CreateSharedString, values)))
    if f.kind is Kind.TABLE:
        return b.offsets(tuple(_put_table(b, v, p) for v, p in zip(values, paths)))
    one = replace(f, slot=0, many=False)
    return b.offsets(tuple(
        b.table(one.slots, tuple(_put_union(b, one, v, p))) for v, p in zip(values, paths)))


def _put_vector(b: _Builder, vector: Vector, value: Any, path: str) -> int:
    dtype = np.dtype(vector.dtype)
    array = np.frombuffer(value, dtype) if isinstance(value, bytes) else np.asarray(value)
    if array.dtype != dtype:
        limits = np.iinfo(dtype)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise DoesNotFit(
                f"{path}: {array.min()} to {array.max()} does not fit {vector.type}, "
                f"{limits.min} to {limits.max}")
        array = array.astype(dtype)
    return b.vector(dtype.itemsize, max(vector.align, dtype.itemsize), array.tobytes())


def _pack_struct(value: Any, path: str) -> bytes:
    plan = struct_layout(value.__class__)
    out = bytearray(plan.size)
    for f, offset, form in zip(layout(value.__class__), plan.offsets, plan.formats):
        packed = _pack_number(form, getattr(value, f.name), f"{path}.{f.name}")
        out[offset : offset + len(packed)] = packed
    return bytes(out)


def _pack_number(form: str, value: Any, path: str) -> bytes:
    try:
        return struct.pack(form, value)
    except (struct.error, OverflowError) as error:
        raise DoesNotFit(f"{path} = {value!r} does not fit the plan: {error}") from None


def decode(cls: type[T], buffer: bytes | memoryview, identifier: bytes) -> T:
    """Read a root table; arrays are views into `buffer`.

    The work is bounded by the size of the buffer, whatever its bytes.
    Raises PlanInvalid (I-4, I-5, or the invariant of an unknown enum value).
    """
    data = memoryview(buffer).cast("B")
    if len(data) < 8 or bytes(data[4:8]) != identifier:
        raise PlanInvalid(f"I-4: the FlatBuffer's identifier is not {identifier.decode()}")
    reader = Reader(data)
    result: T = reader.table(cls, reader.follow(0, cls.__name__), cls.__name__)
    return result


# The invariant an unknown enum value breaks, by class.
ENUM_INVARIANT = {
    "Layout": 11, "DType": 11, "RingRole": 14, "RingUse": 15, "Rounding": 41, "BiasForm": 50,
    "Encoding": 52, "StreamMode": 70, "BlobPart": 82,
}


class Reader:
    """Bounds-checked access to one buffer.

    What is shared is read once and shared in the model too. Things that overlap without being the
    same could still describe far more than the buffer holds: `work` counts down, and a model of
    more bytes than the buffer is refused.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.work = len(data)
        self.seen: dict[Hashable, Any] = {}

    def table(self, cls: type, position: int, path: str) -> Any:
        return self._once((cls, position), lambda: self._table(cls, position, path))

    def _once(self, key: Hashable, read: Callable[[], Any]) -> Any:
        if key not in self.seen:
            self.seen[key] = read()
        return self.seen[key]

    def _table(self, cls: type, position: int, path: str) -> Any:
        self._spend(4, path)
        specs = layout(cls)
        vtable, slots, size = self._vtable(position, sum(f.slots for f in specs), path)
        values: dict[str, Any] = {}
        for f in specs:
            at = self._entry(vtable, slots, f.slot)
            values[f.name] = self._field(f, position, at, size, f"{path}.{f.name}")
            if f.one_union:
                body = self._entry(vtable, slots, f.slot + 1)
                values[f.name] = self._union(f, values[f.name], (position, body, size),
                                             f"{path}.{f.name}")
        return cls(**values)

    def follow(self, at: int, path: str) -> int:
        """The target of the u32 offset at `at`."""
        self._inside(at, 4, 4, path)
        offset = int(struct.unpack_from("<I", self.data, at)[0])
        if not offset:
            raise PlanInvalid(f"I-5: {path}: an offset of 0")
        self._inside(at + offset, 4, 4, path)
        return at + offset

    def _vtable(self, position: int, known: int, path: str) -> tuple[int, int, int]:
        """(position of the first entry, number of entries, bytes of the table)."""
        self._inside(position, 4, 4, path)
        vtable = position - int(struct.unpack_from("<i", self.data, position)[0])
        self._inside(vtable, 4, 2, path)
        length, size = struct.unpack_from("<HH", self.data, vtable)
        if length < 4 or length % 2 or size < 4 or length > 4 + 2 * known:
            raise PlanInvalid(f"I-5: {path}: vtable of {length} bytes, table of {size}")
        self._inside(vtable, length, 2, path)
        self._inside(position, size, 4, path)
        return vtable + 4, (length - 4) // 2, size

    def _entry(self, vtable: int, slots: int, slot: int) -> int:
        """Offset of a field from the start of its table; 0: absent."""
        if slot >= slots:
            return 0
        return int(struct.unpack_from("<H", self.data, vtable + 2 * slot)[0])

    def _field(self, f: Field, position: int, at: int, size: int, path: str) -> Any:
        if at == 0:
            return self._absent(f, path)
        if f.kind is Kind.STRUCT and not f.many:
            plan = struct_layout(f.type)
            self._in_table(at, plan.size, size, path)
            return self._struct(f.type, position + at, path)
        if f.kind is Kind.SCALAR or f.one_union:
            letter = NUMBERS[f.number.type] if f.number else "B"
            width = struct.calcsize("<" + letter)
            self._in_table(at, width, size, path)
            self._inside(position + at, width, width, path)
            return self._number(f, "<" + letter, position + at, path)
        self._in_table(at, 4, size, path)
        target = self.follow(position + at, path)
        if f.many:
            key = (f.kind, f.type, f.members, target)
            return self._once(key, lambda: self._many(f, target, path))
        if f.kind is Kind.VECTOR:
            return self._once((f.vector, f.type, target), lambda: self._vector(f, target, path))
        if f.kind is Kind.STRING:
            return self._string(target, path)
        return self.table(f.type, target, path)

    def _absent(self, f: Field, path: str) -> Any:
        if f.required and f.kind is not Kind.UNION:
            raise PlanInvalid(f"I-5: {path} is missing")
        if f.many:
            return ()
        if f.nullable:
            return None
        if f.kind is Kind.SCALAR:
            assert f.number is not None
            default = f.number.default
            if f.type is not None:
                return f.type(default)
            return {"bool": bool, "float32": float}.get(f.number.type, int)(default)
        if f.kind is Kind.VECTOR:
            assert f.vector is not None
            return np.zeros(0, f.vector.dtype) if f.type is np.ndarray else f.type()
        return "" if f.kind is Kind.STRING else 0  # 0: no type of a union

    def _union(self, f: Field, tag: int, where: tuple[int, int, int], path: str) -> Any:
        position, at, size = where
        if not 1 <= tag <= len(f.members) or at == 0:
            raise PlanInvalid(f"I-5: {path} is missing, or of a type that is unknown ({tag})")
        self._in_table(at, 4, size, path)
        member = f.members[tag - 1]
        return self.table(member, self.follow(position + at, path), f"{path}.{member.__name__}")

    def _many(self, f: Field, target: int, path: str) -> tuple[Any, ...]:
        if f.kind is Kind.STRUCT:
            plan = struct_layout(f.type)
            count = self._count(target, plan.size, plan.align, path)
            self._spend(count * plan.size, path)
            return tuple(
                self._struct(f.type, target + 4 + i * plan.size, f"{path}[{i}]")
                for i in range(count))
        count = self._count(target, 4, 4, path)
        self._spend(4 * count, path)
        out = []
        for i in range(count):
            here = f"{path}[{i}]"
            item = self.follow(target + 4 + 4 * i, here)
            if f.kind is Kind.STRING:
                out.append(self._string(item, here))
            elif f.kind is Kind.TABLE:
                out.append(self.table(f.type, item, here))
            else:
                vtable, slots, size = self._vtable(item, 2, here)
                at, body = (self._entry(vtable, slots, slot) for slot in (0, 1))
                wrapped = Field(f.name, 0, Kind.UNION, members=f.members)
                tag = self._field(wrapped, item, at, size, here)
                out.append(self._union(wrapped, tag, (item, body, size), here))
        return tuple(out)

    def _vector(self, f: Field, target: int, path: str) -> Any:
        vector = f.vector
        assert vector is not None
        dtype = np.dtype(vector.dtype)
        count = self._count(target, dtype.itemsize, max(vector.align, dtype.itemsize), path)
        array = np.frombuffer(self.data[target + 4 : target + 4 + count * dtype.itemsize], dtype)
        if f.type is np.ndarray:
            return array
        self._spend(array.nbytes, path)
        return array.tobytes() if f.type is bytes else tuple(array.tolist())

    def _string(self, target: int, path: str) -> str:
        text: str = self._once(target, lambda: self._text(target, path))
        return text

    def _text(self, target: int, path: str) -> str:
        count = self._count(target, 1, 1, path)
        self._spend(count, path)
        end = target + 4 + count
        self._inside(end, 1, 1, path)
        if self.data[end]:
            raise PlanInvalid(f"I-5: {path}: the string does not end with a zero")
        return bytes(self.data[target + 4 : end]).decode(errors="replace")

    def _struct(self, cls: type, position: int, path: str) -> Any:
        plan = struct_layout(cls)
        self._inside(position, plan.size, plan.align, path)
        return cls(**{
            f.name: self._number(f, form, position + offset, f"{path}.{f.name}")
            for f, offset, form in zip(layout(cls), plan.offsets, plan.formats)})

    def _number(self, f: Field, form: str, position: int, path: str) -> Any:
        value = struct.unpack_from(form, self.data, position)[0]
        if form == "<?" and self.data[position] > 1:
            raise PlanInvalid(f"I-5: {path} = {self.data[position]} is no bool")
        if f.type is None:
            return value
        try:
            return f.type(value)
        except ValueError:
            invariant = ENUM_INVARIANT[f.type.__name__]
            raise PlanInvalid(
                f"I-{invariant}: {path} = {value} is no {f.type.__name__}") from None

    def _count(self, target: int, width: int, align: int, path: str) -> int:
        """Number of elements of the vector whose length stands at `target`."""
        count = int(struct.unpack_from("<I", self.data, target)[0])
        self._inside(target + 4, count * width, align, path)
        return count

    def _in_table(self, at: int, width: int, size: int, path: str) -> None:
        if at < 4 or at + width > size:
            raise PlanInvalid(f"I-5: {path} lies outside its table")

    def _inside(self, position: int, width: int, align: int, path: str) -> None:
        if position < 0 or position + width > len(self.data) or position % align:
            raise PlanInvalid(
                f"I-5: {path}: {width} bytes at {position} of {len(self.data)}, "
                f"alignment {align}")

    def _spend(self, work: int, path: str) -> None:
        self.work -= work
        if self.work < 0:
            raise PlanInvalid(f"I-5: {path}: more content than a FlatBuffer of this size can hold")
