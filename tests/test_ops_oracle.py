"""int8_ref of every operator against tflite-runtime 2.14's reference kernels, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgesparse.ops as ops
from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Quant, Tensor
from edgesparse.oracle import OracleRefused
from needs import require
from op_cases import CASES, Case
from op_cases.parts import constant, ints, scale, tensor
from oracle import micro_oracle, tflite_oracle
from tflite_builder import Call, Dimension, Options, Sparsity, build

require("oracle")

DRAWS = 200
WITHOUT_KERNEL = {"History", "Lut", "Running"}
"""Operators of ours that TFLite does not have."""
EVERY = np.arange(-128, 128, dtype=np.int8)

Rng = np.random.Generator


def differing(case: Case) -> int:
    """How many bytes of the result are not the oracle's."""
    return unequal(case.int8(), reference(case))


def reference(case: Case, model: bytes | None = None) -> Array:
    """The oracle's result of the case, or of a model with the same inputs and output."""
    return tflite_oracle(model or case.tflite()).run(case.feeds())[case.outs[0].name]


def unequal(found: Array, expected: Array) -> int:
    assert found.dtype == expected.dtype
    assert found.size == expected.size
    return int((found.ravel().view(np.uint8) != expected.ravel().view(np.uint8)).sum())


@pytest.mark.parametrize("name", CASES)
def test_random_cases(name: str) -> None:
    rng = np.random.default_rng(len(name) + 1000 * ord(name[0]))
    drawn = [CASES[name](rng) for _ in range(DRAWS)]
    assert all(case.code for case in drawn) != (name in WITHOUT_KERNEL)
    bad = [case for case in drawn if case.code and differing(case)]
    assert not bad, bad[0]


# ---- every product of scales at its last bit ----------------------------------------------------
# A factor computed in float32 differs from one in float64 by 1e-7: random cases do not see that.
# Here sums or scales are chosen so that results lie on ties.


def near_tie(rng: Rng, real: Array) -> Array:
    """int32 sums whose product with `real` is as close to k + 1/2 as can be, or one off."""
    sums = np.rint((rng.integers(-100, 100, real.shape) + 0.5) / real)
    return (sums + rng.integers(-1, 2, real.shape)).astype(np.int32)


