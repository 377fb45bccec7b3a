"""The plan's wire format: our schema twin, our bytes, and the public flatc agree."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import zlib
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from edgesparse.errors import DoesNotFit, PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan import npu_model, stream_model
from edgesparse.plan.codec import decode
from edgesparse.plan.read import flatbuffer_of, read_plan
from edgesparse.plan.wire import Kind, layout, struct_layout
from edgesparse.plan.write import IDENTIFIER, seal, write_plan
from edgesparse.quantize.fixedpoint import Rounding
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Nm
from needs import require
from plan_builder import (
    WHOLE,
    PlanBuilder,
    add,
    mac,
    random_weights,
    requant,
    scaled,
    stored,
    values,
)
from stream_plans import full_stream_plan

SCHEMA = Path(pm.__file__).with_name("plan.fbs")
CLASSES = {
    cls.__name__: cls for module in (pm, stream_model, npu_model)
    for cls in vars(module).values()
    if dataclasses.is_dataclass(cls) and isinstance(cls, type)
} | {"Plan": pm.PlanModel}
del CLASSES["PlanModel"]
ENUMS = {e.__name__: e for e in (
    pm.DType, pm.Layout, pm.RingRole, pm.RingUse, pm.Encoding, pm.BiasForm, Rounding,
    stream_model.StreamMode, npu_model.BlobPart)}


def full_plan() -> pm.PlanModel:
    """Every table, every union member, every field away from its default."""
    rng = np.random.default_rng(1)
    b = PlanBuilder()
    ring = b.ring(5, 3, zero_point=-7)
    x = b.input(2, 3, zero_point=3, scale=0.5)
    kept = b.append(ring, 2)
    b.tail(pm.Load(), x, kept, pm.Clamp(qmin=-100, qmax=100), pm.Lut(table=values(rng, 256)))
    past = b.view(ring, 3, lag=1)
    w = random_weights(rng, 20, 16, 0.5)
    w[12:16] = np.where(np.arange(16) % 4 < 2, w[12:16], 0)
    order = np.roll(np.arange(20), 3).astype(np.uint16)
    weights = stored(
        w, (4, Dense()), (4, Bitmask()), (4, Bsr(2, 4)), (4, Nm(2, 4)), (4, DeltaCsr(4)),
        row_order=order)
    wide = b.tensor(
        1, 8, 2, layout=pm.Layout.POLYPHASE, phases=2, halo=1, zero_point=-1, scale=0.25)
    c4 = b.tensor(1, 8, 2, layout=pm.Layout.C4)
    b.tail(
        pm.Copy(dims=(2, 3), in_offset=1, in_strides=(3, 1), out_offset=2, out_strides=(8, -1),
                fill=True, fill_value=-5), past, wide)
    constant = b.constant(values(rng, 1, 2))
    b.tail(pm.Load(), wide, c4, add(constant, (0, 1, 2), negate_other=True),
           pm.Mul(operand=wide, value_zero_point=1, other_zero_point=2, out=scaled(3, 0.01),
                  rounding=Rounding.SINGLE, **WHOLE))
    y, z = b.output(1, 16), b.output(1, 4)
    window = pm.Window(in_w=1, kernel_w=2, pad_left=1)
    b.step(
        mac(weights, w, values(rng, 20).astype(np.int64), 0, in_w=1, in_c=16,
            bias_form=pm.BiasForm.PLAIN), b.same_place(c4, 1, 16, layout=pm.Layout.NWC, pitch=16),
        pm.Branch(channels=16, output=y, stages=(
            requant(rng.random(16) / 100, 5),
            pm.MaxPool(window=window, **WHOLE), pm.AvgPool(window=window, **WHOLE),
            pm.Mean(in_zero_point=1, scaled=scaled(-3, 0.5), rounding=Rounding.SINGLE, **WHOLE,
                    running=pm.Running(ring=1, each=True, fresh=1, columns=5)),
            pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-99))),
        pm.Branch(first_channel=16, channels=4, output=z, stages=(
            pm.AddSingleRequant(
                operand=constant, other_zero_point=9, multiplier=np.array([77, 78], np.int32),
                other_multiplier=np.array([5], np.int32), shift=np.array([9], np.int8),
                zero_point=1, qmin=-2, qmax=3),)))
    b.inputs[0] = replace(b.inputs[0], float_io=True)
    return b.plan(
        config=0x1234, golden=pm.Golden(seed=1, trace_crc=2, outputs=values(rng, 20)),
        source_sha256=bytes(range(32)), producer="edgesparse", options="target=host",
        names=pm.Names(model="m", tensors=("a", "b", ""), steps=("s",), inputs=("x",),
                       outputs=("y", "z"), labels=("é",)),
        stream=full_stream_plan().stream,
        npu=npu_model.Npu(
            config=0x1234, scratchpad_bytes=7, prologue=1, commands=np.arange(32, dtype=np.uint8),
            blobs=(
                npu_model.NpuBlob(step=1, part=npu_model.BlobPart.TABLE, branch=2, index=3),
                npu_model.NpuBlob(part=npu_model.BlobPart.TENSOR, index=4, reserved=5))))


# ---- model.py and plan.fbs ----------------------------------------------------------------------


def schema() -> tuple[dict[str, tuple[str, list[tuple[str, str, str]]]], dict[str, list[str]]]:
    """({table or struct: (keyword, [(field, type, attributes and default)])}, {enum: members})."""
    text = re.sub(r"//.*", "", SCHEMA.read_text())
    bodies = re.findall(r"(table|struct|enum|union)\s+(\w+)(?:\s*:\s*\w+)?\s*{(.*?)}", text, re.S)
    tables = {
        name: (keyword, re.findall(r"(\w+)\s*:\s*([\w\[\]]+)\s*([^;]*);", body))
        for keyword, name, body in bodies if keyword in ("table", "struct")}
    lists = {name: re.findall(r"\w+", body) for keyword, name, body in bodies
             if keyword in ("enum", "union")}
    return tables, lists


def spelled(field: Any) -> str:
    """The type of a field of model.py as the schema spells it."""
    if field.kind is Kind.SCALAR:
        name = field.type.__name__ if field.type else field.number.type
    elif field.kind is Kind.VECTOR:
        name = f"[{field.vector.type}]"
    elif field.kind is Kind.STRING:
        name = "string"
    elif field.kind is Kind.UNION:
        name = "Stage" if field.many else "Source"
    else:
        name = field.type.__name__
    return f"[{name}]" if field.many else str(name)


def test_every_table_and_enum_of_the_schema_has_a_twin() -> None:
    tables, lists = schema()
    assert set(tables) - {"Stage"} == set(CLASSES)
    assert set(lists) == {*ENUMS, "Source", "StageBody"}
    for name, enum in ENUMS.items():
        assert [e.name for e in enum] == lists[name]
        assert [int(e) for e in enum] == list(range(len(enum)))
    for step, name, union in ((pm.Step, "source", "Source"), (pm.Branch, "stages", "StageBody")):
        (field,) = (f for f in layout(step) if f.name == name)
        assert [m.__name__ for m in field.members] == lists[union]
    assert tables["Stage"] == ("table", [("body", "StageBody", "(required)")])


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_equals_its_table_field_by_field(name: str) -> None:
    cls = CLASSES[name]
    keyword, fields = schema()[0][name]
    assert (keyword == "struct") == (cls in pm.STRUCTS)
    assert [(f.name, spelled(f)) for f in layout(cls)] == [(n, t) for n, t, _ in fields]
    for field, (_, _, more) in zip(layout(cls), fields):
        default = re.search(r"= (\d+)", more)
        if field.number:
            assert field.number.default == (int(default[1]) if default else 0)
        align = re.search(r"force_align: (\d+)", more)
        if field.vector:
            assert field.vector.align == (int(align[1]) if align else 0)
        if keyword == "table":
            assert field.required == ("required" in more), field.name


def test_defaults_of_tables_are_those_of_the_schema() -> None:
    """A default in Python that differs would read back as something else."""
    for cls in set(CLASSES.values()) - pm.STRUCTS - {pm.PlanModel}:
        for f, wire in zip(dataclasses.fields(cls), layout(cls)):
            if wire.number and f.default is not dataclasses.MISSING:
                assert f.default == wire.number.default, (cls, f.name)


@pytest.mark.parametrize(("cls", "size"), [
    (pm.Place, 28), (pm.Ring, 16), (pm.Geometry, 32), (pm.Scaled, 8), (pm.Window, 20)])
def test_structs_have_no_holes(cls: type, size: int) -> None:
    assert struct_layout(cls).size == size
    assert sum(int(np.dtype(form).itemsize) for form in (
        f.replace("?", "b") for f in struct_layout(cls).formats)) == size


# ---- our bytes ----------------------------------------------------------------------------------


def test_a_plan_reads_back_as_it_was() -> None:
    plan = full_plan()
    assert pm.same(read_plan(write_plan(plan)), plan)


def test_same_sees_a_difference() -> None:
    plan = full_plan()
    read = read_plan(write_plan(plan))
    assert not pm.same(read, replace(plan, config=1))
    first = plan.tensors[0]
    moved = replace(first, place=replace(first.place, offset=99))
    assert not pm.same(read, replace(plan, tensors=(moved, *plan.tensors[1:])))
    assert plan.golden is not None
    other = replace(plan.golden, outputs=plan.golden.outputs + 1)
    assert not pm.same(read, replace(plan, golden=other))


def test_a_plan_with_nothing_optional_reads_back() -> None:
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, 1)
    b.tail(pm.Load(), x, y)
    plan = b.plan()
    assert pm.same(read_plan(write_plan(plan)), plan)


def test_the_same_model_gives_the_same_bytes() -> None:
    assert write_plan(full_plan()) == write_plan(full_plan())


def test_equal_content_is_stored_once_and_read_once() -> None:
    rng = np.random.default_rng(3)
    w = random_weights(rng, 64, 64)
    b = PlanBuilder()
    x, y = b.input(1, 64), b.tensor(1, 64)
    once = 0
    for count in (1, 40):
        while len(b.steps) < count:
            b.tail(mac(stored(w.copy()), w, np.arange(64), 0), x, y, requant(np.full(64, 0.1), 0))
        size = len(write_plan(b.plan()))
        once = once or size
    assert size < once + 40 * 8
    steps = read_plan(write_plan(b.plan())).steps
    assert len(steps) == 40
    assert all(step is steps[0] for step in steps)


def test_the_file_is_laid_out_as_section_1_says() -> None:
    data = write_plan(full_plan())
    assert len(data) % 16 == 0
    assert data[4:8] == b"ESPL"
    magic, trailer = data[-64:-60], data[-60:]
    version, size, crc = np.frombuffer(trailer[:12], "<u4").tolist()
    assert (magic, version, trailer[-16:]) == (b"ESPT", 1, bytes(16))
    assert -(-size // 16) * 16 + 64 == len(data)
    assert zlib.crc32(data[:size]) == crc
    assert not any(data[size:-64])


def test_weights_start_on_multiples_of_16() -> None:
    data = write_plan(full_plan())
    buffer = np.frombuffer(data, np.uint8)
    plan = read_plan(data)
    arrays = [t.data for t in plan.tensors if t.data is not None]
    for step in plan.steps:
        if isinstance(step.source, pm.Mac):
            arrays += [a for g in step.source.weights.groups for a in (g.values, g.index)]
    arrays = [a for a in arrays if len(a)]
    assert len(arrays) >= 9
    for array in arrays:
        offset = array.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
        assert offset % 16 == 0


@pytest.mark.parametrize(("field", "value"), [
    ("arena_bytes", 1 << 32), ("arena_bytes", -1), ("format", 1 << 16)])
def test_a_number_too_large_for_its_field_is_refused(field: str, value: int) -> None:
    with pytest.raises(DoesNotFit, match=field):
        write_plan(replace(full_plan(), **{field: value}))


def test_a_vector_entry_too_large_is_refused() -> None:
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, 1)
    b.tail(pm.Copy(dims=(1,), in_strides=(1 << 31,), out_strides=(1,)), x, y)
    with pytest.raises(DoesNotFit, match=r"steps\[0\]\.source\.in_strides"):
        write_plan(b.plan())


# ---- the public flatc ---------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """What `flatc --json --strict-json --defaults-json` prints for a part of the model."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, (np.ndarray, bytes)):
        raw = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        return raw.tolist()
    if isinstance(value, tuple):
        return [as_json(v) for v in value]
    if not dataclasses.is_dataclass(value):
        return value
    out: dict[str, Any] = {}
    for field in layout(type(value)):
        content = getattr(value, field.name)
        if content is None or (
                isinstance(content, (str, tuple, np.ndarray)) and not len(content)
                and not field.required):
            continue
        if field.kind is Kind.VECTOR and field.vector and field.vector.type == "ubyte":
            content = np.frombuffer(content, np.uint8)
        if field.kind is Kind.UNION and field.many:
            out[field.name] = [
                {"body_type": type(c).__name__, "body": as_json(c)} for c in content]
        elif field.kind is Kind.UNION:
            out[f"{field.name}_type"] = type(content).__name__
            out[field.name] = as_json(content)
        else:
            out[field.name] = as_json(content)
    return out


