"""Every pass, and all of them in order, on random graphs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from edgesparse.graph.text import to_text
from edgesparse.graph.verify import verify
from edgesparse.passes.pipeline import CANONICAL, INT8
from graph_builder import compare
from random_graphs import random_graph

PASSES = tuple(dict.fromkeys(CANONICAL + INT8))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_a_pass_keeps_every_byte_and_the_second_time_changes_nothing(first: int) -> None:
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        verify(graph, "the builder")
        for run in PASSES:
            once = run(graph)
            verify(once, run.__name__)
            assert compare(np.random.default_rng(seed), graph, once) > 0, (seed, run.__name__)
            assert to_text(run(once)) == to_text(once), (seed, run.__name__)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_each_pass_keeps_every_byte_of_what_the_passes_before_it_left(first: int) -> None:
    for seed in range(first, first + 20):
        graph = random_graph(np.random.default_rng(seed))
        for run in CANONICAL + INT8:
            after = run(graph)
            verify(after, run.__name__)
            assert compare(np.random.default_rng(seed), graph, after) > 0, (seed, run.__name__)
            assert to_text(run(after)) == to_text(after), (seed, run.__name__)
            graph = after


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_float_passes_keep_every_value_up_to_rounding(first: int) -> None:
    for seed in range(first, first + 20):
        graph = random_graph(np.random.default_rng(seed), real=True)
        for run in CANONICAL:
            after = run(graph)
            verify(after, run.__name__)
            assert compare(np.random.default_rng(seed), graph, after) > 0, (seed, run.__name__)
            assert to_text(run(after)) == to_text(after), (seed, run.__name__)
            graph = after


def test_the_random_graphs_give_every_pass_something_to_do() -> None:
    changed = Counter[str]()
    for seed in range(150):
        for real in (False, True):
            graph = random_graph(np.random.default_rng(seed), real)
            for run in CANONICAL if real else CANONICAL + INT8:
                after = run(graph)
                changed[run.__name__] += to_text(after) != to_text(graph)
                graph = after
    assert min(changed[run.__name__] for run in PASSES) >= 3, changed
