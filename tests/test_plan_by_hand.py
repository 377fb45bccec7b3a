"""Plans no converter makes yet: what the format can carry, against sums written out here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgesparse.errors import PlanInvalid
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.quantize.fixedpoint import Rounding, multiply, quantize_multipliers
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.session import Session
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Format, Nm
from plan_builder import (
    WHOLE,
    PlanBuilder,
    Rng,
    add,
    mac,
    must_gather,
    random_weights,
    requant,
    scaled,
    stored,
    values,
)


def outputs(b: PlanBuilder, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """The outputs of consecutive runs of one session, the same in the interpreter and the core.

    The core must accept the plan, and agree after every step.
    """
    plan = Plan.from_bytes(write_plan(b.plan()))
    session, core = Interpreter(plan.data), Session(plan)
    traced, traced_core = Interpreter(plan.data), Session(plan)
    results = []
    for inputs in runs:
        results.append(session.run(inputs))
        from_core = core.run(inputs)
        from_core = from_core if isinstance(from_core, tuple) else (from_core,)
        assert all(map(np.array_equal, results[-1], from_core))
        trace, trace_core = traced.run_traced(inputs), traced_core.run_traced(inputs)
        assert trace.keys() == trace_core.keys()
        assert all(np.array_equal(trace[number], trace_core[number]) for number in trace)
    return results


def conv(x: Array, w: Array, bias: Array, pad: int = 0, stride: int = 1) -> Array:
    """Sums of a 1-D convolution, loop by loop. x [T, C] minus its zero point, w [M, k, C]."""
    rows, kernel, _ = w.shape
    columns = (len(x) + 2 * pad - kernel) // stride + 1
    y = np.zeros((columns, rows), np.int64)
    for t in range(columns):
        for m in range(rows):
            y[t, m] = bias[m]
            for k in range(kernel):
                at = t * stride + k - pad
                if 0 <= at < len(x):
                    y[t, m] += int(np.dot(x[at].astype(np.int64), w[m, k].astype(np.int64)))
    return y


def scale(sums: Array, factors: Array, zero_point: int, low: int = -128, high: int = 127) -> Array:
    y = multiply(sums, *quantize_multipliers(factors), Rounding.DOUBLE) + zero_point
    return np.clip(y, low, high).astype(np.int8)


def layer(rng: Rng, rows: int, kernel: int, channels: int) -> tuple[Array, Array, Array]:
    """w [rows, kernel * channels], bias, factors that use the range of int8."""
    w = random_weights(rng, rows, kernel * channels, 0.5)
    bias = rng.integers(-3000, 3000, rows)
    return w, bias, rng.uniform(0.5, 1.5, rows) / (75 * 75 * np.sqrt(kernel * channels) / 60)


# ---- row groups and row order -------------------------------------------------------------------

FIVE: tuple[tuple[int, Format], ...] = (
    (5, Dense()), (3, Bitmask()), (6, Bsr(4, 1)), (2, Nm(2, 4)), (4, DeltaCsr(4)))


@pytest.mark.parametrize("groups", [
    ((7, Dense()), (13, Bsr(2, 4))), ((4, DeltaCsr(8)), (16, Bitmask())), FIVE], ids=str)
@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("form", pm.BiasForm)
def test_row_groups_of_different_encodings_in_one_layer(
    groups: tuple[tuple[int, Format], ...], permuted: bool, form: pm.BiasForm
) -> None:
    rng = np.random.default_rng(len(groups) + permuted)
    w, bias, factors = layer(rng, 20, 3, 8)
    order = rng.permutation(20).astype(np.uint16) if permuted else None
    kept = w if order is None else w[order]
    if groups is FIVE:
        kept[14:16, np.arange(24) % 4 > 1] = 0
        if order is not None:
            w[order] = kept
    b = PlanBuilder()
    x, y = b.input(1, 9, 8, zero_point=-5), b.output(1, 9, 20, zero_point=4)
    b.tail(
        mac(stored(kept, *groups, row_order=order), w, bias, -5, bias_form=form, in_w=9, in_c=8,
            out_w=9, kernel_w=3, pad_left=1),
        x, y, requant(factors, 4))
    fed = values(rng, 1, 9, 8)
    ((found,),) = outputs(b, [[fed]])
    expected = scale(conv(fed[0].astype(int) + 5, w.reshape(20, 3, 8), bias, pad=1), factors, 4)
    assert np.array_equal(found[0], expected)
    assert len(np.unique(expected)) > 50


# ---- one input, two outputs ---------------------------------------------------------------------


def test_a_horizontal_step_requantizes_each_output_by_itself() -> None:
    rng = np.random.default_rng(3)
    w, bias, factors = layer(rng, 12, 1, 16)
    b = PlanBuilder()
    x = b.input(1, 7, 16, zero_point=3)
    left, right = b.output(1, 7, 8, zero_point=-20), b.output(1, 3, 4, zero_point=60)
    window = pm.Window(in_w=7, out_w=3, kernel_w=3, stride_w=2)
    b.step(
        mac(stored(w, (8, Dense()), (4, Bitmask())), w, bias, 3, in_w=7, out_w=7, in_c=16), x,
        pm.Branch(channels=8, output=left, stages=(requant(factors[:8], -20),)),
        pm.Branch(first_channel=8, channels=4, output=right, stages=(
            requant(factors[8:] * 3, 60, qmin=-50, qmax=100),
            pm.MaxPool(window=window, qmin=-40, qmax=90))))
    fed = values(rng, 1, 7, 16)
    ((found_left, found_right),) = outputs(b, [[fed]])
    sums = conv(fed[0].astype(int) - 3, w[:, None], bias)
    assert np.array_equal(found_left[0], scale(sums[:, :8], factors[:8], -20))
    wide = scale(sums[:, 8:], factors[8:] * 3, 60, -50, 100)
    pooled = np.array([wide[2 * t : 2 * t + 3].max(axis=0) for t in range(3)])
    assert np.array_equal(found_right[0], np.clip(pooled, -40, 90))


def test_the_parts_of_a_load_go_to_places_of_their_own() -> None:
    """A split, and back together in another order, by placement alone."""
    rng = np.random.default_rng(9)
    b = PlanBuilder()
    x, whole = b.input(1, 4, 6), b.output(1, 4, 6)
    b.step(
        pm.Load(), x, pm.Branch(channels=2, output=b.part(whole, 4, 2)),
        pm.Branch(first_channel=2, channels=4, output=b.part(whole, 0, 4),
                  stages=(pm.Clamp(qmin=-9, qmax=9),)))
    fed = values(rng, 1, 4, 6)
    ((found,),) = outputs(b, [[fed]])
    expected = np.concatenate([np.clip(fed[..., 2:], -9, 9), fed[..., :2]], axis=-1)
    assert np.array_equal(found, expected)


# ---- residual addition --------------------------------------------------------------------------

S_X, S_W, S_CONV, S_Y = 0.04, 0.003, 0.08, 0.1
"""Scales of the residual, the weights, the convolution's own output, and the result."""


