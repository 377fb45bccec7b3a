"""When a node may join the kernel of the step before it: ten rules, one predicate each.

Each returns why not, or "" where the rule allows it. They speak of a step that is not placed yet
(mapping/fuse.py asks before it appends), so all of them are about the graph and the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgesparse.graph.ir import Graph, Node, Tensor
from edgesparse.mapping.draft import Draft, DraftStage
from edgesparse.npu.kernels.base import OPERAND, aligned
from edgesparse.npu.kernels.mac_parts import MOST_TAPS
from edgesparse.ops import History
from edgesparse.plan import model as pm
from edgesparse.target import NpuConfig

BINARY = (pm.Add, pm.Mul)
REDUCTIONS = (pm.MaxPool, pm.AvgPool, pm.Mean)
IN_REGISTERS = (pm.Clamp, pm.Lut, pm.Add, pm.Mul, pm.MaxPool)
"""Stages that leave int8 vectors in registers for the next one."""


@dataclass(frozen=True)
class Candidate:
    """A node that might become one more stage of a step.

    draft    the step so far; its output is what the node reads
    stage    what the node would become
    tensors  by name: those of the graph, and those that lowering has added
    written  what is complete before the step starts
    """

    graph: Graph
    draft: Draft
    node: Node
    stage: DraftStage
    tensors: dict[str, Tensor]
    written: frozenset[str]
    config: NpuConfig

    @property
    def value(self) -> Tensor:
        return self.tensors[self.draft.output]

    @property
    def result(self) -> Tensor:
        return self.tensors[self.node.outputs[0]]

    @property
    def bodies(self) -> tuple[pm.StageBody, ...]:
        return (*(s.body for s in self.draft.stages), self.stage.body)

    @property
    def operand(self) -> Tensor | None:
        return self.tensors[self.stage.operand] if self.stage.operand else None


def single_consumer(c: Candidate) -> str:
    """L1: what is between is read by nobody else, nor given out."""
    readers = c.graph.consumers.get(c.draft.output, ())
    if c.draft.output in c.graph.outputs or any(n is not c.node for n in readers):
        return f"'{c.draft.output}' is needed elsewhere too"
    return ""


def acyclic(c: Candidate) -> str:
    """L2: nothing the group reads is computed after it starts."""
    operand = c.stage.operand
    if operand and c.tensors[operand].data is None and operand not in c.written:
        return f"'{operand}' is not complete before the group starts"
    return ""


def aligned_reads(c: Candidate) -> str:
    """L3: element by element, or through a window that no element is in twice or outside."""
    body = c.stage.body
    if isinstance(body, pm.MaxPool):
        w = body.window
        if w.stride_h < w.kernel_h or w.stride_w < w.kernel_w:
            return "windows of the pool overlap: what is under two would be computed twice"
        clipped = w.pad_top or w.pad_left or (
            (w.out_h - 1) * w.stride_h + w.kernel_h > w.in_h
            or (w.out_w - 1) * w.stride_w + w.kernel_w > w.in_w)
        return "the pool reaches outside its input" if clipped else ""
    if (c.value.columns, c.value.channels) != (c.result.columns, c.result.channels):
        return "the result has another shape"
    operand = c.operand
    if operand is not None and (
            operand.columns not in (1, c.value.columns)
            or operand.channels not in (1, c.value.channels)):
        return "the operand is repeated along some columns only"
    return ""


def one_layout(c: Candidate) -> str:
    """L4: the columns of a pool are numbered as those of the step's source."""
    body, source = c.stage.body, c.draft.source
    if isinstance(body, pm.MaxPool) and isinstance(source, pm.Mac):
        g = source.geometry
        if (g.out_h, g.out_w) != (body.window.in_h, body.window.in_w):
            return "the pool sees the columns in another shape"
    return ""


def quantized(c: Candidate) -> str:
    """L5: every intermediate is int8 with a scale and zero point of its own, in registers."""
    later = c.bodies[1:] if _is_mac(c) else c.bodies
    wrong: pm.StageBody | None = next((b for b in later if not isinstance(b, IN_REGISTERS)), None)
    if _is_mac(c) and not isinstance(c.bodies[0], pm.Requant):
        wrong = c.bodies[0]
    return f"{type(wrong).__name__} leaves no int8 vector in registers" if wrong else ""


def registers(c: Candidate) -> str:
    """L6: the vectors and streams that are in use at one time exist."""
    vectors = 2 if any(isinstance(b, (*BINARY, pm.MaxPool)) for b in c.bodies) else 1
    if vectors > c.config.vectors:
        return f"{vectors} vectors are in use at one time, there are {c.config.vectors}"
    streams = OPERAND + sum(isinstance(b, BINARY) for b in c.bodies)
    if streams > c.config.streams:
        return f"{streams} streams are in use at one time, there are {c.config.streams}"
    return ""


