"""One complete small plan as annotated hex: python tools/plan_hex.py > docs/PLAN_EXAMPLE.md

The plan: one fully connected layer of 4 inputs and 2 outputs, its weights as a bitmask.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from edgesparse.plan import codec
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.write import IDENTIFIER, write_plan
from edgesparse.quantize.fixedpoint import Rounding, quantize_multiplier
from edgesparse.runtime.native import NativePlan
from edgesparse.sparsity.formats import Bitmask

Note = tuple[int, int, str]
"""First byte, number of bytes, what they are."""
WEIGHTS = np.array([[3, 0, -2, 0], [0, 0, 0, 5]], np.int8)
INPUT_ZERO_POINT = -1
BIAS = np.array([100, -7], np.int32)


def example() -> bytes:
    """The plan file."""
    multiplier, shift = quantize_multiplier(0.05)
    folded = BIAS - INPUT_ZERO_POINT * WEIGHTS.sum(axis=1, dtype=np.int32)
    mac = pm.Mac(
        geometry=pm.Geometry(in_c=4, rows=2), bias=folded, bias_form=pm.BiasForm.FOLDED,
        weights=pm.Weights(rows=2, cols=4, groups=(Bitmask().row_group(WEIGHTS),)))
    requant = pm.Requant(
        multiplier=np.array([multiplier], np.int32), shift=np.array([shift], np.int8),
        zero_point=3, qmin=-128, qmax=127, rounding=Rounding.DOUBLE)
    x = pm.Place(offset=0, pitch=4, columns=1, channels=4, zero_point=INPUT_ZERO_POINT)
    y = pm.Place(offset=4, pitch=2, columns=1, channels=2, zero_point=3)
    plan = pm.PlanModel(
        target="host",
        tensors=(pm.Tensor(shape=(1, 4), place=x, scale=0.5),
                 pm.Tensor(shape=(1, 2), place=y, scale=0.25)),
        steps=(pm.Step(input=0, source=mac,
                       branches=(pm.Branch(channels=2, output=1, stages=(requant,)),)),),
        inputs=(pm.Io(tensor=0),), outputs=(pm.Io(tensor=1),), arena_bytes=8)
    crc, outputs = Interpreter(write_plan(plan)).self_test_values(1)
    data = write_plan(replace(plan, golden=pm.Golden(seed=1, trace_crc=crc, outputs=outputs)))
    NativePlan(data)
    return data


class Annotated(codec.Reader):
    """The checked reader, noting what it reads."""

    def __init__(self, data: memoryview) -> None:
        super().__init__(data)
        self.notes: list[Note] = []

    def follow(self, at: int, path: str) -> int:
        target = super().follow(at, path)
        self.notes.append((at, 4, f"{path}: at {target}"))
        return target

    def _vtable(self, position: int, known: int, path: str) -> tuple[int, int, int]:
        first, slots, size = super()._vtable(position, known, path)
        self.notes.append((position, 4, f"{path}: table of {size} bytes, vtable at {first - 4}"))
        self.notes.append((first - 4, 4 + 2 * slots, f"vtable of {path}"))
        return first, slots, size

    def _number(self, f: Any, form: str, position: int, path: str) -> Any:
        value = super()._number(f, form, position, path)
        shown = value.name if hasattr(value, "name") else value
        self.notes.append((position, struct.calcsize(form), f"{path} = {shown}"))
        return value

    def _count(self, target: int, width: int, align: int, path: str) -> int:
        count = super()._count(target, width, align, path)
        self.notes.append((target, 4, f"{path}: {count} follow"))
        return count

    def _vector(self, f: Any, target: int, path: str) -> Any:
        values = super()._vector(f, target, path)
        size = np.dtype(f.vector.dtype).itemsize * len(values)
        self.notes.append((target + 4, size, f"{path} = {list(np.asarray(list(values)))}"))
        return values

    def _text(self, target: int, path: str) -> str:
        text = super()._text(target, path)
        self.notes.append((target + 4, len(text) + 1, f"{path} = {text!r}, and a zero"))
        return text


def notes_of(data: bytes) -> Iterator[Note]:
    """Every byte of the file once, in order."""
    size = struct.unpack_from("<I", data, len(data) - 56)[0]
    reader = Annotated(memoryview(data)[:size])
    reader.notes.append((4, 4, f"identifier {IDENTIFIER.decode()}"))
    reader.table(pm.PlanModel, reader.follow(0, "Plan"), "Plan")
    at = len(data) - 64
    trailer = (
        (4, "trailer: ESPT"), (4, "format"), (4, f"N = {size}"), (4, "CRC-32 of the N bytes"),
        (32, "SHA-256 of the N bytes"), (16, "reserved"))
    for length, text in trailer:
        reader.notes.append((at, length, text))
        at += length
    here = 0
    for first, length, text in sorted(set(reader.notes)):
        if first > here:
            yield here, first - here, "padding"
        if first >= here and length:
            yield first, length, text
            here = first + length


def page(data: bytes) -> Iterator[str]:
    yield "# A complete plan, byte by byte"
    yield ""
    yield "Made by `python tools/plan_hex.py`; a test keeps it current. A fully connected layer, 4"
    yield f"inputs and 2 outputs, weights {WEIGHTS.tolist()} as a bitmask, bias {BIAS.tolist()}"
    yield f"folded with the input's zero point {INPUT_ZERO_POINT}; {len(data)} bytes."
    yield "[PLAN_FORMAT.md](PLAN_FORMAT.md) says what each field means."
    yield ""
    yield "```"
    for first, length, text in notes_of(data):
        for line in range(0, length, 16):
            part = data[first + line : first + min(line + 16, length)]
            yield f"{first + line:4d}  {part.hex(' '):47}  {text if not line else ''}".rstrip()
    yield "```"


if __name__ == "__main__":
    sys.stdout.write("\n".join(page(example())) + "\n")
