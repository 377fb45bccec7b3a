"""Graphs as text, and what the passes make of two small models, in golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.graph.ir import Graph, Quant
from edgesparse.graph.text import to_text
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Add, HardSwish, Lut, Mean, Requantize, Reshape
from edgesparse.ops.activation import Activation
from edgesparse.passes.pipeline import run_passes
from graph_builder import GraphBuilder

GOLDEN = Path(__file__).parent / "golden"


def check(name: str, text: str, update: bool) -> None:
    path = GOLDEN / f"{name}.txt"
    if update:
        path.write_text(text)
    assert text == path.read_text()


def network() -> Graph:
    """Two Convs in a residual block, one with a dead row, and what exporters put around them."""
    b = GraphBuilder(np.random.default_rng(5))
    x = b.apply(Reshape((1, 1, 12, 3)), b.input(1, 12, 3, quant=Quant((0.05,), (3,))))
    y = b.conv(x, 4, (1, 3), pad=(0, 0, 1, 1), activation=Activation.RELU, dead=0.4)
    z = b.apply(HardSwish(), b.conv(y, 4, groups=4), quant=Quant((0.02,), (-20,)))
    y = b.apply(Add(), y, z, quant=Quant((0.1,), (1,)))
    y = b.apply(Mean((1, 2)), b.apply(Requantize(), y, quant=Quant((0.07,), (0,))))
    graph = b.graph(b.fully_connected(y, 2))
    return replace(graph, float_inputs=(True,), input_names=("samples",))


@pytest.mark.parametrize("passes", [False, True])
def test_a_network_as_text(passes: bool, update_golden: bool) -> None:
    graph = run_passes(network()) if passes else network()
    check("network_after_passes" if passes else "network", to_text(graph), update_golden)


@pytest.mark.parametrize("name", ["cases/s2b", "models/tflm_hello_int8"])
def test_a_model_after_the_passes_as_text(
    name: str, models_dir: Path, cases_dir: Path, update_golden: bool
) -> None:
    stem = name.split("/")[1]
    path = {"cases": cases_dir / "tflite", "models": models_dir / "tflm"}[name.split("/")[0]]
    graph = import_tflite((path / f"{stem}.tflite").read_bytes(), stem)
    check(f"{stem}_after_passes", to_text(run_passes(graph)), update_golden)


def test_equal_graphs_have_equal_text_and_others_another() -> None:
    graph = network()
    assert to_text(graph) == to_text(network())
    w = graph.tensors[graph.nodes[1].inputs[1]]
    assert w.data is not None
    other = replace(w, data=np.where(w.data == w.data.max(), 0, w.data).astype(np.int8))
    assert to_text(graph.with_nodes(graph.nodes, [other])) != to_text(graph)


def test_tables_and_kept_channels_are_shown_in_short() -> None:
    b = GraphBuilder(np.random.default_rng(5))
    y = b.apply(Lut(bytes(256)), b.input(1, 4, 5), kept=(0, 1, 2, 7, 9))
    assert " keeps 0-2,7,9 = Lut(entries=256 bytes 0d968558)(x0)" in to_text(b.graph(y))