def residual(single: bool) -> tuple[Array, Array]:
    """(output, the same in real numbers before rounding) of a convolution plus its input."""
    rng = np.random.default_rng(21)
    w, bias, _ = layer(rng, 16, 3, 16)
    b = PlanBuilder()
    x, y = b.input(1, 64, 16, zero_point=7), b.output(1, 64, 16, zero_point=-11)
    source = mac(stored(w), w, bias, 7, in_w=64, out_w=64, in_c=16, kernel_w=3, pad_left=1)
    if single:
        factor, other = S_X * S_W / S_Y, S_X / S_Y
        b.tail(source, x, y, pm.AddSingleRequant(
            operand=x, other_zero_point=7, multiplier=np.array([round(factor * 2**31)]),
            other_multiplier=np.array([round(other * 2**31)]), shift=np.array([31], np.int8),
            zero_point=-11, **WHOLE))
    else:
        twice = 2 * max(S_CONV, S_X)
        b.tail(source, x, y, requant(np.array([S_X * S_W / S_CONV]), 2), pm.Add(
            operand=x, left_shift=20, value=scaled(2, S_CONV / twice), other=scaled(7, S_X / twice),
            out=scaled(-11, twice / S_Y / 2**20), rounding=Rounding.DOUBLE, **WHOLE))
    fed = rng.integers(-80, 95, (1, 64, 16)).astype(np.int8)
    ((found,),) = outputs(b, [[fed]])
    centred = fed[0].astype(int) - 7
    summed = S_X * S_W * conv(centred, w.reshape(16, 3, 16), bias, pad=1)
    assert np.abs(summed / S_CONV + 2).max() < 127  # nothing saturates on the way
    return found[0], (summed + S_X * centred) / S_Y - 11


