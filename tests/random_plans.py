"""Random valid plans: every source, stage, encoding, layout, halo, ring and branch there is.

`random_plan(rng)` grows a plan step by step from what earlier steps wrote; everything is small, so
that tile edges are common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Format, Lanes, Nm, Packing
from plan_builder import (
    Matrix,
    PlanBuilder,
    lstm,
    mac,
    random_weights,
    requant,
    scaled,
    stored,
    svdf,
    tight_pitch,
)

Rng = np.random.Generator
NEEDS_COLUMNS = (pm.MaxPool, pm.AvgPool, pm.Mean, pm.Softmax)

PAST_GAIN = 2.0**-25
"""From sums over the past of an Svdf, which are any int32, to int8; above 1/2 it may not be."""


def random_plan(rng: Rng, steps: int = 0) -> pm.PlanModel:
    """A plan of `steps` steps (0: 1 to 4) and those that its outputs and rings need."""
    return Grower(rng).grow(steps or int(rng.integers(1, 5)))


class Grower:
    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.b = PlanBuilder()
        self.rings = [
            self.b.ring(self.whole(1, 9), self.whole(1, 20), self.zero_point())
            for _ in range(self.whole(0, 2))
        ]
        self.readable: list[int] = []
        self.unread: list[int] = []
        """Tensors no step has read: those that become outputs."""
        self.fresh: list[int] = []
        """Operands that nobody else reads: an output may take their place."""

    # ---- numbers

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.whole(0, len(options) - 1)]

    def zero_point(self) -> int:
        return int(self.pick([-128, 127, 0, self.whole(-128, 127)]))

    def split(self, n: int) -> tuple[int, int]:
        """(h, w) with h * w = n."""
        h = self.pick([d for d in range(1, n + 1) if n % d == 0] if n <= 1000 else [1])
        return h, n // h

    # ---- tensors

    def place(self, number: int) -> pm.Place:
        return self.b.tensors[number].place

    def new_tensor(self, columns: int, channels: int) -> int:
        """Some layout, pitch, halo and zero point."""
        layout = self.pick(list(pm.Layout) + [pm.Layout.NWC] * 2)
        phases = self.whole(2, 8) if layout is pm.Layout.POLYPHASE else 1
        halo = self.pick([0, 0, self.whole(1, 3)])
        tight = tight_pitch(pm.Place(
            offset=0, pitch=0, columns=columns, channels=channels, halo=halo, layout=layout,
            phases=phases, zero_point=0))
        pitch = tight + self.pick([0, 0, phases * self.whole(1, 5)])
        return self.b.tensor(
            *self.split(columns), channels, zero_point=self.zero_point(), layout=layout,
            phases=phases, halo=halo, pitch=pitch)

    def constant(self, columns: int, channels: int) -> int:
        data = self.rng.integers(-128, 128, (columns, channels)).astype(np.int8)
        return self.b.constant(data, self.zero_point())

    def operand(self, columns: int, channels: int) -> int:
        """A tensor of that size, or one that is repeated along columns or channels."""
        if self.chance(0.25):
            written = self.new_tensor(columns, channels)
            self.b.tail(pm.Load(), self.constant(columns, channels), written)
            self.fresh.append(written)
            return written
        fitting = [
            t for t in self.readable
            if self.place(t).columns in (1, columns) and self.place(t).channels in (1, channels)
        ]
        if fitting and self.chance(0.6):
            return int(self.pick(fitting))
        return self.constant(self.pick([1, columns]), self.pick([1, channels]))

    # ---- stages

    def limits(self) -> dict[str, int]:
        low, high = sorted((self.whole(-128, 127), self.whole(-128, 127)))
        return self.pick([{"qmin": -128, "qmax": 127}, {"qmin": low, "qmax": high}])

    def rounding(self) -> Rounding:
        return Rounding(self.whole(0, 1))

    def per_channel(self, channels: int, low: float, high: float) -> Array:
        return self.rng.uniform(low, high, self.pick([1, channels]))

    def first_stage(self, columns: int, channels: int, gain: float) -> pm.StageBody:
        """From sums to int8; gain: about what brings them into its range."""
        if self.chance(0.75):
            gain = self.pick([gain, gain, gain * 30, 1.7 if gain > PAST_GAIN else gain])
            return requant(
                self.per_channel(channels, gain / 2, gain * 2), self.zero_point(),
                rounding=self.rounding(), **self.limits())
        shift = self.whole(1, 40)
        own = self.per_channel(channels, gain / 2, gain * 2) * 2.0**shift
        other = self.per_channel(channels, 0.1, 2) * 2.0**shift
        return pm.AddSingleRequant(
            operand=self.operand(columns, channels), other_zero_point=self.zero_point(),
            multiplier=np.minimum(own, 2**31 - 1).astype(np.int32),
            other_multiplier=np.minimum(other, 2**31 - 1).astype(np.int32),
            shift=np.array([shift], np.int8), zero_point=self.zero_point(), **self.limits())

    def stage(self, columns: int, channels: int) -> tuple[pm.StageBody, int]:
        """A stage and the number of columns after it."""
        kind = self.pick([
            pm.Clamp, pm.Lut, pm.Add, pm.Add, pm.Mul, pm.MaxPool, pm.AvgPool, pm.Mean, pm.Softmax])
        if kind is pm.Clamp:
            return pm.Clamp(**self.limits()), columns
        if kind is pm.Lut:
            return pm.Lut(table=self.rng.integers(-128, 128, 256).astype(np.int8)), columns
        if kind is pm.Add:
            return self.add(columns, channels), columns
        if kind is pm.Mul:
            return pm.Mul(
                operand=self.operand(columns, channels), value_zero_point=self.zero_point(),
                other_zero_point=self.zero_point(), rounding=self.rounding(),
                out=scaled(self.zero_point(), self.rng.uniform(0.001, 0.1)), **self.limits()
            ), columns
        if kind is pm.Softmax:
            return pm.Softmax(
                multiplier=self.whole(2**30, 2**31 - 1), shift=self.whole(18, 23),
                diff_min=-self.whole(1, 255)), columns
        if kind is pm.Mean:
            return pm.Mean(
                in_zero_point=self.zero_point(), rounding=self.rounding(),
                scaled=scaled(self.zero_point(), self.rng.uniform(0.5, 2) / columns),
                **self.limits()), 1
        window = self.window(columns)
        return kind(window=window, **self.limits()), window.out_h * window.out_w

    def add(self, columns: int, channels: int) -> pm.Add:
        left = self.whole(0, 20)
        return pm.Add(
            operand=self.operand(columns, channels), left_shift=left,
            value=scaled(self.zero_point(), self.rng.uniform(0.05, 0.99)),
            other=scaled(self.zero_point(), self.rng.uniform(0.05, 0.99)),
            out=scaled(self.zero_point(), self.rng.uniform(0.2, 0.9) * 2.0**-left),
            negate_value=self.chance(0.2), negate_other=self.chance(0.2),
            rounding=self.rounding(), **self.limits())

    def window(self, columns: int) -> pm.Window:
        in_h, in_w = self.split(columns)
        kernel_h, stride_h, pad_top, out_h = self.axis(in_h)
        kernel_w, stride_w, pad_left, out_w = self.axis(in_w)
        return pm.Window(
            in_h=in_h, in_w=in_w, out_h=out_h, out_w=out_w, kernel_h=kernel_h, kernel_w=kernel_w,
            stride_h=stride_h, stride_w=stride_w, pad_top=pad_top, pad_left=pad_left)

    def axis(self, size: int, span: int = 0) -> tuple[int, int, int, int]:
        """(kernel, stride, pad, positions) along one axis; the last position starts inside."""
        kernel = span or self.whole(1, 4)
        stride, pad = self.whole(1, 3), self.pick([0, 0, self.whole(0, kernel - 1)])
        return kernel, stride, pad, self.pick([1, *[(size - 1 + pad) // stride + 1] * 3])

    # ---- steps

    def branches(
        self, columns: int, channels: int, gain: float | None
    ) -> list[pm.Branch]:
        """Cut the channels, give each block some stages and an output. gain: of a Mac."""
        cuts = sorted({0, channels, *(self.whole(0, channels) for _ in range(self.whole(0, 2)))})
        return [self.branch(columns, (first, end), gain) for first, end in pairwise(cuts)]

    def branch(self, columns: int, block: tuple[int, int], gain: float | None) -> pm.Branch:
        channels = block[1] - block[0]
        stages: list[pm.StageBody] = []
        if gain is not None:
            stages.append(self.first_stage(columns, channels, gain))
        for _ in range(self.pick([0, 0, 1, 2, 4])):
            stage, columns_then = self.stage(columns, channels)
            if isinstance(stage, NEEDS_COLUMNS) and sum(
                    isinstance(s, NEEDS_COLUMNS) for s in stages) == 4:
                continue
            stages.append(stage)
            columns = columns_then
        output = self.output_of(columns, channels, stages)
        return pm.Branch(
            first_channel=block[0], channels=channels, output=output, stages=tuple(stages))

    def output_of(
        self, columns: int, channels: int, stages: Sequence[pm.StageBody]
    ) -> int:
        """A new tensor, or one in the place of an operand or of the input of a Load."""
        if not any(isinstance(s, NEEDS_COLUMNS) for s in stages) and self.chance(0.6):
            for number in [s.operand for s in stages if hasattr(s, "operand")]:
                if number in self.fresh:
                    return self.b.same_place(number, zero_point=self.zero_point())
        return self.new_tensor(columns, channels)

    def in_place_of_input(self, reads: int) -> bool:
        """Whether the one branch of a Load may write where it reads."""
        tensor = self.b.tensors[reads]
        return tensor.data is None and tensor.place.ring < 0 and self.chance(0.3)

    def finish(self, source: pm.Source, reads: int, branches: Sequence[pm.Branch]) -> None:
        self.b.step(source, reads, *branches)
        for branch in branches:
            self.readable.append(branch.output)
            self.unread.append(branch.output)

    def grow_mac(self, reads: int) -> None:
        place = self.place(reads)
        in_h, in_w = self.split(place.columns)
        groups = self.pick([1, 1, place.channels] + [
            d for d in range(2, place.channels) if place.channels % d == 0])
        rows = place.channels if self.chance(0.5) else groups * self.whole(
            1, max(1, 40 // groups))
        dilation = (self.whole(1, 2), self.whole(1, 2))
        kernel = (self.whole(1, 3), self.whole(1, 3))
        if self.chance(0.4):
            kernel, dilation = (1, self.pick([1, kernel[1]])), (1, 1)
        span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        _, stride_h, pad_top, out_h = self.axis(in_h, span[0])
        _, stride_w, pad_left, out_w = self.axis(in_w, span[1])
        if self.chance(0.5):  # no tap outside, where there is room
            pad_top = pad_left = 0
            out_h = max(1, (in_h - span[0]) // stride_h + 1)
            out_w = max(1, (in_w - span[1]) // stride_w + 1)
        cols = kernel[0] * kernel[1] * place.channels // groups
        w, weights = self.weights(rows, cols)
        source = mac(
            weights, w, self.rng.integers(-(2**15), 2**15, rows), place.zero_point,
            bias_form=pm.BiasForm(self.whole(0, 1)), in_h=in_h, in_w=in_w, in_c=place.channels,
            groups=groups, out_h=out_h, out_w=out_w, kernel_h=kernel[0], kernel_w=kernel[1],
            stride_h=stride_h, stride_w=stride_w, dilation_h=dilation[0], dilation_w=dilation[1],
            pad_top=pad_top, pad_left=pad_left)
        gain = 0.01 / np.sqrt(cols)
        self.finish(source, reads, self.branches(out_h * out_w, rows, gain))

    def weights(self, rows: int, cols: int) -> tuple[Array, pm.Weights]:
        """(w in the order of channels, the same as stored): up to three row groups."""
        cuts = sorted({0, rows, *(self.whole(0, rows) for _ in range(self.whole(0, 2)))})
        parts, groups = [], []
        for first, end in pairwise(cuts):
            part, form = self.row_group(end - first, cols)
            parts.append(part)
            groups.append((end - first, form))
        w = np.concatenate(parts)
        if self.chance(0.6):
            return w, stored(w, *groups)
        order = self.rng.permutation(rows).astype(np.uint16)
        in_order = np.empty_like(w)
        in_order[order] = w
        return in_order, stored(w, *groups, row_order=order)

    def row_group(self, rows: int, cols: int) -> tuple[Array, Format]:
        w = random_weights(self.rng, rows, cols, self.pick([1.0, 0.5, 0.2, 0.0]))
        form = self.pick([
            Dense(), Dense(), Bitmask(), DeltaCsr(index_bits=4), DeltaCsr(index_bits=8),
            Bsr(4, 1, 8), Bsr(1, 4, 8), Bsr(self.whole(1, 16), self.whole(1, 16), 16),
            *[Nm(n, m) for n, m in ((1, 2), (2, 4), (3, 8), (5, 16)) if cols % m == 0],
            *self.lanes(cols)])
        if isinstance(form, (Nm, Lanes)) and form.m:
            height = form.block_rows if isinstance(form, Lanes) else 1
            keep = self.rng.permuted(
                np.tile(np.arange(form.m) < form.n, (-(-rows // height), cols // form.m, 1)),
                axis=2)
            keep = keep.repeat(height, axis=0)[:rows]
            w = (w * keep.reshape(rows, cols)).astype(np.int8)
        return w, Dense() if form.refusal(w) else form

    def lanes(self, cols: int) -> list[Lanes]:
        """One of each packing."""
        count = self.pick([16, 32])
        share = self.pick([1, 4, count])
        pairs = [Lanes.n_of_m(count, 1, 2)] if cols % 2 == 0 else []
        return [Lanes.dense(count), Lanes.bitmask(count), *pairs,
                Lanes(count, share, Packing.COLUMNS, self.pick([8, 16]))]

    def in_place_of_mac(self, reads: int, columns: int) -> int:
        """The first columns of a tensor where a source with a state reads them."""
        place = self.place(reads)
        if place.layout is pm.Layout.NWC and place.columns == columns:
            return reads
        plain = self.b.tensor(columns, place.channels, zero_point=place.zero_point,
                              pitch=place.channels + self.pick([0, 3]))
        self.b.tail(pm.Copy(dims=(columns * place.channels,), in_strides=(1,), out_strides=(1,)),
                    reads, plain)
        return plain

    def grow_lstm(self, reads: int) -> None:
        columns = self.place(reads).columns if self.chance(0.7) else 1
        reads = self.in_place_of_mac(reads, columns)
        units = self.whole(1, 20)
        matrices = [Matrix(*self.weights(4 * units, depth)[::-1])
                    for depth in (self.place(reads).channels, units)]
        source = lstm(
            self.b, reads, (matrices[0], matrices[1]), self.zero_point(), self.rng,
            forms=[pm.BiasForm(self.whole(0, 1)) for _ in range(2)], cell_bits=self.whole(0, 6),
            cell_clip=self.pick([0, 0, 32767, self.whole(0, 32767)]), anew=self.chance(0.2))
        output = self.new_tensor(columns, units)
        self.finish(source, reads, [pm.Branch(channels=units, output=output)])

    def grow_svdf(self, reads: int) -> None:
        reads = self.in_place_of_mac(reads, 1)
        rank, units = self.whole(1, 3), self.whole(1, 20)
        w, weights = self.weights(rank * units, self.place(reads).channels)
        source = svdf(self.b, reads, Matrix(weights, w), rank, self.whole(1, 9), self.rng)
        self.finish(source, reads, self.branches(1, units, PAST_GAIN))

    def grow_load(self, reads: int) -> None:
        place = self.place(reads)
        channels = place.channels if place.channels > 1 else self.whole(1, 20)
        columns = place.columns if place.columns > 1 else self.whole(1, 6)
        branches = self.branches(columns, channels, None)
        pooled = any(
            isinstance(s, (pm.MaxPool, pm.AvgPool, pm.Mean)) for b in branches for s in b.stages)
        if pooled and columns != place.columns:  # a pool takes the single column as it is
            return
        stages = branches[0].stages
        if (
            len(branches) == 1 and (columns, channels) == (place.columns, place.channels)
            and not any(isinstance(s, NEEDS_COLUMNS) for s in stages)
            and not any(getattr(s, "operand", -1) == reads for s in stages)
            and self.in_place_of_input(reads)
        ):
            output = self.b.same_place(reads, zero_point=self.zero_point())
            branches = [replace(branches[0], output=output)]
        self.finish(pm.Load(), reads, branches)

    def grow_copy(self, reads: int) -> None:
        """A box of the input, its dimensions permuted, into a box of the output."""
        place = self.place(reads)
        shape = np.array([*self.split(place.columns), place.channels])
        begin = np.array([self.whole(0, n - 1) for n in shape])
        stride = np.array([self.whole(1, 2) for _ in shape])
        dims = np.array([self.whole(1, (n - b - 1) // s + 1)
                         for n, b, s in zip(shape, begin, stride)])
        order = self.rng.permutation(3) if self.chance(0.5) else np.arange(3)
        step_in = np.array([shape[1] * shape[2], shape[2], 1])
        into = dims[order] + np.array([self.whole(0, 2) for _ in range(3)])
        at = np.array([self.whole(0, n - d) for n, d in zip(into, dims[order])])
        step_out = np.array([into[1] * into[2], into[2], 1])
        fill = bool((into != dims[order]).any()) or self.chance(0.2)
        output = self.new_tensor(int(into[0] * into[1]), int(into[2]))
        source = pm.Copy(
            dims=tuple(map(int, dims[order])), in_offset=int(begin @ step_in),
            in_strides=tuple(map(int, (stride * step_in)[order])), out_offset=int(at @ step_out),
            out_strides=tuple(map(int, step_out)), fill=fill,
            fill_value=self.whole(-128, 127) if fill else 0)
        self.finish(source, reads, [pm.Branch(channels=int(into[2]), output=output)])

    # ---- the whole

    def grow(self, steps: int) -> pm.PlanModel:
        for _ in range(self.whole(1, 2)):
            channels = self.whole(1, 40) if self.chance(0.9) else self.whole(100, 700)
            self.readable.append(self.b.input(
                *self.split(self.whole(1, 24)), channels, zero_point=self.zero_point()))
        for ring in self.rings:  # the past first: it may be anything's input
            columns = self.b.rings[ring].columns
            seen = self.whole(1, columns)
            self.readable.append(self.b.view(ring, seen, self.whole(0, columns - seen)))
        for _ in range(steps):
            reads = self.pick([*self.readable[-3:], *self.unread[-3:]])
            grow = self.pick([self.grow_mac] * 3 + [
                self.grow_load, self.grow_copy, self.grow_lstm, self.grow_svdf])
            if reads in self.unread:
                self.unread.remove(reads)
            grow(reads)
        for ring in self.rings:
            self.append(ring)
        for number in self.unread or self.readable[-1:]:
            self.output(number)
        return self.b.plan()

    def append(self, ring: int) -> None:
        """Something into the ring, by a Mac of one tap from the first input."""
        reads = self.b.inputs[0].tensor
        place, r = self.place(reads), self.b.rings[ring]
        columns = self.whole(1, min(place.columns, r.columns))
        w, weights = self.weights(r.channels, place.channels)
        source = mac(
            weights, w, self.rng.integers(-500, 500, r.channels), place.zero_point, in_h=1,
            in_w=place.columns, out_h=1, out_w=columns)
        self.b.tail(source, reads, self.b.append(ring, columns), requant(
            np.array([0.01 / np.sqrt(place.channels)]), r.zero_point))

    def output(self, number: int) -> None:
        place = self.place(number)
        output = self.b.output(place.columns, place.channels, zero_point=place.zero_point)
        self.b.tail(pm.Load(), number, output)
