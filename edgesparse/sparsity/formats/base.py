"""What a weight encoding is, and the registry of those a plan can hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from edgesparse.errors import DoesNotFit, PlanInvalid
from edgesparse.graph.ir import Array
from edgesparse.plan.model import Encoding, RowGroup


@dataclass(frozen=True)
class Format(ABC):
    """An encoding of docs/PLAN_FORMAT.md section 7 with its parameters.

    The fields of a subclass are named as in RowGroup. `w` is always [rows, K] int8.
    """

    encoding: ClassVar[Encoding]
    invariant: ClassVar[str]
    """The number in docs/PLAN_FORMAT.md that broken values or index violate."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a person reads: "bsr 4x1", "2:4"."""

    def refusal(self, w: Array) -> str:
        """Why `w` cannot be stored like this; empty when it can."""
        del w
        return ""

    @abstractmethod
    def size(self, w: Array) -> int:
        """Bytes of values and index of a `w` that is not refused; nothing is encoded."""

    @abstractmethod
    def encode(self, w: Array) -> tuple[Array, Array]:
        """Return (values int8, index uint8) of a `w` that is not refused."""

    @abstractmethod
    def decode(self, values: Array, index: Array, shape: tuple[int, int]) -> Array:
        """Return [rows, K] int8; raises PlanInvalid when the bytes are not those of a `w`."""

    def row_group(self, w: Array, first_row: int = 0) -> RowGroup:
        """Return the encoded rows. Raises DoesNotFit with the reason of a refusal."""
        if reason := self.refusal(w):
            raise DoesNotFit(f"weights of shape {list(w.shape)} as {self.name}: {reason}")
        values, index = self.encode(w)
        return RowGroup(
            first_row=first_row, row_count=w.shape[0], encoding=self.encoding,
            nnz=int(np.count_nonzero(w)), values=values, index=index, **asdict(self))

    def broken(self, what: str) -> PlanInvalid:
        return PlanInvalid(f"{self.invariant}: {self.name} weights: {what}")

    def expect(self, what: str, found: int, expected: int) -> None:
        """Raise PlanInvalid unless a size is what it has to be."""
        if found != expected:
            raise self.broken(f"{found} {what} instead of {expected}")


FORMATS: dict[Encoding, type[Format]] = {}
F = TypeVar("F", bound=Format)
PARAMETERS = ("packing", "block_rows", "block_cols", "n", "m", "index_bits")


def register(encoding: Encoding, invariant: str) -> Callable[[type[F]], type[F]]:
    """Make a format the one of an encoding of the plan."""

    def add(cls: type[F]) -> type[F]:
        cls.encoding, cls.invariant = encoding, invariant
        FORMATS[encoding] = cls
        return cls

    return add


def format_of(group: RowGroup) -> Format:
    """The format of a row group with its parameters. Raises PlanInvalid."""
    cls = FORMATS[group.encoding]
    used = {f.name for f in fields(cls)}
    for f in fields(RowGroup):
        if f.name in PARAMETERS and f.name not in used:
            default = 0 if f.default is MISSING else f.default
            if (value := getattr(group, f.name)) != default:
                raise PlanInvalid(f"I-52: {group.encoding.name} weights with {f.name} = {value}")
    parameters: dict[str, Any] = {name: getattr(group, name) for name in used}
    return cls(**parameters)


def decode_group(group: RowGroup, cols: int) -> Array:
    """[row_count, cols] int8 of one row group. Raises PlanInvalid."""
    w = format_of(group).decode(group.values, group.index, (group.row_count, cols))
    if (nnz := int(np.count_nonzero(w))) != group.nnz:
        raise PlanInvalid(f"I-57: nnz = {group.nnz}, the rows hold {nnz} weights")
    return w