@pytest.fixture
def flatc_json(tmp_path: Path) -> Any:
    require("flatc")

    def convert(plan: bytes) -> Any:
        (tmp_path / "plan.bin").write_bytes(flatbuffer_of(plan))
        subprocess.run(
            ["flatc", "--json", "--strict-json", "--defaults-json", "--raw-binary", "-o", tmp_path,
             SCHEMA, "--", tmp_path / "plan.bin"], check=True, timeout=60)
        return json.loads((tmp_path / "plan.json").read_text())

    return convert


def test_flatc_reads_every_value_of_our_bytes(flatc_json: Any) -> None:
    plan = full_plan()
    assert flatc_json(write_plan(plan)) == as_json(plan)


def test_we_read_every_value_of_flatcs_bytes(tmp_path: Path) -> None:
    require("flatc")
    plan = full_plan()
    (tmp_path / "plan.json").write_text(json.dumps(as_json(plan)))
    subprocess.run(["flatc", "--binary", "-o", tmp_path, SCHEMA, tmp_path / "plan.json"],
                   check=True, timeout=60)
    assert pm.same(read_plan(seal((tmp_path / "plan.esp").read_bytes())), plan)


# ---- bytes that are no plan ---------------------------------------------------------------------


def test_damage_of_the_trailer_is_named_by_its_invariant() -> None:
    data = write_plan(full_plan())
    size = len(data)

    def refused(changed: bytes, invariant: str) -> None:
        with pytest.raises(PlanInvalid, match=rf"^I-{invariant}: "):
            read_plan(changed)

    refused(b"", "1")
    refused(data[:79], "1")
    refused(data[:-1], "1")
    refused(data[:-64] + b"X" + data[-63:], "1")
    refused(data[:-1] + b"\1", "1")
    refused(data[: size - 60] + b"\2" + data[size - 59 :], "2")
    refused(data[: size - 56] + b"\1" + data[size - 55 :], "2")
    refused(data[:16] + data[32:], "2")
    refused(data[:100] + bytes([data[100] ^ 1]) + data[101:], "3")
    refused(data[: size - 48] + b"\0\0" + data[size - 46 :], "3")
    refused(seal(b"\x10\0\0\0ESPM" + bytes(20)), "4")
    refused(write_plan(replace(full_plan(), format=2)), "6")


