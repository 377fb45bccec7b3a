"""The loop that runs the passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgesparse.errors import GraphInvalid
from edgesparse.graph.ir import Graph
from edgesparse.graph.text import to_text
from edgesparse.ops import LeakyRelu, Relu, Reshape
from edgesparse.passes.eliminate_dead import eliminate_dead
from edgesparse.passes.merge_reshapes import merge_reshapes
from edgesparse.passes.pipeline import CANONICAL, INT8, run_passes
from graph_builder import GraphBuilder, operators


def chain() -> Graph:
    b = GraphBuilder(np.random.default_rng(1))
    y = b.conv(b.input(1, 1, 9, 3), 4)
    return b.graph(b.apply(LeakyRelu(0.1), b.apply(Reshape((1, 9, 4)), y)))


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    def drop_the_first_node(graph: Graph) -> Graph:
        return replace(graph, nodes=graph.nodes[1:])

    with pytest.raises(GraphInvalid, match="after drop_the_first_node: Reshape layer1"):
        run_passes(chain(), (eliminate_dead, drop_the_first_node, merge_reshapes))


def test_the_graph_is_dumped_after_the_passes_asked_for() -> None:
    dumps: list[tuple[str, str]] = []
    graph = run_passes(
        chain(), dump_after=("conv1d", "collapse_unary"),
        dump=lambda name, text: dumps.append((name, text)),
    )
    assert [name for name, _ in dumps] == ["conv1d", "collapse_unary"]
    assert "Reshape" in dumps[0][1]
    assert dumps[1][1] == to_text(graph)


def test_passes_leave_the_graph_they_get_alone() -> None:
    graph = chain()
    before = to_text(graph)
    assert operators(run_passes(graph)) == ["Reshape", "Conv", "Lut"]
    assert to_text(graph) == before


def test_every_pass_says_what_it_rewrites_when_and_what_it_keeps() -> None:
    for run in CANONICAL + INT8:
        assert run.__doc__ is not None
        for word in ("rewrite:", "when:", "keeps:"):
            assert word in run.__doc__, (run.__name__, word)


def test_float_models_go_through_the_canonical_passes() -> None:
    b = GraphBuilder(np.random.default_rng(1), real=True)
    y = b.apply(Relu(), b.conv(b.input(1, 1, 9, 3), 4))
    assert operators(run_passes(b.graph(y), CANONICAL)) == ["Reshape", "Conv", "Reshape"]