def mac_on_ties(rng: Rng, op: ops.Conv | ops.FullyConnected, rows: int, per_channel: bool) -> Case:
    """Weights are 0, so the bias alone is the sum."""
    depthwise = isinstance(op, ops.Conv) and op.groups > 1
    depth = op.groups if depthwise else 4
    spread = np.float32(10.0 ** rng.uniform(-3, -2, rows if per_channel else 1))
    q = Quant(tuple(map(float, spread)), (0,) * spread.size, 0 if per_channel else None)
    shape = (rows, depth) if isinstance(op, ops.FullyConnected) else (
        rows, 1, 1, 1 if depthwise else depth)
    w = constant("w", np.zeros(shape, np.int8), q)
    x_shape = (1, depth) if isinstance(op, ops.FullyConnected) else (1, 1, 1, depth)
    x = tensor("x", x_shape, Quant((scale(rng, -4, -2),), (int(rng.integers(-128, 128)),)))
    y = tensor("y", op.infer((x, w))[0], Quant((scale(rng, -1, 0),), (int(rng.integers(-9, 9)),)))
    real = np.broadcast_to(x.scale * spread.astype(np.float64) / y.scale, rows)
    bias_scale = tuple(float(np.float32(x.scale) * s) for s in spread)
    b = constant("b", near_tie(rng, real), replace(q, scale=bias_scale))
    args = (np.zeros(x.shape, np.int8), w.data, b.data)
    if isinstance(op, ops.FullyConnected):
        options = Options("FullyConnected")
        return Case(op, (x, w, b), (y,), args, "FULLY_CONNECTED", options)
    fields = {"Padding": 1, "StrideH": 1, "StrideW": 1}
    if not depthwise:
        return Case(op, (x, w, b), (y,), args, "CONV_2D", Options("Conv2D", fields))
    turned = constant("w", np.zeros((1, 1, 1, rows), np.int8),
                      replace(q, axis=3 if per_channel else None))
    options = Options("DepthwiseConv2D", {**fields, "DepthMultiplier": rows // depth})
    return Case(op, (x, w, b), (y,), args, "DEPTHWISE_CONV_2D", options, {"w": turned})


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("op", [ops.Conv(), ops.Conv(groups=50), ops.FullyConnected()])
def test_multipliers_of_sums_on_ties(
    op: ops.Conv | ops.FullyConnected, per_channel: bool
) -> None:
    rng = np.random.default_rng(3)
    assert sum(differing(mac_on_ties(rng, op, 200, per_channel)) for _ in range(40)) == 0


def test_one_row_per_channel_is_the_per_tensor_rule() -> None:
    rng = np.random.default_rng(4)
    op = ops.FullyConnected()
    assert sum(differing(mac_on_ties(rng, op, 1, per_channel=True)) for _ in range(300)) == 0


def turning_point(rng: Rng, total: int) -> float:
    """A factor at which total * factor is about to round to another number.

    With a shift to the right the product is first rounded to 2**-bits; it turns half a unit
    of that below the tie.
    """
    tie = rng.integers(5, 100) + 0.5
    bits = max(-int(np.frexp(tie / total)[1]), 0)
    return float(tie - (2.0 ** -(bits + 1) if bits else 0)) / total


def on_tie(rng: Rng, kind: str) -> Case:
    """A unary operator whose scales put some input on a tie."""
    y = tensor("y", (1, 256), Quant((scale(rng),), (int(rng.integers(-128, 0)),)))
    alpha = float(np.float32(rng.uniform(0.01, 0.9))) if kind == "LEAKY_RELU" else 1.0
    real = y.scale * turning_point(rng, int(rng.integers(3, 255))) / alpha
    x = tensor("x", (1, 256), Quant((float(np.float32(real)),), (int(rng.integers(-128, 128)),)))
    op, options = {
        "QUANTIZE": (ops.Requantize(), Options("Quantize")),
        "RELU": (ops.Relu(), None),
        "LEAKY_RELU": (ops.LeakyRelu(alpha), Options("LeakyRelu", {"Alpha": alpha})),
    }[kind]
    return Case(op, (x,), (y,), (EVERY[None],), kind, options)


@pytest.mark.parametrize("kind", ["QUANTIZE", "RELU", "LEAKY_RELU"])
def test_ratios_of_scales_on_ties(kind: str) -> None:
    rng = np.random.default_rng(5)
    assert sum(differing(on_tie(rng, kind)) for _ in range(400)) == 0


@pytest.mark.parametrize("op", [ops.Add(), ops.Sub(), ops.Mul()])
def test_all_pairs_of_values(op: ops.Add | ops.Sub | ops.Mul) -> None:
    rng = np.random.default_rng(6)
    name = type(op).__name__
    bad = 0
    for _ in range(100):
        a, b = (
            tensor(n, s, Quant((scale(rng),), (int(rng.integers(-128, 128)),)))
            for n, s in (("a", (256, 1)), ("b", (1, 256)))
        )
        if name == "Mul":  # some product on a tie
            i, j = rng.integers(-128, 128, 2)
            product = max(abs(int((i - a.zero_point) * (j - b.zero_point))), 1)
            real = a.scale * b.scale / turning_point(rng, product)
        else:
            b = replace(b, quant=Quant((float(np.float32(a.scale * 2 ** rng.uniform(-3, 3))),),
                                       (int(rng.integers(-128, 128)),)))
            real = max(a.scale, b.scale) * 2 ** rng.uniform(-0.5, 2)
        y = tensor("y", (256, 256), Quant((float(np.float32(real)),), (int(rng.integers(-9, 9)),)))
        bad += differing(Case(op, (a, b), (y,), (EVERY[:, None], EVERY[None]), name.upper(),
                              Options(name)))
    assert bad == 0


def test_means_on_ties() -> None:
    rng = np.random.default_rng(7)
    bad = 0
    for _ in range(500):
        count = int(rng.choice([1, 7, 16, 49, 33, 100, 1000]))
        q = Quant((scale(rng),), (int(rng.integers(-128, 128)),))
        x = tensor("x", (1, count, 20), q)
        data = rng.integers(-128, 128, x.shape).astype(np.int8)
        largest = np.abs(data.astype(int).sum(axis=1) - count * x.zero_point).max()
        real = x.scale / count / turning_point(rng, max(int(largest), 1))
        y = tensor("y", (1, 20), Quant((float(np.float32(real)),), (int(rng.integers(-9, 9)),)))
        bad += differing(Case(ops.Mean((1,)), (x,), (y,), (data,), "MEAN", Options("Reducer"),
                              extra=(ints("axes", [1]),)))
    assert bad == 0


@pytest.mark.parametrize("bound", [1.0, 6.0])
def test_activation_bounds_on_ties(bound: float) -> None:
    rng = np.random.default_rng(8)
    activation = ops.Activation.RELU6 if bound == 6 else ops.Activation.RELU_N1_TO_1
    for k in range(100):
        q = Quant((float(np.float32(bound / (k + 0.5))),), (int(rng.integers(-128, 28)),))
        x = tensor("x", (1, 256), q)
        case = Case(ops.Relu(activation), (x,), (replace(x, name="y"),), (EVERY[None],),
                    activation.name)
        assert differing(case) == 0


def test_a_tanh_differs_only_where_the_c_library_does() -> None:
    """Near ties one step is allowed: see ops.Tanh."""
    rng = np.random.default_rng(9)
    for _ in range(1000):
        x = tensor("x", (1, 256), Quant((scale(rng),), (int(rng.integers(-128, 128)),)))
        y = tensor("y", (1, 256), Quant((1 / 128,), (0,)))
        case = Case(ops.Tanh(), (x,), (y,), (EVERY[None],), "TANH")
        expected = reference(case)
        steps = 128 * np.tanh(x.scale * (EVERY.astype(float) - x.zero_point))
        tie = np.abs(steps % 1 - 0.5) < 3e-5
        distance = np.abs(case.int8()[0].astype(int) - expected[0])
        assert distance[~tie].max() == 0
        assert distance.max() <= 1


# ---- what the oracle computes wrongly -----------------------------------------------------------


def per_channel_rows(rng: Rng, x: Tensor, data: Array, keep: bool) -> Case:
    """A FULLY_CONNECTED with one scale per row."""
    rows = data.shape[0]
    scales = tuple(float(s) for s in np.float32(10.0 ** rng.uniform(-3, -2, rows)))
    w = constant("w", data, Quant(scales, (0,) * rows, 0))
    bias_scales = tuple(float(np.float32(x.scale * s)) for s in scales)
    b = constant("b", rng.integers(-5000, 5000, rows).astype(np.int32),
                 Quant(bias_scales, (0,) * rows, 0))
    op = ops.FullyConnected(keep_dims=keep)
    y = tensor("y", op.infer((x, w, b))[0], Quant((0.05,), (-5,)))
    values = rng.integers(-128, 128, x.shape).astype(np.int8)
    assert b.data is not None
    return Case(op, (x, w, b), (y,), (values, data, b.data), "FULLY_CONNECTED",
                Options("FullyConnected", {"KeepNumDims": keep}))


@pytest.mark.parametrize("shape", [(1, 1, 8), (1, 3, 8), (2, 2, 3, 8)])
def test_per_channel_fully_connected_of_three_dimensions_is_a_fault_of_the_oracle(
    shape: tuple[int, ...]
) -> None:
    """BUILTIN_REF takes columns for batches when the output has 3 dimensions or more."""
    require("tflm")
    rng = np.random.default_rng(10)
    data = rng.integers(-127, 128, (6, 8)).astype(np.int8)
    case = per_channel_rows(rng, tensor("x", shape, Quant((0.02,), (3,))), data, keep=True)
    assert differing(case) > 0
    assert unequal(case.int8(), micro_oracle(case.tflite()).run(case.feeds())["y"]) == 0
    flat = per_channel_rows(rng, case.ins[0], data, keep=False)
    assert differing(flat) == 0


@pytest.mark.parametrize("per_channel", [False, True])
def test_block_sparse_fully_connected_is_right_per_tensor_and_a_fault_per_channel(
    per_channel: bool,
) -> None:
    rng = np.random.default_rng(11)
    blocks = rng.random((8, 4)) < 0.5
    data = rng.integers(-127, 128, (8, 64)).astype(np.int8) * np.repeat(blocks, 16, axis=1)
    x = tensor("x", (4, 64), Quant((0.02,), (3,)))
    case = per_channel_rows(rng, x, data.astype(np.int8), keep=False)
    w, b = case.ins[1:]
    if not per_channel:
        w = replace(w, quant=Quant((0.005,), (0,)))
        b = replace(b, quant=Quant((float(np.float32(0.02 * 0.005)),), (0,)))
        case = replace(case, ins=(x, w, b))
    dimensions = (
        Dimension(8),
        Dimension(segments=[0, *np.cumsum(blocks.sum(axis=1))], indices=np.nonzero(blocks)[1]),
        Dimension(16),
    )
    stored = data.astype(np.int8).reshape(8, 4, 16)[blocks]
    model = build(
        [x, w, b, case.outs[0]],
        [Call("FULLY_CONNECTED", ("x", "w", "b"), ("y",), case.options, version=8)],
        ["x"], ["y"], {"w": (Sparsity((0, 1, 2), dimensions, (1,)), stored)},
    )
    assert (unequal(case.int8(), reference(case, model)) > 0) == per_channel
    assert differing(case) == 0  # the same weights stored densely


# ---- refusals ------------------------------------------------------------------------------------


SOFTMAX = (ops.Softmax(), "SOFTMAX", Options("Softmax", {"Beta": 1.0}))


@pytest.mark.parametrize(("kind", "x_scale", "out"), [
    (SOFTMAX, 0.1, Quant((0.01,), (-128,))),
    (SOFTMAX, 0.1, Quant((1 / 256,), (0,))),
    ((ops.HardSwish(), "HARD_SWISH", Options("HardSwish")), 0.5, Quant((0.5 / 128,), (0,))),
])
def test_what_we_refuse_the_oracle_refuses(
    kind: tuple[ops.Op, str, Options], x_scale: float, out: Quant
) -> None:
    op, code, options = kind
    x, y = tensor("x", (1, 256), Quant((x_scale,), (0,))), tensor("y", (1, 256), out)
    case = Case(op, (x,), (y,), (EVERY[None],), code, options)
    with pytest.raises(Unsupported):
        case.int8()
    with pytest.raises(OracleRefused):
        reference(case)
