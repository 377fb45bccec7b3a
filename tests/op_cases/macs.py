"""Sums of products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Quant, Shape, Tensor
from op_cases.parts import (
    ACTIVATIONS,
    FLAT,
    Case,
    Rng,
    axis,
    case,
    choice,
    constant,
    drawn,
    flat_model,
    quant,
    scale,
    size,
    tensor,
)
from tflite_builder import Options


def weights(rng: Rng, shape: Shape, per_channel: bool) -> Tensor:
    data = rng.integers(-128, 128, shape).astype(np.int8)
    data[rng.random(shape) < choice(rng, (0.0, 0.5, 0.9))] = 0
    if not per_channel:
        return constant("w", data, Quant((scale(rng),), (0,)))
    scales = np.float32(10.0 ** rng.uniform(-3, -1, shape[0]))
    scales[1:][rng.random(shape[0] - 1) < 0.05] = np.float32(1e-15)  # underflows to multiplier 0
    return constant("w", data, Quant(tuple(map(float, scales)), (0,) * shape[0], 0))


def bias(rng: Rng, x: Tensor, w: Tensor) -> Tensor:
    assert w.quant is not None
    data = rng.integers(-20000, 20000, w.shape[0]).astype(np.int32)
    scales = tuple(float(np.float32(x.scale * s)) for s in w.quant.scale)
    q = Quant(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
    return constant("b", data, q)


def mac_output(rng: Rng, op: ops.Op, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """An output whose scale fits what the sums reach."""
    assert w.quant is not None
    terms = int(np.prod(w.shape[1:]))
    reach = x.scale * max(w.quant.scale) * (60 * 60 * terms**0.5 + 10000)
    return tensor("y", op.infer((x, w, b))[0], quant(rng, reach / 100))


@case
def conv(rng: Rng) -> Case:
    one_d, same, depthwise = rng.random() < 0.4, rng.random() < 0.5, rng.random() < 0.4
    down, right = (axis(rng, same, (1, 2, 3, 5), (1, 1, 2, 3)) for _ in range(2))
    down = FLAT if one_d else down
    groups = choice(rng, (1, 2, 3, 4, 5, 9)) if depthwise else choice(rng, (1, 1, 1, 2, 3))
    per_group = 1 if depthwise else choice(rng, (1, 2, 3, 4, 5))
    rows = groups * choice(rng, (1, 2, 3, 4))
    activation = choice(rng, ACTIVATIONS)
    op = ops.Conv(
        stride=(down.stride, right.stride), dilation=(down.dilation, right.dilation),
        pad=(*down.pads, *right.pads), groups=groups, activation=activation,
    )
    batch = choice(rng, (1, 1, 1, 2))
    shape = (batch, down.length, right.length, groups * per_group)
    x = tensor("x", (batch, *shape[2:]) if one_d else shape, quant(rng))
    w = weights(rng, (rows, down.kernel, right.kernel, per_group), rng.random() < 0.7)
    b = bias(rng, x, w)
    y = mac_output(rng, op, x, w, b)
    model = flat_model(shape, x, y)
    fields = {
        "Padding": 0 if same else 1, "StrideH": down.stride, "StrideW": right.stride,
        "DilationHFactor": down.dilation, "DilationWFactor": right.dilation,
        "FusedActivationFunction": ACTIVATIONS.index(activation),
    }
    code, options = "CONV_2D", Options("Conv2D", fields)
    if depthwise:
        code = "DEPTHWISE_CONV_2D"
        options = Options("DepthwiseConv2D", {**fields, "DepthMultiplier": rows // groups})
        assert w.data is not None
        assert w.quant is not None
        turned = np.ascontiguousarray(w.data.transpose(3, 1, 2, 0))
        model["w"] = constant("w", turned, replace(w.quant, axis=3 if w.quant.axis == 0 else None))
    return Case(op, (x, w, b), (y,), drawn(rng, x, w, b), code, options, model)


@case
def fully_connected(rng: Rng) -> Case:
    depth, rows = size(rng), size(rng)
    keep = rng.random() < 0.4
    activation = choice(rng, ACTIVATIONS)
    op = ops.FullyConnected(activation=activation, keep_dims=keep)
    outer = (size(rng),) if not keep else tuple(int(choice(rng, (1, 2, 3))) for _ in range(2))
    x = tensor("x", (*outer, depth), quant(rng))
    # Per-channel weights with keep_dims are a fault of the oracle: see test_ops_oracle.
    w = weights(rng, (rows, depth), rng.random() < 0.5 and not keep)
    b = bias(rng, x, w)
    y = mac_output(rng, op, x, w, b)
    fields = {"FusedActivationFunction": ACTIVATIONS.index(activation), "KeepNumDims": keep}
    return Case(op, (x, w, b), (y,), drawn(rng, x, w, b), "FULLY_CONNECTED",
                Options("FullyConnected", fields))