def test_one_requantization_of_sum_and_residual_is_nearer_to_float_than_two(
    record_property: Callable[[str, object], None]
) -> None:
    errors = {}
    for single in (False, True):
        found, real = residual(single)
        assert np.abs(real).max() < 127
        errors[single] = float(np.sqrt(np.mean((found - real) ** 2)))
        record_property("rms error, one rounding" if single else "rms error, exact", errors[single])
    # One rounding: 1 / sqrt(12) = 0.289. Its own rounding at S_CONV adds 0.289 * S_CONV / S_Y.
    assert errors[True] == pytest.approx(12**-0.5, rel=0.03)
    assert errors[False] == pytest.approx(np.hypot(1, S_CONV / S_Y) * 12**-0.5, rel=0.03)


def test_single_requant_has_a_factor_per_channel() -> None:
    rng = np.random.default_rng(8)
    w, bias, _ = layer(rng, 6, 1, 5)
    b = PlanBuilder()
    x, o, y = b.input(1, 4, 5), b.input(1, 4, 6, zero_point=9), b.output(1, 4, 6, zero_point=-1)
    first, second = rng.integers(1, 2**19, 6), rng.integers(1, 2**26, 6)
    shift = rng.integers(26, 31, 6)
    b.tail(mac(stored(w), w, bias, 0, in_w=4, out_w=4, in_c=5), x, y, pm.AddSingleRequant(
        operand=o, other_zero_point=9, multiplier=first, other_multiplier=second, shift=shift,
        zero_point=-1, qmin=-100, qmax=101))
    fed, other = values(rng, 1, 4, 5), values(rng, 1, 4, 6)
    ((found,),) = outputs(b, [[fed, other]])
    sums = conv(fed[0].astype(int), w[:, None], bias)
    for t in range(4):
        for m in range(6):
            total = int(sums[t, m]) * int(first[m]) + (int(other[0, t, m]) - 9) * int(second[m])
            rounded = (total + 2 ** (int(shift[m]) - 1)) >> int(shift[m])
            assert found[0, t, m] == min(max(rounded - 1, -100), 101)
    assert len(np.unique(found)) > 10


# ---- state between runs -------------------------------------------------------------------------


def test_a_ring_shows_the_past_of_many_runs() -> None:
    """2 columns a run into a ring of 7; a convolution over the last 5 plus a value 1 before."""
    rng = np.random.default_rng(5)
    w, bias, factors = layer(rng, 4, 3, 3)
    b = PlanBuilder()
    other, ring = b.ring(3, 2, zero_point=1), b.ring(7, 3, zero_point=-4)
    x, y = b.input(1, 2, 3, zero_point=-4), b.output(1, 3, 4, zero_point=2)
    late = b.output(1, 2, 3)
    b.tail(pm.Load(), b.constant(np.full((1, 1, 2), 5)), b.append(other, 1))
    b.tail(pm.Load(), x, b.append(ring, 2), pm.Clamp(qmin=-100, qmax=100))
    b.tail(mac(stored(w), w, bias, -4, in_w=5, out_w=3, in_c=3, kernel_w=3), b.view(ring, 5), y,
           requant(factors, 2))
    b.tail(pm.Load(), b.view(ring, 2, lag=1), late)
    fed = [values(rng, 1, 2, 3) for _ in range(12)]
    found = outputs(b, [[x] for x in fed])
    past = np.full((7, 3), -4, np.int8)
    for x, (y, late) in zip(fed, found):
        past = np.concatenate([past, np.clip(x[0], -100, 100)])
        sums = conv(past[-5:].astype(int) + 4, w.reshape(4, 3, 3), bias)
        assert np.array_equal(y[0], scale(sums, factors, 2))
        assert np.array_equal(late[0], past[-3:-1])


