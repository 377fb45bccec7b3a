"""The memory planner: nothing alive overlaps, and the lower bound is reached."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.mapping.memory import ALIGN, Buffer, lower_bound, plan_memory


def random_buffers(rng: np.random.Generator, count: int) -> list[Buffer]:
    first = rng.integers(0, count, count)
    span = rng.integers(0, 6, count)
    size = rng.integers(1, 5000, count)
    return [
        Buffer(f"b{i}", int(size[i]), int(first[i]), int(first[i] + span[i]))
        for i in range(count)
    ]


def overlaps(buffers: list[Buffer], offsets: dict[str, int]) -> list[tuple[str, str]]:
    return [
        (a.name, b.name)
        for i, a in enumerate(buffers)
        for b in buffers[:i]
        if a.first <= b.last and b.first <= a.last
        and offsets[a.name] < offsets[b.name] + b.size
        and offsets[b.name] < offsets[a.name] + a.size
    ]


@pytest.mark.parametrize("seed", range(40))
def test_buffers_alive_together_never_share_bytes(seed: int) -> None:
    buffers = random_buffers(np.random.default_rng(seed), 30)
    plan = plan_memory(buffers)
    assert overlaps(buffers, plan.offsets) == []
    assert plan.peak == max(
        plan.offsets[b.name] + -(-b.size // ALIGN) * ALIGN for b in buffers)
    assert all(offset % ALIGN == 0 for offset in plan.offsets.values())


def test_the_lower_bound_is_reached_on_most_random_plans() -> None:
    rng = np.random.default_rng(1)
    ratios = [plan_memory(random_buffers(rng, 25)).ratio for _ in range(40)]
    assert np.mean(np.array(ratios) == 1.0) >= 0.95
    assert max(ratios) <= 1.02


def test_the_lower_bound_counts_what_is_alive_at_one_step() -> None:
    buffers = [Buffer("a", 10, -1, 1), Buffer("b", 6, 1, 2), Buffer("c", 100, 3, 3)]
    assert lower_bound(buffers) == 100
    assert lower_bound(buffers[:2]) == 12 + 8


def test_the_same_buffers_give_the_same_plan() -> None:
    buffers = random_buffers(np.random.default_rng(7), 40)
    assert plan_memory(buffers) == plan_memory(buffers)


def test_no_buffers_need_no_memory() -> None:
    assert plan_memory([]).peak == 0
