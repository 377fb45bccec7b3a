"""Streaming equals recomputing: every hop, every border, byte for byte, through the C core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecg_stream import MODEL
from edgesparse.convert import Options, int8_graph
from edgesparse.errors import Unsupported
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Quant
from edgesparse.graph.verify import verify
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.ops import Add, Conv, Softmax, Sub
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from edgesparse.streaming.continuous import continuous
from edgesparse.streaming.extent import extents
from edgesparse.streaming.incremental import Incremental, incremental
from edgesparse.streaming.simulate import Simulator
from graph_builder import GraphBuilder
from streaming_nets import NETS, PADDINGS, WITH_ECG, build

WINDOW = 1440
HOPS = (1, 8, 32, 96, 100, 360)
MOST_WINDOWS = 200
"""Compared at most; the stream itself runs on over the whole signal."""


def session_of(graph: Graph) -> Session:
    return Session(Plan.from_bytes(write_plan(assemble(lower(graph), "host", "test", "{}").model)))


def signal(length: int, channels: int = 1, seed: int = 1) -> Array:
    """[length, channels] int8: a random walk that uses the whole range."""
    steps = np.random.default_rng(seed).normal(0, 9, (length, channels))
    return np.clip(np.cumsum(steps, axis=0).round(), -128, 127).astype(np.int8)


def macs(graph: Graph) -> int:
    return sum(node.op.macs(graph.ins(node), graph.outs(node)) for node in graph.nodes)


def differing(graph: Graph, made: Incremental, x: Array) -> tuple[int, int]:
    """(differing bytes, windows compared) of the hop model against the window model."""
    hop, window = made.hop, made.window
    fed = np.concatenate([np.full((made.lead, x.shape[1]), 7, np.int8), x])
    runs = len(fed) // hop
    got = session_of(made.graph).run(fed[: runs * hop].reshape(runs, 1, hop, -1))
    ends = [(run + 1) * hop - made.lead for run in range(made.warm_up - 1, runs)]
    ends = ends[:: -(-len(ends) // MOST_WINDOWS)]
    source = graph.tensors[graph.inputs[0]]
    want = session_of(graph).run(np.stack([x[e - window : e].reshape(source.shape) for e in ends]))
    assert isinstance(got, np.ndarray)
    assert isinstance(want, np.ndarray)
    assert len(np.unique(want)) > 3
    assert (want != want[:1]).any()
    mine = np.stack([got[(e + made.lead) // hop - 1] for e in ends])
    return int((mine.reshape(len(ends), -1) != want.reshape(len(ends), -1)).sum()), len(ends)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("net", WITH_ECG)
def test_a_hop_gives_the_bytes_of_the_whole_window(net: str, padding: str) -> None:
    """Over four windows, so that every ring wraps; the whole last layer is the output."""
    graph = build(net, padding, WINDOW, head=False)
    for hop in HOPS:
        made = incremental(graph, hop)
        verify(made.graph, "incremental")
        wrong, windows = differing(graph, made, signal(4 * WINDOW))
        assert wrong == 0, (hop, windows)
        assert windows >= 10


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("net", NETS)
def test_the_end_of_a_net_sees_the_whole_window_all_the_same(net: str, padding: str) -> None:
    """A mean over time, from sums that are kept where windows start at one place of the stride."""
    graph = build(net, padding, WINDOW)
    graph = graph.with_nodes(graph.nodes[:-1], outputs=graph.nodes[-1].inputs[:1])
    for hop in (8, 32, 100):
        made = incremental(graph, hop)
        verify(made.graph, "incremental")
        wrong, windows = differing(graph, made, signal(4 * WINDOW))
        assert wrong == 0, (hop, windows)
        assert windows >= 10


@pytest.mark.parametrize(("padding", "least"), [("valid", 42.0), ("same", 12.0)])
@pytest.mark.parametrize("net", NETS)
def test_a_hop_of_32_saves_the_work_of_the_rest(net: str, padding: str, least: float) -> None:
    """MACs of a hop; 45 times is what a window of 1440 allows."""
    graph = build(net, padding, WINDOW)
    assert macs(graph) / macs(incremental(graph, 32).graph) >= least


def test_our_ecg_net_has_the_shape_of_the_shipped_one() -> None:
    shipped, _ = int8_graph(MODEL.read_bytes(), "c48", Options())
    built = build("ecg_c48", "causal", WINDOW, head=False)
    for one, other in zip(shipped.nodes, built.nodes, strict=True):
        assert type(one.op) is type(other.op)
        assert ([t.shape for t in shipped.ins(one)], [t.shape for t in shipped.outs(one)]) == (
            [t.shape for t in built.ins(other)], [t.shape for t in built.outs(other)])
        assert all(getattr(one.op, name) == getattr(other.op, name)
                   for name in ("stride", "dilation", "pad") if isinstance(one.op, Conv))


@pytest.mark.parametrize(("padding", "least"), [("valid", 36.0), ("causal", 4.6), ("same", 4.6)])
def test_the_ecg_net_saves_the_work_of_the_rest(padding: str, least: float) -> None:
    """MACs of a hop of 32, each window as if computed anew; at most 45 times."""
    graph = build("ecg_c48", padding, WINDOW, head=False)
    assert macs(graph) / macs(incremental(graph, 32).graph) >= least
    if padding == "causal":
        assert macs(graph) / macs(continuous(graph, 32).graph) >= 44.0


@pytest.mark.parametrize("net", NETS)
def test_what_stops_reuse_is_named(net: str) -> None:
    assert incremental(build(net, "valid", WINDOW), 32).stopped == ()
    nothing = incremental(build("conv_pool", "valid", WINDOW), 360).stopped[0]
    assert nothing.layer == "layer9"
    assert "of 40 then 45 are new" in nothing.reason
    assert "multiple of 32" in nothing.reason


@pytest.mark.parametrize(("net", "padding", "most", "least"), [
    ("tcn", "causal", 7_500, 8.9), ("conv_pool", "same", 4_600, 7.1),
    ("strided", "same", 5_300, 13), ("ds_cnn", "causal", 8_900, 8.5)])
def test_compact_windows_recompute_their_start(
    net: str, padding: str, most: int, least: float
) -> None:
    """Only the ring of the input holds a window: state of at most `most` bytes."""
    graph = build(net, padding, WINDOW)
    made = incremental(graph, 32, compact=True)
    assert macs(graph) / macs(made.graph) >= least
    assert session_of(made.graph).plan.model.state_bytes <= most
    graph = graph.with_nodes(graph.nodes[:-1], outputs=graph.nodes[-1].inputs[:1])
    for hop in (32, 100):
        wrong, windows = differing(graph, incremental(graph, hop, compact=True), signal(4 * WINDOW))
        assert wrong == 0
        assert windows >= 40


def test_compact_changes_nothing_where_nothing_is_padded() -> None:
    graph = build("strided", "valid", WINDOW)
    one, other = (incremental(graph, 32, compact=compact).graph for compact in (False, True))
    assert [n.op for n in one.nodes] == [n.op for n in other.nodes]


@pytest.mark.parametrize(("hop", "least", "phases"), [
    (8, 130, [2, 4]), (1, 190, [2, 4, 8, 16, 32]), (100, 7.3, [2, 4, 8]), (360, 3.1, [2])])
def test_a_hop_that_does_not_fit_the_stride_keeps_columns_in_phases(
    hop: int, least: float, phases: list[int]
) -> None:
    graph = build("conv_pool", "valid", WINDOW)
    made = incremental(graph, hop)
    assert [p.phases for p in made.phased] == phases
    assert macs(graph) / macs(made.graph) >= least
    assert incremental(graph, 32).phased == ()
    without = incremental(graph, hop, phases=False)
    assert without.phased == ()
    assert "no multiple of its stride" in without.stopped[0].reason
    assert macs(without.graph) > macs(made.graph)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("hop", [2, 4, 6, 9, 10, 15])
def test_phases_are_told_apart(hop: int, compact: bool) -> None:
    """Strides of 2, 6 and 12, a sum of two layers of one stride, borders on both sides."""
    b = GraphBuilder(np.random.default_rng(11))
    y = b.conv(b.input(1, 96, 2), 4, (1, 4), stride=(1, 2), pad=(0, 0, 1, 1))
    y = b.conv(y, 4, (1, 5), stride=(1, 3), pad=(0, 0, 1, 1))
    y = b.apply(Add(), y, b.conv(y, 4, (1, 3), pad=(0, 0, 1, 1)), quant=b.quant())
    graph = b.graph(b.conv(y, 3, (1, 2), stride=(1, 2)))
    made = incremental(graph, hop, compact=compact)
    assert made.phased
    wrong, windows = differing(graph, made, signal(6 * 96, 2))
    assert wrong == 0
    assert windows >= 10
    plan = session_of(made.graph)
    simulator, x = Simulator(made.graph), signal(40 * hop, 2).reshape(40, 1, hop, 2)
    for columns in x:
        values = simulator.run({graph.inputs[0]: columns})
        np.testing.assert_array_equal(plan.run(columns), values[made.graph.outputs[0]])


@pytest.mark.parametrize("padding", ["valid", "causal"])
@pytest.mark.parametrize("net", WITH_ECG)
def test_an_endless_run_gives_the_bytes_of_the_whole_record(net: str, padding: str) -> None:
    length = 3 * WINDOW
    x = signal(length)
    graph, record = (build(net, padding, n, head=False) for n in (WINDOW, length))
    want = evaluate(record, {record.inputs[0]: x.reshape(1, length, 1)})[record.outputs[0]][0]
    assert len(np.unique(want)) > 3
    stride = extents(graph, graph.inputs[0])[graph.outputs[0]].stride
    anew = macs(build(net, "causal", WINDOW, head=False))
    for hop in HOPS:
        if hop % stride:
            with pytest.raises(Unsupported, match="multiple"):
                continuous(graph, hop)
            continue
        made = continuous(graph, hop)
        runs = length // hop
        got = session_of(made.graph).run(x[: runs * hop].reshape(runs, 1, hop, 1))
        assert isinstance(got, np.ndarray)
        columns = got.reshape(runs * made.columns, -1)[made.behind + made.exact :]
        np.testing.assert_array_equal(columns, want[made.exact : made.exact + len(columns)])
        assert len(columns) > len(want) - made.columns - hop
        assert anew / macs(made.graph) >= 0.99 * WINDOW / hop


@pytest.mark.parametrize("net", NETS)
def test_an_endless_run_of_a_net_that_looks_ahead_is_refused_by_layer(net: str) -> None:
    with pytest.raises(Unsupported, match=r"layer\d+.*looks"):
        continuous(build(net, "same", WINDOW, head=False), 32)
    with pytest.raises(Unsupported, match="whole window"):
        continuous(build(net, "valid", WINDOW), 32)


@pytest.mark.parametrize("hop", [1, 2, 3, 5, 10, 15, 30])
def test_the_streaming_wake_word_of_mlperf_streams(hop: int, models_dir: Path) -> None:
    data = (models_dir / "mlperf" / "mlperf_strm_ww_old_int8.tflite").read_bytes()
    graph, _ = int8_graph(data, "strm_ww", Options())
    made = incremental(graph, hop)
    x = np.random.default_rng(3).integers(-128, 128, (150, 40)).astype(np.int8)
    wrong, windows = differing(graph, made, x)
    assert wrong == 0
    assert windows >= 4
    if hop == 1:
        assert macs(graph) / macs(made.graph) >= 19.9


@pytest.mark.parametrize("taken", ["t0:left", "t1:left", "t0[-3:]"])
def test_names_of_the_user_do_not_meet_ours(taken: str) -> None:
    """A constant called like a piece that streaming makes; it took the piece's place once."""
    b = GraphBuilder(np.random.default_rng(4))
    x = b.input(1, 24, 2)
    y = b.conv(x, 2, (1, 3), pad=(0, 0, 1, 1))
    constant = b.tensors.pop(b.values(1, 1, 2))
    b.add(replace(constant, name=taken))
    graph = b.graph(b.conv(b.apply(Add(), y, taken, quant=b.quant()), 3, (1, 3)))
    made = incremental(graph, 2)
    assert differing(graph, made, signal(96, 2))[0] == 0


