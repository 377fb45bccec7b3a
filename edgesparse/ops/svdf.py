"""Svdf: a fully connected layer with a filter over its own past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Shape, Tensor
from edgesparse.ops.base import register
from edgesparse.ops.stateful import State, Stateful, single
from edgesparse.quantize.fixedpoint import (
    Rounding,
    Scaled,
    multiply,
    quantize_multiplier,
    requantize,
)
from edgesparse.quantize.gemmlowp16 import saturate


@dataclass(frozen=True)
class SvdfParameters:
    """`feature`: from sums to the state; `time`: from sums over the state to the output."""

    feature: Scaled
    time: Scaled


@register
@dataclass(frozen=True)
class Svdf(Stateful):
    """s = w x; y[u] = relu(b[u] + sum over k < rank, j of t[u * rank + k, j] * past s[.., j]).

    x  [1, C]
    w  [filters, C] int8
    t  [filters, memory] int16; j runs from the oldest s to the one of this run
    b  [units] int32 (scale of the state * scale of t), filters = units * rank
    y  [1, units]
    int8: s is int16 with scale `state_scale`, zero point 0; sums over the past are taken modulo
    2**32; y is clamped to int8 only, which is the ReLU where its zero point is -128.
    The state, the last `memory` s, starts as 0 and goes on from run to run.
    Source: TFLite reference/svdf.h, EvalIntegerSVDF.
    """

    tflite: ClassVar[tuple[str, ...]] = ("SVDF",)

    state_scale: float
    rank: int = 1

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x, w, t, b = ins
        if len(x.shape) != 2 or x.shape[0] != 1:
            raise Unsupported(x.name, "Svdf", f"input of shape {list(x.shape)}; allowed is [1, C]",
                              "export with batch 1")
        if len(t.shape) != 2 or w.shape != (t.shape[0], x.channels) or (
            self.rank < 1 or b.shape != (t.shape[0] // self.rank,) or t.shape[0] % self.rank
        ):
            raise Unsupported(
                x.name, "Svdf", f"weights {list(w.shape)}, {list(t.shape)}, bias {list(b.shape)} "
                f"and rank {self.rank} for {x.channels} channels", "check the shapes of this layer")
        return ((1, b.size),)

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        return ins[1].size + ins[2].size

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x, w, t, b = (a.astype(np.float64) for a in args)
        newest = x[0] @ w.T * t[:, -1]
        return (np.maximum(newest.reshape(-1, self.rank).sum(axis=1) + b, 0)[None],)

    def start(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> State:
        """[filters, memory] int16."""
        return (np.zeros(ins[2].shape, np.int16),)

    def advance(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor], state: State
    ) -> tuple[tuple[Array, ...], State]:
        p = self.parameters(ins, outs)
        x, w = args[0].astype(np.float64) - ins[0].zero_point, args[1].astype(np.float64)
        sums = (w @ x[0]).astype(np.int64)
        newest = saturate(
            multiply(sums, p.feature.multiplier, p.feature.shift, Rounding.DOUBLE))
        past = np.concatenate([state[0][:, 1:].astype(np.int64), newest[:, None]], axis=1)
        filtered = (past * args[2]).sum(axis=1).reshape(-1, self.rank).sum(axis=1)
        total = (filtered + args[3]).astype(np.int32).astype(np.int64)  # modulo 2**32
        factor = (np.array([p.time.multiplier]), np.array([p.time.shift]))
        y = requantize(total, factor, p.time.zero_point, (-128, 127), Rounding.DOUBLE)
        return (y[None],), (past.astype(np.int16),)

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> SvdfParameters:
        """Source: TFLite svdf.cc, Prepare."""
        x, w, t, _ = ins
        y = outs[0]

        def factor(*scales: float) -> tuple[int, int]:
            product = single(scales[0] * scales[1], y.name, "Svdf")
            return quantize_multiplier(single(product / scales[2], y.name, "Svdf"))

        return SvdfParameters(
            Scaled(0, *factor(x.scale, w.scale, self.state_scale)),
            Scaled(y.zero_point, *factor(self.state_scale, t.scale, y.scale)))
