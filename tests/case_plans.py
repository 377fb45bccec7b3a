"""A random operator case as a plan of three steps: into a layout, the operator, out of a layout."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Array, Tensor
from edgesparse.mapping import stages
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Format, Nm
from op_cases import Case
from plan_builder import PlanBuilder, Rng

LAYOUTS = tuple(pm.Layout)
FORMATS: tuple[Format, ...] = (
    Dense(), Bitmask(), Bsr(4, 1, 16), Bsr(2, 4, 16), Bsr(1, 16), DeltaCsr(4), DeltaCsr(8),
    Nm(1, 4), Nm(2, 4), Nm(3, 8),
)


def place(rng: Rng, columns: int, channels: int) -> dict[str, Any]:
    """Layout, halo and phases at random, and now and then a pitch with room to spare."""
    layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    phases = int(rng.integers(2, 9)) if layout is pm.Layout.POLYPHASE else 1
    out = {"layout": layout, "phases": phases, "halo": int(rng.integers(0, 3))}
    if layout is pm.Layout.NWC and rng.random() < 0.5:
        out["pitch"] = channels + int(rng.integers(0, 5))
    return out


def case_plan(case: Case, rng: Rng) -> tuple[pm.PlanModel, list[Array]] | None:
    """(plan, inputs) whose output is `case.int8()`; None for what no step can do."""
    b = PlanBuilder()
    op, out = case.op, case.outs[0]
    if out.dtype != "int8" or not all(dim for dim in out.shape):
        return None
    if isinstance(op, (ops.Conv, ops.FullyConnected)):
        if isinstance(op, ops.Conv) and case.ins[0].shape[0] != 1:
            return None
        x, feed = _entered(b, case, 0, rng)
        source, tail = _mac(op, case, rng), (stages.requant(op, case.ins, case.outs),)
        feeds = [feed]
    elif isinstance(op, (ops.Add, ops.Sub, ops.Mul)):
        return _binary(b, case, rng)
    else:
        made = _one_input(case)
        if made is None:
            return None
        x, feed = _entered(b, case, 0, rng)
        source, tail = made
        feeds = [feed]
    _leave(b, case, (source, x, tail), rng)
    return b.plan(), feeds


def _entered(b: PlanBuilder, case: Case, number: int, rng: Rng) -> tuple[int, Array]:
    """The case's input as a plan input, copied into a tensor of a random layout."""
    t, arg = case.ins[number], case.args[number]
    shape = arg.shape or (1,)
    entry = b.input(*shape, zero_point=t.zero_point)
    columns, channels = _matrix(t)
    x = b.tensor(columns, channels, zero_point=t.zero_point, **place(rng, columns, channels))
    if isinstance(case.op, ops.FullyConnected):
        cols = case.ins[1].shape[1]
        y = b.tensor(t.size // cols, cols, zero_point=t.zero_point)
        b.tail(pm.Copy(dims=(t.size,), in_strides=(1,), out_strides=(1,)), entry, y)
        entry, x = y, b.tensor(t.size // cols, cols, zero_point=t.zero_point,
                               **place(rng, t.size // cols, cols))
    b.tail(pm.Load(), entry, x)
    return x, arg.reshape(shape)


def _leave(
    b: PlanBuilder, case: Case, step: tuple[pm.Source, int, tuple[pm.StageBody, ...]], rng: Rng
) -> None:
    source, x, tail = step
    t = case.outs[0]
    columns, channels = _matrix(t)
    if isinstance(source, pm.Mac):
        channels = source.geometry.rows
        columns = t.size // channels
    y = b.tensor(columns, channels, zero_point=t.zero_point, **place(rng, columns, channels))
    b.tail(source, x, y, *tail)
    b.tail(pm.Copy(dims=(t.size,), in_strides=(1,), out_strides=(1,)), y,
           b.output(*(t.shape or (1,))))


def _matrix(t: Tensor) -> tuple[int, int]:
    """(columns, channels)."""
    return t.columns, t.channels


def _mac(op: ops.Conv | ops.FullyConnected, case: Case, rng: Rng) -> pm.Mac:
    """Rows in up to three groups of random encodings, sometimes in another order."""
    w = case.args[1].reshape(case.args[1].shape[0], -1)
    rows = w.shape[0]
    order = rng.permutation(rows).astype(np.uint16) if rng.random() < 0.5 else None
    stored = w if order is None else w[order]
    cuts = sorted({0, rows, *rng.integers(0, rows + 1, 2).tolist()})
    groups = []
    for first, end in pairwise(cuts):
        part = stored[first:end]
        forms = [f for f in FORMATS if not f.refusal(part)]
        groups.append(forms[int(rng.integers(len(forms)))].row_group(part, first))
    weights = pm.Weights(rows=rows, cols=w.shape[1], groups=tuple(groups), row_order=order)
    form = pm.BiasForm(int(rng.integers(2)))
    bias = case.args[2].astype(np.int64)
    if form is pm.BiasForm.FOLDED:
        bias = bias - case.ins[0].zero_point * w.astype(np.int64).sum(axis=1)
    return pm.Mac(geometry=stages.geometry(op, case.ins, case.outs), weights=weights,
                  bias=bias.astype(np.int32), bias_form=form)


def _one_input(case: Case) -> tuple[pm.Source, tuple[pm.StageBody, ...]] | None:
    op, x, y = case.op, case.ins[0], case.outs[0]
    if isinstance(op, (ops.MaxPool, ops.AvgPool)):
        return pm.Load(), (stages.pool(op, case.ins, case.outs),)
    if isinstance(op, ops.Softmax):
        return pm.Load(), (stages.softmax(op, case.ins, case.outs),)
    if isinstance(op, ops.Mean):
        last = len(x.shape) - 1
        axes = {axis % len(x.shape) for axis in op.axes}
        if last in axes or any(x.shape[i] > 1 for i in set(range(last)) - axes):
            return None
        return pm.Load(), (stages.mean(op, case.ins, case.outs),)
    if isinstance(op, ops.Transpose):
        strides = stages.strides_of(x.shape)
        read = [strides[p] for p in op.perm]
        return stages.box_copy(y.shape, (0, read), (0, stages.strides_of(y.shape))), ()
    if isinstance(op, ops.Pad):
        strides = stages.strides_of(y.shape)
        offset = sum(before * s for before, s in zip(op.before, strides))
        return stages.box_copy(
            x.shape, (0, stages.strides_of(x.shape)), (offset, strides), y.zero_point), ()
    if hasattr(op, "table") and x.dtype == "int8":
        return pm.Load(), (stages.unary(op.table(case.ins, case.outs)),)
    return None


def _binary(b: PlanBuilder, case: Case, rng: Rng) -> tuple[pm.PlanModel, list[Array]] | None:
    """Operands are tensors of random layouts; either one is the running value."""
    assert isinstance(case.op, (ops.Add, ops.Sub, ops.Mul))
    out = _matrix(case.outs[0])
    if any(n not in (1, m) for t in case.ins for n, m in zip(_matrix(t), out)):
        return None
    value = int(rng.integers(2))
    entered, feeds = [], []
    for i in range(2):
        x, feed = _entered(b, case, i, rng)
        entered.append(x)
        feeds.append(feed)
    stage = stages.elementwise(case.op, case.ins, case.outs, value)
    stage = _with_operand(stage, entered[1 - value])
    _leave(b, case, (pm.Load(), entered[value], (stage,)), rng)
    return b.plan(), feeds


def _with_operand(stage: pm.Add | pm.Mul, operand: int) -> pm.Add | pm.Mul:
    fields = {**vars(stage), "operand": operand, "rounding": Rounding(stage.rounding)}
    return type(stage)(**fields)
