"""What every kernel is: the tensors it needs, how far it reaches, what it loads, its code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edgesparse.npu.assembler import Assembler
from edgesparse.npu.isa import NPOS_MAX
from edgesparse.npu.layout import Layout, Pads
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart, NpuBlob
from edgesparse.target import NpuConfig

# Streams, by what they carry. A kernel sets those it uses.
X, WEIGHTS, INDEX, BIAS, MULTIPLIER, SHIFT, OUT, APPEND, OPERAND = range(9)
PIECE_ALIGN = 16


Role = Literal["input", "operand", "output", "append"]
Grid = Literal["fixed", "shared", "free"]


class NotOnNpu(Exception):
    """The NPU has no code for this step; the text says why, for the report."""


@dataclass(frozen=True)
class Axis:
    """Output position o reads input positions o * stride - before .. + span - 1."""

    stride: int = 1
    before: int = 0
    span: int = 1

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """Input positions [low, high) of the outputs [first, end)."""
        return first * self.stride - self.before, (end - 1) * self.stride - self.before + self.span

    def after(self, inner: Axis) -> Axis:
        """This axis on the results of `inner`."""
        return Axis(self.stride * inner.stride, self.before * inner.stride + inner.before,
                    (self.span - 1) * inner.stride + inner.span)


@dataclass(frozen=True)
class Region:
    """Output rows [y0, y1) and columns [x0, x1)."""

    y0: int
    y1: int
    x0: int
    x1: int

    @property
    def rows(self) -> int:
        return self.y1 - self.y0

    @property
    def cols(self) -> int:
        return self.x1 - self.x0


@dataclass(frozen=True)
class Need:
    """A tensor a kernel touches: on which grid, and how its positions follow from the output's.

    grid  "fixed": it must be (rows, cols); "shared": any that all shared needs have will do;
          "free": the tensor as it stands
    partial  some elements of an output keep what they hold
    """

    tensor: int
    rows: int
    cols: int
    role: Role = "input"
    grid: Grid = "fixed"
    y: Axis = Axis()
    x: Axis = Axis()
    partial: bool = False

    @property
    def writes(self) -> bool:
        return self.role in ("output", "append")

    @property
    def repeated(self) -> bool:
        """Whether every output position reads the one column there is."""
        return self.rows * self.cols == 1 and self.y == self.x == Axis()

    def pads(self, out_rows: int, out_cols: int) -> Pads:
        """Columns outside the image that are read."""
        top, bottom = self.y.reads(0, out_rows)
        left, right = self.x.reads(0, out_cols)
        return Pads(max(0, -top), max(0, bottom - self.rows),
                    max(0, -left), max(0, right - self.cols))


@dataclass(frozen=True)
class Piece:
    """Bytes [offset, offset + size) of a blob, wanted in the scratchpad."""

    blob: NpuBlob
    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class Item:
    """What is loaded together and given up together; compared by identity."""

    step: int
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(aligned(p.size) for p in self.pieces)


def aligned(size: int) -> int:
    return -(-size // PIECE_ALIGN) * PIECE_ALIGN


class Loads(ABC):
    """Where loaded pieces stand; what a kernel sees of the loader."""

    @abstractmethod
    def acquire(self, item: Item) -> Mapping[Piece, int]:
        """Wait for an item and return the addresses of its pieces."""

    @abstractmethod
    def release(self, item: Item) -> None:
        """Its bytes may be overwritten from here on."""


@dataclass(frozen=True)
class Code:
    """What a kernel writes its instructions with.

    views   (tensor, role) -> its layout
    params  part and index -> address of a small vector of the step
    """

    asm: Assembler
    loads: Loads
    views: Mapping[tuple[int, Role], Layout]
    params: Mapping[tuple[BlobPart, int], int]
    filled: bool = False
    """Whether the output holds zero points everywhere, so that zero lanes need no store."""

    @property
    def append(self) -> Layout | None:
        """The columns of a ring that the output is stored in as well."""
        return next((v for (_, role), v in self.views.items() if role == "append"), None)


class Kernel(ABC):
    """A step of the plan as the NPU runs it."""

    number: int
    needs: tuple[Need, ...]
    params: Item | None
    """Small vectors, wanted from the first to the last instruction."""

    masks_zeros = False
    """Whether its stores can leave out lanes that hold the zero point."""

    tileable = True
    """Whether a part of the output can be computed from a part of the inputs."""

    @property
    def output(self) -> Need:
        return next(n for n in self.needs if n.role == "output")

    def append_to(self, tensor: int) -> None:
        """Store the output in a ring as well: `tensor` is what it is there."""
        out = self.output
        self.needs = (*self.needs, replace(out, tensor=tensor, role="append"))

    @abstractmethod
    def chunks(self) -> tuple[Item, ...]:
        """Weights, in the order in which one region uses them."""

    @abstractmethod
    def emit(self, code: Code, region: Region) -> None:
        """The instructions for a region of the output."""


@dataclass(frozen=True)
class Setting:
    """What a kernel is made from: a step, its plan, the machine and how to compile."""

    plan: pm.PlanModel
    number: int
    config: NpuConfig
    skip: bool = True
    whole: bool = False
    """All weights at once: they are loaded in the prologue."""

    @property
    def step(self) -> pm.Step:
        return self.plan.steps[self.number]

    def place(self, tensor: int) -> pm.Place:
        return self.plan.tensors[tensor].place


def common_grid(layouts: Iterator[Layout] | list[Layout], count: int) -> tuple[int, int]:
    """(rows, cols) that all layouts of `count` columns have: one row where possible.

    Raises NotOnNpu where there is none.
    """
    every = list(layouts)
    for rows, cols in [(1, count), *((v.rows, v.cols) for v in every)]:
        if all(v.grid(rows, cols) is not None for v in every):
            return rows, cols
    raise NotOnNpu("its tensors have halos of different shapes")


def on_grid(layout: Layout, rows: int, cols: int) -> Layout:
    found = layout.grid(rows, cols)
    assert found is not None
    return found


def positions_at_a_time(most: int, count: int) -> int:
    """How many of `count` positions to compute together: a divisor near `most`, or `most`."""
    most = min(most, NPOS_MAX, count)
    for p in range(most, most // 2, -1):
        if count % p == 0:
            return p
    return most


def over_positions(
    asm: Assembler, region: Region, at_a_time: int, group: Callable[[int], None]
) -> None:
    """Call `group` with the number of positions for all of a region, row by row."""
    full, rest = divmod(region.cols, at_a_time)
    if not rest:
        asm.loop(region.rows * full, lambda: group(at_a_time))
        return

    def row() -> None:
        asm.loop(full, lambda: group(at_a_time))
        group(rest)

    asm.loop(region.rows, row)
