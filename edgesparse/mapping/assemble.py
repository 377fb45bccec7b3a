"""Assembly: steps and views -> the plan model, with every address decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgesparse.mapping.draft import WINDOWS, Draft
from edgesparse.mapping.limits import check_limits
from edgesparse.mapping.lowered import Lowered
from edgesparse.mapping.memory import Buffer, MemoryPlan, align, plan_memory
from edgesparse.mapping.views import View
from edgesparse.plan import model as pm
from edgesparse.plan.stream_model import Stream
from edgesparse.plan.stream_state import ALIGN as STATE_ALIGN
from edgesparse.plan.stream_state import stream_state_bytes
from edgesparse.plan.wire import round_up

TILE = 4
"""Columns a Mac of the portable backend computes at a time (PLAN_FORMAT.md section 8)."""


@dataclass(frozen=True)
class Assembled:
    """The plan without golden vector, and how well its memory is used."""

    model: pm.PlanModel
    memory: MemoryPlan
    reasons: tuple[str, ...]
    """Per step: why its weights are encoded as they are."""


def assemble(low: Lowered, target: str, producer: str, options: str, seed: int = 0) -> Assembled:
    """Plan the arena and number everything. Deterministic. Raises DoesNotFit."""
    roots = _merge_in_place(low)
    buffers = list(_buffers(low, roots))
    scratch = [_scratch_bytes(low, draft) for draft in low.drafts]
    buffers += [
        Buffer(f"scratch {i}", size, i, i) for i, size in enumerate(scratch) if size
    ]
    memory = plan_memory(buffers, seed)
    rings, state = _rings(low)
    stream, state = _stream(low, state)

    index: dict[str, int] = {}
    tensors: list[pm.Tensor] = []
    for name in _used_tensors(low):
        index[name] = len(tensors)
        tensors.append(_tensor(low, name, roots, memory, state))
    steps = tuple(
        _step(low, draft, index, memory.offsets.get(f"scratch {i}", -state) + state, scratch[i])
        for i, draft in enumerate(low.drafts)
    )
    graph = low.graph
    none = (False,) * len(low.outputs)
    model = pm.PlanModel(
        target=target, tensors=tuple(tensors), steps=steps,
        inputs=tuple(
            pm.Io(tensor=index[t], float_io=f)
            for t, f in zip(graph.inputs, graph.float_inputs or (False,) * len(graph.inputs),
                            strict=True)),
        outputs=tuple(
            pm.Io(tensor=index[t], float_io=f, uint8_io=u)
            for t, f, u in zip(low.outputs, graph.float_outputs or none,
                               graph.uint8_outputs or none, strict=True)),
        rings=rings, state_bytes=state, arena_bytes=state + memory.peak,
        source_sha256=graph.source_sha256, producer=producer,
        options=options,
        names=pm.Names(
            model=graph.name, tensors=tuple(index),
            steps=tuple(" + ".join(d.origin) or d.output for d in low.drafts),
            inputs=graph.input_names or graph.inputs,
            outputs=graph.output_names or graph.outputs,
        ),
        stream=stream,
    )
    check_limits(model)
    return Assembled(model, memory, tuple(draft.reason for draft in low.drafts))


# ---- lifetimes --------------------------------------------------------------------------------


def _accesses(low: Lowered) -> Iterator[tuple[int, str]]:
    """(step, tensor) of every read and write of the arena, the caller's included."""
    for name in low.graph.inputs:
        yield -1, name
    for i, draft in enumerate(low.drafts):
        for name in (*draft.reads, draft.output):
            if name in low.views:
                yield i, name
    for name in low.outputs:
        yield len(low.drafts), name


