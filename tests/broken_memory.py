"""Plans that break one invariant each, made from everything(): I-6 to I-26."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.plan import model as pm
from plan_builder import WHOLE, Matrix, PlanBuilder, lstm, requant, stored, svdf
from plan_changes import (
    ADD,
    APPENDED,
    BIG,
    C4,
    CONSTANT,
    CONV,
    COPY,
    DEPTHWISE,
    FRESH,
    HALVES,
    HORIZONTAL,
    IN_PLACE,
    INPLACE,
    LOAD,
    MEAN,
    MUL,
    PLANAR,
    RESIDUAL,
    RIGHT,
    SPREAD,
    TO_RING,
    VIEWED,
    Break,
    X,
    Y,
    Z,
    both,
    branch,
    io,
    ring,
    stage,
    stages,
    step,
    tensor,
    weights,
    whole,
)

BROKEN: dict[int, dict[str, Break]] = {
    6: {"format 2": whole(format=2), "format 0": whole(format=0)},
    7: {
        "steps": lambda p: replace(p, steps=p.steps + (p.steps[0],) * 4096),
        "rings": lambda p: replace(p, rings=p.rings + (p.rings[0],) * 32767),
        "inputs": lambda p: replace(p, inputs=p.inputs * 33),
        "outputs": lambda p: replace(p, outputs=p.outputs * 33),
        "branches": lambda p: step(0, branches=p.steps[0].branches * 17)(p),
        "stages": stages(TO_RING, 0, *[pm.Clamp(**WHOLE)] * 17),
        "pools": stages(MEAN, 0, *[pm.Softmax(multiplier=1 << 30, shift=1, diff_min=-9)] * 5),
        "row groups": lambda p: weights(CONV, groups=p.steps[CONV].source.weights.groups * 6)(p),
    },
    8: {
        "row groups that share their values": lambda p: weights(CONV, groups=tuple(
            replace(g, values=np.arange(1 << 17).astype(np.int8)) for g in
            (p.steps[CONV].source.weights.groups * 5)))(p),
    },
    10: {
        "no dimension": tensor(X, shape=()),
        "seven dimensions": tensor(X, shape=(1, 1, 1, 1, 1, 16, 4)),
        "a dimension of 0": tensor(X, shape=(0, 16, 4)),
        "a larger product": tensor(X, shape=(1, 16, 5)),
        "a smaller product": tensor(X, shape=(1, 16, 3)),
        "a product that wraps to the right one": tensor(X, shape=(1 << 31, 1 << 31, 4, 16, 4)),
        "no column": tensor(X, columns=0),
        "no channel": tensor(X, channels=0),
        "columns": tensor(X, shape=((1 << 24) + 1, 1), columns=(1 << 24) + 1, channels=1),
        "channels": tensor(X, shape=(1, 65536), columns=1, channels=65536, pitch=65536),
    },
    11: {
        "layout": tensor(X, layout=4),
        "type": tensor(X, dtype=1),
        "reserved": tensor(X, reserved=1),
        "NWC pitch": tensor(X, pitch=3),
        "PLANAR pitch": tensor(PLANAR, pitch=7),
        "C4 pitch": tensor(C4, pitch=15),
        "POLYPHASE pitch": tensor(SPREAD, pitch=6),
        "POLYPHASE pitch, odd": tensor(SPREAD, pitch=9),
        "no phase": tensor(X, phases=0),
        "phases outside POLYPHASE": tensor(X, phases=2, pitch=4),
        "one phase": tensor(SPREAD, phases=1),
        "nine phases": tensor(SPREAD, phases=9, pitch=27),
    },
    12: {
        "before": tensor(X, offset=0),
        "after": lambda p: tensor(X, offset=p.arena_bytes - 63)(p),
        "halo before": lambda p: tensor(PLANAR, offset=p.state_bytes)(p),
        "halo after": lambda p: tensor(PLANAR, offset=p.arena_bytes - 11 * 8 - 6)(p),
        "PLANAR": tensor(PLANAR, pitch=BIG),
        "C4": tensor(C4, offset=1 << 30),
        "POLYPHASE": tensor(SPREAD, pitch=BIG),
        "a sum that wraps": tensor(X, offset=(1 << 32) - 16),
    },
    13: {
        "too short": tensor(CONSTANT, data=np.ones(9, np.int8)),
        "too long": tensor(CONSTANT, data=np.ones(11, np.int8)),
        "offset": tensor(CONSTANT, offset=1),
        "pitch": tensor(CONSTANT, pitch=11),
        "halo": tensor(CONSTANT, halo=1),
        "layout": tensor(CONSTANT, layout=pm.Layout.PLANAR),
        "ring": tensor(CONSTANT, ring=0),
        "role": tensor(CONSTANT, ring_role=pm.RingRole.VIEW),
        "lag": tensor(CONSTANT, ring_lag=1),
    },
    14: {
        "no such ring": tensor(VIEWED, ring=2),
        "no ring": tensor(VIEWED, ring=-1),
        "a negative ring": tensor(X, ring=-2),
        "a ring without a role": tensor(X, ring=0),
        "an unknown role": tensor(VIEWED, ring_role=3),
        "channels": tensor(VIEWED, ring=1),
        "pitch": tensor(VIEWED, pitch=5),
        "offset": tensor(VIEWED, offset=1),
        "halo": tensor(VIEWED, halo=1),
        "layout": tensor(VIEWED, layout=pm.Layout.C4, pitch=24),
        "APPEND too long": tensor(APPENDED, shape=(10, 4), columns=10),
        "APPEND with lag": tensor(APPENDED, ring_lag=1),
        "VIEW too far back": tensor(VIEWED, ring_lag=4),
        "lag without a ring": tensor(X, ring_lag=1),
    },
    15: {
        "on the heads": ring(0, offset=7),
        "overlap": ring(1, offset=43),
        "order": lambda p: replace(p, rings=(replace(p.rings[0], offset=9),
                                             replace(p.rings[1], offset=8))),
        "after the state": ring(1, offset=48),
        "no column": ring(1, columns=0),
        "no channel": ring(1, channels=0),
        "columns": ring(1, columns=(1 << 24) + 1),
        "channels": ring(1, channels=65536),
        "use": ring(1, use=2),
        "reserved": ring(1, reserved=1),
        "no room for heads": whole(state_bytes=7),
    },
    16: {
        "state": lambda p: replace(p, state_bytes=p.arena_bytes + 1),
        "2 GiB": whole(arena_bytes=1 << 31),
        "too small": lambda p: step(CONV, scratch_bytes=p.steps[CONV].scratch_bytes - 4)(p),
        "too small for stages": lambda p: step(
            MEAN, scratch_bytes=p.steps[MEAN].scratch_bytes - 4)(p),
        "not aligned": lambda p: step(
            DEPTHWISE, scratch_offset=p.steps[DEPTHWISE].scratch_offset + 2)(p),
        "after the arena": lambda p: step(CONV, scratch_offset=p.arena_bytes // 4 * 4)(p),
        "in the state": step(CONV, scratch_offset=0),
        "an offset of nothing": step(COPY, scratch_offset=64),
    },
    17: {
        "no input": whole(inputs=()),
        "no output": whole(outputs=()),
        "no such tensor": io("inputs", 0, tensor=999),
        "no such output": io("outputs", 0, tensor=999),
        "a constant": io("inputs", 0, tensor=CONSTANT),
        "a ring": io("inputs", 0, tensor=APPENDED),
        "a ring as output": io("outputs", 0, tensor=VIEWED),
        "a constant as output": io("outputs", 0, tensor=CONSTANT),
        "gaps": io("outputs", 0, tensor=HALVES),
        "layout": io("outputs", 0, tensor=C4),
        "halo": both(tensor(Y, halo=1, offset=144), io("outputs", 0, tensor=Y)),
        "overlap": io("inputs", 1, tensor=X),
        "scale 0": tensor(X, scale=0.0),
        "scale below 0": tensor(X, scale=-1.0),
        "scale infinite": tensor(X, scale=float("inf")),
        "scale not a number": tensor(X, scale=float("nan")),
        "float and uint8": io("inputs", 0, uint8_io=True),
    },
    20: {
        "no such input": step(COPY, input=99),
        "no such output": branch(COPY, 0, output=99),
        "no such operand": stage(*ADD, operand=99),
        "reads APPEND": step(COPY, input=APPENDED),
        "operand APPEND": stage(*MUL, operand=APPENDED),
        "writes VIEW": branch(TO_RING, 0, output=VIEWED),
        "writes a constant": branch(MEAN, 0, output=CONSTANT),
    },
    21: {
        "no branch": step(COPY, branches=()),
        "gap": branch(HORIZONTAL, 1, first_channel=7),
        "overlap": branch(HORIZONTAL, 1, first_channel=5),
        "starts late": branch(COPY, 0, first_channel=1),
        "too few": lambda p: step(HORIZONTAL, branches=p.steps[HORIZONTAL].branches[:1])(p),
        "too many": branch(HORIZONTAL, 1, channels=5),
        "nothing": branch(COPY, 0, channels=0),
        "65,536": lambda p: _one_channel_repeated(65536),
        "a sum that wraps": branch(HORIZONTAL, 1, channels=(1 << 32) - 2),
    },
    22: {
        "columns": branch(IN_PLACE, 0, output=Y),
        "channels": branch(HORIZONTAL, 1, output=HALVES),
        "columns after a pool": branch(MEAN, 0, output=SPREAD),
        "operand columns": stage(IN_PLACE, 0, 0, operand=Z),
        "operand channels": stage(IN_PLACE, 0, 0, operand=RESIDUAL),
    },
    23: {
        "no Requant": stages(CONV, 0),
        "starts with another": stages(CONV, 0, pm.Clamp(**WHOLE)),
        "Requant twice": stages(CONV, 0, *[requant(np.array([0.1]), 0)] * 2),
        "Requant after Load": stages(IN_PLACE, 0, requant(np.array([0.1]), 0)),
        "Copy with a stage": stages(COPY, 0, pm.Clamp(**WHOLE)),
        "Copy with two branches": lambda p: step(COPY, branches=(
            replace(p.steps[COPY].branches[0], channels=3),
            replace(p.steps[COPY].branches[0], channels=1, first_channel=3)))(p),
    },
    24: {
        "on the input of a Mac": lambda p: tensor(C4, offset=p.tensors[X].place.offset)(p),
        "on the input of a Copy": lambda p: tensor(Z, offset=p.tensors[X].place.offset)(p),
        "on the input of a pool": lambda p: tensor(SPREAD, **vars(p.tensors[HALVES].place))(p),
        "on the input of a Softmax": lambda p: both(
            stages(IN_PLACE, 0, pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-99)),
            step(IN_PLACE, scratch_offset=p.steps[MEAN].scratch_offset, scratch_bytes=12))(p),
        "beside the input of a Load": lambda p: tensor(
            INPLACE, offset=p.tensors[SPREAD].place.offset + 1)(p),
        "on scratch": lambda p: tensor(Y, offset=p.steps[MEAN].scratch_offset)(p),
        "on each other": lambda p: tensor(RIGHT, offset=p.tensors[HALVES].place.offset + 5)(p),
        "on each other, wrapped": lambda p: tensor(
            RIGHT, offset=p.tensors[HALVES].place.offset + 8)(p),
        "an operand under a pool": stage(*ADD, operand=SPREAD),
        "ring read and written": both(tensor(FRESH, zero_point=-3), tensor(
            VIEWED, columns=2, shape=(2, 4)), step(TO_RING, input=VIEWED)),
        "the state of an Lstm as its input": lambda p: _state_used("input"),
        "the state of an Lstm as its output": lambda p: _state_used("output"),
        "the state of an Svdf as its input": lambda p: _past_as_input(),
    },
    25: {
        "the input": lambda p: step(
            DEPTHWISE, scratch_offset=p.tensors[X].place.offset)(p),
        "an operand": lambda p: both(
            stage(*MUL, operand=Y), tensor(Y, offset=p.steps[LOAD].scratch_offset))(p),
    },
    26: {
        "an input nobody writes": lambda p: replace(
            p, steps=p.steps[:DEPTHWISE] + p.steps[HORIZONTAL:], names=None),
        "an operand nobody writes": stage(*MUL, operand=Y),
        "an output nobody writes": lambda p: replace(
            p, steps=p.steps[:COPY], names=None),
        "written later": lambda p: replace(
            p, steps=(*p.steps[:HORIZONTAL], p.steps[LOAD], p.steps[HORIZONTAL],
                      *p.steps[LOAD + 1 :])),
        "half of it": lambda p: _half_written(),
    },
}


def _one_channel_repeated(channels: int) -> pm.PlanModel:
    """Over two branches."""
    b = PlanBuilder()
    x, half = b.input(1, 1), channels // 2
    b.step(pm.Load(), x, *[
        pm.Branch(first_channel=first, channels=half, output=b.output(1, half))
        for first in (0, half)])
    return b.plan()


def _state_used(as_what: str) -> pm.PlanModel:
    """An LSTM of one unit whose input or output is the column of h."""
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, 1)
    w = np.ones((4, 1), np.int8)
    matrix = Matrix(stored(w), w)
    made = lstm(b, x, (matrix, matrix), 0, np.random.default_rng(0))
    view, append = b.view(made.hidden_ring, 1), b.append(made.hidden_ring, 1)
    b.tail(made, view if as_what == "input" else x, append if as_what == "output" else y)
    b.tail(pm.Load(), x, y)
    return b.plan()


def _past_as_input() -> pm.PlanModel:
    b = PlanBuilder()
    x, w = b.input(1, 4), np.ones((2, 4), np.int8)
    made = svdf(b, x, Matrix(stored(w), w), 1, 1, np.random.default_rng(0))
    b.tail(made, b.view(made.ring, 1), b.output(1, 2), requant(np.array([2.0**-25]), 0))
    return b.plan()


def _half_written() -> pm.PlanModel:
    """Six channels of ten are written, ten are read."""
    b = PlanBuilder()
    x, ten = b.input(4, 6), b.tensor(4, 10)
    b.tail(pm.Load(), x, b.part(ten, 0, 6))
    b.tail(pm.Load(), ten, b.output(4, 10))
    return b.plan()
