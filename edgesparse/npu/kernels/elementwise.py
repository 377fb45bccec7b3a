"""Load steps without a window: vectors in, stages in registers, vectors out."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.npu.isa import Config, Op
from edgesparse.npu.kernels.base import (
    Code,
    Item,
    Kernel,
    Need,
    NotOnNpu,
    Region,
    Role,
    Setting,
    X,
    over_positions,
    positions_at_a_time,
)
from edgesparse.npu.kernels.tail import (
    Tail,
    check_elementwise,
    operand_needs,
    param_item,
    stages_of,
    store,
    store_streams,
)
from edgesparse.npu.layout import Layout
from edgesparse.plan import model as pm


class ElementwiseKernel(Kernel):
    """Also what appends to a ring: a copy."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.number = setting, setting.number
        step = setting.step
        assert isinstance(step.source, pm.Load)
        if len(step.branches) > 1:
            raise NotOnNpu("several outputs of one step have no code")
        out, x = setting.place(step.branches[0].output), setting.place(step.input)
        if x.channels != out.channels:
            raise NotOnNpu("an input with one value a column has no code")
        stages = stages_of(step)
        check_elementwise(setting, stages, out.channels)
        self.tail, self.channels = Tail(stages), out.channels
        once = x.columns == 1 and out.columns > 1
        n = out.columns
        self.needs = (
            Need(step.input, 1, 1 if once else n,
                 grid="fixed" if once else "shared"),
            *operand_needs(setting, stages, 1, n, "shared"),
            Need(step.branches[0].output, 1, n, role="output", grid="shared"))
        self.params = param_item(setting, stages)

    def chunks(self) -> tuple[Item, ...]:
        return ()

    def emit(self, code: Code, region: Region) -> None:
        lanes = self.setting.config.lanes
        if (flat := self._flat(code, region)) is not None:
            count = flat.views[self._out].cols
            full, rest = divmod(count, lanes)
            if full:
                self._slices(flat, Region(0, 1, 0, full), (0, lanes, 1), lanes, lanes)
            if rest:
                self._slices(flat, Region(0, 1, 0, 1), (full * lanes, lanes, 1), rest, lanes)
            return
        full, rest = divmod(self.channels, lanes)
        if full:
            self._slices(code, region, (0, lanes, full), lanes, 0)
        if rest:
            self._slices(code, region, (full * lanes, lanes, 1), rest, 0)

    @property
    def _out(self) -> tuple[int, Role]:
        return self.setting.step.branches[0].output, "output"

    def _flat(self, code: Code, region: Region) -> Code | None:
        """All tensors as one row of bytes, where they are whole, dense and of one shape."""
        out = code.views[self._out]
        whole = region == Region(0, out.rows, 0, out.cols)
        alike = all(v.dense and v.rows * v.cols == out.rows * out.cols
                    for v in code.views.values())
        if not (whole and alike):
            return None
        count = out.rows * out.cols * self.channels
        return replace(code, views={
            key: Layout(v.base, 1, count, count, 1, 1, v.ring) for key, v in code.views.items()})

    def _slices(
        self, code: Code, region: Region, slices: tuple[int, int, int], lanes: int, pitch: int
    ) -> None:
        """lanes: VL; pitch: bytes from position to position where tensors are rows of bytes."""
        asm = code.asm
        if pitch:
            code = replace(code, views={
                key: replace(v, col_pitch=pitch) for key, v in code.views.items()})
        config = self.setting.config
        per_position = 2 if self.tail.binary else 1
        at_a_time = positions_at_a_time(
            min(config.accumulators, config.vectors // per_position), region.cols)
        asm.cfg(Config.VL, lanes)
        x = code.views[self.setting.step.input, "input"]
        repeated = x.rows * x.cols == 1
        first, step, count = slices
        dims = [(0, region.rows * region.cols)] if repeated else [
            (x.col_pitch, region.cols), (x.row_pitch, region.rows)]
        base = x.at(0, 0, first) if repeated else x.at(region.y0, region.x0, first)
        asm.stream(X, base, [*dims, (step, count)], x.ring)
        store_streams(code, code.views[self._out], region, slices)
        self.tail.streams(code, region, slices)

        def group(positions: int) -> None:
            asm.cfg(Config.NPOS, positions)
            asm.emit(Op.VLD, v=0, stream=X)
            self.tail.emit(code, 0, at_a_time)
            store(code, 0)

        asm.loop(count, lambda: over_positions(asm, region, at_a_time, group))