def test_padding_is_zero() -> None:
    """Without weights a FlatBuffer is a multiple of 4; one of four lengths needs 4 bytes more."""
    b = PlanBuilder()
    b.tail(pm.Load(), b.input(1, 1), b.output(1, 1))
    plans = [write_plan(b.plan(producer="e" * 4 * n)) for n in range(1, 5)]
    data = next(d for d in plans if len(flatbuffer_of(d)) % 16)
    assert data[-65] == 0
    with pytest.raises(PlanInvalid, match=r"^I-2: "):
        read_plan(data[:-65] + b"\1" + data[-64:])


def test_an_unknown_enum_value_is_named_by_its_invariant() -> None:
    """17 in every byte, one at a time: each enum stands somewhere."""
    data = bytearray(flatbuffer_of(write_plan(full_plan())))
    found = set()
    for at in range(8, len(data)):
        before, data[at] = data[at], 17
        try:
            decode(pm.PlanModel, bytes(data), IDENTIFIER)
        except PlanInvalid as error:
            found |= set(re.findall(r"^(I-\d+): .* = 17 is no (\w+)$", str(error)))
        data[at] = before
    assert found == {
        ("I-5", "bool"), ("I-11", "Layout"), ("I-11", "DType"), ("I-14", "RingRole"),
        ("I-15", "RingUse"),
        ("I-41", "Rounding"), ("I-50", "BiasForm"), ("I-52", "Encoding"),
        ("I-70", "StreamMode"), ("I-82", "BlobPart")}


