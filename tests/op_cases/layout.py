"""Operators that only move elements."""

from __future__ import annotations

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Quant
from op_cases.parts import (
    Case,
    Rng,
    case,
    choice,
    drawn,
    ints,
    one_input,
    quant,
    size,
    tensor,
)
from tflite_builder import Options


@case
def reshape(rng: Rng) -> Case:
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    total = int(np.prod(shape))
    front = int(choice(rng, [n for n in range(1, total + 1) if total % n == 0]))
    if rng.random() < 0.3:
        axis = int(rng.integers(0, len(shape) + 1))
        target = (*shape[:axis], 1, *shape[axis:])
        return one_input(rng, ops.Reshape(target), shape, None, code="EXPAND_DIMS",
                         extra=(ints("axis", axis),), options=Options("ExpandDims"))
    target = choice(rng, ((front, total // front), (1, -1), (front, -1), (total,)))
    return one_input(rng, ops.Reshape(target), shape, None, code="RESHAPE",
                     extra=(ints("shape", target),), options=Options("Reshape"))


@case
def transpose(rng: Rng) -> Case:
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    perm = tuple(int(p) for p in rng.permutation(len(shape)))
    return one_input(rng, ops.Transpose(perm), shape, None, code="TRANSPOSE",
                     extra=(ints("perm", perm),), options=Options("Transpose"))


@case
def history(rng: Rng) -> Case:
    """Of a first run; what it remembers is tested where it does (test_stateful.py)."""
    columns, lag = size(rng), int(rng.integers(0, 3))
    phases = int(choice(rng, (1, 1, 2, 3)))
    return one_input(rng, ops.History(columns, lag, phases), (1, size(rng), size(rng)), None)


@case
def running(rng: Rng) -> Case:
    """Of a first run; sums that are kept: test_running.py."""
    fresh = size(rng)
    columns, rest = fresh + int(rng.integers(0, 20)), int(rng.integers(0, 3))
    q, over = quant(rng), ops.Mean((1,), keep_dims=bool(rng.random() < 0.5))
    op = ops.Running(over, columns, fresh)
    out = quant(rng, q.scale[0])
    if rng.random() < 0.3:
        q, out = Quant(q.scale, (0,)), None  # before a first run lie zeros, not zero points
        op = ops.Running(ops.AvgPool((1, columns + rest)), columns, fresh)
    return one_input(rng, op, (1, fresh + rest, size(rng)), out, quant=q)


@case
def slice(rng: Rng) -> Case:
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    begin, stride, count, end, end_mask = [], [], [], [], 0
    for i, n in enumerate(shape):
        first, step = int(rng.integers(n)), choice(rng, (1, 1, 2, 3, -1, -2))
        most = (n - 1 - first) // step + 1 if step > 0 else first // -step + 1
        number = int(rng.integers(1, most + 1))
        # "to the very end" has no number when stepping down: the model says it with a mask
        end_mask |= int(number == most) << i
        end.append(0 if number == most else first + number * step)
        begin.append(first), stride.append(step), count.append(number)
    return one_input(
        rng, ops.Slice(tuple(begin), tuple(stride), tuple(count)), shape, None,
        code="STRIDED_SLICE",
        extra=(ints("begin", begin), ints("end", end), ints("strides", stride)),
        options=Options("StridedSlice", {"EndMask": end_mask}),
    )


@case
def concat(rng: Rng) -> Case:
    shape = [size(rng) for _ in range(int(rng.integers(1, 5)))]
    axis = int(rng.integers(-len(shape), len(shape)))
    q = quant(rng)
    parts = []
    for i in range(int(rng.integers(1, 5))):
        shape[axis] = size(rng)
        parts.append(tensor(f"x{i}", tuple(shape), q))
    op = ops.Concat(axis)
    y = tensor("y", op.infer(parts)[0], q)
    return Case(op, tuple(parts), (y,), drawn(rng, *parts), "CONCATENATION",
                Options("Concatenation", {"Axis": axis}))


@case
def pad(rng: Rng) -> Case:
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    widths = rng.integers(0, 4, (len(shape), 2)) * (rng.random((len(shape), 1)) < 0.7)
    op = ops.Pad(tuple(int(n) for n in widths[:, 0]), tuple(int(n) for n in widths[:, 1]))
    return one_input(rng, op, shape, None, code="PAD", extra=(ints("widths", widths),),
                     options=Options("Pad"))


@case
def space_to_batch(rng: Rng) -> Case:
    one_d = rng.random() < 0.5
    block = tuple(int(rng.integers(1, 4)) for _ in range(1 if one_d else 2))
    space, pads = [], []
    for b in block:
        n, before = size(rng), int(rng.integers(0, 4))
        pads.append((before, -(n + before) % b))
        space.append(n)
    shape = (int(choice(rng, (1, 2))), *space, size(rng))
    return one_input(
        rng, ops.SpaceToBatch(block, tuple(pads)), shape, None, code="SPACE_TO_BATCH_ND",
        extra=(ints("block", block), ints("pads", pads)), options=Options("SpaceToBatchND"),
    )


@case
def batch_to_space(rng: Rng) -> Case:
    one_d = rng.random() < 0.5
    block = tuple(int(rng.integers(1, 4)) for _ in range(1 if one_d else 2))
    space = tuple(size(rng) for _ in block)
    crops = tuple(
        (int(rng.integers(0, (n * b + 1) // 2)), int(rng.integers(0, (n * b) // 2 + 1)))
        for n, b in zip(space, block)
    )
    batch = int(choice(rng, (1, 2))) * int(np.prod(block))
    return one_input(
        rng, ops.BatchToSpace(block, crops), (batch, *space, size(rng)), None,
        code="BATCH_TO_SPACE_ND", extra=(ints("block", block), ints("crops", crops)),
        options=Options("BatchToSpaceND"),
    )
