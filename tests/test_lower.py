"""Lowering: what fuses and what must not, what needs no copy, and that memory is never shared
by two things that are both needed."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.errors import DoesNotFit, Unsupported, UnsupportedModel
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Graph, Quant
from edgesparse.mapping.assemble import Assembled, assemble
from edgesparse.mapping.lower import lower
from edgesparse.ops import (
    Add,
    Concat,
    Conv,
    FullyConnected,
    Logistic,
    MaxPool,
    Mean,
    Mul,
    Relu,
    Reshape,
    Slice,
    Softmax,
    SpaceToBatch,
    Sub,
    Transpose,
)
from edgesparse.ops.activation import Activation
from edgesparse.passes.pipeline import run_passes
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from graph_builder import GraphBuilder, operators, random_inputs
from random_graphs import random_graph

SIGMOID = Quant((1 / 256,), (-128,))


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(3))


def plan_of(graph: Graph) -> Assembled:
    return assemble(lower(graph), "host", "test", "{}")


def assert_exact(graph: Graph, assembled: Assembled, seed: int = 0, runs: int = 2) -> None:
    """The plan gives what the graph gives, byte for byte, run after run."""
    rng = np.random.default_rng(seed)
    session = Interpreter(write_plan(assembled.model))
    for _ in range(runs):
        inputs = random_inputs(rng, graph)
        want = evaluate(graph, inputs)
        got = session.run([inputs[name] for name in graph.inputs])
        for name, y in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(y.ravel(), want[name].ravel(), err_msg=name)


def executable_graph(rng: np.random.Generator) -> Graph:
    """A random graph without what only the passes can take away, as it is where it has none."""
    while True:
        graph = random_graph(rng)
        if {"Quantize", "Dequantize", "SpaceToBatch"} & set(operators(graph)):
            graph = run_passes(graph)
        if "SpaceToBatch" not in operators(graph):
            return graph


def stages(assembled: Assembled) -> list[list[str]]:
    return [
        [type(s.source).__name__, *(type(x).__name__ for x in s.branches[0].stages)]
        for s in assembled.model.steps
    ]


@pytest.mark.parametrize("seed", range(120))
def test_a_plan_gives_the_bytes_of_its_graph(seed: int) -> None:
    graph = executable_graph(np.random.default_rng(seed))
    assembled = plan_of(graph)
    assert_exact(graph, assembled, seed)
    assert assembled.memory.ratio == 1.0


def test_an_activation_table_joins_the_layer_before(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    graph = b.graph(b.apply(Logistic(), b.conv(x, 5, (1, 3)), quant=SIGMOID))
    assert stages(plan_of(graph)) == [["Mac", "Requant", "Lut"]]
    assert_exact(graph, plan_of(graph))


def test_a_clamp_is_stored_as_two_bytes_and_not_as_a_table(b: GraphBuilder) -> None:
    graph = b.graph(b.apply(Relu(Activation.RELU), b.input(1, 9, 4)))
    assert stages(plan_of(graph)) == [["Load", "Clamp"]]


def test_a_residual_add_joins_the_later_of_its_two_sides(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    left = b.conv(x, 4)
    right = b.conv(left, 4, (1, 3), pad=(0, 0, 1, 1))
    graph = b.graph(b.apply(Add(), left, right, quant=b.quant()))
    assert stages(plan_of(graph)) == [["Mac", "Requant"], ["Mac", "Requant", "Add"]]
    assert_exact(graph, plan_of(graph))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_subtraction_keeps_its_sign_on_either_side(b: GraphBuilder, swapped: bool) -> None:
    x = b.input(1, 9, 4)
    sides = (x, b.conv(x, 4))
    graph = b.graph(b.apply(Sub(), *(sides[::-1] if swapped else sides), quant=b.quant()))
    assert len(plan_of(graph).model.steps) == 1
    assert_exact(graph, plan_of(graph))


def test_a_value_the_user_reads_is_not_fused_away(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 4), 4)
    graph = b.graph(b.apply(Logistic(), y, quant=b.quant()), y)
    assert len(plan_of(graph).model.steps) == 2
    assert_exact(graph, plan_of(graph))


def test_a_value_with_two_readers_is_not_fused_away(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 9, 4), 4)
    a = b.apply(Logistic(), y, quant=SIGMOID)
    graph = b.graph(b.apply(Mul(), a, y, quant=b.quant()))
    assert stages(plan_of(graph)) == [["Mac", "Requant"], ["Load", "Lut", "Mul"]]
    assert_exact(graph, plan_of(graph))


def test_an_operand_that_is_not_ready_yet_is_not_fused(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    first, second = b.conv(x, 4), b.conv(x, 4)
    other = b.conv(second, 4)
    graph = b.graph(b.apply(Add(), first, other, quant=b.quant()))
    assert stages(plan_of(graph))[0] == ["Mac", "Requant"]
    assert_exact(graph, plan_of(graph))


def test_a_residual_add_does_not_overwrite_what_its_layer_still_reads(b: GraphBuilder) -> None:
    x = b.conv(b.input(1, 9, 4), 4)
    graph = b.graph(b.apply(Add(), b.conv(x, 4, (1, 3), pad=(0, 0, 1, 1)), x, quant=b.quant()))
    model = plan_of(graph).model
    step = model.steps[-1]
    places = [model.tensors[t].place for t in (step.input, step.branches[0].output)]
    assert places[0].offset != places[1].offset
    assert_exact(graph, plan_of(graph))


def test_an_elementwise_result_takes_the_bytes_of_a_dying_operand(b: GraphBuilder) -> None:
    x = b.input(1, 50, 4)
    y = b.apply(Add(), b.apply(Logistic(), x, quant=SIGMOID), x, quant=b.quant())
    graph = b.graph(b.apply(MaxPool((1, 2), (1, 2), (0, 0, 0, 0)), y))
    assembled = plan_of(graph)
    assert stages(assembled)[0] == ["Load", "Lut", "Add"]
    step = assembled.model.steps[0]
    assert step.branches[0].output != step.input
    assert (assembled.model.tensors[step.branches[0].output].place.offset
            == assembled.model.tensors[step.input].place.offset)
    assert assembled.model.arena_bytes == 200 + 100 + 4
    assert_exact(graph, assembled)


def test_a_chain_longer_than_a_tail_goes_on_in_a_second_step(b: GraphBuilder) -> None:
    x = y = b.input(1, 5, 4)
    for _ in range(20):
        y = b.apply(Add(), y, b.values(1, 1, 4), quant=b.tensors[x].quant)
    assembled = plan_of(b.graph(y))
    assert [len(s.branches[0].stages) for s in assembled.model.steps] == [16, 4]
    assert_exact(b.graph(y), assembled)


def test_operands_broadcast_without_copies_along_channels_columns_and_both(
    b: GraphBuilder,
) -> None:
    x = b.input(1, 5, 6, 4)
    y = b.apply(Add(), x, b.values(1, 1, 1, 4), quant=b.quant())
    y = b.apply(Mul(), b.values(1, 5, 6, 1), y, quant=b.quant())
    y = b.apply(Sub(), b.values(1), y, quant=b.quant())
    assembled = plan_of(b.graph(y))
    assert stages(assembled) == [["Load", "Add", "Mul", "Add"]]
    assert_exact(b.graph(y), assembled)


def test_an_operand_that_broadcasts_over_one_of_two_axes_is_copied_out(b: GraphBuilder) -> None:
    y = b.apply(Add(), b.input(1, 5, 6, 4), b.values(1, 1, 6, 4), quant=b.quant())
    assert [s[0] for s in stages(plan_of(b.graph(y)))] == ["Copy", "Load"]
    assert_exact(b.graph(y), plan_of(b.graph(y)))


def test_a_concat_of_computed_parts_moves_nothing(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    y = b.apply(Concat(-1), b.conv(x, 3, quant=b.tensors[x].quant),
                b.conv(x, 5, quant=b.tensors[x].quant), like=x)
    graph = b.graph(y)
    assert stages(plan_of(graph)) == [["Mac", "Requant"]] * 2
    assert_exact(graph, plan_of(graph))


def test_a_concat_copies_only_the_part_that_lives_elsewhere(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    graph = b.graph(
        b.apply(Concat(-1), x, b.conv(x, 5, quant=b.tensors[x].quant), like=x))
    assert sorted(s[0] for s in stages(plan_of(graph))) == ["Copy", "Mac"]
    assert_exact(graph, plan_of(graph))


def test_channel_slices_are_read_in_place(b: GraphBuilder) -> None:
    x = b.input(1, 9, 8)
    halves = [b.apply(Slice((0, 0, i), (1, 1, 1), (1, 9, 4)), x) for i in (0, 4)]
    graph = b.graph(b.apply(Mul(), *halves, quant=b.quant()))
    assert stages(plan_of(graph)) == [["Load", "Mul"]]
    assert_exact(graph, plan_of(graph))


def test_an_output_that_is_a_window_is_copied_to_dense_bytes(b: GraphBuilder) -> None:
    graph = b.graph(b.apply(Slice((0, 0, 2), (1, 1, 1), (1, 9, 4)), b.input(1, 9, 8)))
    assert stages(plan_of(graph)) == [["Copy"]]
    assert_exact(graph, plan_of(graph))


def test_a_transposition_is_one_copy(b: GraphBuilder) -> None:
    graph = b.graph(b.apply(Transpose((0, 2, 3, 1)), b.input(1, 3, 4, 5)))
    assert stages(plan_of(graph)) == [["Copy"]]
    assert_exact(graph, plan_of(graph))


def test_reshape_conv_reshape_pool_dense_needs_no_copy(b: GraphBuilder) -> None:
    """Case A5: what Keras writes around a Conv1D is gone."""
    x = b.apply(Reshape((1, 1, 16, 3)), b.input(1, 16, 3))
    y = b.apply(Reshape((1, 16, 8)), b.conv(x, 8, (1, 3), pad=(0, 0, 1, 1)))
    y = b.apply(Reshape((1, 1, 16, 8)), y)
    y = b.apply(Reshape((1, 8, 8)), b.apply(MaxPool((1, 2), (1, 2), (0, 0, 0, 0)), y))
    y = b.fully_connected(b.apply(Reshape((1, 64)), y), 5)
    graph = run_passes(b.graph(y))
    assembled = plan_of(graph)
    assert [s[0] for s in stages(assembled)] == ["Mac", "Load", "Mac"]
    geometry = assembled.model.steps[0].source
    assert isinstance(geometry, pm.Mac)
    assert (geometry.geometry.in_h, geometry.geometry.kernel_h) == (1, 1)
    assert_exact(graph, assembled)


def test_a_mean_that_keeps_a_column_dimension_is_refused_by_name(b: GraphBuilder) -> None:
    y = b.apply(Mean((1,)), b.input(1, 4, 5, 3), quant=b.quant())
    with pytest.raises(UnsupportedModel, match="layer0"):
        lower(b.graph(y))


def test_all_refusals_come_together(b: GraphBuilder) -> None:
    x = b.input(1, 4, 4, 3)
    y = b.apply(SpaceToBatch((2, 2), ((0, 0), (0, 0))), x)
    z = b.apply(Mean((1,)), x, quant=b.quant())
    with pytest.raises(UnsupportedModel) as refused:
        lower(b.graph(y, z))
    assert [i.where for i in refused.value.issues] == ["layer0", "layer1"]
    assert all(isinstance(i, Unsupported) for i in refused.value.issues)


def test_a_sum_that_may_leave_int32_is_refused_by_name(b: GraphBuilder) -> None:
    x = b.input(1, 4, 3)
    w, bias = b.weights(2, 3)
    b.tensors[bias] = type(b.tensors[bias])(
        bias, (2,), "int32", b.tensors[bias].quant, np.array([5, -(2**31)], np.int32))
    y = b.apply(FullyConnected(), x, w, bias, quant=b.quant())
    with pytest.raises(UnsupportedModel, match="output channel 1"):
        lower(b.graph(y))


@pytest.mark.parametrize("scale", [15.9, 16.0, 400.0])
def test_a_softmax_wider_than_its_exponent_is_refused_by_name(
    b: GraphBuilder, scale: float
) -> None:
    x = b.input(1, 4, quant=Quant((scale,), (0,)))
    graph = b.graph(b.apply(Softmax(), x, quant=SIGMOID))
    if scale < 16:
        NativePlan(write_plan(plan_of(graph).model))
        return
    with pytest.raises(UnsupportedModel, match=r"layer0 \(SOFTMAX\): beta times the input scale"):
        lower(graph)


def test_the_same_graph_gives_the_same_bytes(b: GraphBuilder) -> None:
    graph = random_graph(np.random.default_rng(8))
    assert write_plan(plan_of(graph).model) == write_plan(plan_of(graph).model)


def test_a_depthwise_conv_stays_dense(b: GraphBuilder) -> None:
    x = b.input(1, 9, 4)
    w, bias = b.weights(4, 1, 3, 1)
    sparse = b.tensors[w].data.copy()  # type: ignore[union-attr]
    sparse[:, :, 1:] = 0
    b.tensors[w] = type(b.tensors[w])(w, sparse.shape, "int8", b.tensors[w].quant, sparse)
    y = b.apply(Conv(groups=4), x, w, bias, quant=b.quant())
    source = plan_of(b.graph(y)).model.steps[0].source
    assert isinstance(source, pm.Mac)
    assert source.weights.groups[0].encoding is pm.Encoding.DENSE


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 1, 14, 2), (1,)), ((1, 7, 1), (2,)), ((1, 1, 1, 1), (3,))])
def test_a_mean_over_ones_is_a_rescaling(
    b: GraphBuilder, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    y = b.apply(Mean(axes), b.input(*shape), quant=b.quant())
    assert [s[0] for s in stages(plan_of(b.graph(y)))] == ["Load"]
    assert_exact(b.graph(y), plan_of(b.graph(y)))


def test_what_a_plan_cannot_hold_is_refused_by_name(b: GraphBuilder) -> None:
    wide = b.apply(Relu(Activation.RELU), b.input(1, 70_000))
    with pytest.raises(DoesNotFit, match=r"x0: its last dimension is 70,000.*65,535"):
        plan_of(b.graph(wide))
    many = GraphBuilder(np.random.default_rng(0))
    outputs = [many.apply(Relu(Activation.RELU), many.input(1, 2)) for _ in range(65)]
    with pytest.raises(DoesNotFit, match=r"65 inputs.*64"):
        plan_of(many.graph(*outputs))


@pytest.mark.parametrize("first", [0, 1])
def test_a_concat_of_a_part_and_a_window_into_it_is_right(b: GraphBuilder, first: int) -> None:
    x = b.input(1, 9, 4)
    y = b.apply(Add(), x, x, quant=b.tensors[x].quant)
    window = b.apply(Slice((0, 0, 1), (1, 1, 1), (1, 9, 2)), y)
    parts = (window, y) if first else (y, window)
    graph = b.graph(b.apply(Concat(2), *parts, like=y))
    assert_exact(graph, plan_of(graph))
    NativePlan(write_plan(plan_of(graph).model))
