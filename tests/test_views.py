"""Aliases: every element of a view stands at the byte its root says."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.graph.ir import Graph, Node, Quant, Tensor
from edgesparse.mapping.views import View, resolve_views, sliced
from edgesparse.ops import Concat, Relu, Reshape, Slice
from edgesparse.ops.activation import Activation

Q = Quant((0.5,), (-3,))


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "int8", Q)


def addresses(view: View, shape: tuple[int, ...]) -> np.ndarray:
    channels = shape[-1]
    columns = int(np.prod(shape[:-1]))
    grid = view.offset + np.arange(columns)[:, None] * view.pitch + np.arange(channels)
    return grid.reshape(shape)


def graph(nodes: list[Node], tensors: list[Tensor], inputs: str, outputs: str) -> Graph:
    return Graph("g", {t.name: t for t in tensors}, tuple(nodes), (inputs,), (outputs,))


@pytest.mark.parametrize("seed", range(200))
def test_a_slice_is_an_alias_exactly_where_one_pitch_describes_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    pitch = shape[-1] + int(rng.integers(0, 3))
    root = View("r", int(rng.integers(0, 4)), pitch)
    begin, stride, size = [], [], []
    for n in shape:
        b, s = int(rng.integers(0, n)), int(rng.integers(1, 3))
        begin.append(b)
        stride.append(s)
        size.append(int(rng.integers(1, (n - 1 - b) // s + 2)))
    want = addresses(root, shape)[
        np.ix_(*(b + s * np.arange(n) for b, s, n in zip(begin, stride, size, strict=True)))]
    view = sliced(shape, root, tuple(begin), tuple(stride), tuple(size))
    flat = want.reshape(-1, size[-1])
    columns = len(flat)
    steps = np.diff(flat[:, 0])
    regular = (
        (flat[:, :] - flat[:, :1] == np.arange(size[-1])).all()
        and (columns < 2 or ((steps == steps[0]).all() and steps[0] >= size[-1]))
    )
    assert (view is not None) == regular
    if view is not None:
        assert np.array_equal(addresses(view, tuple(size)), want)


def test_parts_of_a_channel_concat_are_computed_in_place() -> None:
    tensors = [tensor("x", 1, 6, 4), tensor("a", 1, 6, 4), tensor("b", 1, 6, 4),
               tensor("y", 1, 6, 8)]
    relu = Relu(Activation.RELU)
    nodes = [Node(relu, ("x",), ("a",)), Node(relu, ("x",), ("b",)),
             Node(Concat(-1), ("a", "b"), ("y",))]
    views = resolve_views(graph(nodes, tensors, "x", "y"))
    assert views["a"] == View("y", 0, 8)
    assert views["b"] == View("y", 4, 8)


def test_a_part_that_the_user_owns_is_not_moved_into_a_concat() -> None:
    tensors = [tensor("x", 1, 6, 4), tensor("y", 1, 6, 8)]
    views = resolve_views(graph([Node(Concat(-1), ("x", "x"), ("y",))], tensors, "x", "y"))
    assert views["x"].root == "x"


def test_reshape_of_a_window_with_gaps_is_no_alias() -> None:
    tensors = [tensor("x", 1, 6, 4), tensor("s", 1, 6, 2), tensor("r", 1, 12)]
    nodes = [Node(Slice((0, 0, 2), (1, 1, 1), (1, 6, 2)), ("x",), ("s",)),
             Node(Reshape((1, 12)), ("s",), ("r",))]
    views = resolve_views(graph(nodes, tensors, "x", "r"))
    assert views["s"] == View("x", 2, 4)
    assert views["r"].root == "r"
