"""Vertical fusion: elementwise nodes join the tail of the step before them."""

from __future__ import annotations

from edgesparse.graph.ir import Node
from edgesparse.mapping import stages
from edgesparse.mapping.bounds import check_stage
from edgesparse.mapping.draft import Draft, DraftStage
from edgesparse.mapping.emit_compute import Binary
from edgesparse.mapping.lowered import Lowered, same_box, same_or_one
from edgesparse.npu.legality import GRAPH, MACHINE, Candidate, cheapest_cut, refusal
from edgesparse.ops import MaxPool
from edgesparse.plan import model as pm

MAX_STAGES = 16
"""A branch holds no more (PLAN_FORMAT.md, I-7)."""


def takes_tail(draft: Draft) -> bool:
    """A copy and an LSTM have no tail; after a window stage each further stage would see the
    reduced shape."""
    return not isinstance(draft.source, (pm.Copy, pm.Lstm)) and not any(
        isinstance(s.body, pm.Softmax) for s in draft.stages)


def with_tail(low: Lowered, draft: Draft, written: set[str], merged: set[int]) -> Draft:
    """Append the elementwise nodes that follow, as long as each fusion is legal."""
    if low.fusion.npu is not None:
        return _npu_tail(low, draft, written, merged)
    while True:
        node = low.graph.sole_consumer(draft.output) if draft.output in low.graph.tensors else None
        if node is None or len(draft.stages) == MAX_STAGES:
            return draft
        stage = _tail_stage(low, node, draft.output, written)
        if stage is None:
            return draft
        draft = draft.append(stage, node.outputs[0], node.origin)
        merged.add(id(node))


def _npu_tail(low: Lowered, draft: Draft, written: set[str], merged: set[int]) -> Draft:
    """The same for the kernels of an NPU, which take a pool too but have a scratchpad to fit."""
    config = low.fusion.npu
    assert config is not None
    drafts, nodes = [draft], list[Node]()
    while draft.output in low.graph.tensors and len(draft.stages) < MAX_STAGES:
        node = low.graph.sole_consumer(draft.output)
        stage = None
        if node is not None:
            stage = _pool_stage(low, node) or _tail_stage(low, node, draft.output, written)
        if node is None or stage is None:
            break
        candidate = Candidate(
            low.graph, draft, node, stage, low.tensors, frozenset(written), config)
        if refusal(candidate, GRAPH):
            break
        if reason := refusal(candidate, MACHINE):
            cut = cheapest_cut([low.tensors[d.output].size for d in drafts], config.lanes)
            low.splits.append(f"{node.name}: a kernel of its own: {reason}")
            drafts, nodes = drafts[: cut + 1], nodes[:cut]
            break
        draft = draft.append(stage, node.outputs[0], node.origin)
        drafts.append(draft)
        nodes.append(node)
    merged.update(id(node) for node in nodes)
    return drafts[-1]


def _pool_stage(low: Lowered, node: Node) -> DraftStage | None:
    if not isinstance(node.op, MaxPool):
        return None
    return DraftStage(stages.pool(node.op, low.graph.ins(node), low.graph.outs(node)))


def _tail_stage(low: Lowered, node: Node, value: str, written: set[str]) -> DraftStage | None:
    """The stage `node` becomes after `value`; None where fusing would not be exact or ordered."""
    ins, outs = low.graph.ins(node), low.graph.outs(node)
    if hasattr(node.op, "table"):
        return DraftStage(stages.unary(node.op.table(ins, outs)))
    if not isinstance(node.op, Binary) or node.inputs[0] == node.inputs[1]:
        return None
    index = node.inputs.index(value)
    other = node.inputs[1 - index]
    # The operand must be complete before this step starts, and seen without a copy.
    if low.tensors[other].data is None and other not in written:
        return None
    if not same_box(low.tensors[value], outs[0]) or not same_or_one(low.tensors[other], outs[0]):
        return None
    body = stages.elementwise(node.op, ins, outs, index)
    check_stage(node.name, type(node.op).__name__, body, outs[0].columns)
    return DraftStage(body, other)

