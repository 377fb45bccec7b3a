"""Where the elements of a tensor stand in the scratchpad, as the address generators see it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgesparse.plan import model as pm
from edgesparse.target import NpuConfig


@dataclass(frozen=True)
class Layout:
    """Element (y, x, channel) of a tensor stands at base + y * row_pitch + x * col_pitch + channel.

    base       of (0, 0, 0); rows and columns before it may exist: a halo of zero points
    rows, cols columns of the tensor are numbered y * cols + x
    ring       addresses count from its head; None: the scratchpad's own
    """

    base: int
    rows: int
    cols: int
    row_pitch: int
    col_pitch: int
    channels: int
    ring: int | None = None

    @property
    def flat(self) -> bool:
        """Whether all columns have one pitch."""
        return self.rows == 1 or self.row_pitch == self.cols * self.col_pitch

    @property
    def dense(self) -> bool:
        """Whether elements stand one after the other, without gaps."""
        return self.flat and (self.col_pitch == self.channels or self.rows * self.cols == 1)

    def grid(self, rows: int, cols: int) -> Layout | None:
        """The same tensor with its columns numbered y * cols + x; None: not one address a row."""
        if (rows, cols) == (self.rows, self.cols):
            return self
        if rows * cols != self.rows * self.cols or not self.flat:
            return None
        return replace(self, rows=rows, cols=cols, row_pitch=cols * self.col_pitch)

    def at(self, y: int, x: int, channel: int = 0) -> int:
        return self.base + y * self.row_pitch + x * self.col_pitch + channel


@dataclass(frozen=True)
class Pads:
    """Columns of zero point around an image that a window reads."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    @property
    def any(self) -> bool:
        return bool(self.top or self.bottom or self.left or self.right)

    def union(self, other: Pads) -> Pads:
        return Pads(max(self.top, other.top), max(self.bottom, other.bottom),
                    max(self.left, other.left), max(self.right, other.right))

    def covers(self, other: Pads) -> bool:
        return self.union(other) == self


@dataclass(frozen=True)
class Image:
    """[rows + pads][cols + pads][channels] bytes: the layout of a tensor with a halo."""

    rows: int
    cols: int
    channels: int
    pads: Pads

    @property
    def row_pitch(self) -> int:
        return (self.cols + self.pads.left + self.pads.right) * self.channels

    @property
    def size(self) -> int:
        return (self.rows + self.pads.top + self.pads.bottom) * self.row_pitch

    def layout(self, address: int) -> Layout:
        base = address + self.pads.top * self.row_pitch + self.pads.left * self.channels
        return Layout(base, self.rows, self.cols, self.row_pitch, self.channels, self.channels)


def ring_pitch(plan: pm.PlanModel, config: NpuConfig, number: int) -> int:
    """Bytes from column to column of a ring of the plan: what one run appends is a multiple of
    banks * 4."""
    appended = {t.place.columns for t in plan.tensors
                if t.place.ring == number and t.place.ring_role is pm.RingRole.APPEND}
    pitch = plan.rings[number].channels
    while any(columns * pitch % (config.banks * 4) for columns in appended):
        pitch += 1
    return pitch