def test_mutants_are_read_or_refused_and_nothing_else() -> None:
    rng = np.random.default_rng(7)
    data = bytes(flatbuffer_of(write_plan(full_plan())))
    outcome = {True: 0, False: 0}
    for _ in range(1500):
        mutant = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            mutant[at] = rng.choice([0, 1, 127, 128, 255, mutant[at] ^ (1 << rng.integers(8))])
        if rng.random() < 0.1:
            mutant = mutant[: rng.integers(0, len(data))]
        try:
            decode(pm.PlanModel, bytes(mutant), IDENTIFIER)
            outcome[True] += 1
        except PlanInvalid:
            outcome[False] += 1
    assert min(outcome.values()) > 150


def test_a_model_of_more_bytes_than_the_buffer_is_refused() -> None:
    """Vectors may overlap: 2,000 shapes of 1,000 numbers each, in 3,000 numbers."""
    b = flatbuffers.Builder()
    b.StartVector(4, 3000, 4)
    for _ in range(3000):
        b.PrependUint32(1000)
    b.EndVector()
    last_count = 4 * 1001
    tensors = []
    for i in range(2000):
        b.StartObject(4)
        b.PrependUOffsetTRelativeSlot(0, last_count + 4 * i, 0)
        b.Prep(4, 28)
        for _ in range(7):
            b.PrependUint32(0)
        b.Slot(1)
        tensors.append(b.EndObject())
    b.StartVector(4, len(tensors), 4)
    for tensor in tensors:
        b.PrependUOffsetTRelative(tensor)
    vector = b.EndVector()
    b.StartObject(15)
    b.PrependUOffsetTRelativeSlot(3, vector, 0)
    b.Finish(b.EndObject(), file_identifier=IDENTIFIER)
    with pytest.raises(PlanInvalid, match=r"I-5: .*shape: more content"):
        decode(pm.PlanModel, bytes(b.Output()), IDENTIFIER)
