"""es_plan_open on damaged files and FlatBuffers: I-1 to I-5."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from edgesparse.errors import PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan.wire import layout
from edgesparse.plan.write import seal, write_plan
from edgesparse.runtime.native import NativePlan
from everything import c_header, everything
from plan_buffer import Buffer, refused, valid

# ---- the file -----------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_refused() -> None:
    data = valid()
    for size in range(len(data)):
        with pytest.raises(PlanInvalid, match=r"^I-[12]:"):
            NativePlan(data[:size])


def test_a_file_with_bytes_after_its_end_is_refused() -> None:
    refused(valid() + b"\0", 1)
    refused(valid() + bytes(16), 1)


@pytest.mark.parametrize(
    ("at", "new", "invariant"),
    [(-64, b"ESPX", 1), (-1, b"\1", 1), (-16, b"\1", 1), (-60, b"\2", 2), (-56, b"\0", 2),
     (-56, struct.pack("<I", 7), 2), (-56, struct.pack("<I", 1 << 31), 2), (-52, b"abcd", 3)])
def test_a_wrong_trailer_is_refused(at: int, new: bytes, invariant: int) -> None:
    data = bytearray(valid())
    at += len(data)
    assert data[at : at + len(new)] != new
    data[at : at + len(new)] = new
    refused(bytes(data), invariant)


def test_another_version_is_said_to_be_one() -> None:
    data = bytearray(valid())
    data[-60] = 2
    assert "another format version" in refused(bytes(data), 2)
    assert "another format version" in refused(write_plan(replace(everything(), format=2)), 6)


def test_padding_that_is_not_zero_is_refused() -> None:
    data = bytearray(seal(bytes(Buffer().data) + b"more"))
    NativePlan(bytes(data))
    for at in range(len(data) - 64 - 12, len(data) - 64):
        data[at] = 1
        refused(bytes(data), 2)
        data[at] = 0


def test_any_flipped_byte_is_refused_by_the_checksum() -> None:
    (size,) = struct.unpack_from("<I", valid(), len(valid()) - 56)
    for at in range(0, size, 7):
        data = bytearray(valid())
        data[at] ^= 0x10
        refused(bytes(data), 3)


# ---- the FlatBuffer -----------------------------------------------------------------------------


def test_a_buffer_that_is_only_sealed_again_is_accepted() -> None:
    NativePlan(Buffer().sealed())


@pytest.mark.parametrize(("at", "form", "value"), [(4, "B", 0), (0, "I", 1 << 31)])
def test_a_wrong_identifier_or_root_is_refused(at: int, form: str, value: int) -> None:
    b = Buffer()
    b.put(at, form, value)
    refused(b.sealed(), 4)


def test_a_root_at_the_end_or_off_alignment_is_refused() -> None:
    for root in (2, 4, 6):
        b = Buffer()
        b.put(0, "I", b.size - root)
        refused(b.sealed(), 5)


PATHS: dict[str, tuple[str | int, ...]] = {
    "Plan": (), "Tensor": ("tensors", 0), "Weights": ("steps", 1, "source", "weights"),
    "RowGroup": ("steps", 1, "source", "weights", "groups", 1), "Mac": ("steps", 1, "source"),
    "Load": ("steps", 0, "source"), "Copy": ("steps", 7, "source"), "Step": ("steps", 2),
    "Branch": ("steps", 3, "branches", 1), "Io": ("inputs", 0), "Golden": ("golden",),
    "Names": ("names",), "Stage": ("stage",), "Npu": ("npu",),
}


def table_at(b: Buffer, name: str) -> int:
    if name == "Plan":
        return b.follow(0)
    return b.stage(1) if name == "Stage" else b.table(*PATHS[name])


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    "change",
    ["vtable before", "vtable after", "vtable at the end", "vtable odd", "vtable short",
     "vtable of odd length", "vtable long", "table short", "table long", "more fields"])
def test_a_table_that_is_not_one_is_refused(name: str, change: str) -> None:
    b = Buffer()
    table = table_at(b, name)
    vtable = b.vtable(table)
    length = b.u16(vtable)
    if change == "vtable before":
        b.put(table, "i", table + 2)
    elif change == "vtable after":
        b.put(table, "i", table - b.size - 2)
    elif change == "vtable at the end":
        b.data += struct.pack("<HH", 6, b.u16(vtable + 2))
        b.put(table, "i", table - b.size)
    elif change == "vtable odd":
        b.put(table, "i", table - vtable + 1)
    elif change == "vtable short":
        b.put(vtable, "H", 2)
    elif change == "vtable of odd length":
        b.put(vtable, "H", length + 1 if length > 4 else 5)
    elif change == "vtable long":
        b.put(vtable, "H", 0xFFFE)
    elif change == "table short":
        b.put(vtable + 2, "H", 3)
    elif change == "table long":
        b.put(vtable + 2, "H", 0xFFFC)
    else:  # a vtable at the end of the buffer, with every field it may have and one more
        (cls,) = (c for c in vars(pm).values() if isinstance(c, type) and c.__name__ in (
            name, name + "Model")) if name != "Stage" else (None,)
        slots = sum(f.slots for f in layout(cls)) if cls else 2
        old = b.data[vtable + 4 : vtable + length]
        entries = old + bytes(2 * slots + 2 - len(old))
        for known, expected in ((slots + 1, 5), (slots, 0)):
            longer = Buffer()
            longer.data += struct.pack("<HH", 4 + 2 * known, b.u16(vtable + 2))
            longer.data += entries[: 2 * known]
            longer.put(table, "i", table - longer.size)
            if expected:
                refused(longer.sealed(), expected)
            else:
                NativePlan(longer.sealed())
        return
    refused(b.sealed(), 5)


@pytest.mark.parametrize("name", [name for name in PATHS if name != "Load"])
def test_a_field_outside_its_table_is_refused(name: str) -> None:
    b = Buffer()
    table = table_at(b, name)
    vtable = b.vtable(table)
    slots = [at for at in range(vtable + 4, vtable + b.u16(vtable), 2) if b.u16(at)]
    assert slots
    for at in slots:
        for value in (1, 2, 3, b.u16(vtable + 2), 0xFFFF):
            changed = Buffer()
            changed.put(at, "H", value)
            refused(changed.sealed(), 5)


@pytest.mark.parametrize("path", [
    ("target",), ("tensors",), ("names",), ("golden",), ("rings",), ("source_sha256",),
    ("tensors", 0, "shape"), ("steps", 1, "source"), ("steps", 1, "branches"),
    ("steps", 1, "source", "weights"), ("steps", 1, "source", "bias"),
    ("steps", 1, "source", "weights", "groups", 0, "values"), ("names", "tensors"),
    ("names", "model"), ("golden", "outputs")])
@pytest.mark.parametrize("value", [0, 1, 1 << 31, (1 << 32) - 1, (1 << 32) - 4, -2, -1])
def test_an_offset_that_leads_nowhere_is_refused(path: tuple[str | int, ...], value: int) -> None:
    """-1: to the end; -2: two bytes further than what it leads to."""
    b = Buffer()
    at = b.locate(*path)
    b.put(at, "I", {-1: b.size - at, -2: b.u32(at) + 2}.get(value, value))
    refused(b.sealed(), 5)


@pytest.mark.parametrize("path", [
    ("tensors",), ("rings",), ("source_sha256",), ("tensors", 0, "shape"),
    ("steps", 1, "source", "bias"), ("steps", 1, "source", "weights", "row_order"),
    ("steps", 1, "source", "weights", "groups", 0, "values"), ("names", "tensors")])
@pytest.mark.parametrize("count", [1 << 28, 1 << 30, 1 << 31, (1 << 32) - 1])
def test_a_vector_longer_than_the_buffer_is_refused(
    path: tuple[str | int, ...], count: int
) -> None:
    b = Buffer()
    b.put(b.follow(b.locate(*path)), "I", count)
    refused(b.sealed(), 5)


@pytest.mark.parametrize("path", [
    ("steps", 1, "source", "weights", "groups", 0, "values"),
    ("steps", 1, "source", "weights", "groups", 1, "index"), ("tensors", 7, "data")])
def test_bytes_off_their_forced_alignment_are_refused(path: tuple[str | int, ...]) -> None:
    """The vector is written again at the end, once 16-aligned, once 4 bytes further."""
    for off, fine in ((12, True), (16, False)):
        b = Buffer()
        at = b.locate(*path)
        vector = b.follow(at)
        content = b.data[vector : vector + 4 + b.u32(vector)]
        b.data += bytes(-len(b.data) % 16 + off)
        b.put(at, "I", len(b.data) - at)
        b.data += content
        if fine:
            NativePlan(b.sealed())
        else:
            refused(b.sealed(), 5)


def test_a_string_without_its_zero_is_refused() -> None:
    for path in (("producer",), ("names", "model")):
        b = Buffer()
        string = b.follow(b.locate(*path))
        end = string + 4 + b.u32(string)
        assert b.data[end] == 0
        b.put(end, "B", 1)
        refused(b.sealed(), 5)
    for value in (0, (1 << 32) - 1):
        b = Buffer()
        names = b.follow(b.locate("names", "steps"))
        b.put(b.follow(names + 4), "I", (1 << 32) - 1)
        refused(b.sealed(), 5)
        b = Buffer()
        b.put(names + 4, "I", value)
        refused(b.sealed(), 5)


def test_a_bool_other_than_0_and_1_is_refused() -> None:
    for path in (("steps", 7, "source", "fill"), ("inputs", 0, "float_io")):
        b = Buffer()
        at = b.locate(*path)
        assert b.data[at] == 1
        b.put(at, "B", 2)
        refused(b.sealed(), 5)


def test_an_unknown_union_type_is_refused() -> None:
    for members, table, slot in ((3, Buffer().table("steps", 1), 1), (10, Buffer().stage(1), 0)):
        for kind in (0, members + 1, 255):
            b = Buffer()
            b.put(b.field(table, slot), "B", kind)
            refused(b.sealed(), 5)
        b = Buffer()
        b.put(b.entry(table, slot), "H", 0)
        refused(b.sealed(), 5)


REQUIRED = [
    ("Plan", "tensors"), ("Plan", "steps"), ("Plan", "inputs"), ("Plan", "outputs"),
    ("Tensor", "shape"), ("Tensor", "place"), ("RowGroup", "values"), ("Weights", "groups"),
    ("Mac", "geometry"), ("Mac", "weights"), ("Mac", "bias"), ("Copy", "dims"),
    ("Copy", "in_strides"), ("Copy", "out_strides"), ("Step", "source"), ("Step", "branches"),
    ("Golden", "outputs")]


@pytest.mark.parametrize(("name", "field"), REQUIRED)
def test_a_required_field_that_is_absent_is_refused(name: str, field: str) -> None:
    b = Buffer()
    cls = pm.PlanModel if name == "Plan" else getattr(pm, name)
    (f,) = (f for f in layout(cls) if f.name == field)
    b.put(b.entry(table_at(b, name), f.slot + (1 if f.one_union else 0)), "H", 0)
    refused(b.sealed(), 5)


def test_the_c_tests_have_the_plan_of_everything(update_golden: bool) -> None:
    header = Path(__file__).parents[1] / "native" / "tests" / "plan_everything.h"
    text = c_header(valid())
    if update_golden:
        header.write_text(text)
    assert header.read_text() == text


def test_the_checksum_is_that_of_zlib() -> None:
    data = valid()
    size, crc = struct.unpack_from("<II", data, len(data) - 56)
    assert zlib.crc32(data[:size]) == crc
    NativePlan(data)
