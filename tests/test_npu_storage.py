"""Storages: which tensors of a plan need the same bytes, whatever the arena does with them."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.errors import BadInput
from edgesparse.npu.lower import lower_npu
from edgesparse.npu.options import NpuOptions
from edgesparse.npu.storage import Storages
from edgesparse.plan import model as pm
from npu_run import config, in_lanes, lower_and_check
from plan_builder import PlanBuilder, mac, random_weights, requant, stored

CLAMP = pm.Clamp(qmin=-9, qmax=9)


def test_a_result_in_place_of_its_operand_is_a_storage_of_its_own() -> None:
    b = PlanBuilder()
    x = b.input(4, 3)
    y = b.same_place(x)
    b.tail(pm.Load(), x, y, CLAMP)
    b.tail(pm.Load(), y, b.output(4, 3))
    storages = Storages(b.plan())
    assert [s.tensors for s in storages.all] == [(x,), (y,), (2,)]
    assert (storages.of(0, x).first, storages.of(0, x).last) == (-1, 0)
    assert (storages.of(1, y).first, storages.of(1, y).last) == (0, 1)


def test_the_parts_of_a_concatenation_are_one_storage_with_the_whole() -> None:
    b = PlanBuilder()
    x, whole = b.input(4, 3), b.tensor(4, 6)
    for first in (0, 3):
        b.tail(pm.Load(), x, b.part(whole, first, 3))
    b.tail(pm.Load(), whole, b.output(4, 6))
    storages = Storages(b.plan())
    assert storages.of(0, 2, writes=True) is storages.of(2, whole)
    assert storages.of(1, 3, writes=True) is storages.of(2, whole)
    assert storages.of(2, whole).size == 24


def test_another_shape_of_the_same_elements_is_the_same_storage() -> None:
    b = PlanBuilder()
    x, y = b.input(4, 6), b.tensor(4, 6)
    seen = b.same_place(y, 8, 3, pitch=3)
    b.tail(pm.Load(), x, y)
    b.tail(pm.Load(), seen, b.output(8, 3))
    storages = Storages(b.plan())
    assert storages.of(0, y, writes=True) is storages.of(1, seen)


def test_what_a_copy_leaves_alone_belongs_to_what_it_writes() -> None:
    b = PlanBuilder()
    x, y = b.input(2, 3), b.tensor(4, 3)
    b.tail(pm.Copy(dims=(12,), in_strides=(0,), out_strides=(1,)), x, y)
    b.tail(pm.Copy(dims=(6,), in_strides=(1,), out_offset=3, out_strides=(1,)), x, y)
    b.tail(pm.Load(), y, b.output(4, 3))
    storages = Storages(b.plan())
    assert storages.of(0, y, writes=True) is storages.of(2, y)
    lower_and_check(b.plan())


def test_two_zero_points_in_one_storage_have_no_common_halo() -> None:
    """A window reads the input of a step whose result, of another zero point, has its place."""
    rng = np.random.default_rng(2)
    b = PlanBuilder()
    x = b.input(6, 4, zero_point=127)
    same = b.same_place(x, zero_point=0)
    b.tail(pm.Load(), x, same)
    for reads, zero_point in ((x, 127), (same, 0)):
        w = random_weights(rng, 5, 12)
        source = mac(stored(w), w, np.zeros(5, int), zero_point, in_c=4, in_w=6, out_w=6,
                     kernel_w=3, pad_left=1)
        b.tail(source, reads, b.output(6, 5), requant(np.full(5, 0.01), 0))
    lower_and_check(in_lanes(b.plan()))


def test_where_results_are_is_said() -> None:
    b = PlanBuilder()
    ring = b.ring(4, 3)
    x, y = b.input(2, 3), b.tensor(2, 3)
    b.tail(pm.Load(), x, y, CLAMP)
    b.tail(pm.Load(), y, b.append(ring, 2))
    b.tail(pm.Load(), b.view(ring, 4), b.output(4, 3))
    lowered = lower_npu(b.plan(), config(), NpuOptions(keep=True))
    assert [(p.step, p.space, p.survives) for p in lowered.placements] == [
        (0, "scratchpad", True), (0, "ring", True), (2, "scratchpad", True)]  # one kernel for two
    through = lower_npu(b.plan(), config(), NpuOptions(intermediates="dram"))
    assert [p.space for p in through.placements] == ["arena", "ring", "arena"]
    with pytest.raises(BadInput, match="'sram' or 'dram'"):
        lower_npu(b.plan(), config(), NpuOptions(intermediates="flash"))
