"""Elementwise functions of one int8 tensor: each is a table of 256 entries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.activation import Activation, clamp_float
from edgesparse.ops.base import Op, register

STORED = np.arange(-128, 128, dtype=np.int64)
"""Every int8 value, in the order of a table."""


@dataclass(frozen=True)
class Unary(Op):
    """Common part: one input, one output of the same shape."""

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        return (ins[0].shape,)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        return (self.table(ins, outs)[args[0].astype(np.int64) + 128],)

    @abstractmethod
    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        """[256] int8: the output for every input, entry of value v at v + 128."""


@register
@dataclass(frozen=True)
class Logistic(Unary):
    """y = 1 / (1 + exp(-x)); int8 output has scale 1/256, zero point -128."""

    tflite: ClassVar[tuple[str, ...]] = ("LOGISTIC",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (1.0 / (1.0 + np.exp(-args[0].astype(np.float64))),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError


@register
@dataclass(frozen=True)
class Tanh(Unary):
    """y = tanh(x); int8 output has scale 1/128, zero point 0."""

    tflite: ClassVar[tuple[str, ...]] = ("TANH",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (np.tanh(args[0].astype(np.float64)),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError


@register
@dataclass(frozen=True)
class Relu(Unary):
    """y = the activation as an operator of its own; the scale may change."""

    tflite: ClassVar[tuple[str, ...]] = ("RELU", "RELU6", "RELU_N1_TO_1")

    activation: Activation = Activation.RELU

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (clamp_float(args[0].astype(np.float64), self.activation),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError


@register
@dataclass(frozen=True)
class LeakyRelu(Unary):
    """y = x where x >= 0, alpha * x elsewhere."""

    tflite: ClassVar[tuple[str, ...]] = ("LEAKY_RELU",)

    alpha: float = 0.0

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (np.where(x >= 0, x, self.alpha * x),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError


@register
@dataclass(frozen=True)
class HardSwish(Unary):
    """y = x * clip(x + 3, 0, 6) / 6."""

    tflite: ClassVar[tuple[str, ...]] = ("HARD_SWISH",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        return (x * np.clip(x + 3, 0, 6) / 6,)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError


@register
@dataclass(frozen=True)
class Requantize(Unary):
    """y = x in another scale and zero point."""

    tflite: ClassVar[tuple[str, ...]] = ("QUANTIZE",)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        return (args[0].astype(np.float64),)

    def table(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Array:
        raise NotImplementedError
