"""Which bytes of the arena belong together: storages, found by following every read to its writes.

A plan's tensors alias each other (views, concatenation by placement, results in place of operands).
A storage is a set of values, each written once, that some step reads together; different storages
never need the same bytes, whatever the arena does, so each gets a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.places import addresses, extent


@dataclass(frozen=True)
class Access:
    """A read or write of an arena tensor by a step; -1: the caller before, len(steps): after."""

    step: int
    tensor: int
    writes: bool


@dataclass(frozen=True)
class Storage:
    """Bytes [low, high) of the arena from its first write to its last access."""

    number: int
    low: int
    high: int
    accesses: tuple[Access, ...]

    @property
    def first(self) -> int:
        return min(a.step for a in self.accesses)

    @property
    def last(self) -> int:
        return max(a.step for a in self.accesses)

    @property
    def size(self) -> int:
        return self.high - self.low

    @property
    def tensors(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(a.tensor for a in self.accesses))


class Storages:
    """The storages of a plan, and which one each access means."""

    def __init__(self, plan: pm.PlanModel) -> None:
        self._plan = plan
        self._parent: list[int] = []
        self._of_access: dict[tuple[int, int, bool], int] = {}
        self._owner = np.full(plan.arena_bytes, -1, np.int64)
        self._walk()
        self.all = tuple(self._collected())
        self._by_access = {
            (a.step, a.tensor, a.writes): s for s in self.all for a in s.accesses}

    def of(self, step: int, tensor: int, writes: bool = False) -> Storage:
        """The storage a step reads or writes as `tensor`."""
        return self._by_access[step, tensor, writes]

    def _walk(self) -> None:
        plan = self._plan
        for io in plan.inputs:
            self._write(-1, io.tensor, self._bytes(io.tensor))
        for number, step in enumerate(plan.steps):
            for tensor in reads(step):
                self._read(number, tensor)
            for branch in step.branches:
                if in_arena(plan, branch.output):
                    self._write(number, branch.output, self._written(step, branch.output))
        for io in plan.outputs:
            self._read(len(plan.steps), io.tensor)

    def _bytes(self, tensor: int) -> Array:
        return addresses(self._plan.tensors[tensor].place).ravel()

    def _written(self, step: pm.Step, tensor: int) -> Array:
        where = self._bytes(tensor)
        if not isinstance(step.source, pm.Copy) or step.source.fill:
            return where
        index = np.indices(step.source.dims).reshape(len(step.source.dims), -1)
        written: Array = where[
            step.source.out_offset + np.array(step.source.out_strides) @ index]
        return written

    def _write(self, step: int, tensor: int, where: Array) -> None:
        value = self._new()
        self._of_access[step, tensor, True] = value
        self._owner[where] = value

    def _read(self, step: int, tensor: int) -> None:
        if not in_arena(self._plan, tensor):
            return
        owners = np.unique(self._owner[self._bytes(tensor)])
        values = [int(v) for v in owners if v >= 0] or [self._new()]
        for value in values[1:]:
            self._join(values[0], value)
        self._of_access[step, tensor, False] = values[0]

    def _new(self) -> int:
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def _root(self, value: int) -> int:
        while self._parent[value] != value:
            value = self._parent[value]
        return value

    def _join(self, a: int, b: int) -> None:
        low, high = sorted((self._root(a), self._root(b)))
        self._parent[high] = low

    def _collected(self) -> Iterator[Storage]:
        groups: dict[int, list[Access]] = {}
        for (step, tensor, writes), value in self._of_access.items():
            groups.setdefault(self._root(value), []).append(Access(step, tensor, writes))
        for number, root in enumerate(sorted(groups)):
            ends = [extent(self._plan.tensors[a.tensor].place) for a in groups[root]]
            yield Storage(
                number, min(e[0] for e in ends), max(e[1] for e in ends),
                tuple(sorted(groups[root], key=lambda a: (a.step, a.writes, a.tensor))))


def in_arena(plan: pm.PlanModel, tensor: int) -> bool:
    """Whether it is neither a constant nor in a ring."""
    t = plan.tensors[tensor]
    return t.data is None and t.place.ring_role is pm.RingRole.NONE


def operands(step: pm.Step) -> tuple[int, ...]:
    """Second operands of all stages, each once."""
    found = (s.operand for b in step.branches for s in b.stages
             if isinstance(s, (pm.Add, pm.Mul, pm.AddSingleRequant)))
    return tuple(dict.fromkeys(found))


def reads(step: pm.Step) -> tuple[int, ...]:
    """Every tensor a step reads, each once."""
    return tuple(dict.fromkeys((step.input, *operands(step))))
