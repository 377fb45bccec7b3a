"""Random cases of every operator: attributes, tensors, inputs, and the same as a .tflite model.

CASES[operator name](rng) draws one. A new operator needs an entry: tests/test_ops.py says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import edgesparse.ops as ops
from edgesparse.graph.ir import Array, Quant, Shape, Tensor
from edgesparse.ops import Activation
from tflite_builder import Call, Options, build

Rng = np.random.Generator

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17)
"""Edges of the tiles kernels work in, and a prime."""
ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU_N1_TO_1, Activation.RELU6)
"""In the order of TFLite's ActivationFunctionType."""


@dataclass(frozen=True)
class Case:
    """One operator with its tensors and input values.

    code     the TFLite operator, "" when there is none
    model    tensors that look different in the model file, by name
    extra    constants the model's operator takes that ours holds as attributes
    order    names of the model operator's inputs
    near     largest sane distance between int8_ref and float_ref, in output steps
    """

    op: ops.Op
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    args: tuple[Array, ...]
    code: str = ""
    options: Options | None = None
    model: Mapping[str, Tensor] = field(default_factory=dict)
    extra: tuple[Tensor, ...] = ()
    order: tuple[str, ...] = ()
    near: float = 1.0

    def int8(self) -> Array:
        return self.op.int8_ref(self.args, self.ins, self.outs)[0]

    def tflite(self) -> bytes:
        """The case as a model with one operator; constants of `ins` are constants there."""
        tensors = [self.model.get(t.name, t) for t in (*self.ins, *self.extra, *self.outs)]
        order = self.order or tuple(t.name for t in (*self.ins, *self.extra))
        call = Call(self.code, order, tuple(t.name for t in self.outs), self.options)
        variable = [t.name for t in self.ins if t.data is None]
        return build(tensors, [call], variable, [t.name for t in self.outs])

    def feeds(self) -> list[Array]:
        """The values of the model's inputs, in the shapes the model has."""
        return [
            arg.reshape(self.model.get(t.name, t).shape)
            for t, arg in zip(self.ins, self.args)
            if t.data is None
        ]


CASES: dict[str, Callable[[Rng], Case]] = {}


def case(function: Callable[[Rng], Case]) -> Callable[[Rng], Case]:
    """Decorator: function max_pool draws cases of MaxPool."""
    CASES["".join(part.capitalize() for part in function.__name__.split("_"))] = function
    return function


# ---- parts --------------------------------------------------------------------------------------


def choice(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def size(rng: Rng) -> int:
    return int(choice(rng, SIZES))


def scale(rng: Rng, low: float = -3, high: float = 0) -> float:
    return float(np.float32(10.0 ** rng.uniform(low, high)))


def zero_point(rng: Rng) -> int:
    return int(choice(rng, (-128, 127, 0, int(rng.integers(-128, 128)))))


def quant(rng: Rng, like: float | None = None) -> Quant:
    """A random quantization; its scale within a factor of 4 of `like` (8 per cent: of 2**12)."""
    if like is None:
        return Quant((scale(rng),), (zero_point(rng),))
    width = 12 if rng.random() < 0.08 else 2
    value = float(np.float32(like * 2.0 ** rng.uniform(-width, width)))
    return Quant((value,), (zero_point(rng),))


def tensor(name: str, shape: Shape, q: Quant | None, dtype: Any = "int8") -> Tensor:
    return Tensor(name, tuple(int(n) for n in shape), dtype, q)


def values(rng: Rng, shape: Shape, q: Quant | None = None) -> Array:
    """int8: uniform, constant at an end, or close to the zero point."""
    kind = rng.random()
    if kind < 0.1:
        return np.full(shape, choice(rng, (-128, 127)), np.int8)
    if kind < 0.3 and q is not None:
        near = q.zero_point[0] + rng.integers(-3, 4, shape)
        return np.clip(near, -128, 127).astype(np.int8)
    return rng.integers(-128, 128, shape).astype(np.int8)


def constant(name: str, data: Array, q: Quant | None = None) -> Tensor:
    return Tensor(name, data.shape, data.dtype.name, q, data)  # type: ignore[arg-type]


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.asarray(data, np.int32))


def one_input(
    rng: Rng, op: ops.Op, shape: Shape, out: Quant | None, **more: Any
) -> Case:
    """A case of an operator with one int8 input; `out` None: the quantization of the input."""
    q = more.pop("quant", None) or quant(rng)
    x = tensor("x", shape, q)
    y = tensor("y", op.infer((x,))[0], out or q)
    return Case(op, (x,), (y,), (values(rng, x.shape, q),), **more)


