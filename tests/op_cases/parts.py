"""What the cases of all operators are made of."""

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
    order    names of the model operator's inputs; tensors it does not name are not in the model
    state    of `extra`, the variable tensors
    inside   tensors without a value that the model's operator lists as intermediates
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
    state: tuple[str, ...] = ()
    inside: tuple[Tensor, ...] = ()
    near: float = 1.0

    def int8(self) -> Array:
        return self.op.int8_ref(self.args, self.ins, self.outs)[0]

    def tflite(self) -> bytes:
        """The case as a model with one operator; constants of `ins` are constants there."""
        order = self.order or tuple(t.name for t in (*self.ins, *self.extra))
        tensors = [self.model.get(t.name, t) for t in (*self.ins, *self.extra) if t.name in order]
        call = Call(self.code, order, tuple(t.name for t in self.outs), self.options,
                    intermediates=tuple(t.name for t in self.inside))
        variable = [t.name for t in self.ins if t.data is None]
        return build([*tensors, *self.outs, *self.inside], [call], variable,
                     [t.name for t in self.outs], variables=self.state)

    def feeds(self) -> dict[str, Array]:
        """The values of the model's inputs by name, in the shapes the model has."""
        return {
            t.name: arg.reshape(self.model.get(t.name, t).shape)
            for t, arg in zip(self.ins, self.args)
            if t.data is None
        }


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


def drawn(rng: Rng, *tensors: Tensor) -> tuple[Array, ...]:
    """Values of an operator's inputs: the data of constants, the rest random."""
    return tuple(
        t.data if t.data is not None else values(rng, t.shape, t.quant) for t in tensors)


def constant(name: str, data: Array, q: Quant | None = None) -> Tensor:
    return Tensor(name, data.shape, data.dtype.name, q, data)


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.asarray(data, np.int32))


def one_input(
    rng: Rng, op: ops.Op, shape: Shape, out: Quant | None, **more: Any
) -> Case:
    """A case of an operator with one int8 input; `out` None: the quantization of the input."""
    q = more.pop("quant", None) or quant(rng)
    x = tensor("x", shape, q)
    y = tensor("y", op.infer((x,))[0], out or q)
    return Case(op, (x,), (y,), drawn(rng, x), **more)


@dataclass(frozen=True)
class Axis:
    """A window along one dimension, padded as TFLite does for SAME (or not at all)."""

    length: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, int] = (0, 0)


FLAT = Axis()


def axis(rng: Rng, same: bool, kernels: tuple[int, ...], dilations: tuple[int, ...]) -> Axis:
    kernel, stride = choice(rng, kernels), choice(rng, (1, 1, 2, 3))
    dilation = choice(rng, dilations)
    span = (kernel - 1) * dilation + 1
    length = size(rng)
    if not same:
        return Axis(max(length, span), kernel, stride, dilation)
    total = max((-(-length // stride) - 1) * stride + span - length, 0)
    return Axis(length, kernel, stride, dilation, (total // 2, total - total // 2))


def flat_model(shape: Shape, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """What a [N, T, C] operator looks like in a model: [N, 1, T, C] everywhere."""
    if len(x.shape) == 4:
        return {}
    return {"x": replace(x, shape=shape), "y": replace(y, shape=(y.shape[0], 1, *y.shape[1:]))}
