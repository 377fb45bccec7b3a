"""What came out of a lowering: where results are, and what a user should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgesparse.npu.fit import regions_of, step_grid
from edgesparse.npu.homes import ring_layout
from edgesparse.npu.layout import Layout
from edgesparse.npu.steps import Frame

Range = tuple[int, int, int, int]
"""(first step, last step, low, high): bytes of the scratchpad that something takes."""


@dataclass(frozen=True)
class Placement:
    """Where a step's result is after a run.

    step     that writes it; -1: the caller
    space    "scratchpad", "ring" or "arena"
    layout   in the scratchpad; of a ring tensor before the head moved on
    survives whether nothing is written over it in the same run
    """

    step: int
    tensor: int
    space: str
    layout: Layout | None
    survives: bool


def taken_ranges(frame: Frame) -> list[Range]:
    """What tensors and buffers take; loads of weights come on top."""
    taken = [(h.first, h.last, h.address, h.address + h.size)
             for h in frame.fitted.homes.values() if h.address is not None]
    taken += [(step, step, address, address + size)
              for step, buffers in frame.fitted.temps.items() for address, size in buffers]
    return taken


def placements(frame: Frame) -> Iterator[Placement]:
    """One for every result of the steps that the NPU runs."""
    taken = taken_ranges(frame) + [(s, s, a, b) for s, a, b in frame.loader.writes]
    for step in sorted(frame.map.kernels):
        for need in frame.map.kernels[step].needs:
            if need.writes:
                yield _placement(frame, step, need.tensor, taken)


def _placement(frame: Frame, step: int, tensor: int, taken: Sequence[Range]) -> Placement:
    place = frame.map.plan.tensors[tensor].place
    if place.ring >= 0:
        layout = ring_layout(place, frame.rings[place.ring])
        return Placement(step, tensor, "ring", layout, True)
    home = frame.map.home(step, tensor, writes=True)
    later = any(a.writes and a.step > step for a in home.storage.accesses)
    if home.address is None:
        return Placement(step, tensor, "arena", None, not later)
    low, high = home.address, home.address + home.size
    over = any(first > home.last and a < high and b > low for first, _, a, b in taken)
    layout = frame.map.layout(step, frame.map.kernels[step].output)
    return Placement(step, tensor, "scratchpad", layout, not later and not over)


def spilled(frame: Frame) -> tuple[tuple[int, int], ...]:
    """(tensor, bytes) of what the NPU uses in the arena."""
    return tuple((h.storage.tensors[0], h.storage.size) for h in frame.fitted.homes.values()
                 if not h.resident and h.last >= 0)


def report(frame: Frame, cpu: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Lines for people, by the names of the user's layers."""
    names = frame.map.plan.names
    steps, tensors = (names.steps, names.tensors) if names else ((), ())

    def named(of: tuple[str, ...], number: int, what: str) -> str:
        return of[number] if number < len(of) else f"{what} {number}"

    for step, reason in cpu:
        yield f"{named(steps, step, 'step')}: on the CPU: {reason}"
    for tensor, size in spilled(frame):
        yield f"{named(tensors, tensor, 'tensor')}: {size:,} bytes go through the arena"
    for step, work in frame.fitted.works.items():
        if work.tile:
            count = len(regions_of(work.kernel, work.tile, step_grid(frame.map, work)))
            again = "" if work.hold or not work.kernel.chunks() else ", weights loaded for each"
            yield f"{named(steps, step, 'step')}: computed in {count} tiles{again}"
