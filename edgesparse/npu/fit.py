"""Fitting a program into the scratchpad: tiles, room for weights, and what has to stay outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgesparse.mapping.memory import Buffer, plan_memory
from edgesparse.npu.homes import Home, Map
from edgesparse.npu.kernels.base import Kernel, Need, Region, aligned, common_grid
from edgesparse.plan import model as pm

FINEST = 8
"""Tiles are not cut finer than this while a tensor could leave the scratchpad instead."""
DOUBLE = 2
"""Chunks of weights there is room for while the first is used."""


class StepTooLarge(Exception):
    """A step does not fit even with every tensor in the arena: it has to run on the CPU."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(reason)
        self.step, self.reason = step, reason


@dataclass(frozen=True)
class Work:
    """What a step needs beside the tensors that live in the scratchpad.

    staged  needs that are fetched or written part by part
    tile    rows (columns where there is one row) of the output computed at a time; 0: all
    hold    all weights are kept over the tiles
    ahead   chunks of weights there is room for
    """

    kernel: Kernel
    staged: tuple[Need, ...] = ()
    tile: int = 0
    hold: bool = True
    ahead: int = DOUBLE


def temp_shape(need: Need, region: Region, place: pm.Place) -> tuple[int, int, int]:
    """(rows, columns, bytes from column to column) of the part of a tensor that a region needs."""
    pitch = place.channels
    if need.grid == "free":
        return 1, place.columns, pitch if need.writes and not need.partial else place.pitch
    if need.writes:
        return region.rows, region.cols, pitch
    if need.repeated:
        return 1, 1, pitch
    y, x = need.y.reads(region.y0, region.y1), need.x.reads(region.x0, region.x1)
    return y[1] - y[0], x[1] - x[0], max(pitch, place.pitch)


def regions_of(kernel: Kernel, tile: int, grid: tuple[int, int]) -> list[Region]:
    """The output cut into tiles of `tile` rows, or columns where there is one row; 0: whole."""
    rows, cols = grid
    if not tile:
        return [Region(0, rows, 0, cols)]
    if rows > 1:
        return [Region(y, min(y + tile, rows), 0, cols) for y in range(0, rows, tile)]
    return [Region(0, 1, x, min(x + tile, cols)) for x in range(0, cols, tile)]


def reserve_bytes(work: Work) -> int:
    """Room for what a step loads: its small vectors and the chunks it is ahead by."""
    params = work.kernel.params
    sizes = [item.size for item in work.kernel.chunks()]
    if (work.tile and work.hold) or work.ahead >= len(sizes):
        loaded = sum(sizes)
    else:
        loaded = max((sum(sizes[i : i + work.ahead]) for i in range(len(sizes))), default=0)
    total = loaded + (params.size if params else 0)
    return total + 16 if total else 0


@dataclass(frozen=True)
class Fitted:
    """The outcome: homes with addresses, the work of each step, temporary buffers by step.

    temps    step -> (address, bytes) of each staged need's buffer
    """

    homes: Mapping[int, Home]
    works: Mapping[int, Work]
    temps: Mapping[int, tuple[tuple[int, int], ...]]


def fit(space: Map, low: int, high: int, preload: frozenset[int]) -> Fitted:
    """Place everything in [low, high) of the scratchpad.

    preload  steps whose weights are loaded elsewhere: they need no room for them
    Raises StepTooLarge when a step does not fit even with everything else in the arena.
    """
    works = {step: Work(kernel) for step, kernel in space.kernels.items()}
    while True:
        works = {s: replace(w, staged=space.staged(s)) for s, w in works.items()}
        buffers = _buffers(space, works, preload)
        plan = plan_memory(buffers, tries=200)
        if plan.peak <= high - low:
            break
        _relieve(space, works, buffers, high - low, preload)
    at = {name: low + offset for name, offset in plan.offsets.items()}
    homes = {n: replace(h, address=at[f"home {n}"]) if h.resident else h
             for n, h in space.homes.items()}
    space.homes = homes
    sizes = {b.name: b.size for b in buffers}
    temps = {s: tuple((at[name], sizes[name])
                      for name in (f"temp {s} {i}" for i in range(len(w.staged))))
             for s, w in works.items()}
    return Fitted(homes, works, temps)


