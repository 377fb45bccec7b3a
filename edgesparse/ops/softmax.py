"""Softmax over the last dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import Op, register
from edgesparse.quantize.fixedpoint import (
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from edgesparse.quantize.gemmlowp import exp_on_negative_values, reciprocal

INPUT_BITS = 5
"""Integer bits of the exponential's argument: beyond exp(-32) nothing counts."""
SUM_BITS = 12
"""Integer bits of the sum of exponentials, each at most 1."""


@dataclass(frozen=True)
class SoftmaxParameters:
    """Q5 argument of exp = (x - max) * 2**shift * multiplier / 2**31; below diff_min: nothing."""

    multiplier: int
    shift: int
    diff_min: int


@register
@dataclass(frozen=True)
class Softmax(Op):
    """y[c] = exp(beta * x[c]) / sum over the last dimension of exp(beta * x).

    int8: the output has scale 1/256 and zero point -128.
    Source: TFLite reference/softmax.h.
    """

    tflite: ClassVar[tuple[str, ...]] = ("SOFTMAX",)

    beta: float = 1.0

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        if not ins[0].shape:
            raise Unsupported(ins[0].name, "Softmax", "the input has no dimension",
                              "an input of at least one dimension")
        return (ins[0].shape,)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x = args[0].astype(np.float64) * self.beta
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return (e / e.sum(axis=-1, keepdims=True),)

    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        p = self.parameters(ins, outs)
        x = args[0].astype(np.int64)
        diff = x - x.max(axis=-1, keepdims=True)
        counts = diff >= p.diff_min
        diff = np.where(counts, diff, 0)
        scaled = saturating_rounding_doubling_high_mul(diff << p.shift, p.multiplier)
        e = exp_on_negative_values(scaled, INPUT_BITS)
        total = np.where(counts, rounding_divide_by_pot(e, SUM_BITS), 0)
        scale, bits = reciprocal(total.sum(axis=-1, keepdims=True), SUM_BITS)
        share = saturating_rounding_doubling_high_mul(scale, e)
        y = rounding_divide_by_pot(share, bits + 31 - 8) - 128
        return (np.where(counts, np.clip(y, -128, 127), -128).astype(np.int8),)

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> SoftmaxParameters:
        """The integer form.

        Raises Unsupported for an output quantization, a scale or a length it cannot serve.
        Source: TFLite quantization_util.cc, PreprocessSoftmaxScaling, CalculateInputRadius.
        """
        x, y = ins[0], outs[0]
        if y.zero_point != -128 or abs(256 * y.scale - 1) > 1e-3:
            raise Unsupported(
                y.name, "Softmax", f"output scale {y.scale:g} with zero point {y.zero_point}",
                "an int8 softmax output has scale 1/256 and zero point -128")
        if x.channels >= 1 << SUM_BITS:
            raise Unsupported(
                y.name, "Softmax", f"{x.channels:,} values; the fixed-point sum holds "
                f"{(1 << SUM_BITS) - 1:,}", "fewer classes")
        real = min(self.beta * x.scale * 2.0 ** (31 - INPUT_BITS), 2.0**31 - 1)
        if real <= 1:
            raise Unsupported(
                y.name, "Softmax", f"beta {self.beta:g} times input scale {x.scale:g} is too "
                "small", "a product of at least 2**-26")
        multiplier, shift = quantize_multiplier(real)
        largest = ((1 << INPUT_BITS) - 1) * 2.0 ** (31 - INPUT_BITS) / 2.0**shift
        return SoftmaxParameters(multiplier, shift, -math.floor(largest))
