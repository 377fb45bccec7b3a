"""History in the passes: channels run through it, its first columns are zero points."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.graph.ir import Array, Graph, Quant
from edgesparse.graph.verify import verify
from edgesparse.ops import Dequantize, History, Quantize, Relu
from edgesparse.ops.activation import Activation
from edgesparse.passes.dead_channels import dead_channels
from edgesparse.passes.eliminate_dead import eliminate_dead
from edgesparse.passes.fold_constants import fold_constants
from edgesparse.passes.move_quantization import move_quantization
from edgesparse.passes.pipeline import run_passes
from edgesparse.passes.value_ranges import value_ranges
from edgesparse.streaming.simulate import Simulator
from graph_builder import GraphBuilder, operators, random_inputs

RUNS = 12


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(11))


def assert_same_stream(before: Graph, after: Graph) -> None:
    """Every run from the start: the outputs hold the same bytes."""
    verify(after, "the pass")
    rng = np.random.default_rng(5)
    one, other = Simulator(before), Simulator(after)
    for _ in range(RUNS):
        inputs = random_inputs(rng, before)
        a, b = one.run(inputs), other.run(inputs)
        for x, y in zip(before.outputs, after.outputs, strict=True):
            np.testing.assert_array_equal(a[x], b[y])


def silence(b: GraphBuilder, tensor: str, rows: list[int], stored: int | None = None) -> None:
    """Weights of 0 in some rows of a Conv: they give the zero point, or `stored`."""
    node = next(n for n in b.nodes if n.outputs == (tensor,))
    w, bias = (b.tensors[t] for t in node.inputs[1:])
    y = b.tensors[tensor]
    assert w.data is not None
    assert w.quant is not None
    assert bias.data is not None
    weights, sums = w.data.copy(), bias.data.copy()
    weights[rows] = 0
    step = 0 if stored is None else (stored - y.zero_point) * y.scale
    for r in rows:
        sums[r] = round(step / (b.tensors[node.inputs[0]].scale * w.quant.scale[r]))
    for t, data in ((w, weights), (bias, sums)):
        b.tensors[t.name] = type(t)(t.name, t.shape, t.dtype, t.quant, data)


def test_channels_that_are_zero_points_go_through_a_ring(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 2, 5), 6, (1, 1), quant=Quant((0.05,), (-7,)))
    silence(b, y, [1, 4])
    h = b.apply(History(5), y)
    graph = b.graph(b.conv(h, 3, (1, 5)))
    after = dead_channels(graph)
    assert after.tensors[h].kept == after.tensors[y].kept == (0, 2, 3, 5)
    assert_same_stream(graph, after)


def test_channels_that_nobody_reads_go_back_through_a_ring(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 2, 5), 6, (1, 1))
    h = b.apply(History(5, lag=1), y)
    z = b.conv(h, 3, (1, 5))
    w = b.tensors[b.nodes[-1].inputs[1]]
    assert w.data is not None
    unread: Array = w.data.copy()
    unread[..., [0, 3]] = 0
    b.tensors[w.name] = type(w)(w.name, w.shape, w.dtype, w.quant, unread)
    graph = b.graph(z)
    after = dead_channels(graph)
    assert after.tensors[y].kept == (1, 2, 4, 5)
    assert_same_stream(graph, after)


def test_another_constant_stays_because_it_is_none_at_the_start(b: GraphBuilder) -> None:
    """In the first runs the ring still holds zero points."""
    y = b.conv(b.input(1, 2, 5), 6, (1, 1), quant=Quant((0.05,), (-7,)))
    silence(b, y, [1], stored=60)
    h = b.apply(History(5), y)
    graph = b.graph(b.conv(h, 3, (1, 5)))
    after = dead_channels(graph)
    assert after.tensors[h].channels == 6
    seen = value_ranges(graph)
    assert (seen[y].low[..., 1] == 60).all()
    assert (seen[y].high[..., 1] == 60).all()
    assert (seen[h].low[..., 1] == -7).all()
    assert (seen[h].high[..., 1] == 60).all()
    assert_same_stream(graph, after)


def test_ranges_hold_in_every_run(b: GraphBuilder) -> None:
    """What a column may be, any column of the past may be."""
    y = b.conv(b.input(1, 3, 5), 6, (1, 3), pad=(0, 0, 1, 1), quant=Quant((0.05,), (-7,)))
    silence(b, y, [2], stored=60)
    h = b.apply(History(4), b.apply(Relu(Activation.RELU), y))
    graph = b.graph(h)
    ranges, model = value_ranges(graph), Simulator(graph)
    rng = np.random.default_rng(6)
    for _ in range(RUNS):
        for name, value in model.run(random_inputs(rng, graph)).items():
            if name in ranges:
                assert (ranges[name].low <= value).all(), name
                assert (value <= ranges[name].high).all(), name


def test_the_past_of_a_constant_is_no_constant(b: GraphBuilder) -> None:
    h = b.apply(History(4), b.apply(Relu(Activation.RELU), b.values(1, 2, 3)))
    graph = b.graph(b.apply(Relu(Activation.RELU), h))
    after = fold_constants(graph)
    assert operators(after) == ["History", "Relu"]
    assert_same_stream(graph, after)


def test_states_of_one_tensor_are_one_and_of_two_are_two(b: GraphBuilder) -> None:
    x, other = b.input(1, 2, 3), b.input(1, 2, 3, quant=Quant((0.1,), (4,)))
    same = [b.apply(Relu(Activation.RELU), b.apply(History(5), x)) for _ in range(2)]
    lagging = b.apply(History(5, lag=1), x)
    apart = b.apply(History(5), other)
    graph = b.graph(b.conv(same[0], 2), b.conv(same[1], 3), b.conv(lagging, 2), b.conv(apart, 2))
    after = eliminate_dead(graph)
    histories = [(n.op, n.inputs) for n in after.nodes if isinstance(n.op, History)]
    assert histories == [(History(5), (x,)), (History(5, 1), (x,)), (History(5), (other,))]
    assert_same_stream(graph, after)


def test_a_history_of_every_column_is_still_a_state_with_a_lag(b: GraphBuilder) -> None:
    """Its shape is that of its input; it is not its input."""
    x = b.input(1, 2, 3)
    graph = b.graph(b.conv(b.apply(History(2, lag=1), x), 4))
    after = run_passes(graph)
    assert "History" in operators(after)
    assert_same_stream(graph, after)


def test_quantization_moves_through_a_ring(b: GraphBuilder) -> None:
    """Real 0 at the start is the zero point."""
    x = b.input(1, 2, 3, quant=Quant((0.05,), (-7,)))
    f = b.apply(Dequantize(), x, dtype="float32", quant=None)
    h = b.apply(History(5), f)
    q = b.apply(Quantize(), h, like=x)
    graph = b.graph(q)
    after = move_quantization(graph)
    history = next(n for n in after.nodes if isinstance(n.op, History))
    assert after.tensors[history.inputs[0]].dtype == "int8"
    assert_same_stream(graph, after)
