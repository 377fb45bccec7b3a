"""Convolutions and fully connected layers, with everything that follows in registers."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.npu.isa import SKIP, Config, Op
from edgesparse.npu.kernels.base import (
    BIAS,
    INDEX,
    MULTIPLIER,
    SHIFT,
    WEIGHTS,
    Axis,
    Code,
    Grid,
    Item,
    Kernel,
    Need,
    NotOnNpu,
    Piece,
    Region,
    Setting,
    X,
    over_positions,
    positions_at_a_time,
)
from edgesparse.npu.kernels.mac_parts import columns_of, parts_of
from edgesparse.npu.kernels.slices import (
    Part,
    Slice,
    chunks_of,
    even,
    parts_of_slice,
    runs_of,
    slices_of,
)
from edgesparse.npu.kernels.tail import operand_needs, param_item, store, store_streams
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart, NpuBlob

SPLIT = 4
"""A slice that takes more than this part of the scratchpad is loaded in parts."""


class MacKernel(Kernel):
    """MACB (lanes: output channels), MACG (lanes with columns of their own), MACV (depthwise)."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.number = setting, setting.number
        step = setting.step
        assert isinstance(step.source, pm.Mac)
        self.mac, self.geometry = step.source, step.source.geometry
        self._check()
        self.parts = parts_of(setting, self.mac)
        slices = slices_of(self.mac.weights, setting.config.lanes)
        if self.lanewise and any(s.share < setting.config.lanes or s.format for s in slices):
            raise NotOnNpu("sparse depthwise weights have no code")
        if self._by_blocks and (self.parts.pool or slices[0].format):
            raise NotOnNpu("sparse weights or a pool of a window with three pitches have no code")
        self._slices = slices
        self._chunks = chunks_of(setting, slices)
        self._parts = self._split(slices)
        self.masks_zeros = self._masks_zeros()
        self.needs = self._needs()
        stages = (*self.parts.before.stages, *self.parts.after.stages)
        self.params = param_item(setting, stages, *self._channel_pieces())

    def _masks_zeros(self) -> bool:
        """Whether the mask of REQ says which results differ from what a fill has written: nothing
        comes after REQ, and it aims at the zero point of the tensor, as a plan need not."""
        parts, output = self.parts, self.setting.step.branches[0].output
        return not (parts.pool or parts.before.stages or parts.after.stages) and (
            parts.requant.body.zero_point == self.setting.place(output).zero_point)

    @property
    def lanewise(self) -> bool:
        """Depthwise: lanes are channels of the input too."""
        return self.geometry.groups > 1

    @property
    def pointwise(self) -> bool:
        """Whether each position reads that position only."""
        g = self.geometry
        return (g.kernel_h, g.kernel_w, g.stride_h, g.stride_w) == (1, 1, 1, 1) and (
            self.parts.pool is None and not (g.pad_top or g.pad_left)
            and (g.in_h, g.in_w) == (g.out_h, g.out_w))

    @property
    def _by_blocks(self) -> bool:
        """Whether the columns of a window have three pitches."""
        g, place = self.geometry, self.setting.place(self.setting.step.input)
        return not self.lanewise and min(g.kernel_h, g.kernel_w, g.in_c) > 1 and (
            g.dilation_w * place.pitch != g.in_c)

    def chunks(self) -> tuple[Item, ...]:
        if self._parts:
            return tuple(part.item for parts in self._parts for part in parts)
        return tuple(c.item for c in self._chunks)

    def _split(self, slices: tuple[Slice, ...]) -> tuple[tuple[Part, ...], ...]:
        """Slices cut along their steps, where one takes too much of the scratchpad."""
        config, g = self.setting.config, self.geometry
        most = config.scratchpad_bytes // SPLIT
        if self.setting.whole or max(s.values[1] for s in slices) <= most:
            return ()
        one = g.out_h * g.out_w == 1 and g.kernel_h == 1 and g.dilation_w == 1
        if not one or self.lanewise or self._by_blocks:
            return ()  # it fits or it does not
        parts = tuple(
            parts_of_slice(self.number, s, config.lanes, most // 2) for s in slices)
        return parts if all(parts) else ()

    def _check(self) -> None:
        g, step = self.geometry, self.setting.step
        if len(step.branches) > 1:
            raise NotOnNpu("several outputs of one step have no code")
        if self.mac.bias_form is not pm.BiasForm.PLAIN:
            raise NotOnNpu("its bias holds the zero point of the input")
        if g.groups > 1 and not g.groups == g.in_c == g.rows:
            raise NotOnNpu(f"{g.groups} groups of {g.in_c // g.groups} channels have no code")

    def _needs(self) -> tuple[Need, ...]:
        g, step = self.geometry, self.setting.step
        y = Axis(g.stride_h, g.pad_top, (g.kernel_h - 1) * g.dilation_h + 1)
        x = Axis(g.stride_w, g.pad_left, (g.kernel_w - 1) * g.dilation_w + 1)
        rows, cols = g.out_h, g.out_w
        if self.parts.pool is not None:
            w = self.parts.pool.window
            y = Axis(w.stride_h, w.pad_top, w.kernel_h).after(y)
            x = Axis(w.stride_w, w.pad_left, w.kernel_w).after(x)
            rows, cols = w.out_h, w.out_w
        grid: Grid = "shared" if self.pointwise else "fixed"
        return (
            Need(step.input, g.in_h, g.in_w, grid=grid, y=y, x=x),
            *operand_needs(self.setting, self.parts.after.stages, rows, cols, grid),
            Need(step.branches[0].output, rows, cols, role="output", grid=grid))

    def _channel_pieces(self) -> list[Piece]:
        body = self.parts.requant.body
        pieces = [Piece(NpuBlob(step=self.number, part=BlobPart.BIAS), 0, self.mac.bias.nbytes)]
        if not self.parts.requant.per_tensor:
            pieces += [
                Piece(NpuBlob(step=self.number, part=BlobPart.MULTIPLIER), 0,
                      body.multiplier.nbytes),
                Piece(NpuBlob(step=self.number, part=BlobPart.SHIFT), 0, body.shift.nbytes)]
        return pieces

    def emit(self, code: Code, region: Region) -> None:
        for s, parts in zip(self._slices, self._parts):
            _Run(self, code, region, (s,)).emit_split(parts)
        for chunk in () if self._parts else self._chunks:
            addresses = code.loads.acquire(chunk.item)
            # The input of a lanewise pool has no dimension left for the slices.
            together = not (self.lanewise and self.parts.pool)
            c = chunk.slices[0]
            for run in (chunk.slices,) if together else ((s,) for s in chunk.slices):
                index = addresses[chunk.index] if chunk.index else 0
                _Run(self, code, region, run).emit(
                    addresses[chunk.values] + run[0].values[0] - c.values[0],
                    index + run[0].index[0] - c.index[0])
            code.loads.release(chunk.item)


class _Run:
    """The code of slices that share their streams: loops over those alike."""

    def __init__(
        self, kernel: MacKernel, code: Code, region: Region, run: tuple[Slice, ...]
    ) -> None:
        self.k, self.code, self.asm, self.region = kernel, code, code.asm, region
        self.run, self.first, self.current = run, run[0], run[0]
        step = kernel.setting.step
        self.x = code.views[step.input, "input"]
        self.out = code.views[step.branches[0].output, "output"]
        config = kernel.setting.config
        per_position = kernel.parts.vectors
        self.at_a_time = positions_at_a_time(
            min(config.accumulators, config.vectors // per_position), self.region.cols)
        channels = 1 if kernel.lanewise else kernel.geometry.in_c
        self.columns = columns_of(kernel.geometry, self.x, channels)

    @property
    def slices(self) -> tuple[int, int, int]:
        return self.first.first_row, self.k.setting.config.lanes, len(self.run)

    @property
    def groups_per_row(self) -> int:
        return -(-self.region.cols // self.at_a_time)

    @property
    def taps(self) -> int:
        pool = self.k.parts.pool
        return pool.window.kernel_h * pool.window.kernel_w if pool else 1

    def emit(self, values: int, index: int) -> None:
        """values, index: addresses of the first slice's."""
        asm = self.asm
        self._configure()
        self._channel_streams()
        self._x_stream()
        self._out_streams()
        alike = even(self.run)
        if alike:
            self._weight_streams((values, index), len(self.run))
        for part in runs_of(self.run, alike):
            self.current = s = part[0]
            asm.cfg(Config.VL, s.rows)
            if not alike:
                self._weight_streams((values + s.values[0] - self.first.values[0],
                                      index + s.index[0] - self.first.index[0]), 1)
            asm.loop(len(part), self._positions)

    def _positions(self) -> None:
        over_positions(self.asm, self.region, self.at_a_time, self._group)

    def emit_split(self, parts: tuple[Part, ...]) -> None:
        """One position, its sum kept in the accumulator while the weights come part by part."""
        asm, s = self.asm, self.first
        self._configure()
        asm.cfg(Config.VL, s.rows)
        self._channel_streams()
        self._out_streams()
        asm.cfg(Config.NPOS, 1)
        asm.emit(Op.VLDA, acc=0, stream=BIAS)
        for part in parts:
            addresses = self.code.loads.acquire(part.item)
            asm.stream(WEIGHTS, addresses[part.values])
            self._x_stream(part.first)
            asm.configure(COLS=part.steps, ROWLEN=part.steps)
            self._mac(replace(s, steps=part.steps))
            self.code.loads.release(part.item)
        self.k.parts.requant.emit(asm, 0)
        self._finish(0)

    def _configure(self) -> None:
        g, pool = self.k.geometry, self.k.parts.pool
        self.asm.configure(
            INZP=self.k.setting.place(self.k.setting.step.input).zero_point,
            COLS=self.columns.cols, ROWLEN=self.columns.row_len,
            ROWPITCH=self.columns.row_pitch, COLPITCH=self.columns.col_pitch,
            XSTRIDE=g.stride_w * (pool.window.stride_w if pool else 1) * self.x.col_pitch)

    def _out_streams(self) -> None:
        store_streams(self.code, self.out, self.region, self.slices)
        self.k.parts.after.streams(self.code, self.region, self.slices)

    def _weight_streams(self, at: tuple[int, int], slices: int) -> None:
        """at: addresses of weights and index of the current slice, of `slices` alike."""
        values, index = at
        s, lanes, blocks = self.current, self.k.setting.config.lanes, self.columns.blocks
        if slices > 1 and self._reads == 1 and blocks == 1:
            self.asm.run_on(WEIGHTS, values, s.values[1], slices)
            if s.index[1]:
                self.asm.run_on(INDEX, index, s.index[1], slices)
            return
        uses = self._reads if slices > 1 or blocks > 1 else 1
        self.asm.stream(WEIGHTS, values, [
            (self.columns.cols * lanes, blocks), (0, uses), (s.values[1], slices)])
        if s.index[1]:
            self.asm.stream(INDEX, index, [(0, uses), (s.index[1], slices)])

    @property
    def _reads(self) -> int:
        """How often a slice's weights and channel parameters are read."""
        return self.region.rows * self.groups_per_row * self.taps

    def _channel_streams(self) -> None:
        lanes, params, first = self.k.setting.config.lanes, self.code.params, self.first.first_row
        parts = [(BIAS, BlobPart.BIAS, 4)]
        if not self.k.parts.requant.per_tensor:
            parts += [(MULTIPLIER, BlobPart.MULTIPLIER, 4), (SHIFT, BlobPart.SHIFT, 1)]
        uses = self._reads if len(self.run) > 1 else 1
        for stream, part, size in parts:
            if self._reads == 1:
                self.asm.run_on(
                    stream, params[part, 0] + first * size, lanes * size, len(self.run))
                continue
            self.asm.stream(stream, params[part, 0] + first * size,
                            [(0, uses), (lanes * size, len(self.run))])

    def _x_stream(self, column: int = 0) -> None:
        g, x, r, pool = self.k.geometry, self.x, self.region, self.k.parts.pool
        window = pool.window if pool else pm.Window()
        step_y, step_x = g.stride_h * window.stride_h, g.stride_w * window.stride_w
        base = x.at(r.y0 * step_y - window.pad_top * g.stride_h - g.pad_top,
                    r.x0 * step_x - window.pad_left * g.stride_w - g.pad_left,
                    self.first.first_row if self.k.lanewise else column)
        lanes = self.k.setting.config.lanes if self.k.lanewise else 0
        dims = [
            (self.columns.block_pitch, self.columns.blocks),
            (g.stride_w * x.col_pitch, window.kernel_w),
            (g.stride_h * x.row_pitch, window.kernel_h),
            (self.at_a_time * step_x * x.col_pitch, self.groups_per_row),
            (step_y * x.row_pitch, r.rows),
            (lanes, len(self.run) if self.k.lanewise else 1)]
        self.asm.stream(X, base, dims, x.ring)

    def _group(self, positions: int) -> None:
        """Compute `positions` positions of the output, one accumulator each."""
        asm, parts, mask = self.asm, self.k.parts, 0
        asm.cfg(Config.NPOS, positions)
        spare = self.at_a_time
        if self.code.filled and self.k.masks_zeros:
            mask = 1
        for tap in range(self.taps):
            asm.emit(Op.VLDA, acc=0, stream=BIAS)
            for _ in range(self.columns.blocks):
                self._mac(self.current)
            vector = spare if tap else 0
            parts.requant.emit(asm, vector, mask)
            parts.before.emit(self.code, vector, spare)
            if tap:
                asm.emit(Op.VMAX, v=0, x=0, y=spare)
        self._finish(mask)

    def _finish(self, mask: int) -> None:
        """What follows the requantized vectors, and the store."""
        asm, parts = self.asm, self.k.parts
        if parts.pool is not None and (parts.pool.qmin, parts.pool.qmax) != (-128, 127):
            asm.configure(QMIN=parts.pool.qmin, QMAX=parts.pool.qmax)
            asm.emit(Op.VCLAMP, v=0, x=0)
        parts.after.emit(self.code, 0, self.at_a_time)
        store(self.code, 0, mask)

    def _mac(self, s: Slice) -> None:
        skip = SKIP if self.k.setting.skip else 0
        fields = {"acc": 0, "weights": WEIGHTS, "x": X}
        if self.k.lanewise:
            self.asm.emit(Op.MACV, flags=skip, **fields)
            return
        fields |= {"steps": self.columns.cols if self.columns.blocks > 1 else s.steps,
                   "index": INDEX if s.index[1] else 0}
        if s.share < self.k.setting.config.lanes:
            self.asm.emit(Op.MACG, format=s.format, **fields)
        else:
            self.asm.emit(Op.MACB, format=s.format | skip, **fields)
