"""Where every tensor of a plan is while the NPU runs it: scratchpad, ring or arena (DRAM).

A tensor stays in the scratchpad from its first write to its last read. What does not fit is left in
the arena, at the plan's own address, and kernels fetch it part by part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgesparse.npu.kernels.base import Kernel, Need, NotOnNpu, common_grid
from edgesparse.npu.layout import Image, Layout, Pads, ring_pitch
from edgesparse.npu.options import NpuOptions
from edgesparse.npu.storage import Storage, Storages
from edgesparse.plan import model as pm
from edgesparse.target import NpuConfig


@dataclass(frozen=True)
class RingPlace:
    """A ring of the NPU, for one of the plan: `pitch` bytes a column, `size` in all."""

    number: int
    address: int
    size: int
    pitch: int
    zero_point: int


@dataclass(frozen=True)
class Home:
    """Where a storage lives.

    image     it has a halo; None: an image of its bytes in the arena
    address   in the scratchpad; None: it stays in the arena
    load      step before which it is fetched from the arena, where the caller or the CPU writes it
    store     step after which it is written there, where they read it
    first, last  steps in which its bytes in the scratchpad are taken
    """

    storage: Storage
    image: Image | None
    resident: bool
    load: int | None
    store: int | None
    first: int
    last: int
    address: int | None = None

    @property
    def size(self) -> int:
        return self.image.size if self.image else self.storage.size


def ring_places(
    plan: pm.PlanModel, config: NpuConfig, used: frozenset[int]
) -> dict[int, RingPlace]:
    """Rings from address 0 on; sizes and what one run appends are multiples of banks * 4."""
    unit, at = config.banks * 4, 0
    places: dict[int, RingPlace] = {}
    for number, ring in enumerate(plan.rings):
        if number not in used:
            continue
        pitch = ring_pitch(plan, config, number)
        size = -(-ring.columns * pitch // unit) * unit
        places[number] = RingPlace(len(places), at, size, pitch, ring.zero_point)
        at += size
    return places


def ring_layout(place: pm.Place, ring: RingPlace) -> Layout:
    back = 0
    if place.ring_role is pm.RingRole.VIEW:
        back = (place.ring_lag + place.columns) * ring.pitch
    return Layout(-back % ring.size, 1, place.columns, place.columns * ring.pitch, ring.pitch,
                  place.channels, ring.number)


class Map:
    """The homes of all storages of a plan, planned for a machine.

    kernels  step -> its kernel; steps that are missing run on the CPU
    merged   steps that are done by the kernel of the step before them
    """

    def __init__(
        self, plan: pm.PlanModel, kernels: Mapping[int, Kernel], config: NpuConfig,
        merged: frozenset[int], options: NpuOptions,
    ) -> None:
        self.plan, self.kernels, self.config = plan, kernels, config
        self.storages = Storages(plan)
        self.options, self.merged = options, merged
        self.homes = {s.number: self._home(s) for s in self.storages.all}
        self._settle_images()

    # ---- queries

    def home(self, step: int, tensor: int, writes: bool = False) -> Home:
        return self.homes[self.storages.of(step, tensor, writes).number]

    def in_scratchpad(self, step: int, need: Need) -> bool:
        """Whether a need of a step is met where the tensor stands, halo included."""
        t = self.plan.tensors[need.tensor]
        if t.data is not None or t.place.ring >= 0:
            return True
        home = self.home(step, need.tensor, need.writes)
        if not home.resident:
            return False
        if need.writes:
            return True
        out = self.kernels[step].output
        wanted = need.grid == "fixed" and not need.repeated
        pads = need.pads(out.rows, out.cols) if wanted else Pads()
        return not pads.any or (home.image is not None and home.image.pads.covers(pads))

    def layout(self, step: int, need: Need) -> Layout:
        """Of a tensor in the scratchpad; no constants or rings."""
        home = self.home(step, need.tensor, need.writes)
        assert home.address is not None
        return self._layout(home, need.tensor, home.address)

    def _layout(self, home: Home, tensor: int, address: int) -> Layout:
        if home.image is not None:
            return home.image.layout(address)
        place = self.plan.tensors[tensor].place
        base = address + place.offset - home.storage.low
        return Layout(base, 1, place.columns, place.columns * place.pitch, place.pitch,
                      place.channels)

    # ---- homes

    def _home(self, storage: Storage) -> Home:
        own = [a for a in storage.accesses if a.step in self.kernels]
        if not own:
            return Home(storage, None, False, None, None, 0, -1)
        outside = [a for a in storage.accesses
                   if a.step not in self.kernels and a.step not in self.merged]
        load, store = None, None
        possible = self.options.intermediates != "dram"
        if (written := [a.step for a in outside if a.writes]):
            load = min(a.step for a in own)
            possible &= max(written) < load and not any(a.writes for a in own)
        if (read := [a.step for a in outside if not a.writes]):
            writes = [a.step for a in own if a.writes]
            if writes:
                store = max(writes)
                possible &= min(read) > store
        first, last = min(a.step for a in own), max(a.step for a in own)
        if store is not None:
            last = max(last, store + 1)
        if self.options.keep:
            last = len(self.plan.steps)
        # Rows whose width differs from step to step have no common image.
        possible &= all(self._plain(a.tensor) for a in own)
        return Home(storage, None, possible, load if possible else None,
                    store if possible else None, first, last)

    def _plain(self, tensor: int) -> bool:
        place = self.plan.tensors[tensor].place
        return place.layout is pm.Layout.NWC and place.halo == 0

    def _settle_images(self) -> None:
        """Give halos to the storages whose readers want them, as far as all their users agree."""
        for number, home in self.homes.items():
            if home.resident and (image := self._image(home.storage)) is not None:
                self.homes[number] = replace(home, image=image)
        while (loser := self._conflict()) is not None:
            self.homes[loser] = replace(self.homes[loser], image=None)

    def _uses(self, storage: Storage) -> list[tuple[int, Need]]:
        return [(a.step, n) for a in storage.accesses if a.step in self.kernels
                for n in self.kernels[a.step].needs
                if n.tensor == a.tensor and n.writes == a.writes]

    def _image(self, storage: Storage) -> Image | None:
        uses = self._uses(storage)
        # One zero point too: it is what the halo holds.
        places = {(p.offset, p.columns, p.channels, p.pitch, p.zero_point) for p in (
            self.plan.tensors[a.tensor].place for a in storage.accesses
            if a.step in self.kernels)}
        if len(places) != 1 or any(need.grid == "free" for _, need in uses):
            return None
        ((_, columns, channels, pitch, _),) = places
        if (pitch != channels and columns > 1) or storage.size != columns * channels:
            return None
        shape, pads = None, Pads()
        for step, need in uses:
            out = self.kernels[step].output
            wanted = Pads()
            if not need.writes and need.grid == "fixed" and not need.repeated:
                wanted = need.pads(out.rows, out.cols)
            if wanted.any:
                shape = shape or (need.rows, need.cols)
                if shape == (need.rows, need.cols):
                    pads = pads.union(wanted)
        return Image(*shape, channels, pads) if shape else None

    def _conflict(self) -> int | None:
        """A storage whose halo some step cannot work with."""
        for step, kernel in self.kernels.items():
            shared: list[tuple[int, Layout]] = []
            for need in kernel.needs:
                t = self.plan.tensors[need.tensor]
                if t.data is not None or t.place.ring >= 0:
                    continue
                home = self.home(step, need.tensor, need.writes)
                if home.image is None:
                    continue
                view = home.image.layout(0)
                if need.grid == "fixed" and view.grid(need.rows, need.cols) is None:
                    return home.storage.number
                if need.grid == "shared":
                    shared.append((home.storage.number, view))
            try:
                if shared:
                    common_grid([v for _, v in shared], shared[0][1].rows * shared[0][1].cols)
            except NotOnNpu:
                return min(shared, key=lambda s: s[1].rows)[0]
        return None

    def staged(self, step: int) -> tuple[Need, ...]:
        return tuple(n for n in self.kernels[step].needs if not self.in_scratchpad(step, n))