def _lifetimes(low: Lowered, roots: dict[str, str]) -> dict[str, tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for step, name in _accesses(low):
        root = roots[low.views[name].root]
        first, last = spans.get(root, (step, step))
        spans[root] = (min(first, step), max(last, step))
    return spans


def _root_size(low: Lowered, root: str) -> int:
    """Bytes of a root: what its own tensor and every window into it reach."""
    return max(
        view.offset + (low.tensors[name].columns - 1) * view.pitch + low.tensors[name].channels
        for name, view in low.views.items()
        if view.root == root
    )


def _buffers(low: Lowered, roots: dict[str, str]) -> Iterator[Buffer]:
    sizes: dict[str, int] = {}
    for name, view in low.views.items():
        t = low.tensors[name]
        root = roots[view.root]
        end = view.offset + (t.columns - 1) * view.pitch + t.channels
        sizes[root] = max(sizes.get(root, 0), end)
    for root, (first, last) in _lifetimes(low, roots).items():
        yield Buffer(root, sizes[root], first, last)


def _merge_in_place(low: Lowered) -> dict[str, str]:
    """Let an elementwise result take the bytes of an operand that dies with the step.

    Returns root -> root whose bytes it uses (itself where nothing was merged).
    """
    roots = {view.root: view.root for view in low.views.values()}
    for i, draft in enumerate(low.drafts):
        if draft.has_window or isinstance(draft.source, pm.Copy) or draft.output not in low.views:
            continue
        out = low.views[draft.output]
        spans = _lifetimes(low, roots)
        if roots[out.root] != out.root or spans[out.root][0] != i:
            continue
        for name in _in_place_candidates(draft):
            if not _same_bytes(low, name, draft.output):
                continue
            root = roots[low.views[name].root]
            others = [t for t in draft.reads if t != name and t in low.views]
            if root == out.root or spans[root][1] != i or any(
                roots[low.views[t].root] == root for t in others
            ):
                continue
            roots = {r: root if to == out.root else to for r, to in roots.items()}
            break
    return roots


def _in_place_candidates(draft: Draft) -> Iterator[str]:
    if isinstance(draft.source, pm.Load):
        yield draft.input
    for name in draft.operands:
        if name != draft.input or isinstance(draft.source, pm.Load):
            yield name


def _same_bytes(low: Lowered, name: str, output: str) -> bool:
    """Element by element at the same place of roots of equal size."""
    if name not in low.views:
        return False
    a, b = low.views[name], low.views[output]
    x, y = low.tensors[name], low.tensors[output]
    return (
        (x.columns, x.channels, a.offset, a.pitch) == (y.columns, y.channels, b.offset, b.pitch)
        and align(_root_size(low, a.root)) == align(_root_size(low, b.root))
    )


# ---- tensors and steps ------------------------------------------------------------------------


def _used_tensors(low: Lowered) -> Iterator[str]:
    """Every tensor a step or the user touches, once: inputs first, then by first use."""
    names = [*low.graph.inputs]
    for draft in low.drafts:
        names += [*draft.reads, draft.output]
    yield from dict.fromkeys((*names, *low.outputs))


def _rings(low: Lowered) -> tuple[tuple[pm.Ring, ...], int]:
    """The rings behind their heads at the start of the arena, and the bytes of both."""
    at = 4 * len(low.rings)
    rings = []
    for ring in low.rings.values():
        rings.append(pm.Ring(
            offset=at, columns=ring.columns, channels=ring.channels, zero_point=ring.zero_point,
            use=ring.use))
        at += ring.columns * ring.channels
    return tuple(rings), align(at)


def _stream(low: Lowered, at: int) -> tuple[Stream | None, int]:
    """The stream's table, its state behind the rings, and the bytes of both."""
    if low.stream is None:
        return None, at
    at = round_up(at, STATE_ALIGN)
    (x,), y = low.graph.inputs, low.outputs[0]
    size = stream_state_bytes(
        low.stream, low.tensors[x].channels, low.tensors[y].channels - 1)
    return replace(low.stream, state_offset=at), at + size


def _tensor(
    low: Lowered, name: str, roots: dict[str, str], memory: MemoryPlan, state: int
) -> pm.Tensor:
    t = low.tensors[name]
    shape = t.shape or (1,)
    place = pm.Place(
        offset=0, pitch=t.channels, columns=t.columns, channels=t.channels,
        zero_point=t.zero_point,
    )
    if t.data is not None:
        return pm.Tensor(shape=shape, place=place, scale=t.scale, data=t.data.reshape(-1))
    if name in low.slots:
        slot = low.slots[name]
        ring = list(low.rings).index(slot.ring)
        place = replace(place, ring=ring, ring_role=slot.role, ring_lag=slot.lag)
        return pm.Tensor(shape=shape, place=place, scale=t.scale)
    view = low.views[name]
    offset = state + memory.offsets[roots[view.root]] + view.offset
    return pm.Tensor(
        shape=shape, place=replace(place, offset=offset, pitch=view.pitch), scale=t.scale)


def _step(
    low: Lowered, draft: Draft, index: dict[str, int], scratch_offset: int, scratch: int
) -> pm.Step:
    bodies = tuple(
        s.body if s.operand is None else _bind(s.body, index[s.operand]) for s in draft.stages
    )
    if draft.sums is not None:
        bodies = (_with_sums(bodies[0], list(low.rings).index(draft.sums)), *bodies[1:])
    branch = pm.Branch(
        channels=low.tensors[draft.output].channels, output=index[draft.output], stages=bodies)
    return pm.Step(
        input=index[draft.input], source=draft.source, branches=(branch,),
        scratch_offset=scratch_offset, scratch_bytes=scratch,
    )


def _bind(body: pm.StageBody, operand: int) -> pm.StageBody:
    assert isinstance(body, (pm.Add, pm.Mul, pm.AddSingleRequant))
    return replace(body, operand=operand)


def _with_sums(body: pm.StageBody, ring: int) -> pm.StageBody:
    assert isinstance(body, (pm.Mean, pm.AvgPool))
    assert body.running is not None
    return replace(body, running=replace(body.running, ring=ring))


# ---- scratch ----------------------------------------------------------------------------------


def _scratch_bytes(low: Lowered, draft: Draft) -> int:
    """PLAN_FORMAT.md section 8, for one branch."""
    patches = 0
    if isinstance(draft.source, pm.Lstm):
        patches = 2 * draft.source.recurrent.geometry.rows  # gates, int16
    if isinstance(draft.source, pm.Mac):
        patches = align(patch_bytes(
            draft.source.geometry, low.views.get(draft.input), draft.input in low.slots))
        if low.weights.widens:
            patches = max(patches, widened_bytes(draft.source))
    channels = low.tensors[draft.output].channels
    tail = sum(
        align(channels if isinstance(s.body, (pm.MaxPool, pm.Softmax)) else 4 * channels)
        for s in draft.stages if isinstance(s.body, WINDOWS)
    )
    return patches + tail


def widened_bytes(mac: pm.Mac) -> int:
    """Bytes for a tile of inputs as the kernels of Cortex-M multiply with them, two int16 a word
    (native/src/exec/regular_dsp.c); 0 where they read int8."""
    g, groups = mac.geometry, mac.weights.groups
    columns, inputs = g.out_h * g.out_w, g.kernel_h * g.kernel_w * g.in_c
    if g.groups != 1 or len(groups) != 1:
        return 0
    blocks = groups[0].encoding is pm.Encoding.BSR
    if blocks and (groups[0].block_rows, groups[0].block_cols) == (4, 1):
        return 4 * inputs if columns > 1 else 0
    if columns < TILE - 1 or (blocks and groups[0].block_cols != 4):
        return 0
    gathered = align(inputs) if g.in_c % 4 else 0
    return 2 * TILE * align(inputs) + gathered


def patch_bytes(g: pm.Geometry, view: View | None, in_ring: bool = False) -> int:
    """Bytes for the input patches of a tile of columns; 0 when they are contiguous in the input."""
    inside = (
        g.pad_top == g.pad_left == 0
        and (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h < g.in_h
        and (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w < g.in_w
    )
    dense = not in_ring and (view is None or view.pitch == g.in_c)
    one_tap = g.kernel_h == g.kernel_w == 1
    one_row = g.kernel_h == 1 and (g.dilation_w == 1 or g.kernel_w == 1) and dense
    if inside and (one_tap or one_row):
        return 0
    columns = min(TILE, g.out_h * g.out_w)
    return columns * g.kernel_h * g.kernel_w * g.in_c

