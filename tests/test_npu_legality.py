"""The ten rules of fusion, each with the group it forbids; and where a group is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgesparse.graph.ir import Graph
from edgesparse.mapping.draft import DraftStage
from edgesparse.mapping.lower import lower
from edgesparse.mapping.lowered import Fusion, Lowered
from edgesparse.mapping.weights import policy_of
from edgesparse.npu import legality
from edgesparse.npu.legality import Candidate
from edgesparse.ops import Add, History, MaxPool, Mul, Op, Relu
from edgesparse.plan import model as pm
from edgesparse.target import load_target
from graph_builder import GraphBuilder
from npu_run import config

CLAMP = pm.Clamp(qmin=0, qmax=5)
ADD = pm.Add(
    operand=0, left_shift=0, value=pm.Scaled(zero_point=0, shift=0, multiplier=1),
    other=pm.Scaled(zero_point=0, shift=0, multiplier=1),
    out=pm.Scaled(zero_point=0, shift=0, multiplier=1), qmin=0, qmax=1, rounding=0)  # type: ignore[arg-type]
POOL = pm.MaxPool(window=pm.Window(in_w=8, out_w=4, kernel_w=2, stride_w=2), qmin=-128, qmax=127)


@pytest.fixture
def b() -> GraphBuilder:
    return GraphBuilder(np.random.default_rng(5))


def fused(graph: Graph, **changed: int) -> Lowered:
    target = load_target("esn-s")
    return lower(graph, policy_of(target), Fusion(npu=config(**changed)))


def candidate(b: GraphBuilder, op: Op, stage: pm.StageBody, **more: Any) -> Candidate:
    """Conv -> clamp -> `op`: the step so far is the conv with its clamp."""
    x = b.input(1, 8, 4)
    other = b.values(1, 8, 6)
    conv = b.conv(x, rows=6, kernel=(1, 3), pad=(0, 0, 1, 1))
    inputs = (conv, other) if isinstance(op, (Add, Mul)) else (conv,)
    y = b.apply(op, *inputs)
    graph = b.graph(y)
    (draft, *_) = lower(b.graph(conv), policy_of(load_target("esn-s"))).drafts
    operand = other if len(inputs) == 2 else None
    fields = {
        "graph": graph, "draft": replace(draft, stages=(*draft.stages, DraftStage(CLAMP))),
        "node": graph.nodes[-1], "stage": DraftStage(stage, operand),
        "tensors": dict(graph.tensors), "written": frozenset({x}), "config": config(), **more}
    return Candidate(**fields)


def with_bodies(c: Candidate, *bodies: pm.StageBody) -> Candidate:
    """The step's stages after its Requant."""
    stages = tuple(DraftStage(body) for body in bodies)
    return replace(c, draft=replace(c.draft, stages=(c.draft.stages[0], *stages)))


def computed(c: Candidate) -> Candidate:
    """The operand is no constant."""
    name = c.stage.operand
    assert name is not None
    return replace(c, tensors={**c.tensors, name: replace(c.tensors[name], data=None)})


def reshaped(c: Candidate, **changed: Any) -> Candidate:
    """The operand has another shape."""
    name = c.stage.operand
    assert name is not None
    return replace(c, tensors={**c.tensors, name: replace(c.tensors[name], **changed)})


def pooled(c: Candidate, **window: int) -> Candidate:
    assert isinstance(c.stage.body, pm.MaxPool)
    body = replace(c.stage.body, window=replace(c.stage.body.window, **window))
    return replace(c, stage=DraftStage(body))


def also_read(c: Candidate) -> Candidate:
    return replace(c, graph=replace(c.graph, outputs=(*c.graph.outputs, c.draft.output)))


def remembered(c: Candidate) -> Candidate:
    node = replace(c.node, op=History(columns=8, lag=0))
    return replace(c, node=node)


