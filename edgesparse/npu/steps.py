"""The code around a kernel: tensors fetched and stored, halos filled, tiles, ring heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesparse.npu.assembler import Assembler
from edgesparse.npu.fit import Fitted, regions_of, step_grid, temp_shape
from edgesparse.npu.homes import Home, Map, RingPlace, ring_layout
from edgesparse.npu.isa import Config, Op
from edgesparse.npu.kernels.base import (
    OUT,
    Code,
    Need,
    Piece,
    Region,
    Role,
    X,
    on_grid,
    over_positions,
    positions_at_a_time,
)
from edgesparse.npu.layout import Layout
from edgesparse.npu.loader import Loader
from edgesparse.plan.npu_model import BlobPart

Views = dict[tuple[int, Role], Layout]
Params = dict[tuple[BlobPart, int], int]


@dataclass(frozen=True)
class Frame:
    """What the code of all steps shares."""

    map: Map
    fitted: Fitted
    rings: Mapping[int, RingPlace]
    loader: Loader
    asm: Assembler


class StepCode:
    """Emits one step that the NPU runs."""

    def __init__(self, frame: Frame, step: int) -> None:
        self.map, self.fitted, self.loader = frame.map, frame.fitted, frame.loader
        self.asm, self.rings, self.step = frame.asm, frame.rings, step
        self.work = frame.fitted.works[step]
        self.kernel = self.work.kernel
        self.plan = frame.map.plan
        self.grid = step_grid(frame.map, self.work)
        self.params: Params = {}

    def emit(self) -> None:
        loader, kernel = self.loader, self.kernel
        homes = self._homes()
        for home in homes:
            if home.load == self.step:
                self._fetch(home)
        regions = regions_of(kernel, self.work.tile, self.grid)
        # The first tile's transfers go before those of the weights: the kernel waits for both.
        views = self._early_views(regions[0])
        loader.begin(self.step)
        if kernel.params is not None:
            self.params = _by_part(loader.acquire(kernel.params))
        loader.wait_loads()
        filled = self._fill_halo()
        for i, region in enumerate(regions):
            self._region(region, filled, views if i == 0 else {})
        if kernel.params is not None:
            loader.release(kernel.params)
        self._advance()
        loader.wait_stores()
        for home in homes:
            if home.store == self.step:
                self._store(home)

    # ---- whole tensors

    def _homes(self) -> list[Home]:
        """Of the tensors of this step that live in the scratchpad, each once."""
        found = {}
        for need in self.kernel.needs:
            if self._movable(need.tensor):
                home = self.map.home(self.step, need.tensor, need.writes)
                if home.resident:
                    found[home.storage.number] = home
        return list(found.values())

    def _movable(self, tensor: int) -> bool:
        t = self.plan.tensors[tensor]
        return t.data is None and t.place.ring < 0

    def _fetch(self, home: Home) -> None:
        assert home.address is not None
        if home.image is None:
            self.loader.fetch(home.storage.low, home.address, home.size)
            return
        image = home.image
        if image.pads.any:
            self._fill(home, self._zero_point(home))
        row = image.cols * image.channels
        self.loader.fetch_rows(home.storage.low, image.layout(home.address).base, row,
                               (image.rows, row, image.row_pitch))

    def _store(self, home: Home) -> None:
        assert home.address is not None
        if home.image is None:
            self.loader.store(home.storage.low, home.address, home.size)
            return
        image = home.image
        row = image.cols * image.channels
        self.loader.store_rows(home.storage.low, image.layout(home.address).base, row,
                               (image.rows, row, image.row_pitch))

    def _zero_point(self, home: Home) -> int:
        own = next(a for a in home.storage.accesses if a.step in self.map.kernels)
        return self.plan.tensors[own.tensor].place.zero_point

    def _fill(self, home: Home, value: int) -> None:
        assert home.address is not None
        self.asm.emit(Op.FILL, address=home.address, length=home.size, value=value & 0xFF)

    def _fill_halo(self) -> bool:
        """Fill the output's image where it has a halo; whether zeros need no store then."""
        need, masks = self.kernel.output, self.map.options.zero_stores
        if not self._movable(need.tensor) or need in self.work.staged:
            return False
        home = self.map.home(self.step, need.tensor, writes=True)
        place = self.plan.tensors[need.tensor].place
        if home.image is None or not home.image.pads.any:
            alone = home.size == place.columns * place.channels
            if masks != "all" or not self.kernel.masks_zeros or not alone:
                return False
        self._fill(home, place.zero_point)
        return masks != "none"

    def _advance(self) -> None:
        for need in self.kernel.needs:
            place = self.plan.tensors[need.tensor].place
            if need.writes and place.ring >= 0:
                ring = self.rings[place.ring]
                self.asm.emit(Op.RADV, ring=ring.number, bytes=place.columns * ring.pitch)

    # ---- parts

    def _early_views(self, region: Region) -> Views:
        """Of the tensors that are fetched, for the first region."""
        return {(need.tensor, need.role): self._temp(need, region)
                for need in self.work.staged if not need.writes and not self._resident(need)}

    def _resident(self, need: Need) -> bool:
        return self.map.home(self.step, need.tensor, need.writes).resident

    def _region(self, region: Region, filled: bool, early: Views) -> None:
        views = dict(early)
        for need in self.kernel.needs:
            if (need.tensor, need.role) not in views:
                views[need.tensor, need.role] = self._view(need, region)
        self.loader.wait_loads()
        self.loader.wait_stores()
        self.kernel.emit(
            Code(self.asm, self.loader, views, self.params, filled), region)
        for need in self.work.staged:
            if need.writes:
                self._put(need, region, views[need.tensor, "output"])

    def _view(self, need: Need, region: Region) -> Layout:
        tensor = self.plan.tensors[need.tensor]
        if tensor.data is not None:
            place = tensor.place
            view = Layout(
                self.params[BlobPart.TENSOR, need.tensor], 1, place.columns,
                place.columns * place.channels, place.channels, place.channels)
        elif tensor.place.ring >= 0:
            view = ring_layout(tensor.place, self.rings[tensor.place.ring])
        elif need in self.work.staged:
            return self._temp(need, region)
        else:
            view = self.map.layout(self.step, need)
        if need.grid == "free":
            return view
        return on_grid(view, *self._grid(need))

    def _grid(self, need: Need) -> tuple[int, int]:
        return self.grid if need.grid == "shared" else (need.rows, need.cols)

    def _temp(self, need: Need, region: Region) -> Layout:
        """A staged tensor's buffer, fetched if the kernel reads it; addresses are the tensor's."""
        address, _ = self.fitted.temps[self.step][self.work.staged.index(need)]
        place = self.plan.tensors[need.tensor].place
        rows, cols, pitch = temp_shape(need, region, place)
        y, x = self._first(need, region)
        row_pitch = cols * pitch
        full = self._grid(need) if need.grid != "free" else (1, place.columns)
        view = Layout(address - y * row_pitch - x * pitch, *full, row_pitch, pitch, place.channels)
        if not need.writes or need.partial:
            self._get(need, view, (y, y + rows), (x, x + cols))
        return view

    def _first(self, need: Need, region: Region) -> tuple[int, int]:
        if need.grid == "free" or need.repeated:
            return 0, 0
        if need.writes:
            return region.y0, region.x0
        return need.y.reads(region.y0, region.y1)[0], need.x.reads(region.x0, region.x1)[0]

    def _get(
        self, need: Need, view: Layout, ys: tuple[int, int], xs: tuple[int, int]
    ) -> None:
        """Fill a buffer with rows `ys` and columns `xs` of a tensor; zero points outside it."""
        place = self.plan.tensors[need.tensor].place
        inside_y = max(ys[0], 0), min(ys[1], view.rows)
        inside_x = max(xs[0], 0), min(xs[1], view.cols)
        if inside_y != ys or inside_x != xs:
            start, size = view.at(ys[0], xs[0]), (ys[1] - ys[0]) * view.row_pitch
            self.asm.emit(
                Op.FILL, address=start, length=size, value=place.zero_point & 0xFF)
        rows, cols = inside_y[1] - inside_y[0], inside_x[1] - inside_x[0]
        home = self.map.home(self.step, need.tensor, need.writes)
        if home.resident:
            source = self.map.layout(self.step, need).grid(view.rows, view.cols)
            assert source is not None, "its storage has a halo of another shape"
            self._copy_in(source, view, Region(*inside_y, *inside_x))
            return
        first = inside_y[0] * view.cols + inside_x[0]
        self.loader.fetch_rows(
            place.offset + first * place.pitch, view.at(inside_y[0], inside_x[0]),
            (cols - 1) * place.pitch + place.channels,
            (rows, view.cols * place.pitch, view.row_pitch))

    def _copy_in(self, source: Layout, target: Layout, region: Region) -> None:
        """Scratchpad -> buffer, by vectors."""
        asm, config = self.asm, self.map.config
        lanes, channels = config.lanes, source.channels
        full, rest = divmod(channels, lanes)
        most = positions_at_a_time(min(config.accumulators, config.vectors), region.cols)

        def group(positions: int) -> None:
            asm.cfg(Config.NPOS, positions)
            asm.emit(Op.VLD, v=0, stream=X)
            asm.emit(Op.VST, v=0, stream=OUT)

        for first, count, width in ((0, full, lanes), (full * lanes, 1, rest)):
            if not count or not width:
                continue
            asm.cfg(Config.VL, width)
            for stream, view in ((X, source), (OUT, target)):
                asm.stream(stream, view.at(region.y0, region.x0, first), [
                    (view.col_pitch, region.cols), (view.row_pitch, region.rows),
                    (lanes, count)])
            asm.loop(count, lambda: over_positions(asm, region, most, group))

    def _put(self, need: Need, region: Region, view: Layout) -> None:
        """Write a computed part to the arena."""
        place = self.plan.tensors[need.tensor].place
        if need.grid == "free":
            region = Region(0, 1, 0, place.columns)
        first = region.y0 * view.cols + region.x0
        outside, address = place.offset + first * place.pitch, view.at(region.y0, region.x0)
        if place.pitch == place.channels:
            self.loader.store_rows(outside, address, region.cols * place.channels, (
                region.rows, view.cols * place.pitch, view.row_pitch))
            return
        for row in range(region.rows):  # other tensors' channels stand between ours
            self.loader.store_rows(
                outside + row * view.cols * place.pitch, address + row * view.row_pitch,
                place.channels, (region.cols, place.pitch, view.col_pitch))


def _by_part(addresses: Mapping[Piece, int]) -> Params:
    """Part and index of each piece -> its address."""
    return {(p.blob.part, p.blob.index): a for p, a in addresses.items()}

