"""In which calls the core computes the columns of a step: native/src/exec/levels.c, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgesparse.cortex.rows import sweep_of
from edgesparse.plan import model as pm

POOLS = (pm.MaxPool, pm.AvgPool, pm.Mean)
LEVELS = (*POOLS, pm.Softmax)
"""Stages that need whole columns of what lies below them."""


@dataclass(frozen=True)
class Level:
    """A stage of LEVELS at work in one run.

    stage    its number in the branch
    columns  of its own that are computed; more than there are where pools overlap
    taps     columns of the level below that go into them
    pushes   blocks of columns that a running sum takes
    """

    stage: int
    columns: int
    taps: int
    pushes: int = 0


@dataclass(frozen=True)
class Pass:
    """How the columns of a branch are computed: calls of the source, then levels, lowest first."""

    sweep: Counter[int]
    levels: tuple[Level, ...] = ()


def pass_of(branch: pm.Branch, source_columns: int, out_columns: int) -> Pass:
    """The pass for one branch of a step whose source has so many columns."""
    found = [(i, s) for i, s in enumerate(branch.stages) if isinstance(s, LEVELS)]
    if not found:
        return Pass(sweep_of(source_columns))
    below = [source_columns]  # columns that there are below each level
    for _, stage in found:
        below.append(_columns_of(stage, below[-1]))
    levels: list[Level] = []
    wanted = dict.fromkeys(range(out_columns), 1)  # column of a level -> times it is computed
    for (number, stage), columns in reversed(list(zip(found, below))):
        taps = {column: _taps(stage, column, columns) for column in wanted}
        total = sum(times * len(taps[column]) for column, times in wanted.items())
        levels.append(Level(number, sum(wanted.values()), total, len(_cuts(stage))))
        lower: Counter[int] = Counter()
        sweep: Counter[int] = Counter()
        for column, times in wanted.items():
            for tap in taps[column]:
                lower[tap] += times
            for size, calls in _calls(len(taps[column]), _cuts(stage)).items():
                sweep[size] += times * calls
        wanted = dict(lower)
    return Pass(sweep, tuple(reversed(levels)))


def _columns_of(stage: object, below: int) -> int:
    if isinstance(stage, pm.Mean):
        return 1
    if isinstance(stage, (pm.MaxPool, pm.AvgPool)):
        return stage.window.out_h * stage.window.out_w
    return below


def _taps(stage: object, column: int, columns_below: int) -> range | list[int]:
    """Columns below that go into a column."""
    if isinstance(stage, pm.Softmax):
        return range(column, column + 1)
    if isinstance(stage, pm.Mean):
        return range(columns_below)
    assert isinstance(stage, (pm.MaxPool, pm.AvgPool))
    w = stage.window
    y0 = column // w.out_w * w.stride_h - w.pad_top
    x0 = column % w.out_w * w.stride_w - w.pad_left
    return [y * w.in_w + x
            for y in range(max(y0, 0), min(y0 + w.kernel_h, w.in_h))
            for x in range(max(x0, 0), min(x0 + w.kernel_w, w.in_w))]


def _cuts(stage: object) -> tuple[int, ...]:
    """Columns after which a running sum is pushed."""
    running = stage.running if isinstance(stage, (pm.AvgPool, pm.Mean)) else None
    if running is None:
        return ()
    if running.each:
        return tuple(range(1, running.fresh + 1))
    tail = running.tail
    return (*((running.fresh - tail,) if tail else ()), running.fresh)


def _calls(taps: int, cuts: tuple[int, ...]) -> Counter[int]:
    """Columns that are computed four by four, anew after each cut."""
    calls: Counter[int] = Counter()
    before = 0
    for cut in (*(c for c in cuts if c < taps), taps):
        calls.update(sweep_of(cut - before))
        before = cut
    return calls