def _buffers(space: Map, works: Mapping[int, Work], preload: frozenset[int]) -> list[Buffer]:
    found = [Buffer(f"home {n}", max(h.size, 1), h.first, h.last)
             for n, h in space.homes.items() if h.resident]
    for step, work in works.items():
        for i, need in enumerate(work.staged):
            found.append(Buffer(f"temp {step} {i}", _temp_bytes(space, work, need), step, step))
        if step not in preload and (size := reserve_bytes(work)):
            found.append(Buffer(f"load {step}", size, step, step))
    return found


def _temp_bytes(space: Map, work: Work, need: Need) -> int:
    place = space.plan.tensors[need.tensor].place
    kernel = work.kernel
    shapes = [temp_shape(need, r, place)
              for r in regions_of(kernel, work.tile, step_grid(space, work))]
    return max(aligned(rows * cols * pitch) for rows, cols, pitch in shapes)


def step_grid(space: Map, work: Work) -> tuple[int, int]:
    """The grid a step's output is computed on."""
    kernel = work.kernel
    if kernel.output.grid != "shared":
        return kernel.output.rows, kernel.output.cols
    views = []
    for need in kernel.needs:
        if need.grid == "shared" and need not in work.staged:
            t = space.plan.tensors[need.tensor]
            if t.data is None and t.place.ring < 0:
                home = space.home(kernel.number, need.tensor, need.writes)
                if home.image is not None:
                    views.append(home.image.layout(0))
    return common_grid(views, kernel.output.rows * kernel.output.cols)


def _relieve(
    space: Map, works: dict[int, Work], buffers: list[Buffer], room: int, preload: frozenset[int]
) -> None:
    """Make the fullest step need less: fewer chunks ahead, smaller tiles, a tensor to the arena."""
    def load(step: int) -> int:
        return sum(b.size for b in buffers if b.first <= step <= b.last)

    step = max(range(-1, len(space.plan.steps) + 1), key=load)
    work = works.get(step)
    if work is not None and _smaller(space, works, work):
        return
    live = [h for h in space.homes.values() if h.resident and h.first <= step <= h.last]
    if live:
        used = {a.storage.number for a in (
            space.home(step, n.tensor, n.writes) for n in (work.kernel.needs if work else ())
            if space.plan.tensors[n.tensor].data is None
            and space.plan.tensors[n.tensor].place.ring < 0)}
        worst = max(live, key=lambda h: (h.storage.number not in used, h.size, -h.storage.number))
        space.homes[worst.storage.number] = replace(
            worst, resident=False, image=None, load=None, store=None)
        return
    if work is not None and work.staged and (
            smaller := _halved(space, work)) is not None:
        works[step] = smaller
        return
    culprit = step if work is not None else max(works)
    raise StepTooLarge(
        culprit, f"it needs {load(step):,} bytes of scratchpad at the least, of {room:,}")


def _smaller(space: Map, works: dict[int, Work], work: Work) -> bool:
    """Ask for less room without more traffic, or with a tile of half the size."""
    step = work.kernel.number
    if work.tile and work.hold and work.kernel.chunks():
        works[step] = replace(work, hold=False)
        return True
    if work.ahead > 1 and len(work.kernel.chunks()) > 1:
        works[step] = replace(work, ahead=work.ahead - 1)
        return True
    if work.staged and (smaller := _halved(space, work)) is not None:
        rows, cols = step_grid(space, work)
        if smaller.tile * FINEST >= (rows if rows > 1 else cols):
            works[step] = smaller
            return True
    return False


def _halved(space: Map, work: Work) -> Work | None:
    if not work.kernel.tileable:
        return None
    rows, cols = step_grid(space, work)
    whole = rows if rows > 1 else cols
    tile = (work.tile or whole) // 2
    return replace(work, tile=tile) if tile else None

