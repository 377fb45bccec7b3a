"""Steps with a state of their own: LSTM and SVDF."""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Array, Node, Tensor
from edgesparse.mapping import stages
from edgesparse.mapping.bounds import check_gates, check_hidden, check_past
from edgesparse.mapping.draft import Draft, DraftStage
from edgesparse.mapping.lowered import Lowered, Remembered, add_state
from edgesparse.mapping.weights import PORTABLE, mac_bias, stored
from edgesparse.ops import Lstm, Svdf
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding


def emit_lstm(low: Lowered, node: Node) -> None:
    """State: a ring of one column for h, one for c (int16)."""
    assert isinstance(node.op, Lstm)
    x, w, r, b = low.graph.ins(node)
    (y,) = low.graph.outs(node)
    assert b.data is not None
    units = y.channels
    given, why_given = _matrix(node, (x.columns, x.zero_point), w, b.data)
    back, why_back = _matrix(node, (1, y.zero_point), r, np.zeros_like(b.data))
    p = node.op.parameters((x, w, r, b), (y,))
    for mac, factors in ((given, p.input), (back, p.recurrent)):
        check_gates(node.name, "LSTM", mac, [f.shift for f in factors])
    check_hidden(node.name, "LSTM", p.hidden.shift)
    hidden = add_state(low, f"{y.name}:h", Remembered(1, units, y.zero_point))
    cell = add_state(low, f"{y.name}:c", Remembered(1, 2 * units, 0))
    source = pm.Lstm(
        input=given, recurrent=back,
        scales=tuple(stages.scaled(f) for f in (*p.input, *p.recurrent)),
        hidden=stages.scaled(p.hidden), cell_bits=node.op.cell_bits, cell_clip=node.op.clip,
        hidden_ring=hidden, cell_ring=cell, anew=node.op.anew)
    reason = why_given if why_given == why_back else f"{why_given}; recurrent: {why_back}"
    low.drafts.append(Draft(node.inputs[0], source, y.name, (), node.origin, reason))


def emit_svdf(low: Lowered, node: Node) -> None:
    """State: a ring of int16 columns, one for each run that is remembered."""
    assert isinstance(node.op, Svdf)
    x, w, t, b = low.graph.ins(node)
    (y,) = low.graph.outs(node)
    assert t.data is not None
    assert b.data is not None
    filters, memory = t.shape
    feature, reason = _matrix(node, (1, x.zero_point), w, np.zeros(filters, np.int32))
    p = node.op.parameters((x, w, t, b), (y,))
    check_gates(node.name, "SVDF", feature, [p.feature.shift])
    check_past(node.name, "SVDF", p.time.shift)
    stages.check_limits({"the bytes of a column of its state": 2 * filters}, y.name)
    ring = add_state(low, f"{y.name}:s", Remembered(memory, 2 * filters, 0))
    source = pm.Svdf(
        feature=feature, scale=stages.scaled(p.feature), time=t.data.reshape(-1), bias=b.data,
        ring=ring)
    requant = pm.Requant(
        multiplier=np.array([p.time.multiplier], np.int32), shift=np.array([p.time.shift], np.int8),
        zero_point=y.zero_point, qmin=-128, qmax=127, rounding=Rounding.DOUBLE)
    low.drafts.append(Draft(
        node.inputs[0], source, y.name, (DraftStage(requant),), node.origin, reason))


def _matrix(
    node: Node, of: tuple[int, int], w: Tensor, bias: Array
) -> tuple[pm.Mac, str]:
    """A Mac that multiplies each column by w, and why w is encoded as it is: on every target as
    CPUs want it, since no NPU has code for what follows.

    of  columns and zero point of what it multiplies
    """
    columns, zero_point = of
    weights, reason = stored(node, w, PORTABLE)
    form = PORTABLE.bias_form
    folded, _ = mac_bias(node, w, bias, zero_point, form)
    rows, depth = w.shape
    stages.check_limits({"in_w": columns, "in_c": depth, "rows": rows}, node.outputs[0])
    geometry = pm.Geometry(in_w=columns, in_c=depth, out_w=columns, rows=rows)
    return pm.Mac(
        geometry=geometry, weights=weights, bias=folded, bias_form=form), reason
