"""Every pass, and all of them in order, on random int8 graphs."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.graph.text import to_text
from edgesparse.graph.verify import verify
from edgesparse.passes.pipeline import CANONICAL, INT8
from graph_builder import compare, random_graph

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
