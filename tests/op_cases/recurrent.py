"""Operators with a state of their own."""

from __future__ import annotations

import numpy as np
import tflite

import edgesparse.ops as ops
from edgesparse.graph.ir import Array, Quant, Tensor
from op_cases.parts import (
    Case,
    Rng,
    case,
    choice,
    constant,
    drawn,
    scale,
    size,
    tensor,
    zero_point,
)
from tflite_builder import Options

GATES = ("i", "f", "g", "o")


@case
def lstm(rng: Rng) -> Case:
    """Gate inputs of about 2, so that gates are neither open nor shut.

    Where h or c leaves the range of its numbers, the real LSTM goes another way.
    """
    columns, channels, units = int(rng.integers(1, 6)), size(rng), size(rng)
    x = tensor("x", (1, columns, channels), Quant((scale(rng, -3, -1),), (zero_point(rng),)))
    y = tensor("y", (1, columns, units), Quant((scale(rng, -2.5, -1.5),), (zero_point(rng),)))
    w, r = (
        [_weights(rng, f"{label}{gate}", (units, depth), reach / t.scale / depth**0.5)
         for gate in GATES]
        for label, depth, t, reach in (("w", channels, x, 2e-4), ("r", units, y, 2e-4)))
    b = [_bias(rng, f"b{gate}", units, float(np.float32(x.scale * part.scale)))
         for gate, part in zip(GATES, w)]
    bits = int(rng.integers(0, 7))
    clip = float(np.float32(choice(rng, (0, 10, 2.0 ** (bits - 3), 2.0**bits))))
    cell = tensor("c", (1, units), Quant((2.0 ** (bits - 15),), (0,)), "int16")
    hidden = tensor("h", (1, units), y.quant)
    op = ops.Lstm(bits, min(int(clip * 2.0 ** (15 - bits)), 32767))
    ins = (x, _stacked("w", w), _stacked("r", r), _stacked("b", b))
    names = [[t.name for t in part] for part in (w, r, b)]
    order = ("x", *names[0], *names[1], "", "", "", *names[2], "", "", "h", "c", "", "", "", "")
    options = Options("UnidirectionalSequenceLSTM", {
        "FusedActivationFunction": tflite.ActivationFunctionType.TANH, "CellClip": clip})
    inside = tuple(tensor(f"inside{i}", (0,), None, "float32") for i in range(4))
    return Case(
        op, ins, (y,), drawn(rng, *ins), "UNIDIRECTIONAL_SEQUENCE_LSTM", options,
        extra=(*w, *r, *b, hidden, cell), order=order, state=("h", "c"),
        inside=(*inside, tensor("inside4", (0,), y.quant)), near=np.inf)


@case
def svdf(rng: Rng) -> Case:
    channels, rank, units = size(rng), int(choice(rng, (1, 1, 2, 3))), size(rng)
    memory, filters = int(rng.integers(1, 12)), rank * units
    x = tensor("x", (1, channels), Quant((scale(rng, -2, -1),), (zero_point(rng),)))
    w = constant("w", _values(rng, (filters, channels)), Quant((scale(rng, -3, -2),), (0,)))
    state = float(np.float32(x.scale * w.scale * 2.0 ** rng.uniform(-6, 2)))
    t = constant("t", rng.integers(-32767, 32768, (filters, memory)).astype(np.int16),
                 Quant((scale(rng, -4, -3),), (0,)))
    y = tensor("y", (1, units), Quant(
        (float(np.float32(state * t.scale * 2.0 ** rng.uniform(14, 26))),),
        (int(choice(rng, (-128, -128, zero_point(rng)))),)))
    b = constant("b", rng.integers(-(2**20), 2**20, units).astype(np.int32),
                 Quant((float(np.float32(state * t.scale)),), (0,)))
    op = ops.Svdf(state, rank)
    kept = tensor("s", (1, filters * memory), Quant((state,), (0,)), "int16")
    options = Options("SVDF", {
        "Rank": rank, "FusedActivationFunction": tflite.ActivationFunctionType.RELU})
    ins = (x, w, t, b)
    return Case(op, ins, (y,), drawn(rng, *ins), "SVDF", options, extra=(kept,),
                order=("x", "w", "t", "b", "s"), state=("s",), near=np.inf)


def _values(rng: Rng, shape: tuple[int, int]) -> Array:
    """int8 weights, some of them pruned."""
    data = rng.integers(-127, 128, shape)
    return (data * (rng.random(shape) < choice(rng, (1, 1, 0.3)))).astype(np.int8)


def _weights(rng: Rng, name: str, shape: tuple[int, int], like: float) -> Tensor:
    value = float(np.float32(like * 2.0 ** rng.uniform(-2, 2)))
    return constant(name, _values(rng, shape), Quant((value,), (0,)))


def _bias(rng: Rng, name: str, units: int, of: float) -> Tensor:
    """Real values of up to 2."""
    most = min(2 / of, 2.0**30)
    return constant(name, rng.integers(-most, most + 1, units).astype(np.int32), Quant((of,), (0,)))


def _stacked(name: str, gates: list[Tensor]) -> Tensor:
    data = np.concatenate([g.data for g in gates if g.data is not None])
    scales = tuple(g.scale for g in gates for _ in range(g.shape[0]))
    return constant(name, data, Quant(scales, (0,) * len(scales), 0))
