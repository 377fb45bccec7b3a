"""Plans built by hand: tensors get addresses one after the other, steps get their scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgesparse.graph.ir import Array, Shape
from edgesparse.plan import model as pm
from edgesparse.plan.places import extent
from edgesparse.plan.wire import round_up
from edgesparse.quantize.fixedpoint import Rounding, quantize_multipliers
from edgesparse.sparsity.formats import Dense, Format

Rng = np.random.Generator
WHOLE = {"qmin": -128, "qmax": 127}


class PlanBuilder:
    """Collects tensors and steps; `plan()` gives the model. Rings come before tensors."""

    def __init__(self) -> None:
        self.tensors: list[pm.Tensor] = []
        self.rings: list[pm.Ring] = []
        self.steps: list[pm.Step] = []
        self.inputs: list[pm.Io] = []
        self.outputs: list[pm.Io] = []
        self._ring_bytes = 0
        self._end = 0

    def ring(
        self, columns: int, channels: int, zero_point: int = 0,
        use: pm.RingUse = pm.RingUse.COLUMNS,
    ) -> int:
        self.rings.append(pm.Ring(
            offset=self._ring_bytes, columns=columns, channels=channels, zero_point=zero_point,
            use=use))
        self._ring_bytes += columns * channels
        return len(self.rings) - 1

    def running(self, channels: int, fresh: int, columns: int, each: bool = False) -> pm.Running:
        """With a ring of its own."""
        made = pm.Running(ring=len(self.rings), each=each, fresh=fresh, columns=columns)
        self.ring(4 + made.entries * made.entry_bytes, channels, use=pm.RingUse.SUMS)
        return made

    def tensor(self, *shape: int, zero_point: int = 0, scale: float = 1.0, **place: Any) -> int:
        """A tensor in the arena, in bytes of its own; `place` fills fields of Place."""
        columns, channels = int(np.prod(shape[:-1])), shape[-1]
        full = pm.Place(
            offset=0, pitch=place.pop("pitch", 0), columns=columns, channels=channels,
            zero_point=zero_point, **place)
        if not full.pitch:
            full = replace(full, pitch=tight_pitch(full))
        (low, high), first = extent(full), round_up(self._end, 16)
        self._end = first + high - low
        full = replace(full, offset=first - low)
        return self._add(shape, full, scale)

    def part(self, whole: int, first_channel: int, channels: int) -> int:
        """Some channels of an NWC tensor, in place."""
        tensor = self.tensors[whole]
        place = replace(
            tensor.place, offset=tensor.place.offset + first_channel, channels=channels)
        return self._add((*tensor.shape[:-1], channels), place, tensor.scale)

    def same_place(self, number: int, *shape: int, **place: Any) -> int:
        """A further tensor in the bytes of an NWC tensor, by default with its shape."""
        tensor = self.tensors[number]
        shape = shape or tensor.shape
        full = replace(tensor.place, columns=int(np.prod(shape[:-1])), channels=shape[-1], **place)
        return self._add(shape, full, tensor.scale)

    def append(self, ring: int, columns: int) -> int:
        return self._in_ring(ring, columns, pm.RingRole.APPEND, 0)

    def view(self, ring: int, columns: int, lag: int = 0) -> int:
        return self._in_ring(ring, columns, pm.RingRole.VIEW, lag)

    def constant(self, data: Array, zero_point: int = 0, scale: float = 1.0) -> int:
        columns, channels = data.size // data.shape[-1], data.shape[-1]
        place = pm.Place(offset=0, pitch=channels, columns=columns, channels=channels,
                         zero_point=zero_point)
        self.tensors.append(pm.Tensor(
            shape=data.shape, place=place, scale=scale, data=data.astype(np.int8).ravel()))
        return len(self.tensors) - 1

    def input(self, *shape: int, **place: Any) -> int:
        number = self.tensor(*shape, **place)
        self.inputs.append(pm.Io(tensor=number))
        return number

    def output(self, *shape: int, **place: Any) -> int:
        number = self.tensor(*shape, **place)
        self.outputs.append(pm.Io(tensor=number))
        return number

    def step(self, source: pm.Source, reads: int, *branches: pm.Branch) -> None:
        self.steps.append(pm.Step(input=reads, source=source, branches=branches))

    def tail(self, source: pm.Source, reads: int, writes: int, *stages: pm.StageBody) -> None:
        """The ordinary step: one branch, which takes all channels."""
        channels = (source.geometry.rows if isinstance(source, pm.Mac)
                    else self.tensors[writes].place.channels)
        self.step(source, reads, pm.Branch(channels=channels, output=writes, stages=stages))

    def plan(self, **more: Any) -> pm.PlanModel:
        heads = 4 * len(self.rings)
        state = round_up(heads + self._ring_bytes, 16) if self.rings else 0
        rings = tuple(replace(r, offset=r.offset + heads) for r in self.rings)
        tensors = tuple(self._shifted(t, state) for t in self.tensors)
        scratch = round_up(state + self._end, 16)
        sizes = [scratch_bytes(tensors, step) for step in self.steps]
        steps = tuple(
            replace(s, scratch_bytes=n, scratch_offset=scratch if n else 0)
            for s, n in zip(self.steps, sizes))
        return pm.PlanModel(
            target="host", tensors=tensors, rings=rings, steps=steps, inputs=tuple(self.inputs),
            outputs=tuple(self.outputs), state_bytes=state,
            arena_bytes=scratch + max(sizes, default=0), **more)

    def _add(self, shape: Shape, place: pm.Place, scale: float) -> int:
        self.tensors.append(pm.Tensor(shape=shape, place=place, scale=scale))
        return len(self.tensors) - 1

    def _in_ring(self, ring: int, columns: int, role: pm.RingRole, lag: int) -> int:
        r = self.rings[ring]
        place = pm.Place(
            offset=0, pitch=r.channels, columns=columns, channels=r.channels, ring=ring,
            ring_lag=lag, ring_role=role, zero_point=r.zero_point)
        return self._add((columns, r.channels), place, 1.0)

    @staticmethod
    def _shifted(tensor: pm.Tensor, by: int) -> pm.Tensor:
        if tensor.data is not None or tensor.place.ring_role is not pm.RingRole.NONE:
            return tensor
        return replace(tensor, place=replace(tensor.place, offset=tensor.place.offset + by))


def tight_pitch(place: pm.Place) -> int:
    """The smallest pitch docs/PLAN_FORMAT.md section 2 allows."""
    wide = place.columns + 2 * place.halo
    if place.layout is pm.Layout.NWC:
        return place.channels
    if place.layout is pm.Layout.POLYPHASE:
        return place.phases * (-(-place.columns // place.phases) + 2 * place.halo)
    return wide * (4 if place.layout is pm.Layout.C4 else 1)


def scratch_bytes(tensors: Sequence[pm.Tensor], step: pm.Step) -> int:
    """What docs/PLAN_FORMAT.md section 8 asks for."""
    patches = 0
    if isinstance(step.source, pm.Mac):
        g, place = step.source.geometry, tensors[step.input].place
        if must_gather(g, place):
            columns = min(4, g.out_h * g.out_w)
            patches = round_up(columns * g.kernel_h * g.kernel_w * g.in_c, 4)
    if isinstance(step.source, pm.Lstm):
        patches = round_up(2 * step.source.recurrent.geometry.rows, 4)
    per_channel = {pm.MaxPool: 1, pm.Softmax: 1, pm.AvgPool: 4, pm.Mean: 4}
    return patches + max(
        sum(round_up(branch.channels * per_channel.get(type(stage), 0), 4)
            for stage in branch.stages)
        for branch in step.branches)


def must_gather(g: pm.Geometry, place: pm.Place) -> bool:
    inside = (
        g.pad_top == g.pad_left == 0
        and (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h < g.in_h
        and (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w < g.in_w)
    if not inside or place.layout is not pm.Layout.NWC:
        return True
    if g.kernel_h == g.kernel_w == 1:
        return False
    row = g.kernel_h == 1 and g.dilation_w == 1 and place.ring_role is pm.RingRole.NONE
    return not (row and place.pitch == g.in_c)


# ---- contents -----------------------------------------------------------------------------------


def random_weights(rng: Rng, rows: int, cols: int, density: float = 1.0) -> Array:
    """[rows, cols] int8, no zeros but those left out by `density`."""
    w = rng.integers(1, 128, (rows, cols)) * rng.choice([-1, 1], (rows, cols))
    return (w * (rng.random((rows, cols)) < density)).astype(np.int8)


def stored(
    w: Array, *groups: tuple[int, Format], row_order: Array | None = None
) -> pm.Weights:
    """w [rows, K] in stored order, cut into (row count, format); none: one dense group."""
    parts, row = [], 0
    for count, form in groups or ((w.shape[0], Dense()),):
        parts.append(form.row_group(w[row : row + count], row))
        row += count
    assert row == w.shape[0]
    return pm.Weights(rows=w.shape[0], cols=w.shape[1], groups=tuple(parts), row_order=row_order)


def mac(
    weights: pm.Weights, w: Array, bias: Array, zero_point: int, **fields: Any
) -> pm.Mac:
    """w [rows, cols] in the order of output channels; bias as for PLAIN; FOLDED unless told."""
    form = fields.pop("bias_form", pm.BiasForm.FOLDED)
    if form is pm.BiasForm.FOLDED:
        bias = bias - zero_point * w.astype(np.int64).sum(axis=1)
    fields.setdefault("in_c", w.shape[1])
    return pm.Mac(geometry=pm.Geometry(rows=w.shape[0], **fields), weights=weights,
                  bias=bias.astype(np.int32), bias_form=form)


@dataclass(frozen=True)
class Matrix:
    """Weights as they are stored, and in the order of output channels [rows, cols]."""

    weights: pm.Weights
    w: Array

    def times(
        self, columns: int, zero_point: int, bias: Array, form: pm.BiasForm = pm.BiasForm.FOLDED
    ) -> pm.Mac:
        """What multiplies each of so many columns."""
        return mac(self.weights, self.w, bias, zero_point, bias_form=form, in_w=columns,
                   out_w=columns)


def lstm(
    b: PlanBuilder, reads: int, matrices: tuple[Matrix, Matrix], zero_point: int, rng: Rng,
    **more: Any,
) -> pm.Lstm:
    """Random scales that leave gates between open and shut; its rings are made."""
    place = b.tensors[reads].place
    (rows, channels), (_, units) = (m.w.shape for m in matrices)
    gains = [*rng.uniform(0.5, 2, 4) / channels**0.5, *rng.uniform(0.5, 2, 4) / units**0.5]
    forms = more.pop("forms", (pm.BiasForm.FOLDED, pm.BiasForm.PLAIN))
    return pm.Lstm(
        input=matrices[0].times(
            place.columns, place.zero_point, rng.integers(-5000, 5000, rows), forms[0]),
        recurrent=matrices[1].times(1, zero_point, np.zeros(rows, np.int64), forms[1]),
        scales=tuple(scaled(0, gain) for gain in gains),
        hidden=scaled(int(rng.integers(-20, 20)), rng.uniform(2.0**-24, 2.0**-22)),
        hidden_ring=b.ring(1, units, zero_point), cell_ring=b.ring(1, 2 * units),
        **{"cell_bits": 3, **more})


def svdf(
    b: PlanBuilder, reads: int, matrix: Matrix, rank: int, memory: int, rng: Rng
) -> pm.Svdf:
    rows, channels = matrix.w.shape
    return pm.Svdf(
        feature=matrix.times(1, b.tensors[reads].place.zero_point, np.zeros(rows, np.int64)),
        scale=scaled(0, rng.uniform(1, 4) / channels**0.5),
        time=rng.integers(-(2**15), 2**15, rows * memory).astype(np.int16),
        bias=rng.integers(-(2**31), 2**31, rows // rank).astype(np.int32),
        ring=b.ring(memory, 2 * rows))


def requant(factors: Array, zero_point: int, **more: Any) -> pm.Requant:
    """factors: real scale per channel, or one."""
    multiplier, shift = quantize_multipliers(np.asarray(factors, np.float64))
    fields = {**WHOLE, "rounding": Rounding.DOUBLE, **more}
    return pm.Requant(multiplier=multiplier.astype(np.int32), shift=shift.astype(np.int8),
                      zero_point=zero_point, **fields)


def scaled(zero_point: int, real: float) -> pm.Scaled:
    multiplier, shift = quantize_multipliers(np.array([real]))
    return pm.Scaled(zero_point=zero_point, shift=int(shift[0]), multiplier=int(multiplier[0]))


def add(operand: int, zero_points: tuple[int, int, int], **more: Any) -> pm.Add:
    """value + operand of equal scales, to twice the scale; zero points of value, operand, out."""
    fields = {**WHOLE, "rounding": Rounding.DOUBLE, **more}
    return pm.Add(operand=operand, left_shift=20, value=scaled(zero_points[0], 0.5),
                  other=scaled(zero_points[1], 0.5), out=scaled(zero_points[2], 2.0**-20),
                  **fields)


def values(rng: Rng, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)
