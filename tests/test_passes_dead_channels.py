"""Exact dead-channel folding: what goes, what has to stay, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Quant
from edgesparse.graph.verify import verify
from edgesparse.ops import (
    Add,
    AvgPool,
    BatchToSpace,
    Concat,
    Conv,
    Dequantize,
    LeakyRelu,
    MaxPool,
    Mean,
    Mul,
    Pad,
    Reshape,
    Slice,
    Softmax,
    SpaceToBatch,
    Transpose,
)
from edgesparse.ops.activation import Activation
from edgesparse.passes.dead_channels import dead_channels
from edgesparse.passes.value_ranges import value_ranges
from graph_builder import GraphBuilder, compare, random_inputs
from random_graphs import random_graph


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(7))


def folded(graph: Graph) -> Graph:
    """What the pass makes of it; equal in every channel that is left, and done at once."""
    verify(graph, "the test")
    after = dead_channels(graph)
    verify(after, "dead_channels")
    for seed in range(3):
        assert compare(np.random.default_rng(seed), graph, after)
    assert dead_channels(after) is after
    return after


def set_rows(
    b: GraphBuilder, tensor: str, rows: Sequence[int], stored: int | None = None
) -> None:
    """Weights of 0 in some rows of the Conv that makes `tensor`; their output is then the zero
    point, or `stored`."""
    node = next(n for n in b.nodes if n.outputs == (tensor,))
    w, bias = (b.tensors[t] for t in node.inputs[1:])
    assert w.data is not None
    assert bias.data is not None
    assert w.quant is not None
    weights, biases = w.data.copy(), bias.data.copy()
    weights[list(rows)] = 0
    zero, scale = b.tensors[tensor].zero_point, b.tensors[tensor].scale
    for row in rows:
        one = b.tensors[node.inputs[0]].scale * w.quant.scale[row] / scale
        biases[row] = 0 if stored is None else round((stored - zero) / one)
    replace_data(b, w.name, weights)
    replace_data(b, bias.name, biases)


def set_columns(b: GraphBuilder, tensor: str, columns: Sequence[int]) -> None:
    """Weights of 0 in some columns of what makes `tensor`: it does not read these channels."""
    node = next(n for n in b.nodes if n.outputs == (tensor,))
    w = b.tensors[node.inputs[1]].data
    assert w is not None
    weights = w.copy()
    weights[..., list(columns)] = 0
    replace_data(b, node.inputs[1], weights)


def replace_data(b: GraphBuilder, name: str, data: Array) -> None:
    t = b.tensors.pop(name)
    b.constant(data, t.quant)
    made = b.tensors.popitem()[1]
    b.tensors[name] = type(t)(name, made.shape, made.dtype, t.quant, data)


def kept(graph: Graph, name: str) -> tuple[int, ...]:
    t = graph.tensors[name]
    return tuple(range(t.channels)) if t.kept is None else t.kept


# What goes


def test_rows_of_zeros_go_with_their_columns(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 6, (1, 3), pad=(0, 0, 1, 1))
    set_rows(b, y, [1, 4])
    z = b.conv(y, 5, (1, 3), pad=(0, 0, 1, 1))
    after = folded(b.graph(z))
    assert kept(after, y) == (0, 2, 3, 5)
    assert [after.tensors[n.inputs[1]].shape for n in after.nodes] == [(4, 1, 3, 3), (5, 1, 3, 4)]


def test_channels_that_nobody_reads_go_back_to_where_they_come_from(b: GraphBuilder) -> None:
    first = b.conv(b.input(1, 9, 3), 6, (1, 3))
    second = b.conv(first, 6, (1, 3), groups=6)
    third = b.conv(second, 4)
    set_columns(b, third, [0, 5])
    after = folded(b.graph(third))
    assert kept(after, first) == kept(after, second) == (1, 2, 3, 4)
    assert after.nodes[1].op.groups == 4


def test_a_row_that_is_read_by_dead_rows_only_goes(b: GraphBuilder) -> None:
    first = b.conv(b.input(1, 9, 3), 4)
    second = b.conv(first, 4)
    third = b.conv(second, 4)
    set_columns(b, third, [0, 1, 2])
    node = next(n for n in b.nodes if n.outputs == (second,))
    w = b.tensors[node.inputs[1]].data
    assert w is not None
    weights = w.copy()
    weights[3, ..., [0, 1]] = 0
    replace_data(b, node.inputs[1], weights)
    after = folded(b.graph(third))
    assert (kept(after, first), kept(after, second)) == ((2, 3), (3,))


@pytest.mark.parametrize("constant", [-90, 0, 127])
def test_a_constant_goes_into_the_bias_where_no_padding_sees_it(
    b: GraphBuilder, constant: int
) -> None:
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], constant)
    after = folded(b.graph(b.conv(y, 5, (1, 3), stride=(1, 2), dilation=(1, 2))))
    assert kept(after, y) == (0, 1, 3)


def test_a_constant_that_padding_sees_stays(b: GraphBuilder) -> None:
    """Removing it would be right inside and wrong at the border."""
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    after = folded(b.graph(b.conv(y, 5, (1, 3), pad=(0, 0, 1, 0))))
    assert kept(after, y) == (0, 1, 2, 3)


def test_a_constant_goes_past_padding_that_its_own_weights_do_not_meet(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    z = b.conv(y, 5, (1, 3), pad=(0, 0, 1, 1))
    node = b.nodes[-1]
    w = b.tensors[node.inputs[1]].data
    assert w is not None
    weights = w.copy()
    weights[:, :, [0, 2], 2] = 0  # the middle tap alone reads the constant
    replace_data(b, node.inputs[1], weights)
    assert kept(folded(b.graph(z)), y) == (0, 1, 3)


@pytest.mark.parametrize(("constant", "left"), [(5, (0, 1, 3)), (60, (0, 1, 2, 3))])
def test_a_depthwise_conv_passes_on_the_zero_point_only(
    b: GraphBuilder, constant: int, left: tuple[int, ...]
) -> None:
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], constant)
    z = b.conv(y, 4, (1, 3), pad=(0, 0, 1, 1), groups=4)
    after = folded(b.graph(b.conv(z, 5)))
    assert kept(after, y) == kept(after, z) == left


def test_a_border_that_saturates_is_no_border(b: GraphBuilder) -> None:
    """The depthwise output is clamped to the same value inside and at the border."""
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    z = b.conv(y, 4, (1, 3), pad=(0, 0, 1, 1), groups=4, activation=Activation.RELU,
               quant=b.quant(-128))
    bias = next(n for n in b.nodes if n.outputs == (z,)).inputs[2]
    data = b.tensors[bias].data
    assert data is not None
    biases = data.copy()
    biases[2] = -1_000_000
    replace_data(b, bias, biases)
    assert kept(folded(b.graph(b.conv(z, 5, (1, 3)))), z) == (0, 1, 3)


def test_a_row_that_always_saturates_is_a_constant(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4, activation=Activation.RELU, quant=b.quant(-128))
    bias = b.nodes[-1].inputs[2]
    data = b.tensors[bias].data
    assert data is not None
    biases = data.copy()
    biases[1] = -10_000_000
    replace_data(b, bias, biases)
    assert kept(folded(b.graph(b.conv(y, 5, (1, 3), pad=(0, 0, 1, 1)))), y) == (0, 2, 3)


def test_a_constant_row_that_has_to_stay_gets_weights_of_zero(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4, activation=Activation.RELU, quant=b.quant(-128))
    bias = b.nodes[-1].inputs[2]
    data = b.tensors[bias].data
    assert data is not None
    biases = data.copy()
    biases[1] = -10_000_000
    replace_data(b, bias, biases)
    after = folded(b.graph(y))
    w = after.tensors[after.nodes[0].inputs[1]].data
    assert w is not None
    assert (w.reshape(4, -1) == 0).all(axis=1).tolist() == [False, True, False, False]


def test_a_dense_layer_loses_every_column_of_a_flattened_channel(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 5, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    z = b.fully_connected(b.apply(Reshape((1, 20)), y), 3)
    after = folded(b.graph(z))
    assert kept(after, y) == (0, 1, 3)
    assert after.tensors[after.nodes[-1].inputs[1]].shape == (3, 15)


def test_a_dense_layer_takes_a_channel_that_differs_at_the_border(b: GraphBuilder) -> None:
    """One output position: what is known adds the same to it, border or not."""
    y = b.conv(b.input(1, 5, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    z = b.conv(y, 4, (1, 3), pad=(0, 0, 1, 1), groups=4)
    flat = b.fully_connected(b.apply(Reshape((1, 20)), z), 3)
    assert kept(folded(b.graph(flat)), z) == (0, 1, 3)


def test_constants_run_through_everything_that_keeps_channels_apart(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 8, 3), 4, quant=b.quant(5))
    set_rows(b, y, [1], 60)
    z = b.apply(LeakyRelu(0.1), y, quant=b.quant())
    z = b.apply(MaxPool((2, 2), (1, 1), (1, 0, 0, 1)), z)
    z = b.apply(Transpose((0, 2, 1, 3)), b.apply(AvgPool((2, 2), (2, 2)), z))
    z = b.apply(Add(), z, b.values(4), quant=b.quant())
    z = b.apply(Mul(), z, b.values(1), quant=b.quant())
    z = b.apply(Slice((0, 0, 1, 0), (1, 1, 2, 1), (1, 4, 2, 4)), z)
    z = b.apply(Dequantize(), b.apply(Mean((1, 2)), z, quant=b.quant()), quant=None,
                dtype="float32")
    graph = b.graph(b.conv(y, 2), z)
    assert kept(folded(graph), y) == (0, 1, 2, 3), "an output keeps its channels"
    z = b.apply(Mean((1, 2)), b.nodes[-3].inputs[0], quant=b.quant())
    after = folded(b.graph(b.conv(y, 2), b.fully_connected(z, 3)))
    assert kept(after, y) == (0, 2, 3)


def test_both_sides_of_a_sum_lose_a_channel_together(b: GraphBuilder) -> None:
    x, quant = b.input(1, 9, 3), Quant((0.05,), (5,))
    one, two = (b.conv(x, 5, quant=quant) for _ in range(2))
    set_rows(b, one, [1, 2], 60)
    set_rows(b, two, [2, 3], -60)
    total = b.apply(Add(), one, two, quant=Quant((0.2,), (5,)))
    after = folded(b.graph(b.conv(total, 2, (1, 3))))
    assert kept(after, one) == kept(after, two) == kept(after, total) == (0, 1, 3, 4)


def test_every_part_of_a_concat_loses_its_own_channels(b: GraphBuilder) -> None:
    x, quant = b.input(1, 9, 3), b.quant(5)
    one, two = (b.conv(x, 3, quant=quant) for _ in range(2))
    set_rows(b, one, [1], 60)
    set_rows(b, two, [0], 60)
    fixed = b.constant(np.full((1, 9, 2), 7, np.int8), quant)
    y = b.apply(Concat(2), one, fixed, two)
    after = folded(b.graph(b.conv(y, 2)))
    assert (kept(after, one), kept(after, two), kept(after, y)) == ((0, 2), (1, 2), (0, 2, 3, 6, 7))


def test_a_slice_of_channels_and_padded_ones_are_counted_anew(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 6, quant=b.quant(5))
    set_rows(b, y, [1, 3], 60)
    part = b.apply(Slice((0, 0, 2), (1, 1, 1), (1, 9, 4)), y)
    wide = b.apply(Pad((0, 0, 1), (0, 0, 2)), y)
    after = folded(b.graph(b.conv(part, 2), b.conv(wide, 2)))
    assert kept(after, y) == (0, 2, 4, 5)
    assert (kept(after, part), kept(after, wide)) == ((0, 2, 3), (1, 3, 5, 6))


def test_space_to_batch_keeps_channels_apart(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 3), 4, quant=b.quant(5))
    set_rows(b, y, [0])
    y = b.apply(SpaceToBatch((2,), ((0, 0),)), y)
    y = b.apply(BatchToSpace((2,), ((0, 0),)), b.apply(LeakyRelu(0.5), y, quant=b.quant()))
    assert kept(folded(b.graph(b.conv(y, 2))), y) == (1, 2, 3)


def test_space_to_batch_of_the_channels_does_not(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 8, 3), 4, quant=b.quant(5))
    set_rows(b, y, [0])
    z = b.apply(SpaceToBatch((2, 2), ((0, 0), (0, 0))), y)
    z = b.apply(BatchToSpace((2, 2), ((0, 0), (0, 0))), z)
    assert kept(folded(b.graph(b.conv(z, 2))), y) == (0, 1, 2, 3)


def test_a_grouped_conv_loses_whole_groups(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 6)
    set_rows(b, y, [0, 2, 3])
    z = b.conv(y, 9, groups=3)
    after = folded(b.graph(b.conv(z, 2)))
    assert (kept(after, y), kept(after, z)) == ((0, 1, 4, 5), (0, 1, 2, 6, 7, 8))
    assert after.nodes[1].op.groups == 2


def test_scales_per_channel_go_with_their_channels(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4)
    set_rows(b, y, [1])
    graph = b.graph(b.conv(y, 5))
    after = folded(graph)
    for before, now in zip(graph.ins(graph.nodes[0])[1:], after.ins(after.nodes[0])[1:]):
        assert before.quant is not None
        assert now.quant is not None
        assert now.quant.scale == tuple(before.quant.scale[i] for i in (0, 2, 3))


# What stays


def test_inputs_and_outputs_keep_their_channels(b: GraphBuilder) -> None:
    x = b.input(1, 9, 3)
    y = b.conv(x, 4)
    set_columns(b, y, [1])
    set_rows(b, y, [2])
    assert folded(b.graph(y)).tensors[y].kept is None


def test_a_tensor_keeps_at_least_one_channel(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4)
    set_rows(b, y, range(4))
    assert kept(folded(b.graph(b.conv(y, 5))), y) == (0,)


def test_a_dense_layer_with_a_scale_per_row_keeps_two_rows(b: GraphBuilder) -> None:
    """With one it would have a single scale, whose multiplier is rounded otherwise."""
    y = b.fully_connected(b.input(1, 4), 5)
    set_rows(b, y, [0, 1, 2, 4])
    after = folded(b.graph(b.fully_connected(y, 3)))
    assert kept(after, y) == (0, 3)


def test_shared_weights_stay_shared(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 4), 4)
    set_rows(b, y, [1])
    w, bias = b.nodes[-1].inputs[1:]
    again = b.apply(Conv(), y, w, bias)
    graph = b.graph(b.conv(again, 3))
    assert folded(graph) is graph


def test_a_bias_that_others_read_too_stays_for_them(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [2], 60)
    one = b.conv(y, 3)
    bias = b.nodes[-1].inputs[2]
    other, _ = b.weights(3, 1, 1, 3)
    two = b.apply(Conv(), one, other, bias, quant=b.quant())
    after = folded(b.graph(two))
    assert kept(after, y) == (0, 1, 3)
    assert after.nodes[1].inputs[2] != after.nodes[2].inputs[2] == bias


@pytest.mark.parametrize("op", [Softmax(), Reshape((1, 18, 2)), Mean((2,))], ids=repr)
def test_an_operator_that_mixes_channels_needs_them_all(b: GraphBuilder, op: Softmax) -> None:
    y = b.conv(b.input(1, 9, 3), 4, quant=b.quant(5))
    set_rows(b, y, [1], 60)
    z = b.apply(op, y, quant=Quant((1 / 256,), (-128,)))
    graph = b.graph(b.apply(LeakyRelu(0.5), z))
    assert kept(folded(graph), y) == (0, 1, 2, 3)


@pytest.mark.parametrize(("width", "left"), [(70_000, 70_000), (60_000, 2)])
def test_a_fold_that_could_overflow_the_bias_is_not_done(
    b: GraphBuilder, width: int, left: int
) -> None:
    """255 * 127 * 70,000 is more than an int32 holds; a fold of 60,000 columns always fits."""
    y = b.fully_connected(b.input(1, 4), width, quant=b.quant(5))
    set_rows(b, y, range(1, width))
    z = b.fully_connected(y, 1, quant=Quant((0.0005,), (0,)))
    replace_data(b, b.nodes[-1].inputs[1], np.full((1, width), 127, np.int8))
    assert len(kept(folded(b.graph(z)), y)) == left


def test_a_float_graph_stays() -> None:
    b = GraphBuilder(np.random.default_rng(1), real=True)
    y = b.conv(b.input(1, 9, 3), 4)
    w = b.nodes[-1].inputs[1]
    replace_data(b, w, np.zeros((4, 1, 1, 3), np.float32))
    graph = b.graph(b.conv(y, 5))
    assert dead_channels(graph) is graph


# The ranges behind it


def test_every_value_lies_in_its_range() -> None:
    known = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        ranges = value_ranges(graph)
        for _ in range(3):
            values = evaluate(graph, random_inputs(rng, graph))
            for name, seen in ranges.items():
                assert (seen.low <= values[name]).all(), (seed, name)
                assert (values[name] <= seen.high).all(), (seed, name)
        known += sum(
            int(seen.known.sum()) for name, seen in ranges.items()
            if graph.tensors[name].data is None
        )
    assert known > 100, "the random graphs are to have constants in them"
