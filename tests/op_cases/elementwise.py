"""Elementwise operators; the unary ones on all 256 values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Quant
from op_cases.parts import (
    ACTIVATIONS,
    Case,
    Rng,
    case,
    choice,
    drawn,
    one_input,
    quant,
    size,
    tensor,
    values,
    zero_point,
)
from tflite_builder import Options


def _binary(rng: Rng, kind: Any, code: str, option: str) -> Case:
    activation = choice(rng, ACTIVATIONS)
    op = kind(activation=activation)
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    shapes = [shape, shape]
    if rng.random() < 0.6:  # broadcast one operand, or both
        for i in range(2):
            cut = tuple(1 if rng.random() < 0.4 else n for n in shape)
            shapes[i] = cut[int(rng.integers(len(cut))) :] if rng.random() < 0.3 else cut
    a = tensor("a", shapes[0], quant(rng))
    b = tensor("b", shapes[1], quant(rng, a.scale))
    like = a.scale * b.scale * 100 if kind is ops.Mul else max(a.scale, b.scale)
    y = tensor("y", op.infer((a, b))[0], quant(rng, like))
    fields = {"FusedActivationFunction": ACTIVATIONS.index(activation)}
    return Case(op, (a, b), (y,), drawn(rng, a, b), code, Options(option, fields))


@case
def add(rng: Rng) -> Case:
    return _binary(rng, ops.Add, "ADD", "Add")


@case
def sub(rng: Rng) -> Case:
    return _binary(rng, ops.Sub, "SUB", "Sub")


@case
def mul(rng: Rng) -> Case:
    return _binary(rng, ops.Mul, "MUL", "Mul")


def _table(rng: Rng, op: ops.Op, q: Quant, out: Quant, **more: Any) -> Case:
    """All 256 values at once."""
    row = one_input(rng, op, (1, 256), out, quant=q, **more)
    return replace(row, args=(np.arange(-128, 128, dtype=np.int8).reshape(1, 256),))


@case
def logistic(rng: Rng) -> Case:
    return _table(rng, ops.Logistic(), quant(rng), Quant((1 / 256,), (-128,)), code="LOGISTIC")


@case
def tanh(rng: Rng) -> Case:
    out = Quant((1 / 128,), (0,)) if rng.random() < 0.7 else quant(rng)
    return _table(rng, ops.Tanh(), quant(rng), out, code="TANH")


@case
def relu(rng: Rng) -> Case:
    activation = choice(rng, ACTIVATIONS[1:])
    code = {"RELU": "RELU", "RELU6": "RELU6", "RELU_N1_TO_1": "RELU_N1_TO_1"}[activation.name]
    q = quant(rng)
    out = q if rng.random() < 0.3 else quant(rng, q.scale[0])
    return _table(rng, ops.Relu(activation), q, out, code=code)


@case
def leaky_relu(rng: Rng) -> Case:
    alpha = float(np.float32(choice(rng, (0.01, 0.1, 0.3, 1.0, -0.2, rng.uniform(0, 2)))))
    q = quant(rng)
    return _table(rng, ops.LeakyRelu(alpha), q, quant(rng, q.scale[0]), code="LEAKY_RELU",
                  options=Options("LeakyRelu", {"Alpha": alpha}))


@case
def hard_swish(rng: Rng) -> Case:
    q = quant(rng)
    low = 2.0 ** rng.uniform(-5, 3)
    out = Quant((float(np.float32(q.scale[0] * low)),), (zero_point(rng),))
    return _table(rng, ops.HardSwish(), q, out, code="HARD_SWISH", options=Options("HardSwish"),
                  near=1.0 + 0.01 / low)


@case
def requantize(rng: Rng) -> Case:
    q = quant(rng)
    out = q if rng.random() < 0.1 else quant(rng, q.scale[0])
    return _table(rng, ops.Requantize(), q, out, code="QUANTIZE", options=Options("Quantize"))


@case
def lut(rng: Rng) -> Case:
    entries = rng.integers(-128, 128, 256).astype(np.int8).tobytes()
    return _table(rng, ops.Lut(entries), quant(rng), quant(rng))


@case
def quantize(rng: Rng) -> Case:
    q = quant(rng)
    x = tensor("x", (size(rng), size(rng)), None, "float32")
    y = tensor("y", x.shape, q)
    stored = rng.uniform(-300, 300, x.shape)
    ties = rng.random(x.shape) < 0.3
    stored = np.where(ties, np.floor(stored) + 0.5, stored)
    data = (stored * q.scale[0]).astype(np.float32)
    return Case(ops.Quantize(), (x,), (y,), (data,), "QUANTIZE", Options("Quantize"))


@case
def dequantize(rng: Rng) -> Case:
    shape = (size(rng), size(rng))
    y = tensor("y", shape, None, "float32")
    op, options = ops.Dequantize(), Options("Dequantize")
    if rng.random() < 0.3:
        half = rng.normal(0, 100, shape).astype(np.float16)
        return Case(op, (tensor("x", shape, None, "float16"),), (y,), (half,), "DEQUANTIZE",
                    options)
    x = tensor("x", shape, quant(rng))
    return Case(op, (x,), (y,), (values(rng, shape),), "DEQUANTIZE", options)
