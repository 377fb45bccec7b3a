"""Every registered operator: shapes, the integer definition against the float one, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tflite

import edgesparse.ops as ops
from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Quant, Shape, Tensor
from edgesparse.ops import OPS, Activation
from edgesparse.ops.activation import clamp_range
from edgesparse.ops.layout import Layout
from edgesparse.quantize.fixedpoint import Rounding
from op_cases import CASES, Case

DRAWS = 40
SAME = Quant((0.5,), (3,))
SOFTMAX_OUT = Quant((1 / 256,), (-128,))


def draw(name: str) -> list[Case]:
    rng = np.random.default_rng(sum(map(ord, name)))
    return [CASES[name](rng) for _ in range(DRAWS)]


def int8(shape: Shape, q: Quant | None = SAME, data: Array | None = None) -> Tensor:
    return Tensor("t", shape, "int8", q, data)


def test_every_operator_has_cases() -> None:
    assert set(CASES) == set(OPS)


@pytest.mark.parametrize("name", OPS)
def test_results_have_the_inferred_shape(name: str) -> None:
    for case in draw(name):
        shapes = case.op.infer(case.ins)
        assert shapes == tuple(t.shape for t in case.outs)
        (result,) = case.op.int8_ref(case.args, case.ins, case.outs)
        assert result.shape == shapes[0]
        assert result.dtype == case.outs[0].dtype


@pytest.mark.parametrize("name", [n for n in OPS if n != "Lut"])
def test_int8_is_close_to_float(name: str) -> None:
    worst = 0.0
    for case in draw(name):
        real = [dequantized(t, a) for t, a in zip(case.ins, case.args)]
        (expected,) = case.op.float_ref(real)
        assert expected.dtype == np.float64
        found = case.int8()
        y = case.outs[0]
        if y.quant is None:
            assert np.array_equal(found, expected.astype(np.float32))
            continue
        steps = np.clip(expected / y.scale + y.zero_point, -128, 127)
        distance = np.abs(found - steps).max(initial=0)
        assert distance <= case.near, case
        worst = max(worst, float(distance))
    # Where nothing is ever rounded this comparison would show nothing.
    exact = isinstance(case.op, Layout | ops.Dequantize)
    assert (worst < 1e-3) if exact else (worst > 0.2)


def dequantized(t: Tensor, data: Array) -> Array:
    if t.quant is None:
        return data.astype(np.float64)
    shape = [1] * data.ndim
    if t.quant.axis is not None:
        shape[t.quant.axis] = -1
    scale = np.reshape(t.quant.scale, shape)
    return scale * (data.astype(np.float64) - np.reshape(t.quant.zero_point, shape))


@pytest.mark.parametrize("name", OPS)
def test_the_inputs_are_left_alone(name: str) -> None:
    case = draw(name)[0]
    before = [arg.copy() for arg in case.args]
    case.int8()
    assert all(np.array_equal(a, b) for a, b in zip(case.args, before))


@pytest.mark.parametrize("name", OPS)
def test_operators_are_values(name: str) -> None:
    op = draw(name)[0].op
    assert replace(op) == op
    assert hash(replace(op)) == hash(op)


@pytest.mark.parametrize("name", OPS)
def test_tflite_names_exist(name: str) -> None:
    for code in OPS[name].tflite:
        assert hasattr(tflite.BuiltinOperator, code)


W = int8((6, 1, 3, 4), Quant((0.5,), (0,)))
REFUSED: list[tuple[str, ops.Op, Sequence[Tensor], str]] = [
    ("rank", ops.Conv(), (int8((5, 4)), W), r"\[1, T, C\]"),
    ("kernel rank", ops.Conv(), (int8((1, 5, 4)), int8((6, 3, 4))), "weights of shape"),
    ("2-D kernel", ops.Conv(), (int8((1, 5, 4)), int8((6, 3, 3, 4))), "kh = 1"),
    ("channels", ops.Conv(), (int8((1, 5, 3)), W), "3 input channels"),
    ("rows", ops.Conv(groups=4), (int8((1, 5, 16)), W), "no multiple of 4 groups"),
    ("short", ops.Conv(), (int8((1, 2, 4)), W), "longer than the padded input of 2"),
    ("asymmetric", ops.Conv(), (int8((1, 5, 4)), int8((6, 1, 3, 4))), "weight zero point 3"),
    ("w rank", ops.FullyConnected(), (int8((1, 4)), W), "weights of shape"),
    ("depth", ops.FullyConnected(), (int8((1, 5)), int8((2, 4), None)), "4 columns"),
    ("kept depth", ops.FullyConnected(keep_dims=True), (int8((2, 2)), int8((2, 4), None)),
     "4 columns"),
    ("w zero", ops.FullyConnected(), (int8((1, 4)), int8((2, 4))), "weight zero point 3"),
    ("pool rank", ops.MaxPool(), (int8((4, 4)),), r"\[1, H, W, C\]"),
    ("pool batch", ops.AvgPool(), (int8((2, 4, 4, 1)),), r"\[1, H, W, C\]"),
    ("pool pad", ops.AvgPool((1, 2), pad=(0, 0, 2, 0)), (int8((1, 4, 1)),), "without any input"),
    ("pool short", ops.MaxPool((1, 5)), (int8((1, 4, 1)),), "longer than the padded input"),
    ("axis", ops.Mean((3,)), (int8((1, 4, 4)),), "axis 3"),
    ("low axis", ops.Mean((-4,)), (int8((1, 4, 4)),), "axis -4"),
    ("broadcast", ops.Add(), (int8((2, 3)), int8((2, 2))), "do not broadcast"),
    ("broadcast", ops.Sub(), (int8((2, 3)), int8((2, 2))), "do not broadcast"),
    ("broadcast", ops.Mul(), (int8((2, 3)), int8((2, 2))), "do not broadcast"),
    ("scalar", ops.Softmax(), (int8(()),), "no dimension"),
    ("count", ops.Reshape((3, 4)), (int8((2, 5)),), "does not reshape"),
    ("two unknown", ops.Reshape((-1, -1)), (int8((2, 5)),), "does not reshape"),
    ("remainder", ops.Reshape((-1, 4)), (int8((2, 5)),), "does not reshape"),
    ("perm", ops.Transpose((0, 0)), (int8((2, 5)),), "no permutation"),
    ("perm rank", ops.Transpose((0, 1, 2)), (int8((2, 5)),), "no permutation"),
    ("past the end", ops.Slice((3,), (1,), (3,)), (int8((5,)),), "do not lie in"),
    ("before", ops.Slice((1,), (-1,), (3,)), (int8((5,)),), "do not lie in"),
    ("slice rank", ops.Slice((0,), (1,), (1,)), (int8((5, 5)),), "1 begins, 1 strides"),
    ("concat axis", ops.Concat(2), (int8((2, 5)), int8((2, 5))), "axis 2"),
    ("concat shapes", ops.Concat(0), (int8((2, 5)), int8((2, 4))), "do not join"),
    ("concat scales", ops.Concat(0), (int8((2,)), int8((2,), SOFTMAX_OUT)), "another scale"),
    ("pads", ops.Pad((1,), (1,)), (int8((2, 5)),), "1 paddings for 2"),
    ("negative pad", ops.Pad((0, -1), (0, 0)), (int8((2, 5)),), "negative padding"),
    ("block", ops.SpaceToBatch((2,), ((0, 0),)), (int8((1, 5, 1)),), "no multiple of block 2"),
    ("block rank", ops.SpaceToBatch((2, 2), ((0, 0), (0, 0))), (int8((1, 4)),), "2 blocks"),
    ("phases", ops.BatchToSpace((2,), ((0, 0),)), (int8((3, 5, 1)),), "no multiple of 2 phases"),
    ("crops", ops.BatchToSpace((2,), ((5, 5),)), (int8((2, 5, 1)),), "leave nothing"),
]


@pytest.mark.parametrize(("what", "op", "ins", "message"), REFUSED,
                         ids=[f"{type(op).__name__} {what}" for what, op, _, _ in REFUSED])
def test_wrong_inputs_are_refused(
    what: str, op: ops.Op, ins: Sequence[Tensor], message: str
) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        op.infer(ins)
    assert caught.value.where == "t"
    assert caught.value.operator == type(op).__name__
    assert caught.value.suggestion


def test_a_conv_channel_with_a_vanishing_scale_is_the_zero_point() -> None:
    w = Tensor("w", (2, 1, 1, 1), "int8", Quant((0.1, 1e-12), (0, 0), 0))
    y = Tensor("y", (1, 3, 2), "int8", Quant((0.1,), (7,)))
    x = int8((1, 3, 1))
    args = (np.full((1, 3, 1), 100, np.int8), np.full((2, 1, 1, 1), 127, np.int8))
    (found,) = ops.Conv().int8_ref(args, (x, w), (y,))
    assert set(found[..., 0].ravel()) == {127}
    assert set(found[..., 1].ravel()) == {7}


@pytest.mark.parametrize("op", [
    ops.Conv(clamp=(-5, 9)), ops.MaxPool(clamp=(-5, 9)), ops.AvgPool(clamp=(-5, 9)),
    ops.FullyConnected(clamp=(-5, 9), keep_dims=True),
])
def test_a_clamp_holds_inside_the_activation(op: ops.Op) -> None:
    x = int8((1, 256, 1))
    values = np.arange(-128, 128, dtype=np.int8).reshape(x.shape)
    w = np.ones((1, 1, 1, 1) if isinstance(op, ops.Conv) else (1, 1), np.int8)
    weights = Tensor("w", w.shape, "int8", Quant((1.0,), (0,)))
    (found,) = op.int8_ref((values, w), (x, weights), (x,))
    assert np.array_equal(found, np.clip(values, -5, 9))
    relu = replace(op, activation=Activation.RELU)
    (found,) = relu.int8_ref((values, w), (x, weights), (x,))
    assert np.array_equal(found, np.clip(values, SAME.zero_point[0], 9))


def test_single_rounding_is_another_result() -> None:
    # 5 / 4: 2.5 and then 1.5 round up; once, 1.25 rounds down. -2 / 4: -1, and -0.5 away from zero.
    op = ops.Conv(rounding=Rounding.SINGLE)
    x = int8((1, 2, 1), Quant((0.25,), (0,)))
    w = Tensor("w", (1, 1, 1, 1), "int8", Quant((1.0,), (0,)))
    y = int8((1, 2, 1), Quant((1.0,), (0,)))
    args = (np.array([5, -2], np.int8).reshape(1, 2, 1), np.ones((1, 1, 1, 1), np.int8))
    (once,) = op.int8_ref(args, (x, w), (y,))
    (twice,) = replace(op, rounding=Rounding.DOUBLE).int8_ref(args, (x, w), (y,))
    assert once.ravel().tolist() == [1, 0]
    assert twice.ravel().tolist() == [2, -1]


@pytest.mark.parametrize(("activation", "scale", "expected"), [
    (Activation.NONE, 0.1, (-128, 127)),
    (Activation.RELU, 0.1, (-10, 127)),
    (Activation.RELU6, 0.1, (-10, 50)),
    (Activation.RELU6, 0.01, (-10, 127)),
    (Activation.RELU_N1_TO_1, 0.1, (-20, 0)),
    (Activation.RELU6, float(np.float32(6 / 2.5)), (-10, -7)),  # a tie: away from zero
    (Activation.RELU_N1_TO_1, float(np.float32(0.4)), (-13, -7)),
    (Activation.RELU_N1_TO_1, 4.0, (-10, -10)),
])
def test_activations_become_stored_bounds(
    activation: Activation, scale: float, expected: tuple[int, int]
) -> None:
    assert clamp_range(activation, int8((1,), Quant((scale,), (-10,)))) == expected


def test_macs_count_every_weight_at_every_position() -> None:
    x, w = int8((1, 8, 8, 4)), int8((6, 3, 3, 2))
    op = ops.Conv(groups=2, pad=(1, 1, 1, 1))
    assert op.macs((x, w), (int8(op.infer((x, replace(w, quant=None)))[0]),)) == 64 * 6 * 9 * 2
    dense = ops.FullyConnected(keep_dims=True)
    assert dense.macs((int8((2, 3, 5)), int8((7, 5))), (int8((2, 3, 7)),)) == 6 * 35
    assert ops.Add().macs((x, x), (x,)) == 0


def test_fully_connected_flattens_unless_told_to_keep() -> None:
    x, w = int8((2, 3, 4)), int8((5, 4), None)
    assert ops.FullyConnected().infer((x, w)) == ((6, 5),)
    assert ops.FullyConnected(keep_dims=True).infer((x, w)) == ((2, 3, 5),)


def test_a_mean_multiplier_may_be_halved_by_the_count() -> None:
    p = ops.Mean((0,)).parameters((int8((3, 2)),), (int8((2,)),))
    assert p.scaled.multiplier == 2**30 * 2 // 3
    assert p.scaled.shift == 0
    assert 2**29 <= p.scaled.multiplier < 2**30


def test_a_table_has_no_float_definition() -> None:
    with pytest.raises(Unsupported, match="stored int8 numbers only"):
        ops.Lut(bytes(256)).float_ref((np.zeros(3),))
    with pytest.raises(ValueError, match="256 entries"):
        ops.Lut(bytes(255))


@pytest.mark.parametrize(("x", "y", "message"), [
    (int8((1, 4)), SAME, "scale 1/256 and zero point -128"),
    (int8((1, 4)), Quant((1 / 256,), (0,)), "scale 1/256 and zero point -128"),
    (int8((1, 4096)), SOFTMAX_OUT, "4,096 values"),
    (int8((1, 4), Quant((2.0**-27,), (0,))), SOFTMAX_OUT, "too small"),
])
def test_softmax_refuses_what_its_fixed_point_cannot_hold(
    x: Tensor, y: Quant, message: str
) -> None:
    with pytest.raises(Unsupported, match=message):
        ops.Softmax().parameters((x,), (int8(x.shape, y),))


def test_a_softmax_of_very_many_equal_values_is_zero() -> None:
    # 1/600 is less than half of 1/256; the last shift is past 31 bits here.
    x = int8((1, 600))
    (found,) = ops.Softmax().int8_ref((np.zeros(x.shape, np.int8),), (x,), (int8(x.shape,
                                                                             SOFTMAX_OUT),))
    assert set(found.ravel()) == {-128}


def test_hard_swish_refuses_a_much_finer_output() -> None:
    with pytest.raises(Unsupported, match="128 times the output scale"):
        ops.HardSwish().table((int8((1,)),), (int8((1,), Quant((0.5 / 128,), (0,))),))


def test_quantize_saturates_far_values_and_infinities() -> None:
    x = np.array([np.inf, -np.inf, 3e38, -3e38, 1e10], np.float32)
    y = int8((5,), Quant((1e-6,), (5,)))
    (found,) = ops.Quantize().int8_ref((x,), (Tensor("x", (5,), "float32"),), (y,))
    assert found.tolist() == [127, -128, 127, -128, 127]


def test_padding_is_the_zero_point_for_int8_and_zero_for_floats() -> None:
    op = ops.Pad((1,), (0,))
    for t, expected in ((int8((1,)), 3), (Tensor("f", (1,), "float32"), 0)):
        data = np.ones(1, t.dtype)
        (found,) = op.int8_ref((data,), (t,), (replace(t, shape=(2,)),))
        assert found.tolist() == [expected, 1]
        assert found.dtype == data.dtype


def test_batch_to_space_undoes_space_to_batch() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (2, 7, 4, 3)).astype(np.int8)
    apart = ops.SpaceToBatch((3, 2), ((1, 1), (0, 2))).move((x,), 0)
    back = ops.BatchToSpace((3, 2), ((1, 1), (0, 2))).move((apart,), 0)
    assert np.array_equal(back, x)