def scratchpad(c: Candidate) -> str:
    """L7: one row of the result, what it reads, and a slice of the weights fit."""
    need = smallest_room(c)
    if need > c.config.scratchpad_bytes:
        return f"it needs {need:,} bytes of scratchpad, there are {c.config.scratchpad_bytes:,}"
    return ""


def smallest_room(c: Candidate) -> int:
    """Bytes of the finest tile of the group: rows, or columns where there is one row."""
    lanes, total = c.config.lanes, 0
    rows = cols = 1
    for body in c.bodies:
        if isinstance(body, pm.MaxPool):
            rows, cols = body.window.kernel_h, body.window.kernel_w
    source = c.draft.source
    x = c.tensors[c.draft.input]
    if isinstance(source, pm.Mac):
        g = source.geometry
        high = (rows - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1
        wide = (cols - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1
        if g.out_h > 1:
            wide = g.in_w + (g.kernel_w - 1) * g.dilation_w
        total += aligned(high * wide * x.channels)
        most = max(len(group.values) // max(1, -(-group.row_count // lanes))
                   for group in source.weights.groups)
        total += aligned(most) + 3 * aligned(4 * g.rows)
    else:
        total += aligned(x.channels)
    line = c.result.channels * (c.result.shape[-2] if len(c.result.shape) > 3 else 1)
    operands = sum(isinstance(b, BINARY) for b in c.bodies)
    tables = sum(isinstance(b, pm.Lut) for b in c.bodies)
    return total + (1 + operands) * aligned(line) + 256 * tables


def static_gate(c: Candidate) -> str:
    """L8: past a reduction no second operand that is computed, such as a gate of its own input."""
    reduced = any(isinstance(b, REDUCTIONS) for b in c.bodies[:-1])
    operand = c.operand
    if reduced and operand is not None and operand.data is None:
        return "a computed operand meets a value that was reduced in the same group"
    return ""


def stateless(c: Candidate) -> str:
    """L9: what a ring remembers from run to run is written by a step, not passed on."""
    if isinstance(c.node.op, History) or any(
            isinstance(n.op, History) for n in c.graph.consumers.get(c.draft.output, ())):
        return f"'{c.draft.output}' is remembered from run to run"
    return ""


def has_code(c: Candidate) -> str:
    """L10: there is a kernel for source and stages in this order."""
    pools = [i for i, b in enumerate(c.bodies) if isinstance(b, pm.MaxPool)]
    if len(pools) > 1:
        return "a kernel takes one pool"
    body = c.stage.body
    if isinstance(body, BINARY) and c.operand is not None and (
            c.operand.channels != c.value.channels):
        return "an operand with one value a column has no code"
    if not pools:
        return ""
    if not _is_mac(c):
        return "a pool joins the kernel of a convolution only"
    if any(isinstance(b, BINARY) for b in c.bodies[: pools[0]]):
        return "a second operand before a pool has no code"
    window = c.bodies[pools[0]].window  # type: ignore[union-attr]
    if window.kernel_h * window.kernel_w > MOST_TAPS:
        return f"a pool of more than {MOST_TAPS} positions has no code in a group"
    return _three_pitches(c)


def _three_pitches(c: Candidate) -> str:
    """A window that is walked by an instruction per kernel row leaves no dimension for a pool."""
    assert isinstance(c.draft.source, pm.Mac)
    g = c.draft.source.geometry
    if g.groups == 1 and min(g.kernel_h, g.kernel_w, g.in_c) > 1 and g.dilation_w > 1:
        return "a pool after a convolution dilated along both axes has no code"
    return ""


def _is_mac(c: Candidate) -> bool:
    return isinstance(c.draft.source, pm.Mac)


Rule = Callable[[Candidate], str]
GRAPH: tuple[Rule, ...] = (
    single_consumer, acyclic, aligned_reads, one_layout, quantized, static_gate, stateless,
    has_code)
"""Rules that a longer group can only break further."""
MACHINE: tuple[Rule, ...] = (registers, scratchpad)
"""Rules about room: where they fail, the group is split where that is cheapest."""
RULES: dict[str, Rule] = {
    "L1": single_consumer, "L2": acyclic, "L3": aligned_reads, "L4": one_layout, "L5": quantized,
    "L6": registers, "L7": scratchpad, "L8": static_gate, "L9": stateless, "L10": has_code}


def refusal(c: Candidate, rules: tuple[Rule, ...]) -> str:
    """The first reason against, or ""."""
    return next((reason for rule in rules if (reason := rule(c))), "")


def cheapest_cut(sizes: list[int], lanes: int) -> int:
    """After which of the stages a group is cut in two.

    sizes  bytes of the value after each stage that still fits, in order
    Predicted cycles of a cut are those of a store and a load of the value there, a vector a cycle;
    among equals the longest group wins.
    """
    cost = [2 * -(-size // lanes) for size in sizes]
    return max(range(len(cost)), key=lambda i: (-cost[i], i))