def test_layers_that_see_one_column_stream() -> None:
    """A fully connected layer and a softmax per time step, and a constant as first operand."""
    b = GraphBuilder(np.random.default_rng(5))
    y = b.conv(b.input(1, 40, 2), 8, (1, 3), pad=(0, 0, 2, 0))
    y = b.apply(Sub(), b.values(8), y, quant=b.quant())
    y = b.fully_connected(y, 4, keep_dims=True)
    graph = b.graph(b.apply(Softmax(), y, quant=Quant((1 / 256,), (-128,))))
    made = continuous(graph, 4)
    assert (made.behind, made.exact) == (0, 0)
    x = signal(160, 2)
    got = session_of(made.graph).run(x.reshape(40, 1, 4, 2))
    assert isinstance(got, np.ndarray)
    want = Simulator(made.graph)
    for run in range(40):
        values = want.run({graph.inputs[0]: x[4 * run : 4 * run + 4].reshape(1, 4, 2)})
        np.testing.assert_array_equal(got[run], values[made.graph.outputs[0]])
    assert not incremental(graph, 4).stopped


def test_a_hop_of_nothing_is_refused() -> None:
    for hop in (0, -4):
        with pytest.raises(Unsupported, match="hop"):
            continuous(build("tcn", "causal", 200, head=False), hop)
