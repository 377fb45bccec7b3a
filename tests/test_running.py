"""Means over a window that moves: sums are kept, results are those of adding everything up."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from edgesparse.graph.ir import Array, Graph, Quant
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.ops import Add, AvgPool, MaxPool, Mean, Op, Relu, Running
from edgesparse.ops.activation import Activation
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from edgesparse.streaming.incremental import incremental
from edgesparse.streaming.simulate import Simulator
from graph_builder import GraphBuilder

Heads = {
    "mean": lambda columns: Mean((1,)),
    "mean that keeps its dimensions": lambda columns: Mean((-2, 0), keep_dims=True),
    "average pool": lambda columns: AvgPool((1, columns), (1, columns)),
    "clamped pool": lambda columns: AvgPool((1, columns), clamp=(-20, 90)),
}


def plan_of(graph: Graph) -> Plan:
    return Plan.from_bytes(write_plan(assemble(lower(graph), "host", "test", "{}").model))


def running_of(plan: Plan) -> pm.Running:
    (found,) = (
        stage.running for step in plan.model.steps for branch in step.branches
        for stage in branch.stages if isinstance(stage, (pm.Mean, pm.AvgPool)))
    assert found is not None
    return found


def averaged(
    columns: int, op: Op, zero_point: int = 3, channels: int = 5, pad: tuple[int, int] = (0, 0)
) -> Graph:
    """A convolution of kernel 3 with `columns` columns of output, and `op` over them."""
    b = GraphBuilder(np.random.default_rng(8))
    x = b.input(1, columns + 2 - sum(pad), 2)
    y = b.conv(x, channels, (1, 3), pad=(0, 0, *pad), quant=Quant((0.04,), (zero_point,)))
    same = isinstance(op, AvgPool)
    return b.graph(b.apply(op, y, quant=b.tensors[y].quant if same else Quant((0.03,), (-7,))))


def noise(runs: int, hop: int, channels: int = 2) -> Array:
    """Often at the ends of int8, so that sums get as large as they can."""
    rng = np.random.default_rng(9)
    x = rng.integers(-128, 128, (runs, 1, hop, channels))
    x[rng.random(runs) < 0.4] = -128
    x[rng.random(runs) < 0.3] = 127
    return x.astype(np.int8)


def every_run_agrees(graph: Graph, hop: int, runs: int = 60) -> Plan:
    """Simulator, interpreter and C core, from the first run on; returns the plan."""
    made = incremental(graph, hop)
    plan, (x,) = plan_of(made.graph), graph.inputs
    session, interpreter, simulator = Session(plan), Interpreter(plan.data), Simulator(made.graph)
    channels = graph.tensors[x].channels
    past = np.full((1, 0, channels), 0, np.int8)
    window = Session(plan_of(graph))
    compared = 0
    for columns in noise(runs, hop, channels):
        want = simulator.run({x: columns})[made.graph.outputs[0]]
        np.testing.assert_array_equal(session.run(columns), want)
        np.testing.assert_array_equal(interpreter.run([columns])[0], want)
        past = np.concatenate([past, columns], axis=1)[:, -made.window :]
        if past.shape[1] == made.window:
            compared += 1
            np.testing.assert_array_equal(window.run(past), want)
    assert compared >= 10
    assert np.array_equal(session.native.arena[: plan.model.state_bytes],
                          interpreter._arena[: plan.model.state_bytes])
    return plan


@pytest.mark.parametrize("head", Heads)
@pytest.mark.parametrize(("columns", "hop", "each", "tail", "entry_bytes"), [
    (10, 1, True, 0, 1),    # an entry per column is smaller
    (24, 4, False, 0, 2),   # whole runs fill the window
    (23, 8, False, 7, 2),   # a run is cut where windows begin
    (17, 16, False, 1, 2),
    (16, 15, False, 1, 2),
    (600, 300, False, 0, 4),  # a block does not fit 16 bits
    (512, 256, False, 0, 2)])
def test_every_way_to_keep_sums_is_exact(
    head: str, columns: int, hop: int, each: bool, tail: int, entry_bytes: int
) -> None:
    plan = every_run_agrees(averaged(columns, Heads[head](columns)), hop)
    running = running_of(plan)
    assert (running.each, running.tail, running.entry_bytes) == (each, tail, entry_bytes)


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("pad", [(0, 0), (2, 0), (1, 1)])
def test_border_columns_are_counted_and_not_kept(zero_point: int, pad: tuple[int, int]) -> None:
    for columns, hop in ((30, 3), (31, 6), (30, 1)):
        plan = every_run_agrees(averaged(columns, Mean((1,)), zero_point, pad=pad), hop)
        assert running_of(plan).columns == columns - sum(pad)


def test_many_channels_and_a_tail_of_stages() -> None:
    """More channels than a tile has, and elementwise stages behind the mean."""
    b = GraphBuilder(np.random.default_rng(3))
    y = b.conv(b.input(1, 20, 2), 37, (1, 1))
    y = b.apply(Mean((1,), keep_dims=True), y, quant=b.quant(4))
    y = b.apply(Relu(Activation.RELU), b.apply(Add(), y, b.values(37), quant=b.quant()))
    plan = every_run_agrees(b.graph(y), 5)
    assert len(plan.model.steps) == 2


def test_the_mean_of_the_input_itself() -> None:
    b = GraphBuilder(np.random.default_rng(4))
    every_run_agrees(b.graph(b.apply(Mean((1,)), b.input(1, 12, 3), quant=b.quant())), 5)


def test_two_means_of_one_tensor_keep_sums_of_their_own() -> None:
    b = GraphBuilder(np.random.default_rng(4))
    x = b.conv(b.input(1, 12, 3), 4)
    one, other = (b.apply(Mean((1,)), x, quant=b.quant()) for _ in range(2))
    plan = every_run_agrees(b.graph(b.apply(Add(), one, other, quant=b.quant())), 4)
    assert [ring.use for ring in plan.model.rings] == [pm.RingUse.SUMS] * 2


def test_what_is_kept_in_phases_is_added_up_anew() -> None:
    """Where the hop is no multiple of the stride, the window before had other columns."""
    b = GraphBuilder(np.random.default_rng(6))
    y = b.conv(b.input(1, 24, 2), 4, (1, 3), stride=(1, 2))
    made = incremental(b.graph(b.apply(Mean((1,)), y, quant=b.quant())), 3)
    assert not any(isinstance(node.op, Running) for node in made.graph.nodes)


@pytest.mark.parametrize("op", [
    AvgPool((1, 9)), AvgPool((1, 10), pad=(0, 0, 1, 0)), MaxPool((1, 10))])
def test_other_pools_keep_no_sums(op: Any) -> None:
    made = incremental(averaged(10, op), 2)
    assert not any(isinstance(node.op, Running) for node in made.graph.nodes)


def test_the_fewest_bytes_are_kept() -> None:
    """Against every other way of this size: n columns a run, K in the window."""
    for fresh, columns in product(range(1, 40), (40, 41, 97, 360)):
        kept = [pm.Running(ring=0, each=each, fresh=fresh, columns=columns)
                for each in (False, True)]
        sizes = [r.entries * r.entry_bytes for r in kept]
        whole, rest = divmod(columns, fresh)
        assert sizes == [2 * (2 * whole + 1 if rest else whole), columns]


def test_it_is_only_made_for_a_window() -> None:
    """A model that is imported has none, and its references are those of a first run."""
    b = GraphBuilder(np.random.default_rng(2))
    x = b.input(1, 5, 2)
    graph = b.graph(b.apply(Running(Mean((1,)), 12, 3), x, quant=b.quant()))
    values = noise(1, 5)[0]
    (y,) = graph.nodes[0].op.int8_ref(
        (values,), graph.ins(graph.nodes[0]), graph.outs(graph.nodes[0]))
    whole = np.full((1, 14, 2), graph.tensors[x].zero_point, np.int8)
    whole[:, 9:] = values
    (want,) = Mean((1,)).int8_ref(
        (whole,), (Running(Mean((1,)), 12, 3).window(graph.tensors[x]),),
        graph.outs(graph.nodes[0]))
    np.testing.assert_array_equal(y, want)
