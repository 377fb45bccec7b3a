"""Windows, reductions and softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Quant
from op_cases.parts import (
    ACTIVATIONS,
    FLAT,
    Case,
    Rng,
    axis,
    case,
    choice,
    flat_model,
    ints,
    one_input,
    quant,
    scale,
    size,
    zero_point,
)
from tflite_builder import Options


def _pool(rng: Rng, kind: type[ops.MaxPool] | type[ops.AvgPool], code: str) -> Case:
    one_d, same = rng.random() < 0.4, rng.random() < 0.5
    down, right = (axis(rng, same, (1, 2, 3, 4, 7), (1,)) for _ in range(2))
    down = FLAT if one_d else down
    activation = choice(rng, ACTIVATIONS)
    op = kind((down.kernel, right.kernel), (down.stride, right.stride),
              (*down.pads, *right.pads), activation)
    shape = (1, down.length, right.length, size(rng))
    fields = {
        "Padding": 0 if same else 1, "StrideH": down.stride, "StrideW": right.stride,
        "FilterHeight": down.kernel, "FilterWidth": right.kernel,
        "FusedActivationFunction": ACTIVATIONS.index(activation),
    }
    pooled = one_input(rng, op, (1, *shape[2:]) if one_d else shape, None, code=code,
                       options=Options("Pool2D", fields))
    return replace(pooled, model=flat_model(shape, pooled.ins[0], pooled.outs[0]))


@case
def max_pool(rng: Rng) -> Case:
    return _pool(rng, ops.MaxPool, "MAX_POOL_2D")


@case
def avg_pool(rng: Rng) -> Case:
    return _pool(rng, ops.AvgPool, "AVERAGE_POOL_2D")


@case
def mean(rng: Rng) -> Case:
    rank = int(choice(rng, (1, 2, 3, 4)))
    shape = tuple(size(rng) for _ in range(rank))
    count = int(rng.integers(1, rank + 1))
    axes = rng.permutation(rank)[:count]
    if rank == 4 and rng.random() < 0.5:
        axes = np.array(choice(rng, ((1, 2), (2, 1), (-3, -2))))
    axes = np.where(rng.random(len(axes)) < 0.3, axes - np.where(axes < 0, 0, rank), axes)
    op = ops.Mean(tuple(int(a) for a in axes), keep_dims=bool(rng.random() < 0.5))
    q = quant(rng)
    out = None if rng.random() < 0.3 else quant(rng, q.scale[0])
    return one_input(rng, op, shape, out, quant=q, code="MEAN", extra=(ints("axes", op.axes),),
                     options=Options("Reducer", {"KeepDims": op.keep_dims}))


@case
def softmax(rng: Rng) -> Case:
    op = ops.Softmax(beta=1.0 if rng.random() < 0.7 else scale(rng, -1, 0.5))
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    return one_input(
        rng, op, shape, Quant((1 / 256,), (-128,)), code="SOFTMAX",
        quant=Quant((scale(rng, -5, 1),), (zero_point(rng),)),
        options=Options("Softmax", {"Beta": op.beta}),
    )