def padding(rng: Rng, length: int, span: int, stride: int) -> tuple[bool, int, int]:
    """(SAME?, before, after) as TFLite counts it; SAME where VALID would leave nothing."""
    if span <= length and rng.random() < 0.5:
        return False, 0, 0
    total = max((-(-length // stride) - 1) * stride + span - length, 0)
    return True, total // 2, total - total // 2


# ---- sums of products ---------------------------------------------------------------------------


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
    one_d, depthwise = rng.random() < 0.4, rng.random() < 0.4
    groups = 1 if depthwise or rng.random() < 0.7 else int(choice(rng, (2, 3)))
    per_group = 1 if depthwise else int(choice(rng, (1, 2, 3, 4, 5)))
    if depthwise:
        groups = int(choice(rng, (1, 2, 3, 4, 5, 9)))
    rows = groups * int(choice(rng, (1, 2, 3, 4)))
    kernel, stride, dilation, pads, lengths = [], [], [], [], []
    same = None
    for axis in range(2):
        flat = one_d and axis == 0
        k = 1 if flat else int(choice(rng, (1, 2, 3, 5)))
        s = 1 if flat else int(choice(rng, (1, 1, 2, 3)))
        d = 1 if flat or s > 1 else int(choice(rng, (1, 1, 2, 3)))
        length = 1 if flat else size(rng)
        span = (k - 1) * d + 1
        if same is None and not flat:
            same = rng.random() < 0.5
        length = length if same else max(length, span)
        total = max((-(-length // s) - 1) * s + span - length, 0) if same else 0
        kernel.append(k), stride.append(s), dilation.append(d), lengths.append(length)
        pads += [total // 2, total - total // 2]
    if depthwise:  # TFLite's depthwise kernel takes one stride
        stride = [1, 1] if one_d else [stride[0]] * 2
        lengths = lengths if one_d else [n if same else n for n in lengths]
        pads = []
        for axis in range(2):
            span = (kernel[axis] - 1) * dilation[axis] + 1
            n, s = lengths[axis], stride[axis]
            total = max((-(-n // s) - 1) * s + span - n, 0) if same else 0
            pads += [total // 2, total - total // 2]
    activation = choice(rng, ACTIVATIONS)
    op = ops.Conv(
        stride=tuple(stride), dilation=tuple(dilation), pad=tuple(pads), groups=groups,
        activation=activation,
    )
    shape = (1, *lengths, groups * per_group)
    x = tensor("x", (1, lengths[1], shape[3]) if one_d else shape, quant(rng))
    w = weights(rng, (rows, *kernel, per_group), rng.random() < 0.7)
    b = bias(rng, x, w)
    y = mac_output(rng, op, x, w, b)
    model = {"x": replace(x, shape=shape)}
    if one_d:
        model["y"] = replace(y, shape=(1, 1, *y.shape[1:]))
    fields = {
        "Padding": 0 if same else 1, "StrideH": stride[0], "StrideW": stride[1],
        "DilationHFactor": dilation[0], "DilationWFactor": dilation[1],
        "FusedActivationFunction": ACTIVATIONS.index(activation),
    }
    code, options = "CONV_2D", Options("Conv2D", fields)
    if depthwise:
        code = "DEPTHWISE_CONV_2D"
        options = Options("DepthwiseConv2D", {**fields, "DepthMultiplier": rows // groups})
        assert w.data is not None and w.quant is not None
        turned = np.ascontiguousarray(w.data.transpose(3, 1, 2, 0))
        model["w"] = constant("w", turned, replace(w.quant, axis=3 if w.quant.axis == 0 else None))
    assert w.data is not None and b.data is not None
    return Case(op, (x, w, b), (y,), (values(rng, x.shape, x.quant), w.data, b.data), code,
                options, model)


@case
def fully_connected(rng: Rng) -> Case:
    depth, rows = size(rng), size(rng)
    keep = rng.random() < 0.4
    activation = choice(rng, ACTIVATIONS)
    op = ops.FullyConnected(activation=activation, keep_dims=keep)
    outer = (size(rng),) if not keep else tuple(int(choice(rng, (1, 2, 3))) for _ in range(2))
    x = tensor("x", (*outer, depth), quant(rng))
    # Per-channel weights with three dimensions are a fault of the oracle: see test_ops_oracle.
    w = weights(rng, (rows, depth), rng.random() < 0.5 and not keep)
    b = bias(rng, x, w)
    y = mac_output(rng, op, x, w, b)
    fields = {"FusedActivationFunction": ACTIVATIONS.index(activation), "KeepNumDims": keep}
    assert w.data is not None and b.data is not None
    return Case(op, (x, w, b), (y,), (values(rng, x.shape, x.quant), w.data, b.data),
                "FULLY_CONNECTED", Options("FullyConnected", fields))


# ---- windows and reductions ---------------------------------------------------------------------


def _pool(rng: Rng, kind: type[ops.MaxPool] | type[ops.AvgPool], code: str) -> Case:
    one_d, same = rng.random() < 0.4, rng.random() < 0.5
    kernel, stride, pads, lengths = [], [], [], []
    for axis in range(2):
        flat = one_d and axis == 0
        k = 1 if flat else int(choice(rng, (1, 2, 3, 4, 7)))
        s = 1 if flat else int(choice(rng, (1, 2, 3)))
        n = 1 if flat else size(rng)
        n = n if same else max(n, k)
        total = max((-(-n // s) - 1) * s + k - n, 0) if same else 0
        kernel.append(k), stride.append(s), lengths.append(n)
        pads += [total // 2, total - total // 2]
    activation = choice(rng, ACTIVATIONS)
    op = kind(tuple(kernel), tuple(stride), tuple(pads), activation)
    shape = (1, *lengths, size(rng))
    fields = {
        "Padding": 0 if same else 1, "StrideH": stride[0], "StrideW": stride[1],
        "FilterHeight": kernel[0], "FilterWidth": kernel[1],
        "FusedActivationFunction": ACTIVATIONS.index(activation),
    }
    drawn = one_input(rng, op, (1, *shape[2:]) if one_d else shape, None, code=code,
                      options=Options("Pool2D", fields))
    if not one_d:
        return drawn
    x, y = drawn.ins[0], drawn.outs[0]
    flat4 = {"x": replace(x, shape=shape), "y": replace(y, shape=(1, 1, *y.shape[1:]))}
    return replace(drawn, model=flat4)


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
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))[:3] + (size(rng),)
    return one_input(
        rng, op, shape, Quant((1 / 256,), (-128,)), code="SOFTMAX",
        quant=Quant((scale(rng, -5, 1),), (zero_point(rng),)),
        options=Options("Softmax", {"Beta": op.beta}),
    )


# ---- elementwise --------------------------------------------------------------------------------


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
    args = (values(rng, a.shape, a.quant), values(rng, b.shape, b.quant))
    fields = {"FusedActivationFunction": ACTIVATIONS.index(activation)}
    return Case(op, (a, b), (y,), args, code, Options(option, fields))


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
    drawn = one_input(rng, op, (1, 256), out, quant=q, **more)
    return replace(drawn, args=(np.arange(-128, 128, dtype=np.int8).reshape(1, 256),))


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


# ---- layout -------------------------------------------------------------------------------------


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
def slice(rng: Rng) -> Case:
    shape = tuple(size(rng) for _ in range(int(rng.integers(1, 5))))
    begin, stride, count, end, end_mask = [], [], [], [], 0
    for i, n in enumerate(shape):
        first = int(rng.integers(n))
        step = int(choice(rng, (1, 1, 2, 3, -1, -2)))
        most = (n - 1 - first) // step + 1 if step > 0 else first // -step + 1
        number = int(rng.integers(1, most + 1))
        last = first + number * step
        end_mask |= int(last < 0) << i
        begin.append(first), stride.append(step), count.append(number), end.append(max(last, 0))
    op = ops.Slice(tuple(begin), tuple(stride), tuple(count))
    ends = [e if not (end_mask >> i) & 1 else 0 for i, e in enumerate(end)]
    for i, n in enumerate(shape):
        if (end_mask >> i) & 1:  # a masked end runs to the first element
            most = begin[i] // -stride[i] + 1
            count[i] = most
    op = replace(op, size=tuple(count))
    return one_input(
        rng, op, shape, None, code="STRIDED_SLICE",
        extra=(ints("begin", begin), ints("end", ends), ints("strides", stride)),
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
    return Case(op, tuple(parts), (y,), tuple(values(rng, p.shape) for p in parts),
                "CONCATENATION", Options("Concatenation", {"Axis": axis}))


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
