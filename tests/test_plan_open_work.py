"""What opening a plan costs: many steps, shared weights, small files that describe big trees."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from edgesparse.plan import model as pm
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from edgesparse.sparsity.formats import Dense
from plan_buffer import Buffer, refused
from plan_builder import PlanBuilder, mac, random_weights, requant, stored


def chain(steps: int, rng: np.random.Generator, shared: int = 0) -> pm.PlanModel:
    """Fully connected steps, one after the other; their weights repeat after `shared`."""
    b = PlanBuilder()
    x = b.input(1, 64)
    sources: list[tuple[pm.Mac, pm.Requant]] = []
    for i in range(steps):
        if not shared or i < shared:
            w = random_weights(rng, 64, 64)
            sources.append((
                mac(stored(w, (64, Dense())), w, rng.integers(-99, 99, 64), 0),
                requant(rng.random(64) / 100, 0)))
        source, stage = sources[i % len(sources)]
        y = b.output(1, 64) if i == steps - 1 else b.tensor(1, 64)
        b.tail(source, x, y, stage)
        x = y
    return b.plan()


def seconds_to_open(data: bytes) -> float:
    """The best of three."""
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        NativePlan(data)
        best = min(best, time.perf_counter() - start)
    return best


def test_a_plan_of_700_steps_opens_fast() -> None:
    """4 ms on a quiet machine; the limit is for a busy one."""
    assert seconds_to_open(write_plan(chain(700, np.random.default_rng(1), shared=12))) < 0.2


def test_steps_that_share_their_weights_are_opened_at_the_cost_of_one() -> None:
    rng = np.random.default_rng(1)
    one, many = (write_plan(chain(n, rng, shared=1)) for n in (1, 200))
    assert len(many) < 20 * len(one)
    NativePlan(many)


def test_more_tensors_than_numbers_for_them_are_refused() -> None:
    for count, invariant in ((65536, 7), (65535, 5)):  # 5: there is nothing behind the offsets
        b = Buffer()
        b.put(b.follow(b.locate("tensors")), "I", count)
        b.data += bytes(4 * count)
        refused(b.sealed(), invariant)


def test_a_small_file_that_describes_a_big_tree_is_refused_fast() -> None:
    """300 steps, each of 16 branches of 16 stages, all of them one table of each kind."""
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, 1)
    b.tail(pm.Load(), x, y, *[pm.Lut(table=np.zeros(256, np.int8))] * 16)
    plan = b.plan()
    (step,) = plan.steps
    data = write_plan(replace(plan, steps=(replace(step, branches=step.branches * 16),) * 300))
    assert len(data) < 1 << 12
    start = time.perf_counter()
    refused(data, 21)
    assert time.perf_counter() - start < 1  # 15 ms, if nobody else works


def test_a_table_that_says_it_is_big_counts_as_big() -> None:
    """I-8: 256 stages of one table of 60,000 bytes."""
    b = PlanBuilder()
    x, y = b.input(1, 1), b.output(1, 1)
    b.tail(pm.Load(), x, y, *[pm.Clamp(qmin=-1, qmax=1)] * 16)
    plan = b.plan()
    (step,) = plan.steps
    data = write_plan(replace(plan, steps=(replace(step, branches=step.branches * 16),)))
    refused(data, 21)
    buffer = Buffer(data)
    branch = buffer.follow(buffer.follow(buffer.locate("steps", 0, "branches")) + 4)
    stage = buffer.follow(buffer.follow(buffer.field(branch, 3)) + 4)
    clamp = buffer.follow(buffer.field(stage, 1))
    buffer.put(buffer.vtable(clamp) + 2, "H", 60000)
    buffer.data += bytes(60000)
    refused(buffer.sealed(), 8)


def test_a_search_for_writers_without_end_is_given_up() -> None:
    """Every step reads what the first one of 4,096 wrote: far more looks than I-26 allows if each
    reads it 16 times."""
    b = PlanBuilder()
    x, first, scrap = b.input(1, 1), b.tensor(1, 1), b.output(1, 1)
    b.tail(pm.Load(), x, first)
    lut = [pm.Mul(operand=first, value_zero_point=0, other_zero_point=0,
                  out=pm.Scaled(zero_point=0, shift=0, multiplier=1), qmin=-1, qmax=1,
                  rounding=0)] * 16  # type: ignore[arg-type]
    b.tail(pm.Load(), x, scrap, *lut)
    plan = b.plan()
    few = replace(plan, steps=(plan.steps[0], *(plan.steps[1],) * 400))
    NativePlan(write_plan(few))
    many = replace(plan, steps=(plan.steps[0], *(plan.steps[1],) * 4000))
    start = time.perf_counter()
    refused(write_plan(many), 26)
    assert time.perf_counter() - start < 10
