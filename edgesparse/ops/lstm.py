"""Lstm: a long short-term memory over the columns of a sequence."""

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
    rounding_divide_by_pot,
)
from edgesparse.quantize.gemmlowp16 import logistic, saturate, tanh

GATES = 4
"""Input gate, forget gate, cell candidate, output gate: blocks of rows in this order."""
GATE_SCALE = 2.0**-12
"""Of the sums that go into a gate, int16 in Q3."""
MOST_CELL_BITS = 6


@dataclass(frozen=True)
class LstmParameters:
    """`input`, `recurrent`: four factors each, from sums to gate inputs; `hidden`: to the output,
    from a product of two Q0 numbers."""

    input: tuple[Scaled, ...]
    recurrent: tuple[Scaled, ...]
    hidden: Scaled


@register
@dataclass(frozen=True)
class Lstm(Stateful):
    """h, c = lstm(x column, h, c) for each column; y is every h.

    x  [1, T, C]
    w  [4n, C], r [4n, n] int8: the rows of the input gate i, the forget gate f, the cell
       candidate g and the output gate o; one scale per gate, repeated for its rows
    b  [4n] int32 (scale of x * scale of w)
    y  [1, T, n]; h has its scale and zero point
    i, f, o = sigmoid(w x + r h + b), g = tanh(w x + r h + b)
    c = f c + i g, held inside +-clip where clip > 0; h = o tanh(c)
    int8: gates and c are int16, c with `cell_bits` integer bits; `clip` is stored units of c.
    The state, h and c, starts at (0, 0) and goes on from run to run; with `anew`, which only the
    streaming transform asks for, every run starts from there.
    Source: TFLite lstm_eval.cc, LstmStepInteger8x8_16; without projection, peephole connections,
    layer normalization and coupled input and forget gates.
    """

    tflite: ClassVar[tuple[str, ...]] = ("UNIDIRECTIONAL_SEQUENCE_LSTM",)

    cell_bits: int
    clip: int = 0
    anew: bool = False

    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        x, w, r, b = ins
        if len(x.shape) != 3 or x.shape[0] != 1:
            raise Unsupported(x.name, "Lstm", f"input of shape {list(x.shape)}; allowed is "
                              "[1, T, C]", "export with batch 1")
        rows = b.size
        units = rows // GATES
        if rows % GATES or (w.shape, r.shape) != ((rows, x.channels), (rows, units)):
            raise Unsupported(
                x.name, "Lstm", f"weights {list(w.shape)} and {list(r.shape)} with {rows} biases "
                f"for {x.channels} channels", "check the weight shapes of this layer")
        if not 0 <= self.cell_bits <= MOST_CELL_BITS:
            raise Unsupported(
                x.name, "Lstm", f"a cell state of scale 2**{self.cell_bits - 15}; 2**-15 to 2**-9 "
                "is allowed", "re-export with the TFLite converter")
        return ((1, x.shape[1], units),)

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        return outs[0].columns * (ins[1].size + ins[2].size)

    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        x, w, r, b = (a.astype(np.float64) for a in args)
        limit = self.clip * 2.0 ** (self.cell_bits - 15) if self.clip else np.inf
        h = c = np.zeros(r.shape[1])
        hs = []
        for column in x[0]:
            i, f, g, o = np.split(w @ column + r @ h + b, GATES)
            c = np.clip(_sigmoid(f) * c + _sigmoid(i) * np.tanh(g), -limit, limit)
            h = _sigmoid(o) * np.tanh(c)
            hs.append(h)
        return (np.array(hs)[None],)

    def start(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> State:
        """(h [n] int8, c [n] int16)."""
        units = outs[0].channels
        return np.full(units, outs[0].zero_point, np.int8), np.zeros(units, np.int16)

    def advance(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor], state: State
    ) -> tuple[tuple[Array, ...], State]:
        p, y = self.parameters(ins, outs), outs[0]
        w, r = (args[i].astype(np.float64) for i in (1, 2))
        from_input = (args[0][0].astype(np.float64) - ins[0].zero_point) @ w.T
        from_input += args[3].astype(np.float64)
        h, c = (s.astype(np.int64) for s in (self.start(ins, outs) if self.anew else state))
        hs = []
        for sums in from_input.astype(np.int64):
            gates = saturate(_scaled(sums, p.input))
            sums = (r @ (h - y.zero_point)).astype(np.int64)
            gates = saturate(gates + _scaled(sums, p.recurrent))
            c = self.next_cell(gates, c)
            out = logistic(np.split(gates, GATES)[3]) * tanh(c, self.cell_bits)
            h = multiply(out, p.hidden.multiplier, p.hidden.shift, Rounding.DOUBLE)
            h = np.clip(h + y.zero_point, -128, 127)
            hs.append(h)
        return (np.array(hs, np.int8)[None],), (h.astype(np.int8), c.astype(np.int16))

    def next_cell(self, gates: Array, c: Array) -> Array:
        """gates [4n], c [n], int16 numbers."""
        i, f, g, _ = np.split(gates, GATES)
        kept = rounding_divide_by_pot(logistic(f) * c, 15)
        new = rounding_divide_by_pot(logistic(i) * tanh(g, 3), 15 + self.cell_bits)
        c = saturate(kept + new)
        return np.clip(c, -self.clip, self.clip) if self.clip else c

    def parameters(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> LstmParameters:
        """Source: TFLite unidirectional_sequence_lstm.cc, PopulateQuantizedLstmParams8x8_16."""
        x, w, r, _ = ins
        y = outs[0]
        real = single(2.0**-15 / y.scale * 2.0**-15, y.name, "Lstm")
        hidden = Scaled(y.zero_point, *quantize_multiplier(real))
        return LstmParameters(
            _factors(w, x.scale, y.name), _factors(r, y.scale, y.name), hidden)


def _factors(w: Tensor, scale: float, layer: str) -> tuple[Scaled, ...]:
    assert w.quant is not None
    units = w.shape[0] // GATES
    factors = []
    for own in np.broadcast_to(np.asarray(w.quant.scale), w.shape[0])[::units].tolist():
        real = single(single(own * scale, layer, "Lstm") / GATE_SCALE, layer, "Lstm")
        factors.append(Scaled(0, *quantize_multiplier(real)))
    return tuple(factors)


def _scaled(sums: Array, factors: Sequence[Scaled]) -> Array:
    """sums [4n] int64, the factor of each of its blocks."""
    parts = np.split(sums, GATES)
    return np.concatenate([
        multiply(part, f.multiplier, f.shift, Rounding.DOUBLE)
        for part, f in zip(parts, factors, strict=True)])


def _sigmoid(x: Array) -> Array:
    y: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return y
