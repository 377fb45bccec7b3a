"""Passes that only move elements: dead code, Reshapes, padding, 1-D and dilated convolutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgesparse.graph.ir import Graph, Quant
from edgesparse.graph.verify import verify
from edgesparse.ops import (
    Add,
    AvgPool,
    BatchToSpace,
    Concat,
    Conv,
    LeakyRelu,
    MaxPool,
    Mean,
    Mul,
    Pad,
    Requantize,
    Reshape,
    Slice,
    Softmax,
    SpaceToBatch,
    Transpose,
)
from edgesparse.passes.conv1d import conv1d
from edgesparse.passes.dilated_conv import dilated_conv
from edgesparse.passes.eliminate_dead import eliminate_dead
from edgesparse.passes.explicit_padding import explicit_padding
from edgesparse.passes.limit_padding import limit_padding
from edgesparse.passes.merge_reshapes import merge_reshapes
from edgesparse.passes.pipeline import CANONICAL, Pass, run_passes
from edgesparse.passes.sink_reshapes import sink_reshapes
from graph_builder import GraphBuilder, compare, operators


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(7))


def rewritten(run: Pass, graph: Graph) -> Graph:
    """What the pass makes of it; equal in every tensor that is left."""
    verify(graph, "the test")
    after = run(graph)
    verify(after, run.__name__)
    assert compare(np.random.default_rng(1), graph, after)
    return after


# eliminate_dead


def test_a_node_that_leads_nowhere_goes(b: GraphBuilder) -> None:
    x = b.input(1, 4, 2)
    y = b.apply(LeakyRelu(0.5), x)
    b.apply(LeakyRelu(0.1), b.apply(LeakyRelu(0.2), x))
    assert operators(rewritten(eliminate_dead, b.graph(y))) == ["LeakyRelu"]


@pytest.mark.parametrize(
    "op",
    [
        Reshape((1, 4, 2)), Transpose((0, 1, 2)), Pad((0, 0, 0), (0, 0, 0)), Concat(1),
        Requantize(), Slice((0, 0, 0), (1, 1, 1), (1, 4, 2)),
    ],
    ids=lambda op: type(op).__name__,
)
def test_an_operator_that_changes_nothing_goes(b: GraphBuilder, op: Reshape) -> None:
    x = b.apply(LeakyRelu(0.5), b.input(1, 4, 2))
    inner = b.graph(b.apply(LeakyRelu(0.1), b.apply(op, x)))
    assert operators(rewritten(eliminate_dead, inner)) == ["LeakyRelu", "LeakyRelu"]
    last = b.graph(b.apply(op, x))
    after = rewritten(eliminate_dead, last)
    assert operators(after) == ["LeakyRelu"]
    assert after.outputs == last.outputs


def test_a_requantize_to_another_scale_stays(b: GraphBuilder) -> None:
    y = b.apply(Requantize(), b.input(1, 4, 2), quant=b.quant())
    assert operators(rewritten(eliminate_dead, b.graph(y))) == ["Requantize"]


def test_a_reshape_that_renames_the_scale_stays(b: GraphBuilder) -> None:
    x = b.input(1, 4, 2, quant=Quant((0.5,), (0,)))
    y = b.apply(Reshape((1, 4, 2)), x, quant=Quant((0.25,), (0,)))
    after = rewritten(eliminate_dead, b.graph(b.apply(LeakyRelu(0.1), y)))
    assert operators(after) == ["Reshape", "LeakyRelu"]


def test_what_is_there_twice_is_there_once_afterwards(b: GraphBuilder) -> None:
    x = b.input(1, 4, 2)
    one, two = (b.apply(LeakyRelu(0.5), x) for _ in range(2))
    other = b.apply(LeakyRelu(0.5), x, quant=b.quant())
    y = b.apply(Add(), b.apply(Add(), one, two, quant=b.quant()), other, quant=b.quant())
    after = rewritten(eliminate_dead, b.graph(y))
    assert operators(after) == ["LeakyRelu", "LeakyRelu", "Add", "Add"]


def test_a_name_given_away_is_the_right_one_for_all_readers(b: GraphBuilder) -> None:
    t = b.apply(LeakyRelu(0.5), b.input(1, 4, 2))
    before = b.apply(Reshape((1, 4, 2)), t)
    seen = b.apply(Reshape((1, 4, 2)), t)
    graph = b.graph(seen, b.apply(LeakyRelu(0.1), before), b.apply(LeakyRelu(0.2), t))
    assert operators(rewritten(eliminate_dead, graph)) == ["LeakyRelu"] * 3


def test_equal_outputs_both_stay(b: GraphBuilder) -> None:
    x = b.input(1, 4, 2)
    graph = b.graph(*(b.apply(LeakyRelu(0.5), x) for _ in range(2)))
    assert rewritten(eliminate_dead, graph).outputs == graph.outputs


def test_equal_constants_become_one(b: GraphBuilder) -> None:
    x = b.input(1, 4, 2)
    data, quant = np.array([1, 2], np.int8), Quant((0.5,), (0,))
    first, second = (b.constant(data, quant) for _ in range(2))
    one = b.apply(Add(), x, first, quant=b.quant())
    graph = b.graph(b.apply(Add(), one, second, quant=b.quant()))
    after = rewritten(eliminate_dead, graph)
    assert sum(t.data is not None for t in after.tensors.values()) == 1


# merge_reshapes, sink_reshapes


def test_reshapes_behind_each_other_become_one_or_none(b: GraphBuilder) -> None:
    x = b.apply(LeakyRelu(0.5), b.input(1, 4, 6))
    there = b.apply(Reshape((2, 12)), b.apply(Reshape((24,)), x))
    back = b.apply(Reshape((1, 4, -1)), there)
    one = rewritten(merge_reshapes, b.graph(there))
    assert operators(one) == ["LeakyRelu", "Reshape"]
    none = rewritten(merge_reshapes, b.graph(b.apply(LeakyRelu(0.1), back)))
    assert operators(none) == ["LeakyRelu", "LeakyRelu"]


def test_reshapes_merge_over_what_goes_between_them(b: GraphBuilder) -> None:
    y = b.apply(Reshape((1, 12, 1)), b.input(1, 12, 1, 1))
    y = b.apply(Slice((0, 0, 0), (1, 1, 1), (1, 12, 1)), y)
    graph = b.graph(b.apply(LeakyRelu(0.1), b.apply(Reshape((1, 1, 12, 1)), y)))
    assert operators(rewritten(merge_reshapes, graph)) == ["Reshape", "LeakyRelu"]


def test_a_transpose_of_ones_is_a_reshape(b: GraphBuilder) -> None:
    y = b.apply(Transpose((0, 2, 1, 3)), b.input(1, 1, 4, 6))
    assert operators(rewritten(merge_reshapes, b.graph(y))) == ["Reshape"]


def test_a_transpose_that_moves_something_stays(b: GraphBuilder) -> None:
    y = b.apply(Transpose((0, 2, 1, 3)), b.input(1, 2, 4, 6))
    assert operators(rewritten(merge_reshapes, b.graph(y))) == ["Transpose"]


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (LeakyRelu(0.1), (1, 4, 6)),
        (Pad((0, 0, 1, 0), (0, 0, 2, 0)), (1, 7, 6)),
        (Slice((0, 0, 1, 2), (1, 1, 2, 1), (1, 1, 2, 3)), (1, 2, 3)),
        (Mean((1, 2)), (1, 6)),
        (Mean((2,), keep_dims=True), (1, 1, 6)),
        (Softmax(), (1, 4, 6)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_a_reshape_sinks_below(b: GraphBuilder, op: Pad, shape: tuple[int, ...]) -> None:
    wide = b.apply(Reshape((1, 1, 4, 6)), b.input(1, 4, 6))
    y = b.apply(op, wide, quant=Quant((1 / 256,), (-128,)))
    after = rewritten(sink_reshapes, b.graph(b.apply(LeakyRelu(0.5), y)))
    assert operators(after)[0] == type(op).__name__
    assert after.tensors[y].shape == shape


@pytest.mark.parametrize(
    "op", [Pad((0, 1, 0, 0), (0, 0, 0, 0)), Mean((1,)), Concat(1)], ids=lambda op: type(op).__name__
)
def test_a_reshape_stays_above_what_works_along_its_dimension(b: GraphBuilder, op: Pad) -> None:
    wide = b.apply(Reshape((1, 1, 4, 6)), b.input(1, 4, 6))
    after = rewritten(sink_reshapes, b.graph(b.apply(op, wide)))
    assert operators(after) == ["Reshape", type(op).__name__]


def test_a_reshape_that_makes_channels_stays(b: GraphBuilder) -> None:
    y = b.apply(LeakyRelu(0.5), b.apply(Reshape((1, 4, 1)), b.input(1, 4)))
    assert operators(rewritten(sink_reshapes, b.graph(y))) == ["Reshape", "LeakyRelu"]


def test_a_sum_of_reshapes_is_a_reshape_of_the_sum(b: GraphBuilder) -> None:
    first, second = (b.apply(Reshape((1, 4, 1, 6)), b.input(1, 4, 6)) for _ in range(2))
    direct = b.input(1, 4, 1, 6)
    y = b.apply(Add(), first, second, quant=b.quant())
    y = b.apply(Mul(), y, b.values(6), quant=b.quant())
    y = b.apply(Add(), direct, y, quant=b.quant())
    y = b.apply(Add(), y, b.values(1, 4, 1, 1), quant=b.quant())
    after = rewritten(sink_reshapes, b.graph(b.apply(Reshape((1, 4, 6)), y)))
    assert operators(after) == ["Add", "Mul", "Reshape", "Add", "Add", "Reshape"]
    assert {t.shape for t in after.tensors.values() if t.data is None} == {(1, 4, 6), (1, 4, 1, 6)}


def test_a_reshape_stays_where_the_other_operand_fills_its_dimension(b: GraphBuilder) -> None:
    wide = b.apply(Reshape((1, 1, 4, 6)), b.input(1, 4, 6))
    y = b.apply(Add(), wide, b.values(1, 3, 4, 6), quant=b.quant())
    z = b.apply(Add(), b.input(1, 3, 4, 6), wide, quant=b.quant())
    assert operators(rewritten(sink_reshapes, b.graph(y, z))) == ["Reshape", "Add", "Add"]


# conv1d


def test_expand_conv_squeeze_pool_and_dense_need_no_copy(b: GraphBuilder) -> None:
    """Case A5: EXPAND_DIMS -> CONV_2D (H = 1) -> RESHAPE -> MAX_POOL -> FULLY_CONNECTED."""
    x = b.apply(Reshape((1, 1, 32, 2)), b.input(1, 32, 2))
    y = b.conv(x, 8, (1, 5), pad=(0, 0, 2, 2), stride=(1, 2))
    y = b.apply(Reshape((1, 16, 8)), y)
    y = b.apply(MaxPool((1, 2), (1, 2)), b.apply(Reshape((1, 1, 16, 8)), y))
    y = b.apply(Reshape((1, 64)), b.apply(Reshape((1, 8, 8)), y))
    after = rewritten(
        lambda graph: run_passes(graph, CANONICAL), b.graph(b.fully_connected(y, 3))
    )
    assert operators(after) == ["Conv", "MaxPool", "Reshape", "FullyConnected"]
    assert after.tensors[after.nodes[1].outputs[0]].shape == (1, 8, 8)


@pytest.mark.parametrize("upright", [False, True])
def test_a_one_dimensional_chain_has_reshapes_at_its_ends_only(upright: bool) -> None:
    b = GraphBuilder(np.random.default_rng(3))

    def across(h: int, w: int) -> tuple[int, int]:
        return (w, h) if upright else (h, w)

    x = b.input(1, *across(1, 20), 4)
    y = b.conv(x, 6, across(1, 3), groups=2, pad=(1, 1, 0, 0) if upright else (0, 0, 1, 1))
    z = b.apply(Add(), y, b.conv(y, 6), quant=b.quant())
    z = b.apply(LeakyRelu(0.5), z)
    z = b.apply(AvgPool(across(1, 4), across(1, 4)), z)
    graph = b.graph(b.apply(Mean((1, 2)), z, quant=b.quant()))
    after = rewritten(lambda g: merge_reshapes(sink_reshapes(conv1d(g))), graph)
    assert operators(after) == ["Reshape", "Conv", "Conv", "Add", "LeakyRelu", "AvgPool", "Mean"]
    assert set(graph.tensors) >= {t for n in after.nodes[1:] for t in n.outputs}, "names are kept"


def test_only_the_tap_that_meets_the_single_row_stays(b: GraphBuilder) -> None:
    x = b.input(1, 1, 9, 3)
    y = b.conv(x, 4, (3, 3), pad=(1, 1, 1, 1))
    y = b.apply(MaxPool((2, 2), (1, 2), (1, 0, 0, 0)), y)
    after = rewritten(conv1d, b.graph(b.apply(AvgPool((3, 3), (2, 1), (1, 1, 1, 1)), y)))
    kernels = [after.tensors[n.inputs[1]].shape for n in after.nodes if isinstance(n.op, Conv)]
    assert kernels == [(4, 1, 3, 3)]
    assert [n.op.kernel for n in after.nodes if isinstance(n.op, (MaxPool, AvgPool))] == [
        (1, 2), (1, 3)]


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((2, 3), {"dilation": (3, 1), "pad": (2, 1, 0, 0)}),  # no tap meets the row
        ((1, 3), {"pad": (1, 1, 0, 0)}),  # three rows come out of one
    ],
)
def test_a_conv_that_is_not_one_dimensional_stays(
    b: GraphBuilder, kernel: tuple[int, int], attributes: dict[str, tuple[int, ...]]
) -> None:
    graph = b.graph(b.conv(b.input(1, 1, 9, 3), 4, kernel, **attributes))
    assert rewritten(conv1d, graph) is graph


# explicit_padding


@pytest.mark.parametrize("shape", [(1, 9, 3), (1, 9, 8, 3)])
def test_a_pad_becomes_the_padding_of_a_conv(b: GraphBuilder, shape: tuple[int, ...]) -> None:
    inner = len(shape) - 2
    padded = b.apply(Pad((0, *[2] * inner, 0), (0, *[1] * inner, 0)), b.input(*shape))
    kernel = (1, 4) if inner == 1 else (4, 4)
    after = rewritten(explicit_padding, b.graph(b.conv(padded, 4, kernel, pad=(0, 0, 1, 0))))
    assert operators(after) == ["Conv"]
    assert after.nodes[0].op.pad == ((0, 0, 3, 1) if inner == 1 else (2, 1, 3, 1))


@pytest.mark.parametrize(
    ("before", "kernel", "changed"),
    [
        ((0, 1, 0), (1, 3), {"quant": Quant((0.5,), (9,))}),  # another zero point
        ((0, 0, 1), (1, 3), {}),  # channels
        ((0, 3, 0), (1, 3), {}),  # as much as the kernel is long
    ],
)
def test_a_pad_that_a_conv_cannot_take_stays(
    b: GraphBuilder, before: tuple[int, ...], kernel: tuple[int, int], changed: dict[str, Quant]
) -> None:
    padded = b.apply(Pad(before, (0, 0, 0)), b.input(1, 9, 3), **changed)
    graph = b.graph(b.conv(padded, 4, kernel))
    assert rewritten(explicit_padding, graph) is graph


@pytest.mark.parametrize(
    ("op", "zero_point", "left"),
    [(MaxPool, -128, ["MaxPool"]), (MaxPool, -127, ["Pad", "MaxPool"]),
     (AvgPool, -128, ["Pad", "AvgPool"])],
)
def test_a_pool_takes_only_padding_it_cannot_notice(
    b: GraphBuilder, op: type[MaxPool], zero_point: int, left: list[str]
) -> None:
    x = b.input(1, 9, 3, quant=b.quant(zero_point))
    y = b.apply(op((1, 3), (1, 2)), b.apply(Pad((0, 2, 0), (0, 1, 0)), x))
    assert operators(rewritten(explicit_padding, b.graph(y))) == left


def test_a_float_pad_stays_before_a_max_pool() -> None:
    b = GraphBuilder(np.random.default_rng(1), real=True)
    padded = b.apply(Pad((0, 1, 0), (0, 1, 0)), b.input(1, 9, 3))
    graph = b.graph(b.apply(MaxPool((1, 3)), padded))
    assert rewritten(explicit_padding, graph) is graph


# dilated_conv


def triple(
    b: GraphBuilder, shape: tuple[int, ...], block: tuple[int, ...],
    pads: tuple[tuple[int, int], ...], crops: tuple[tuple[int, int], ...],
    kernel: tuple[int, int] = (1, 3), **attributes: object,
) -> Graph:
    x = b.apply(SpaceToBatch(block, pads), b.input(*shape, quant=b.quant(-100)))
    return b.graph(b.apply(BatchToSpace(block, crops), b.conv(x, 4, kernel, **attributes)))


@pytest.mark.parametrize(
    ("shape", "block", "pads", "crops", "kernel", "expected"),
    [
        # causal, length a multiple of the block
        ((1, 16, 3), (2,), ((4, 0),), ((0, 0),), (1, 3), ((1, 2), (0, 0, 4, 0))),
        # causal, padded up to the block, cropped back
        ((1, 15, 3), (4,), ((8, 1),), ((0, 1),), (1, 3), ((1, 4), (0, 0, 8, 0))),
        # SAME
        ((1, 17, 3), (2,), ((2, 3),), ((0, 1),), (1, 3), ((1, 2), (0, 0, 2, 2))),
        # VALID: the alignment alone
        ((1, 17, 3), (2,), ((0, 1),), ((0, 1),), (1, 3), ((1, 2), (0, 0, 0, 0))),
        # the height alone, the width left to the Conv
        ((1, 8, 5, 3), (2,), ((2, 0),), ((0, 0),), (2, 3), ((2, 1), (2, 0, 0, 0))),
        # both, different blocks
        ((1, 8, 9, 3), (2, 3), ((2, 2), (3, 3)), ((0, 1), (0, 0)), (2, 2),
         ((2, 3), (2, 1, 3, 3))),
    ],
)
def test_a_triple_is_one_dilated_conv(
    b: GraphBuilder, shape: tuple[int, ...], block: tuple[int, ...],
    pads: tuple[tuple[int, int], ...], crops: tuple[tuple[int, int], ...],
    kernel: tuple[int, int], expected: tuple[tuple[int, int], tuple[int, ...]],
) -> None:
    after = rewritten(dilated_conv, triple(b, shape, block, pads, crops, kernel))
    assert operators(after) == ["Conv"]
    assert (after.nodes[0].op.dilation, after.nodes[0].op.pad) == expected
    assert after.nodes[0].origin == ("layer0", "layer1", "layer2")


@pytest.mark.parametrize("upright", [False, True])
def test_reshapes_around_the_conv_of_a_triple_go_too(b: GraphBuilder, upright: bool) -> None:
    """Keras: causal dilated Conv1D, after EXPAND_DIMS and before SQUEEZE."""
    x = b.apply(Pad((0, 4, 0), (0, 0, 0)), b.input(1, 16, 3))
    x = b.apply(SpaceToBatch((2,), ((0, 0),)), x)
    x = b.apply(Reshape((2, 10, 1, 3) if upright else (2, 1, 10, 3)), x)
    y = b.conv(x, 4, (3, 1) if upright else (1, 3))
    y = b.apply(BatchToSpace((2,), ((0, 0),)), b.apply(Reshape((2, 8, 4)), y))
    after = rewritten(lambda g: explicit_padding(dilated_conv(g)), b.graph(y))
    assert operators(after) == ["Conv"]
    assert (after.nodes[0].op.dilation, after.nodes[0].op.pad) == ((1, 2), (0, 0, 4, 0))


def test_padding_dilation_and_groups_of_the_conv_count_in_blocks(b: GraphBuilder) -> None:
    graph = triple(b, (1, 12, 4), (3,), ((0, 0),), ((1, 0),), (1, 2), groups=4,
                   dilation=(1, 2), pad=(0, 0, 1, 1))
    after = rewritten(dilated_conv, graph)
    assert operators(after) == ["Conv"]
    op = after.nodes[0].op
    assert (op.dilation, op.pad, op.groups) == ((1, 6), (0, 0, 2, 3), 4)


def test_crops_past_the_padding_cut_the_input(b: GraphBuilder) -> None:
    after = rewritten(dilated_conv, triple(b, (1, 16, 3), (2,), ((2, 2),), ((3, 4),)))
    assert operators(after) == ["Slice", "Conv"]
    assert after.nodes[0].op == Slice((0, 1, 0), (1, 1, 1), (1, 13, 3))


def test_a_triple_with_a_stride_stays(b: GraphBuilder) -> None:
    graph = triple(b, (1, 16, 3), (2,), ((4, 0),), ((0, 0),), stride=(1, 2))
    assert rewritten(dilated_conv, graph) is graph


def test_a_triple_whose_crops_leave_padding_only_stays(b: GraphBuilder) -> None:
    graph = triple(b, (1, 4, 3), (2,), ((8, 0),), ((0, 10),), (1, 1))
    assert rewritten(dilated_conv, graph) is graph


def test_a_triple_with_another_reader_stays(b: GraphBuilder) -> None:
    graph = triple(b, (1, 16, 3), (2,), ((4, 0),), ((0, 0),))
    conv = graph.nodes[1].outputs[0]
    seen = replace(graph, outputs=(*graph.outputs, conv))
    assert rewritten(dilated_conv, seen) is seen


def test_a_triple_that_renames_the_scale_stays(b: GraphBuilder) -> None:
    x = b.apply(SpaceToBatch((2,), ((4, 0),)), b.input(1, 16, 3), quant=b.quant(5))
    graph = b.graph(b.apply(BatchToSpace((2,), ((0, 0),)), b.conv(x, 4, (1, 3))))
    assert rewritten(dilated_conv, graph) is graph


# limit_padding


@pytest.mark.parametrize("rank3", [True, False])
def test_padding_as_long_as_the_kernel_becomes_a_pad(b: GraphBuilder, rank3: bool) -> None:
    x = b.input(1, 6, 2) if rank3 else b.input(1, 5, 6, 2)
    pad = (0, 0, 4, 3) if rank3 else (2, 0, 4, 3)
    y = b.conv(x, 3, (1, 2), pad=pad, dilation=(1, 2))
    after = rewritten(limit_padding, b.graph(y))
    assert operators(after) == ["Pad", "Conv"]
    op = after.nodes[1].op
    assert isinstance(op, Conv)
    assert op.pad == (0, 0, 2, 2)


def test_two_convolutions_with_long_padding_on_one_input_are_both_kept_right(
    b: GraphBuilder,
) -> None:
    x = b.input(1, 6, 2)
    sides = [b.conv(x, 3, pad=(0, 0, n, 0), quant=b.tensors[x].quant) for n in (2, 2)]
    after = rewritten(limit_padding, b.graph(b.apply(Add(), *sides)))
    assert operators(after) == ["Pad", "Conv", "Pad", "Conv", "Add"]


def test_padding_shorter_than_the_kernel_stays(b: GraphBuilder) -> None:
    y = b.conv(b.input(1, 6, 2), 3, (1, 3), pad=(0, 0, 2, 2))
    assert operators(rewritten(limit_padding, b.graph(y))) == ["Conv"]
