"""Which tensors may share bytes (I-24 to I-26), and weights that several steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from edgesparse.errors import PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from edgesparse.sparsity.formats import Dense
from everything import everything
from plan_builder import WHOLE, PlanBuilder, add, mac, random_weights, requant, stored
from plan_changes import changed


def accepted(plan: pm.PlanModel) -> None:
    NativePlan(write_plan(plan))


def refused(plan: pm.PlanModel, invariant: int, where: str = "") -> None:
    with pytest.raises(PlanInvalid, match=rf"^I-{invariant}:.*{where}"):
        NativePlan(write_plan(plan))


# ---- in place -----------------------------------------------------------------------------------


def on_its_input(
    shape: tuple[int, ...], place: dict[str, Any], new: dict[str, Any], *stages: pm.StageBody
) -> pm.PlanModel:
    """A Load step whose output stands where its input does, but for the fields in `new`."""
    b = PlanBuilder()
    x = b.input(*shape)
    b.tensor(64, 64)  # so that whatever `new` does stays inside the arena
    a = b.tensor(*shape, **place)
    b.tensor(64, 64)
    b.tail(pm.Load(), x, a)
    wide = new.pop("shape", shape)
    y = b.same_place(a, *wide, **new)
    b.tail(pm.Load(), a, y, *stages)
    b.tail(pm.Load(), y, b.output(*wide))
    return b.plan()


NWC: dict[str, Any] = {"pitch": 8}
POLYPHASE: dict[str, Any] = {"layout": pm.Layout.POLYPHASE, "phases": 2, "pitch": 24}


@pytest.mark.parametrize("place", [NWC, POLYPHASE, {"layout": pm.Layout.C4}])
def test_an_output_may_take_the_place_of_the_input_of_a_load(place: dict[str, Any]) -> None:
    accepted(on_its_input((8, 4), dict(place), {}, pm.Clamp(**WHOLE)))
    accepted(on_its_input((8, 4), dict(place), {"zero_point": 5, "halo": 0}))


@pytest.mark.parametrize(
    ("shape", "place", "new"),
    [((8, 4), NWC, {"pitch": 12}), ((8, 4), NWC, {"layout": pm.Layout.PLANAR}),
     ((1, 4), NWC, {"shape": (8, 4)}), ((8, 1), NWC, {"shape": (8, 4)}),
     ((8, 4), POLYPHASE, {"phases": 4}), ((8, 4), POLYPHASE, {"layout": pm.Layout.PLANAR,
                                                              "phases": 1})])
def test_an_output_over_its_input_but_elsewhere_is_refused(
    shape: tuple[int, ...], place: dict[str, Any], new: dict[str, Any]
) -> None:
    refused(on_its_input(shape, dict(place), dict(new)), 24, "step 1")


def test_an_output_may_take_the_place_of_its_own_operand_only() -> None:
    def plan(writer: int, source: int = 0, *more: pm.StageBody) -> pm.PlanModel:
        """Two branches, each adds an operand; branch `writer` writes onto the first operand."""
        b = PlanBuilder()
        x = b.input(2, 8)
        operands = [b.tensor(2, 4), b.tensor(2, 4)]
        for first, o in zip((0, 4), operands):
            b.tail(pm.Copy(dims=(2, 4), in_offset=first, in_strides=(8, 1), out_strides=(4, 1)),
                   x, o)
        outputs = [b.tensor(2, 4), b.tensor(2, 4)]
        outputs[writer] = b.same_place(operands[0])
        b.step(pm.Load(), x, *[
            pm.Branch(first_channel=4 * i, channels=4, output=outputs[i],
                      stages=(add(operands[i], (0, 0, 0)), *more)) for i in (0, 1)])
        for o in outputs:
            b.tail(pm.Load(), o, b.output(2, 4))
        return b.plan()

    accepted(plan(0))
    accepted(plan(0, 0, pm.Clamp(**WHOLE)))
    refused(plan(1), 24, "step 2")
    refused(plan(0, 0, pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-9)), 24, "step 2")


def test_a_residual_add_of_a_mac_may_be_in_place_but_not_on_its_input() -> None:
    rng = np.random.default_rng(1)
    w = random_weights(rng, 4, 4)
    for input_too in (False, True):
        b = PlanBuilder()
        x = b.input(1, 4)
        o = b.tensor(1, 4)
        b.tail(pm.Load(), x, o)
        y = b.same_place(o)
        b.tail(mac(stored(w, (4, Dense())), w, np.zeros(4, np.int64), 0), o if input_too else x, y,
               requant(np.array([0.01]), 0), add(o, (0, 0, 0)))
        b.tail(pm.Load(), y, b.output(1, 4))
        if input_too:
            refused(b.plan(), 24, "step 1")
        else:
            accepted(b.plan())


# ---- channels side by side ----------------------------------------------------------------------


def beside(first: int, channels: int, **new: Any) -> pm.PlanModel:
    """Reads channels 2 and 3 of a tensor of 8 and writes others of it."""
    b = PlanBuilder()
    x = b.input(5, 2)
    whole = b.tensor(5, 8)
    b.tensor(64, 64)
    a, y = b.part(whole, 2, 2), b.part(whole, first, channels)
    b.tensors[y] = replace(b.tensors[y], place=replace(b.tensors[y].place, **new))
    b.tail(pm.Load(), x, a)
    b.tail(pm.Copy(dims=(5, channels), in_strides=(2, 0), out_strides=(channels, 1)), a, y)
    b.tail(pm.Load(), y, b.output(5, channels))
    return b.plan()


@pytest.mark.parametrize(("first", "channels"), [(0, 1), (0, 2), (4, 1), (4, 4), (7, 1), (8, 2)])
def test_channels_beside_those_that_are_read_may_be_written(first: int, channels: int) -> None:
    accepted(beside(first, channels))


@pytest.mark.parametrize(
    ("first", "channels"), [(0, 3), (1, 2), (2, 2), (3, 1), (3, 4), (4, 7), (10, 1)])
def test_channels_that_are_read_may_not_be_written(first: int, channels: int) -> None:
    refused(beside(first, channels), 24, "step 1")


def test_channels_of_another_pitch_are_not_beside() -> None:
    refused(beside(4, 2, pitch=16), 24, "step 1")


# ---- written before -----------------------------------------------------------------------------


def pieces(order: list[int]) -> pm.PlanModel:
    """Rows of a tensor, written one by one in this order, then read at once."""
    b = PlanBuilder()
    x = b.input(1, 4)
    whole = b.tensor(len(order) if len(order) > 1 else 2, 4)
    for i in order:
        part = b.same_place(whole, 1, 4, offset=b.tensors[whole].place.offset + 4 * i)
        b.tail(pm.Load(), x, part)
    b.tail(pm.Load(), whole, b.output(*b.tensors[whole].shape))
    return b.plan()


@pytest.mark.parametrize("order", [
    list(range(20)), list(range(19, -1, -1)), [*range(1, 20, 2), *range(0, 20, 2)],
    [3, 0, 4, 1, 2]])
def test_a_tensor_may_be_written_in_pieces(order: list[int]) -> None:
    accepted(pieces(order))


@pytest.mark.parametrize("missing", [0, 7, 19])
def test_a_tensor_with_a_piece_missing_is_refused(missing: int) -> None:
    order = list(range(20))
    order[missing] = order[missing - 1]
    refused(pieces(order), 26)


# ---- shared weights -----------------------------------------------------------------------------


def two_steps(change: Callable[[pm.Mac], pm.Mac]) -> pm.PlanModel:
    """The same fully connected layer twice; of the second, what `change` makes of it."""
    rng = np.random.default_rng(1)
    w = random_weights(rng, 6, 6)
    w[3] = 0
    b = PlanBuilder()
    x, h, y = b.input(1, 6), b.tensor(1, 6), b.output(1, 6)
    source = mac(stored(w, (6, Dense())), w, np.zeros(6, np.int64), 0)
    b.tail(source, x, h, requant(np.array([0.01]), 0))
    b.tail(change(source), h, y, requant(np.array([0.01]), 0))
    return b.plan()


def with_bias(row: int, bias: int, source: pm.Mac) -> pm.Mac:
    return replace(source, bias=changed(source.bias, row, bias))


def test_sums_of_shared_weights_are_held_against_each_bias() -> None:
    most = (1 << 31) - 257  # row 3 is empty, the others are not
    accepted(two_steps(lambda m: m))
    accepted(two_steps(partial(with_bias, 3, most)))
    for row, bias in ((3, most + 1), (2, most)):
        over = two_steps(partial(with_bias, row, bias))
        refused(over, 43, f"step 1, part {row}")


def test_row_groups_shared_by_a_matrix_of_other_columns_are_checked_again() -> None:
    refused(two_steps(lambda m: replace(
        m, weights=replace(m.weights, cols=5), geometry=replace(m.geometry, in_c=5))), 31)
    b = PlanBuilder()
    rng = np.random.default_rng(1)
    w = random_weights(rng, 6, 6)
    x, h, y = b.input(1, 6), b.tensor(1, 5), b.output(1, 6)
    source = mac(stored(w, (6, Dense())), w, np.zeros(6, np.int64), 0)
    b.tail(source, x, b.tensor(1, 6), requant(np.array([0.01]), 0))
    b.tail(pm.Copy(dims=(5,), in_strides=(1,), out_strides=(1,)), x, h)
    b.tail(replace(source, weights=replace(source.weights, cols=5),
                   geometry=replace(source.geometry, in_c=5)), h, y, requant(np.array([0.01]), 0))
    refused(b.plan(), 53, "step 2")


def ordered(order: Any) -> pm.PlanModel:
    w = np.ones((len(order), 1), np.int8)
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, len(order))
    b.tail(mac(stored(w, (len(order), Dense()), row_order=order), w, np.zeros(len(order), np.int64),
               0), x, y, requant(np.array([0.01]), 0))
    return b.plan()


@pytest.mark.parametrize("rows", [1, 2047, 2048, 2049, 5000, 65535])
def test_row_order_is_a_permutation_however_long(rows: int) -> None:
    order = np.random.default_rng(1).permutation(rows).astype(np.uint16)
    accepted(ordered(order))
    if rows > 1:
        refused(ordered(changed(order, rows - 1, order[0])), 51)
    refused(ordered(changed(order, 0, rows)), 51)


def test_rows_of_two_branches_in_any_order_meet_the_shift_of_their_own() -> None:
    """I-43: the second branch shifts left by one, which only small sums allow."""
    rng = np.random.default_rng(1)
    w = random_weights(rng, 6, 4)
    shift = {0: np.array([0], np.int8), 1: np.array([1], np.int8)}

    def plan(bias: int, channel: int) -> pm.PlanModel:
        order = np.array([5, 0, 3, 2, 4, 1], np.uint16)
        biases = changed(np.zeros(6, np.int64), channel, bias)
        b = PlanBuilder()
        x, y, z = b.input(1, 4), b.output(1, 3), b.output(1, 3)
        b.step(
            mac(stored(w, (6, Dense()), row_order=order), w, biases, 0), x,
            *[pm.Branch(first_channel=3 * i, channels=3, output=out, stages=(
                pm.Requant(multiplier=np.array([1 << 30], np.int32), shift=shift[i], zero_point=0,
                           rounding=add(0, (0, 0, 0)).rounding, **WHOLE),))
              for i, out in enumerate((y, z))])
        return b.plan()

    half = 1 << 30
    for channel in (0, 1, 2):
        accepted(plan(half, channel))
    for channel in (3, 4, 5):
        refused(plan(half, channel), 43)


# ---- names --------------------------------------------------------------------------------------


def test_names_may_be_left_out_one_by_one() -> None:
    plan = everything()
    names: Any = plan.names
    for name in ("tensors", "steps", "inputs", "outputs", "labels"):
        accepted(replace(plan, names=replace(names, **{name: ()})))
    accepted(replace(plan, names=None, golden=None, source_sha256=None))
