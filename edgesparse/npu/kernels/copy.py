"""Copy steps: a box of elements from one tensor into another, by vectors where bytes run on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from edgesparse.npu.assembler import merged
from edgesparse.npu.isa import PER_TENSOR, STREAM_DIMS, Config, Op
from edgesparse.npu.kernels.base import (
    OUT,
    Code,
    Item,
    Kernel,
    Need,
    NotOnNpu,
    Region,
    Setting,
    X,
    over_positions,
    positions_at_a_time,
)
from edgesparse.npu.kernels.tail import param_item, store_streams
from edgesparse.npu.layout import Layout, ring_pitch
from edgesparse.plan import model as pm

MOST_UNROLLED = 32
"""Boxes that are written out one by one when a stream's dimensions do not suffice."""
Dim = tuple[int, int, int]
"""(size, stride in the input, stride in the output), bytes."""


class CopyKernel(Kernel):
    """Never cut into regions: a box has no order that an image could be cut along."""

    tileable = False

    def __init__(self, setting: Setting) -> None:
        self.setting, self.number = setting, setting.number
        step = setting.step
        assert isinstance(step.source, pm.Copy)
        self.copy = step.source
        self.reads, self.writes = step.input, step.branches[0].output
        if min(*self.copy.in_strides, *self.copy.out_strides, 0) < 0:
            raise NotOnNpu("a copy that runs backwards has no code")
        self.needs = (
            Need(self.reads, 1, setting.place(self.reads).columns, grid="free"),
            Need(self.writes, 1, setting.place(self.writes).columns, role="output", grid="free",
                 partial=not self.copy.fill))
        self.params = param_item(setting, ())
        self.check_boxes(self._planned(self.reads), self._planned(self.writes))

    def chunks(self) -> tuple[Item, ...]:
        return ()

    def check_boxes(self, x: Layout, out: Layout) -> None:
        """Raises NotOnNpu where streams cannot walk the box."""
        self._split(*self._box(x, out))

    def emit(self, code: Code, region: Region) -> None:
        x, out = code.views[self.reads, "input"], code.views[self.writes, "output"]
        if self.copy.fill:
            self._fill(code, out)
        lanes, bases, dims = self._box(x, out)
        full, rest = divmod(lanes, self.setting.config.lanes)
        step = self.setting.config.lanes
        if full:
            self._move(code, step, bases, [(full, step, step), *dims])
        if rest:
            after = (bases[0] + full * step, bases[1] + full * step)
            self._move(code, rest, after, dims)

    def _planned(self, tensor: int) -> Layout:
        """Its layout but for the address. A ring keeps columns further apart than the plan does."""
        place, setting = self.setting.place(tensor), self.setting
        pitch = place.pitch
        if place.ring >= 0:
            pitch = ring_pitch(setting.plan, setting.config, place.ring)
        return Layout(0, 1, place.columns, place.columns * pitch, pitch, place.channels)

    def _box(self, x: Layout, out: Layout) -> tuple[int, tuple[int, int], list[Dim]]:
        """(bytes that run on, first addresses, the other dimensions from the innermost out)."""
        c = self.copy
        boxes: list[Dim] = list(zip(c.dims, c.in_strides, c.out_strides, strict=True))
        for side, layout in ((1, x), (2, out)):
            boxes = [part for box in boxes for part in by_columns(box, box[side], layout)]
        counts = [box[0] for box in boxes]
        read = address_steps(x, c.in_offset, [box[1] for box in boxes], counts)
        write = address_steps(out, c.out_offset, [box[2] for box in boxes], counts)
        dims = [d for d in zip(counts, read[1], write[1], strict=True) if d[0] > 1][::-1]
        run = next((d for d in dims if d[1:] == (1, 1)), None)
        if run is not None:
            dims.remove(run)
        return run[0] if run else 1, (read[0], write[0]), dims

    def _split(
        self, lanes: int, bases: tuple[int, int], dims: list[Dim]
    ) -> tuple[list[Dim], list[Dim]]:
        """(dimensions a stream walks, those that are written out)."""
        del bases
        step = self.setting.config.lanes
        inner = list(dims)
        lead: list[Dim] = [(-(-lanes // step), step, step)]
        outer: list[Dim] = []
        while any(len(merged([(d[i], d[0]) for d in (*lead, *inner)])) > STREAM_DIMS
                  for i in (1, 2)):
            outer.append(inner.pop())
        boxes = 1
        for d in outer:
            boxes *= d[0]
        if boxes > MOST_UNROLLED:
            raise NotOnNpu(f"a copy of {len(dims) + 1} dimensions has no code")
        return inner, outer

    def _move(self, code: Code, lanes: int, bases: tuple[int, int], dims: list[Dim]) -> None:
        x, out = code.views[self.reads, "input"], code.views[self.writes, "output"]
        inner, outer = self._split(0, bases, dims)
        for index in product(*(range(d[0]) for d in outer)):
            at = [bases[k] + sum(i * d[k + 1] for i, d in zip(index, outer, strict=True))
                  for k in (0, 1)]
            code.asm.stream(X, at[0], [(d[1], d[0]) for d in inner], x.ring)
            code.asm.stream(OUT, at[1], [(d[2], d[0]) for d in inner], out.ring)
            count = 1
            for d in inner:
                count *= d[0]
            self._vectors(code, lanes, count)

    def _vectors(self, code: Code, lanes: int, count: int) -> None:
        asm, config = code.asm, self.setting.config
        most = positions_at_a_time(min(config.accumulators, config.vectors), count)
        asm.cfg(Config.VL, lanes)

        def group(positions: int) -> None:
            asm.cfg(Config.NPOS, positions)
            asm.emit(Op.VLD, v=0, stream=X)
            asm.emit(Op.VST, v=0, stream=OUT)

        over_positions(asm, Region(0, 1, 0, count), most, group)

    def _fill(self, code: Code, out: Layout) -> None:
        asm, value = code.asm, self.copy.fill_value
        if out.dense and out.ring is None:
            size = out.rows * out.cols * out.channels
            asm.emit(Op.FILL, address=out.base, length=size, value=value & 0xFF)
            return
        lanes = self.setting.config.lanes
        full, rest = divmod(out.channels, lanes)
        asm.configure(ACCINIT=0, QMULT=0, QSHIFT=0, REQMODE=PER_TENSOR, OUTZP=value, QMIN=-128,
                      QMAX=127)
        for first, count, width in ((0, full, lanes), (full * lanes, 1, rest)):
            if not count or not width:
                continue
            asm.configure(VL=width, NPOS=1)
            asm.emit(Op.VLDA, acc=0, constant=1)
            asm.emit(Op.REQ, v=0, acc=0)
            store_streams(code, out, Region(0, out.rows, 0, out.cols), (first, lanes, count))
            asm.loop(out.rows * out.cols * count, lambda: asm.emit(Op.VST, v=0, stream=OUT))


def by_columns(box: Dim, stride: int, layout: Layout) -> list[Dim]:
    """A dimension over whole columns with gaps between them, as two: columns, and elements of one.

    stride  of the dimension in `layout`, in elements
    """
    count = box[0]
    if layout.dense or not stride or layout.channels % stride:
        return [box]
    each = layout.channels // stride
    if count <= each or count % each:
        return [box]
    return [(count // each, box[1] * each, box[2] * each), (each, box[1], box[2])]


def address_steps(
    layout: Layout, offset: int, strides: Sequence[int], dims: Sequence[int]
) -> tuple[int, list[int]]:
    """(address of the first element, bytes per step of each dimension) of element numbers.

    Raises NotOnNpu where a dimension crosses from one column or row into the next.
    """
    if layout.dense:
        return layout.base + offset, list(strides)
    pitches = [1, layout.col_pitch, layout.row_pitch]
    sizes = [layout.channels, layout.cols, layout.rows]
    if layout.flat:
        sizes = [layout.channels, layout.cols * layout.rows, 1]

    def digits(number: int) -> list[int]:
        out = []
        for size in sizes[:2]:
            number, digit = divmod(number, size)
            out.append(digit)
        return [*out, number]

    reach, steps = digits(offset), []
    base = layout.base + sum(d * p for d, p in zip(reach, pitches, strict=True))
    for stride, count in zip(strides, dims, strict=True):
        parts = digits(stride)
        reach = [r + (count - 1) * d for r, d in zip(reach, parts, strict=True)]
        steps.append(sum(d * p for d, p in zip(parts, pitches, strict=True)))
    if any(r >= size for r, size in zip(reach, sizes, strict=True)):
        raise NotOnNpu("a copy that crosses from column to column has no code")
    return base, steps
