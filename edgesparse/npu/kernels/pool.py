"""Load steps with one window: MaxPool, AvgPool, Mean.

Taps outside the image do not count, so the output is cut where the set of taps inside changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgesparse.npu.isa import PER_TENSOR, SINGLE_ROUNDING, Config, Op
from edgesparse.npu.kernels.base import (
    Axis,
    Code,
    Item,
    Kernel,
    Need,
    NotOnNpu,
    Region,
    Setting,
    X,
)
from edgesparse.npu.kernels.tail import (
    BINARY,
    Tail,
    check_elementwise,
    operand_needs,
    param_item,
    stages_of,
    store,
    store_streams,
)
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding

POOLS = (pm.MaxPool, pm.AvgPool, pm.Mean)


@dataclass(frozen=True)
class Span:
    """Outputs [first, end) along one axis, which all read the taps [low, high)."""

    first: int
    end: int
    low: int
    high: int


def spans(axis: Axis, size: int, first: int, end: int) -> Iterator[Span]:
    """Cut outputs [first, end) where the taps inside [0, size) change."""

    def taps(o: int) -> tuple[int, int]:
        at = o * axis.stride - axis.before
        return max(0, -at), min(axis.span, size - at)

    start = first
    for o in range(first + 1, end + 1):
        if o == end or taps(o) != taps(start):
            yield Span(start, o, *taps(start))
            start = o


class PoolKernel(Kernel):
    """Position by position; slices of channels."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.number = setting, setting.number
        step = setting.step
        if len(step.branches) > 1:
            raise NotOnNpu("several outputs of one step have no code")
        stages = stages_of(step)
        pools = [i for i, s in enumerate(stages) if isinstance(s.body, POOLS)]
        if len(pools) != 1:
            raise NotOnNpu("a kernel takes one pool")
        place, out = setting.place(step.input), setting.place(step.branches[0].output)
        before, after = stages[: pools[0]], stages[pools[0] + 1 :]
        check_elementwise(setting, (*before, *after), out.channels)
        if any(isinstance(s.body, BINARY) for s in before):
            raise NotOnNpu("a second operand before a pool has no code")
        if place.channels != out.channels:
            raise NotOnNpu("an input with one value a column has no code")
        body = stages[pools[0]].body
        assert isinstance(body, POOLS)
        if not isinstance(body, pm.MaxPool) and body.running is not None:
            raise NotOnNpu("a mean that counts columns of earlier runs has no code")
        self.body, self.before, self.after = body, Tail(before), Tail(after)
        self.channels = out.channels
        self._set_needs(place, after)
        self.params = param_item(setting, stages)

    def _set_needs(self, place: pm.Place, after: tuple) -> None:  # type: ignore[type-arg]
        step = self.setting.step
        output = step.branches[0].output
        if isinstance(self.body, pm.Mean):
            rows, cols, in_shape = 1, 1, (1, place.columns)
            y, x = Axis(), Axis(1, 0, place.columns)
        else:
            w = self.body.window
            rows, cols, in_shape = w.out_h, w.out_w, (w.in_h, w.in_w)
            y = Axis(w.stride_h, w.pad_top, w.kernel_h)
            x = Axis(w.stride_w, w.pad_left, w.kernel_w)
        self.y, self.x = y, x
        self.needs = (
            Need(step.input, *in_shape, y=y, x=x),
            *operand_needs(self.setting, after, rows, cols, grid="fixed"),
            Need(output, rows, cols, role="output"))

    def chunks(self) -> tuple[Item, ...]:
        return ()

    def emit(self, code: Code, region: Region) -> None:
        lanes = self.setting.config.lanes
        full, rest = divmod(self.channels, lanes)
        need = self.needs[0]
        for ys in spans(self.y, need.rows, region.y0, region.y1):
            for xs in spans(self.x, need.cols, region.x0, region.x1):
                for first in range(0, full * lanes, lanes):
                    self._slice(code, (ys, xs), first, lanes)
                if rest:
                    self._slice(code, (ys, xs), full * lanes, rest)

    def _slice(self, code: Code, cut: tuple[Span, Span], first: int, lanes: int) -> None:
        ys, xs = cut
        asm, view = code.asm, code.views[self.setting.step.input, "input"]
        region = Region(ys.first, ys.end, xs.first, xs.end)
        taps = (ys.high - ys.low) * (xs.high - xs.low)
        asm.stream(X, view.at(
            ys.first * self.y.stride - self.y.before + ys.low,
            xs.first * self.x.stride - self.x.before + xs.low, first), [
            (view.col_pitch, xs.high - xs.low), (view.row_pitch, ys.high - ys.low),
            (self.x.stride * view.col_pitch, region.cols),
            (self.y.stride * view.row_pitch, region.rows)], view.ring)
        slices = (first, 0, 1)
        out = code.views[self.setting.step.branches[0].output, "output"]
        store_streams(code, out, region, slices)
        self.after.streams(code, region, slices)
        asm.configure(VL=lanes)

        def position() -> None:
            asm.cfg(Config.NPOS, 1)
            if isinstance(self.body, pm.MaxPool):
                self._maximum(code, taps)
            else:
                self._sum(code, taps)
            self.after.emit(code, 0, 1)
            store(code, 0)

        asm.loop(region.rows * region.cols, position)

    def _maximum(self, code: Code, taps: int) -> None:
        asm = code.asm
        asm.emit(Op.VLD, v=0, stream=X)
        self.before.emit(code, 0, 1)

        def further() -> None:
            asm.emit(Op.VLD, v=1, stream=X)
            self.before.emit(code, 1, 1)
            asm.emit(Op.VMAX, v=0, x=0, y=1)

        asm.loop(taps - 1, further)
        if (self.body.qmin, self.body.qmax) != (-128, 127):
            asm.configure(QMIN=self.body.qmin, QMAX=self.body.qmax)
            asm.emit(Op.VCLAMP, v=0, x=0)

    def _sum(self, code: Code, taps: int) -> None:
        asm, body = code.asm, self.body
        assert not isinstance(body, pm.MaxPool)
        zero_point = body.in_zero_point if isinstance(body, pm.Mean) else 0
        asm.cfg(Config.ACCINIT, -taps * zero_point)
        asm.emit(Op.VLDA, acc=0, constant=1)

        def tap() -> None:
            asm.emit(Op.VLD, v=0, stream=X)
            self.before.emit(code, 0, 1)
            asm.emit(Op.ACCV, acc=0, v=0)

        asm.loop(taps, tap)
        asm.configure(QMIN=body.qmin, QMAX=body.qmax)
        if isinstance(body, pm.AvgPool):
            asm.emit(Op.AVGR, v=0, acc=0, count=taps)
            return
        mode = SINGLE_ROUNDING if body.rounding is Rounding.SINGLE else 0
        asm.configure(REQMODE=mode | PER_TENSOR, OUTZP=body.scaled.zero_point,
                      QMULT=body.scaled.multiplier, QSHIFT=body.scaled.shift)
        asm.emit(Op.REQ, v=0, acc=0)

