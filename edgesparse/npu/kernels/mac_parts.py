"""A Mac step taken apart: what follows its sums, and how its window stands in the input."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.npu.kernels.base import NotOnNpu, Setting
from edgesparse.npu.kernels.tail import (
    BINARY,
    Requants,
    Tail,
    TailStage,
    check_elementwise,
    stages_of,
)
from edgesparse.npu.layout import Layout
from edgesparse.plan import model as pm

MOST_TAPS = 9
"""Positions of a pool that are unrolled."""


@dataclass(frozen=True)
class Parts:
    """A Mac step taken apart: requantize, stages before a pool, the pool, stages after it."""

    requant: Requants
    before: Tail
    pool: pm.MaxPool | None
    after: Tail

    @property
    def vectors(self) -> int:
        """Vector registers a position needs."""
        return 2 if self.pool or self.after.binary else 1


def parts_of(setting: Setting, mac: pm.Mac) -> Parts:
    """Raises NotOnNpu for a tail without code."""
    stages = stages_of(setting.step)
    if not stages or not isinstance(stages[0].body, pm.Requant):
        raise NotOnNpu(f"{type(stages[0].body).__name__ if stages else 'no Requant'} has no code")
    pools = [i for i, s in enumerate(stages) if isinstance(s.body, pm.MaxPool)]
    if len(pools) > 1:
        raise NotOnNpu("a kernel takes one pool")
    cut = pools[0] if pools else len(stages)
    pool = stages[cut].body if pools else None
    assert pool is None or isinstance(pool, pm.MaxPool)
    before, after = stages[1:cut], stages[cut + 1 :]
    check_elementwise(setting, (*before, *after), mac.geometry.rows)
    if pool is None:
        return Parts(Requants(stages[0].body), Tail(()), None, Tail(before))
    _check_pool(pool.window, before, mac.geometry)
    return Parts(Requants(stages[0].body), Tail(before), pool, Tail(after))


def _check_pool(
    window: pm.Window, before: tuple[TailStage, ...], g: pm.Geometry
) -> None:
    if (window.in_h, window.in_w) != (g.out_h, g.out_w):
        raise NotOnNpu("a pool over columns numbered in another way has no code after a Mac")
    if any(isinstance(s.body, BINARY) for s in before):
        raise NotOnNpu("a second operand before a pool has no code")
    if window.kernel_h * window.kernel_w > MOST_TAPS:
        raise NotOnNpu(f"a pool of more than {MOST_TAPS} positions has no code after a Mac")
    clipped = (
        window.pad_top or window.pad_left
        or (window.out_h - 1) * window.stride_h + window.kernel_h > window.in_h
        or (window.out_w - 1) * window.stride_w + window.kernel_w > window.in_w)
    if clipped:
        raise NotOnNpu("a pool that reaches outside has no code after a Mac")


@dataclass(frozen=True)
class Columns:
    """COLS, ROWLEN, ROWPITCH, COLPITCH of a window, and how many instructions walk it.

    blocks, block_pitch  kernel rows that are an instruction each, because three pitches are needed
    """

    cols: int
    row_len: int
    row_pitch: int
    col_pitch: int
    blocks: int = 1
    block_pitch: int = 0


def columns_of(g: pm.Geometry, x: Layout, channels: int) -> Columns:
    """How the columns of a window stand in `x`; channels: a tap's (1: lanes are the channels)."""
    taps = g.kernel_h * g.kernel_w
    across, down = g.dilation_w * x.col_pitch, g.dilation_h * x.row_pitch
    if taps == 1:
        return Columns(channels, channels, 0, 1)
    if channels == 1:
        return Columns(taps, g.kernel_w, down, across)
    if g.kernel_w == 1:
        return Columns(taps * channels, channels, down, 1)
    if across == channels:
        return Columns(taps * channels, g.kernel_w * channels, down, 1)
    per_row = g.kernel_w * channels
    return Columns(per_row, channels, across, 1, g.kernel_h, down)