Change = Callable[[Candidate], Candidate]
BROKEN: dict[str, tuple[str, Change, str]] = {
    "L1": ("clamp", also_read, "needed elsewhere"),
    "L2": ("add", computed, "not complete"),
    "L3": ("add", lambda c: reshaped(c, shape=(1, 4, 6), data=None), "some columns only"),
    "L4": ("pool", lambda c: pooled(c, in_h=2, in_w=4), "another shape"),
    "L5": ("clamp", lambda c: with_bodies(c, pm.Softmax(
        multiplier=2**30, shift=1, diff_min=-1)), "Softmax leaves no int8 vector"),
    "L6": ("add", lambda c: replace(c, config=config(vectors=1)), "2 vectors"),
    "L7": ("clamp", lambda c: replace(c, config=config(scratchpad_bytes=256)), "scratchpad"),
    "L8": ("add", lambda c: with_bodies(computed(c), POOL), "reduced"),
    "L9": ("clamp", remembered, "remembered"),
    "L10": ("pool", lambda c: with_bodies(c, POOL), "one pool"),
}


def legal(b: GraphBuilder, kind: str) -> Candidate:
    if kind == "add":
        return candidate(b, Add(), ADD)
    if kind == "pool":
        return candidate(b, MaxPool((1, 2), (1, 2)), POOL)
    return candidate(b, Relu(), CLAMP)


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_forbids_what_breaks_it_and_nothing_else(b: GraphBuilder, rule: str) -> None:
    kind, change, reason = BROKEN[rule]
    sound = legal(b, kind)
    assert [r for r, says in legality.RULES.items() if says(sound)] == []
    broken = change(sound)
    assert reason in legality.RULES[rule](broken)


def test_every_rule_is_asked() -> None:
    assert set(legality.RULES.values()) == {*legality.GRAPH, *legality.MACHINE}
    assert list(legality.RULES) == list(BROKEN)


# ---- what the rules make of graphs --------------------------------------------------------------


def stages(low: Lowered) -> list[list[str]]:
    return [[type(s.body).__name__ for s in d.stages] for d in low.drafts]


def test_conv_activation_and_pool_are_one_kernel(b: GraphBuilder) -> None:
    y = b.apply(MaxPool((1, 2), (1, 2)), b.conv(b.input(1, 16, 4), rows=8))
    y = b.apply(Relu(), y)
    assert stages(fused(b.graph(y))) == [["Requant", "MaxPool", "Clamp"]] or (
        stages(fused(b.graph(y))) == [["Requant", "MaxPool", "Lut"]])


def test_the_portable_core_gets_no_pools_in_tails(b: GraphBuilder) -> None:
    y = b.apply(MaxPool((1, 2), (1, 2)), b.conv(b.input(1, 16, 4), rows=8))
    assert stages(lower(b.graph(y))) == [["Requant"], ["MaxPool"]]


def test_overlapping_pools_stay_outside(b: GraphBuilder) -> None:
    y = b.apply(MaxPool((1, 3), (1, 2)), b.conv(b.input(1, 17, 4), rows=8))
    assert stages(fused(b.graph(y))) == [["Requant"], ["MaxPool"]]


def test_a_group_that_does_not_fit_is_cut_and_said(b: GraphBuilder) -> None:
    """One vector register: the residual needs a second one, so it is a kernel of its own."""
    x = b.input(1, 16, 8)
    y = b.apply(Add(), b.conv(x, rows=8), x)
    low = fused(b.graph(y), vectors=1)
    assert stages(low) == [["Requant"], ["Add"]]
    (line,) = low.splits
    assert "2 vectors are in use at one time, there are 1" in line


def test_a_group_is_cut_where_the_least_is_stored() -> None:
    """Sizes after each stage: after the pool there is half; among equals the longer group."""
    assert legality.cheapest_cut([64, 64, 32, 64], 16) == 2
    assert legality.cheapest_cut([64, 64], 16) == 1


def test_fusion_can_be_off(b: GraphBuilder) -> None:
    x = b.input(1, 16, 8)
    y = b.apply(Add(), b.conv(x, rows=8), x)
    low = lower(b.graph(y), policy_of(load_target("esn-s")), Fusion(on=False, npu=config()))
    assert stages(low) == [["Requant"], ["Add"]]
