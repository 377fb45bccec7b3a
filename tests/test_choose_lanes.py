"""Weights for the NPU: structure is found in plain zeros, the cost decides, bytes stay."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.graph.ir import Array
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.mapping.weights import PORTABLE, in_lanes, policy_of
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from edgesparse.sparsity.choose import Decision
from edgesparse.sparsity.choose_lanes import (
    LOOPED,
    OWN_CODE,
    choose_lanes,
    code_and_steps,
    flash_or_steps,
)
from edgesparse.sparsity.formats import EvenLanes, Lanes, decode_group, format_of
from edgesparse.sparsity.measure import measure
from edgesparse.target import load_target
from graph_builder import GraphBuilder, random_inputs
from plan_builder import random_weights
from test_lower import executable_graph

COST = flash_or_steps(2)
SHAPE = (48, 96)


def keep(rng: np.random.Generator, rows: int, share: float) -> Array:
    """SHAPE bool: `share` of the blocks of `rows` x 1."""
    blocks = rng.random((SHAPE[0] // rows, SHAPE[1])) < share
    return blocks.repeat(rows, axis=0)


def two_of_four(rng: np.random.Generator) -> Array:
    """SHAPE bool: the same two of every four columns in 16 rows."""
    pattern = rng.permuted(np.tile([True, True, False, False], (3, 24, 1)), axis=2)
    return pattern.reshape(3, 96).repeat(16, axis=0)


def chosen(kept: Array, lanes: int = 16) -> Decision:
    w = random_weights(np.random.default_rng(1), *SHAPE) * kept.astype(np.int8)
    decision = choose_lanes(measure(w), w, lanes, COST)
    (group,) = decision.groups
    np.testing.assert_array_equal(decode_group(group, SHAPE[1]), w)
    return decision


@pytest.mark.parametrize(("pattern", "name"), [
    ("all", "dense"), ("few zeros", "dense"), ("2:4", "2:4"), ("blocks of 16", "bitmask"),
    ("few blocks of 16", "16x1"), ("blocks of 4", "4x1"), ("single", "1x1"),
])
def test_structure_is_found_from_plain_zeros(pattern: str, name: str) -> None:
    rng = np.random.default_rng(0)
    kept = {
        "all": np.ones(SHAPE, bool), "few zeros": rng.random(SHAPE) < 0.99,
        "2:4": two_of_four(rng), "blocks of 16": keep(rng, 16, 0.25),
        "few blocks of 16": keep(rng, 16, 0.05), "blocks of 4": keep(rng, 4, 0.25),
        "single": keep(rng, 1, 0.1)}[pattern]
    decision = chosen(kept)
    assert format_of(decision.groups[0]).name == f"lanes16 {name}"
    assert decision.reason.startswith(f"lanes16 {name}: ")
    assert f"{decision.bytes:,} B" in decision.reason


def test_rows_that_end_inside_a_slice_of_32_are_stored() -> None:
    decision = chosen(keep(np.random.default_rng(0), 16, 0.25), 32)
    assert decision.groups[0].block_rows == 32
    assert dict(decision.candidates)["lanes32 dense"] == 64 * 96


def test_the_cost_decides() -> None:
    """Whoever knows the machine better than bytes and steps do asks for what is best there."""
    w = random_weights(np.random.default_rng(1), *SHAPE)
    dense = choose_lanes(measure(w), w, 16, COST)
    other = choose_lanes(measure(w), w, 16, lambda form, _: 2.0 - (form == Lanes.bitmask(16)))
    assert [format_of(d.groups[0]).name for d in (dense, other)] == [
        "lanes16 dense", "lanes16 bitmask"]


def test_weights_from_flash_or_steps_whichever_take_longer() -> None:
    w = random_weights(np.random.default_rng(1), *SHAPE)
    form = Lanes.dense(16)
    assert flash_or_steps(2)(form, w) == 2 * 48 * 96
    assert flash_or_steps(0.001)(form, w) == 3 * 96


def test_resident_weights_cost_their_code_and_their_steps() -> None:
    """Slices with 24, 32 and 96 live columns of 96."""
    w = random_weights(np.random.default_rng(1), *SHAPE)
    w[:16, 24:] = w[16:32, 32:] = 0
    w[32:, 40:] = 0
    form = Lanes.bitmask(16)
    assert form.steps(w).tolist() == [24, 32, 40]
    assert EvenLanes.of(form).steps(w).tolist() == [40] * 3
    cost = code_and_steps(2, columns=10)
    assert cost(Lanes.dense(16), w) == 10 * 3 * 96
    assert cost(form, w) == 2 * OWN_CODE * 3 + 10 * 96
    assert cost(EvenLanes.of(form), w) == 2 * LOOPED + 10 * 120
    names = []
    for columns in (1, 100):  # a loop where code counts, the fewest steps where sums do
        decision = choose_lanes(measure(w), w, 16, code_and_steps(2, columns), even=True)
        (group,) = decision.groups
        np.testing.assert_array_equal(decode_group(group, SHAPE[1]), w)
        names.append(decision.reason.partition(":")[0])
    assert names == ["lanes16 16x1, even", "lanes16 16x1"]


def test_only_targets_with_an_npu_get_lanes() -> None:
    assert policy_of(load_target("host")) == PORTABLE
    assert policy_of(load_target("cortex-m55")).bias_form is pm.BiasForm.FOLDED
    for name in ("esn-s", "esn-m", "esn-lab"):
        assert policy_of(load_target(name)).bias_form is pm.BiasForm.PLAIN


@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("block", range(4))
def test_a_plan_in_lanes_gives_the_bytes_of_the_other_one(lanes: int, block: int) -> None:
    """Interpreter on both; and the core accepts it."""
    for seed in range(10 * block, 10 * block + 10):
        rng = np.random.default_rng(seed)
        graph = executable_graph(rng)
        plans = [
            write_plan(assemble(lower(graph, policy), "host", "test", "{}").model)
            for policy in (PORTABLE, in_lanes(lanes, lambda columns: COST))]
        inputs = [*random_inputs(rng, graph).values()]
        ours, theirs = (Interpreter(plan).run(inputs) for plan in plans)
        for y, expected in zip(ours, theirs):
            np.testing.assert_array_equal(y, expected, f"seed {seed}")
        NativePlan(plans[1])


def test_depthwise_weights_have_a_lane_for_each_channel() -> None:
    b = GraphBuilder(np.random.default_rng(3))
    x = b.input(1, 9, 20)
    graph = b.graph(b.conv(x, 20, (1, 3), dead=0.5, groups=20))
    model = assemble(lower(graph, in_lanes(16, lambda columns: COST)), "host", "test", "{}").model
    source = model.steps[0].source
    assert isinstance(source, pm.Mac)
    assert format_of(source.weights.groups[0]) == Lanes.dense(16)
    assert source.weights.groups[0].values.shape == (2 * 3 * 16,)
    assert source.bias_form is pm.BiasForm.PLAIN
