"""Random small graphs of everything the passes look for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgesparse.graph.ir import Graph, Quant, Tensor
from edgesparse.ops import (
    Add,
    AvgPool,
    BatchToSpace,
    Concat,
    Dequantize,
    HardSwish,
    LeakyRelu,
    Logistic,
    MaxPool,
    Mean,
    Mul,
    Pad,
    Quantize,
    Relu,
    Requantize,
    Reshape,
    Slice,
    Softmax,
    SpaceToBatch,
    Sub,
    Tanh,
    Transpose,
)
from edgesparse.ops.activation import Activation
from graph_builder import GraphBuilder


def random_graph(rng: np.random.Generator, real: bool = False) -> Graph:
    """A few random blocks behind each other on one to eight channels; int8, or float."""
    b = GraphBuilder(rng, real)
    blocks = REAL_BLOCKS if real else BLOCKS
    rank3 = bool(rng.integers(2))
    channels = int(rng.integers(1, 9))
    spatial = (int(rng.integers(6, 13)),) if rank3 else tuple(map(int, rng.choice([1, 5, 6], 2)))
    x = b.input(1, *spatial, channels)
    if real_io := not real and rng.random() < 0.2:
        b.tensors[x] = Tensor(x, b.shape(x), "float32")
        x = b.apply(Quantize(), x, dtype="int8", quant=b.quant())
    seen = [x]
    for _ in range(int(rng.integers(2, 7))):
        x = blocks[int(rng.integers(len(blocks)))](b, x, seen)
        seen.append(x)
    outputs = [x]
    if rng.random() < 0.5:
        x = b.apply(Mean(tuple(range(1, len(b.shape(x)) - 1)) or (0,)), x, quant=b.quant())
        flat = b.apply(Reshape((1, -1)), x)
        x = b.fully_connected(flat, int(rng.integers(1, 6)), dead=0.3)
        softmax = None if real else Quant((1 / 256,), (-128,))
        outputs = [b.apply(Softmax(), x, quant=softmax)]
    elif rng.random() < 0.3 and seen[-2] not in b.inputs:
        outputs = list(dict.fromkeys([x, seen[-2]]))
    if real_io:
        outputs = [b.apply(Dequantize(), y, dtype="float32", quant=None) for y in outputs]
    return b.graph(*outputs)


def conv_block(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """Any geometry that fits, some rows and columns dead, sometimes grouped or depthwise."""
    rng, shape = b.rng, b.shape(x)
    rank3 = len(shape) == 3
    size = (1, shape[1]) if rank3 else shape[1:3]
    kernel = tuple(1 if n == 1 and rng.random() < 0.7 else int(rng.integers(1, 4)) for n in size)
    if rank3:
        kernel = (1, kernel[1])
    dilation = tuple(int(rng.integers(1, 3)) for _ in size)
    pad = []
    for n, k, d in zip(size, kernel, dilation):
        span = (k - 1) * d + 1
        low, high = (int(v) for v in rng.integers(0, span, 2))
        if n + low + high < span:
            low, high = span - 1, 0
        pad += [low, high]
    channels = shape[-1]
    groups, rows = 1, int(rng.integers(1, 9))
    if rng.random() < 0.4:
        groups = channels if rng.random() < 0.7 or channels % 2 else 2
        rows = groups * int(rng.integers(1, 3))
    return b.conv(
        x, rows, kernel, dead=float(rng.choice([0.0, 0.4])), groups=groups,
        stride=tuple(int(rng.integers(1, 3)) for _ in size), dilation=dilation, pad=tuple(pad),
        activation=rng.choice(list(Activation)),
    )


def constant_channels(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """A 1x1 Conv with dead rows, whose constants a second Conv sees, perhaps past a border."""
    rows = int(b.rng.integers(2, 9))
    y = b.conv(x, rows, dead=0.6, activation=b.rng.choice(list(Activation)))
    return conv_block(b, y, seen)


def space_to_batch(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """Conv between SpaceToBatch and BatchToSpace, as TensorFlow writes a dilated one."""
    rng, shape = b.rng, b.shape(x)
    blocks, pads, crops, kernel = [], [], [], []
    for n in shape[1:-1]:
        block, k = int(rng.integers(1, 4)), 1 if n == 1 else int(rng.integers(1, 4))
        low = int(rng.integers(0, k * block))
        high = int(rng.integers(0, k * block))
        high += -(n + low + high) % block
        while (n + low + high) // block < k:
            high += block
        left = n + low + high - (k - 1) * block  # positions that come out
        cut = int(rng.integers(0, min(left, 4)))
        crops.append((cut, int(rng.integers(0, min(left - cut, 4)))))
        blocks, pads, kernel = [*blocks, block], [*pads, (low, high)], [*kernel, k]
    y = b.apply(SpaceToBatch(tuple(blocks), tuple(pads)), x)
    wide = len(shape) == 3 and rng.random() < 0.5
    if wide:
        batch, length, channels = b.shape(y)
        y = b.apply(Reshape((batch, 1, length, channels)), y)
    y = b.conv(y, int(rng.integers(1, 6)), tuple([1] * (2 - len(kernel)) + kernel))
    if wide:
        batch, _, length, channels = b.shape(y)
        y = b.apply(Reshape((batch, length, channels)), y)
    return b.apply(BatchToSpace(tuple(blocks), tuple(crops)), y)


def unary_chain(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    rng = b.rng
    choices = [
        Relu(rng.choice([a for a in Activation if a is not Activation.NONE])),
        LeakyRelu(0.1), Requantize(), HardSwish(), Logistic(), Tanh(),
    ]
    for _ in range(int(rng.integers(1, 4))):
        op = choices[int(rng.integers(len(choices)))]
        quant = b.quant() if rng.random() < 0.5 else b.tensors[x].quant
        if isinstance(op, Logistic):
            quant = Quant((1 / 256,), (-128,))
        elif isinstance(op, Tanh):
            quant = Quant((1 / 128,), (0,))
        x = b.apply(op, x, quant=quant)
    return x


def activation(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """A Conv or sum, and its activation as an operator of its own."""
    y = residual(b, x, seen) if b.rng.integers(2) else conv_block(b, x, seen)
    return b.apply(Relu(b.rng.choice(list(Activation))), y)


def computed_constant(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """A constant that an operator computes out of another."""
    c = b.apply(Relu(), b.values(b.shape(x)[-1]))
    return b.apply(Add(), x, c, quant=b.quant())


def gated(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """x * sigmoid(x), x * constant, or through float and back."""
    kind = int(b.rng.integers(3))
    if kind == 0:
        gate = b.apply(Logistic(), x, quant=Quant((1 / 256,), (-128,)))
        return b.apply(Mul(), x, gate, quant=b.quant())
    if kind == 1:
        op = (Mul, Add, Sub)[int(b.rng.integers(3))]()
        return b.apply(op, x, b.values(1), quant=b.quant())
    real = b.apply(Dequantize(), x, dtype="float32", quant=None)
    real = b.apply(Reshape(b.shape(x)), real)
    return b.apply(Quantize(), real, like=x, quant=b.quant())


def residual(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    other = conv_same(b, x)
    op = (Add, Sub, Mul)[int(b.rng.integers(3))](activation=b.rng.choice(list(Activation)))
    return b.apply(op, *((x, other) if b.rng.integers(2) else (other, x)), quant=b.quant())


def twins(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """The same operator twice."""
    pair = [b.apply(LeakyRelu(0.25), x) for _ in range(2)]
    return b.apply(Add(), *pair, quant=b.quant())


def conv_same(b: GraphBuilder, x: str) -> str:
    """As many channels and positions as x has; some of them dead."""
    k = (1, 3)
    return b.conv(x, b.shape(x)[-1], k, dead=0.5, pad=(0, 0, 1, 1))


def branches(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """Two Convs of x side by side, sometimes a constant with them."""
    first = conv_same(b, x)
    second = b.conv(x, int(b.rng.integers(1, 5)), dead=0.5, quant=b.tensors[first].quant)
    parts = [first, second]
    if b.rng.random() < 0.3:
        shape = (*b.shape(x)[:-1], 2)
        data = b.rng.integers(-128, 128, shape).astype(np.int8)
        parts.append(b.constant(data, b.tensors[first].quant))
    return b.apply(Concat(len(b.shape(x)) - 1), *parts)


def part(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """Some of the channels, or padded ones."""
    shape = b.shape(x)
    rank = len(shape)
    if b.rng.random() < 0.5:
        first = int(b.rng.integers(shape[-1]))
        size = (*shape[:-1], int(b.rng.integers(1, shape[-1] - first + 1)))
        return b.apply(Slice((*[0] * (rank - 1), first), (1,) * rank, size), x)
    before, after = (tuple(map(int, b.rng.integers(0, 2, rank - 1))) for _ in range(2))
    return b.apply(Pad((0, *before), (0, *after)), x)


def padded_conv(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    rank = len(b.shape(x))
    low = (0, *map(int, b.rng.integers(0, 3, rank - 2)), 0)
    high = (0, *map(int, b.rng.integers(0, 3, rank - 2)), 0)
    y = b.apply(Pad(low, high), x)
    shape = b.shape(y)
    kernel = (1 if rank == 3 else min(3, shape[1]), min(3, shape[-2]))
    if b.rng.random() < 0.3:
        return b.apply(MaxPool(kernel, (1, 1)), y)
    return b.conv(y, int(b.rng.integers(1, 5)), kernel)


def pool(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    shape = b.shape(x)
    size = (1, shape[1]) if len(shape) == 3 else shape[1:3]
    kernel = tuple(int(b.rng.integers(1, min(n, 3) + 1)) for n in size)
    pad = [int(v) for k in kernel for v in b.rng.integers(0, k, 2)]
    op = (MaxPool, AvgPool)[int(b.rng.integers(2))]
    stride = tuple(int(b.rng.integers(1, 3)) for _ in size)
    return b.apply(op(kernel, stride, tuple(pad), b.rng.choice(list(Activation))), x)


def reshaped(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """A dimension of 1 more or less, or channels merged, or a Transpose."""
    shape = b.shape(x)
    if len(shape) == 3:
        wide = (1, 1, *shape[1:]) if b.rng.integers(2) else (*shape[:2], 1, shape[2])
        return b.apply(Reshape(wide), x)
    if 1 in shape[1:3]:
        return b.apply(Reshape((1, shape[1] * shape[2], shape[3])), x)
    if b.rng.random() < 0.5:
        return b.apply(Transpose((0, 2, 1, 3)), x)
    return b.apply(Reshape((1, shape[1], shape[2] * shape[3])), x)


def batch_norm(b: GraphBuilder, x: str, seen: Sequence[str]) -> str:
    """Conv, Mul, Add, each with or without the others, before or behind an activation."""
    rng = b.rng
    if rng.random() < 0.7:
        x = conv_block(b, x, seen)
    if rng.random() < 0.7:
        x = b.apply(Mul(), x, b.values(int(rng.choice([1, b.shape(x)[-1]]))))
    if rng.random() < 0.7:
        op = (Add, Sub)[int(rng.integers(2))](activation=rng.choice(list(Activation)))
        x = b.apply(op, x, b.values(b.shape(x)[-1]))
    if rng.random() < 0.2:
        x = b.apply(Mean((1,), keep_dims=True), x)
    return x


BLOCKS = (
    conv_block, conv_block, constant_channels, constant_channels, space_to_batch, unary_chain,
    gated, residual, branches, part, padded_conv, pool, reshaped, reshaped, activation, twins,
    computed_constant,
)
REAL_BLOCKS = (
    conv_block, batch_norm, batch_norm, space_to_batch, residual, part, padded_conv, pool, reshaped,
    activation,
)