def test_reset_forgets_the_past() -> None:
    b = PlanBuilder()
    ring = b.ring(3, 1, zero_point=-9)
    x, y = b.input(1, 1), b.output(3, 1)
    b.tail(pm.Load(), x, b.append(ring, 1))
    b.tail(pm.Load(), b.view(ring, 3), y)
    plan = Plan.from_bytes(write_plan(b.plan()))
    fed = np.array([[5]], np.int8)
    for session in (Interpreter(plan.data), Session(plan)):
        first = [np.ravel(session.run([fed])).tolist() for _ in range(3)]
        assert first == [[-9, -9, 5], [-9, 5, 5], [5, 5, 5]]
        session.reset()
        assert np.ravel(session.run([fed])).tolist() == first[0]


# ---- layouts ------------------------------------------------------------------------------------


def test_layers_of_different_layouts_follow_each_other() -> None:
    """planar -> C4 -> polyphase -> NWC with room, each with a halo; strides, pools, a residual."""
    rng = np.random.default_rng(6)
    b = PlanBuilder()
    x = b.input(1, 19, 3, zero_point=1)
    planar = b.tensor(1, 19, 3, zero_point=1, layout=pm.Layout.PLANAR, halo=2)
    c4 = b.tensor(1, 10, 7, zero_point=-3, layout=pm.Layout.C4, halo=1)
    phases = b.tensor(
        1, 10, 7, zero_point=5, layout=pm.Layout.POLYPHASE, phases=3, halo=2, pitch=27)
    roomy = b.tensor(1, 5, 7, zero_point=5, pitch=12, halo=1)
    y = b.output(1, 5, 4, zero_point=9)
    b.tail(pm.Load(), x, planar)
    first, second = layer(rng, 7, 5, 3), layer(rng, 4, 3, 7)
    b.tail(mac(stored(first[0]), first[0], first[1], 1, in_w=19, in_c=3, out_w=10, kernel_w=5,
               stride_w=2, pad_left=2), planar, c4, requant(first[2], -3))
    b.tail(pm.Load(), c4, phases, add(c4, (-3, -3, 5)))
    window = pm.Window(in_w=10, out_w=5, kernel_w=3, stride_w=2, pad_left=1)
    b.tail(pm.Load(), phases, roomy, pm.AvgPool(window=window, **WHOLE))
    b.tail(mac(stored(second[0]), second[0], second[1], 5, in_w=5, in_c=7, out_w=5, kernel_w=3,
               pad_left=1), roomy, y, requant(second[2], 9))
    fed = values(rng, 1, 19, 3)
    ((found,),) = outputs(b, [[fed]])

    a = scale(conv(fed[0].astype(int) - 1, first[0].reshape(7, 5, 3), first[1], 2, 2), first[2], -3)
    # (a + 3) * 2 at twice the scale is a + 3 again.
    doubled = np.clip(a.astype(int) + 3 + 5, -128, 127)
    pooled = np.zeros((5, 7), int)
    for t in range(5):
        taps = doubled[max(2 * t - 1, 0) : 2 * t + 2]
        total, n = taps.sum(axis=0), len(taps)
        pooled[t] = np.sign(total) * ((np.abs(total) + n // 2) // n)
    expected = scale(conv(pooled - 5, second[0].reshape(4, 3, 7), second[1], 1), second[2], 9)
    assert np.array_equal(found[0], expected)
    assert len(np.unique(expected)) > 10


def test_a_mac_may_write_where_its_operand_stands() -> None:
    """In place: the result takes the bytes of the residual it is added to."""
    rng = np.random.default_rng(12)
    w, bias, factors = layer(rng, 6, 1, 6)
    b = PlanBuilder()
    x, kept = b.input(1, 5, 6), b.tensor(1, 5, 6)
    b.tail(pm.Load(), x, kept, pm.Clamp(qmin=-50, qmax=50))
    summed = b.same_place(kept)
    source = mac(stored(w), w, bias, 0, in_w=5, out_w=5, in_c=6)
    b.tail(source, x, summed, requant(factors, 0), add(kept, (0, 0, 0)))
    b.tail(pm.Load(), summed, b.output(1, 5, 6))
    fed = values(rng, 1, 5, 6)
    ((found,),) = outputs(b, [[fed]])
    a = scale(conv(fed[0].astype(int), w[:, None], bias), factors, 0).astype(int)
    total = a + np.clip(fed[0], -50, 50)
    assert np.array_equal(found[0], np.sign(total) * ((np.abs(total) + 1) // 2))


def test_a_copy_fills_moves_and_keeps() -> None:
    """Two copies into one tensor: a filled frame with a transposed box, then one more column."""
    rng = np.random.default_rng(1)
    b = PlanBuilder()
    x, y = b.input(2, 3), b.output(5, 4)
    b.tail(pm.Copy(dims=(3, 2), in_strides=(1, 3), out_offset=5, out_strides=(4, 1),
                   fill=True, fill_value=-1), x, y)
    b.tail(pm.Copy(dims=(3,), in_offset=5, in_strides=(-1,), out_offset=3, out_strides=(4,)), x, y)
    fed = values(rng, 2, 3)
    ((found,),) = outputs(b, [[fed]])
    expected = np.full((5, 4), -1, np.int8)
    expected[1:4, 1:3] = fed.T
    expected[[0, 1, 2], 3] = fed[1, ::-1]
    assert np.array_equal(found, expected)


def test_one_column_and_one_channel_are_repeated() -> None:
    rng = np.random.default_rng(2)
    b = PlanBuilder()
    x = b.input(4, 3)
    row, column = b.input(1, 3), b.input(4, 1)
    y, z = b.output(4, 3), b.output(4, 3)
    first = pm.Mul(operand=row, value_zero_point=0, other_zero_point=0, out=scaled(0, 0.02),
                   rounding=Rounding.SINGLE, **WHOLE)
    b.tail(pm.Load(), x, y, first, replace(first, operand=column))
    b.tail(pm.Load(), row, z, replace(first, operand=column))
    fed = [values(rng, 4, 3), values(rng, 1, 3), values(rng, 4, 1)]
    ((found, other),) = outputs(b, [fed])

    def product(a: Array, c: Array) -> Array:
        exact = a.astype(int) * c.astype(int) * 0.02
        return np.clip(np.floor(exact + 0.5), -128, 127).astype(np.int8)

    assert np.array_equal(found, product(product(fed[0], fed[1]), fed[2]))
    assert np.array_equal(other, product(np.broadcast_to(fed[1], (4, 3)), fed[2]))


def test_scratch_is_asked_for_exactly_where_a_mac_must_gather() -> None:
    """The builder's own rule, which the C core checks from below."""
    plain = pm.Place(offset=0, pitch=8, columns=9, channels=8, zero_point=0)
    one = pm.Geometry(in_w=9, in_c=8, rows=4, out_w=9)
    row = replace(one, kernel_w=3, out_w=7)
    assert not must_gather(one, plain)
    assert not must_gather(row, plain)
    assert not must_gather(replace(one, stride_w=2, out_w=5), plain)
    assert must_gather(replace(row, pad_left=1), plain)
    assert must_gather(replace(row, out_w=8), plain)
    assert must_gather(replace(row, dilation_w=2, out_w=5), plain)
    assert must_gather(row, replace(plain, pitch=9))
    assert must_gather(row, replace(plain, ring=0, ring_role=pm.RingRole.VIEW))
    assert must_gather(one, replace(plain, layout=pm.Layout.PLANAR, pitch=9))


@pytest.mark.parametrize("wide", [1, 40])
def test_a_branch_may_not_stand_on_an_input_that_others_read(wide: int) -> None:
    """A Load may repeat its only channel for all branches: in place it would be overwritten."""
    b = PlanBuilder()
    x = b.input(8, 1)
    in_place = b.same_place(x)
    b.outputs.append(pm.Io(tensor=in_place))
    y = b.output(8, wide)
    lut = pm.Lut(table=(-1 - np.arange(-128, 128)).astype(np.int8))
    b.step(pm.Load(), x, pm.Branch(channels=1, output=in_place, stages=(lut,)),
           pm.Branch(first_channel=1, channels=wide, output=y))
    with pytest.raises(PlanInvalid, match="I-24"):
        NativePlan(write_plan(b.plan()))
