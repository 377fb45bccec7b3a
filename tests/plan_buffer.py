"""The FlatBuffer of a plan as bytes with names, for tests that damage it."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import pytest

from edgesparse.errors import PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan.wire import Kind, layout
from edgesparse.plan.write import seal, write_plan
from edgesparse.runtime.native import NativePlan
from everything import everything


@cache
def valid() -> bytes:
    return write_plan(everything())


def refused(data: bytes, invariant: int) -> str:
    with pytest.raises(PlanInvalid, match=rf"^I-{invariant}:") as caught:
        NativePlan(bytes(data))
    return str(caught.value)


class Buffer:
    """The FlatBuffer of a plan, by default the valid one, for changes in place."""

    def __init__(self, plan: bytes | None = None) -> None:
        plan = plan or valid()
        (self.size,) = struct.unpack_from("<I", plan, len(plan) - 56)
        self.data = bytearray(plan[: self.size])

    def u16(self, at: int) -> int:
        return int(struct.unpack_from("<H", self.data, at)[0])

    def u32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def put(self, at: int, form: str, value: int) -> None:
        struct.pack_into("<" + form, self.data, at, value)

    def follow(self, at: int) -> int:
        return at + self.u32(at)

    def vtable(self, table: int) -> int:
        return table - int(struct.unpack_from("<i", self.data, table)[0])

    def entry(self, table: int, slot: int) -> int:
        """Where the vtable's entry for a field stands."""
        return self.vtable(table) + 4 + 2 * slot

    def field(self, table: int, slot: int) -> int:
        return table + self.u16(self.entry(table, slot))

    def locate(self, *path: str | int) -> int:
        """Where a field of the plan stands; numbers are elements of vectors, names end in a field:
        ("steps", 1, "source", "bias")."""
        cls: Any = pm.PlanModel
        at, many = self.follow(0), None
        for i, name in enumerate(path):
            if isinstance(name, int):
                assert many is not None
                at = self.follow(self.follow(at) + 4 + 4 * name)
                cls, many = many.type, None
            else:
                if i and not isinstance(path[i - 1], int):
                    at = self.follow(at)
                (f,) = (f for f in layout(cls) if f.name == name)
                slot = f.slot + (1 if f.one_union else 0)
                cls = f.members[self.data[self.field(at, slot - 1)] - 1] if f.one_union else f.type
                at, many = self.field(at, slot), f
                if f.kind is Kind.UNION and f.many:
                    raise AssertionError("stages are reached by hand")
        return at

    def table(self, *path: str | int) -> int:
        """A table, by the field or the element that leads to it."""
        at = self.locate(*path)
        return at if isinstance(path[-1], int) else self.follow(at)

    def sealed(self) -> bytes:
        return seal(bytes(self.data))

    def stage(self, step: int) -> int:
        """The first stage's wrapper table in the first branch of a step."""
        branch = self.follow(self.follow(self.locate("steps", step, "branches")) + 4)
        stages = self.field(branch, 3)
        return self.follow(self.follow(stages) + 4)
