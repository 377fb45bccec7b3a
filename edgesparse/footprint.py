"""What the flash and the RAM of a plan are spent on, and what its model asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgesparse.graph.ir import Graph
from edgesparse.ops import Conv, FullyConnected, Lstm, Svdf
from edgesparse.plan import model as pm
from edgesparse.plan.places import extent
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_model import Stream
from edgesparse.plan.stream_state import stream_state_bytes
from edgesparse.plan.write import TRAILER

WEIGHTS: tuple[tuple[tuple[type, ...], tuple[int, ...]], ...] = (
    ((Conv, FullyConnected), (1,)), ((Lstm, Svdf), (1, 2)))
"""Operators and which of their inputs are weights."""
BLOB_BYTES = 8
"""Of the struct NpuBlob."""


@dataclass(frozen=True)
class Flash:
    """Bytes of a plan file.

    weights     values and index of all encodings
    parameters  biases, multipliers and shifts, tables, constant operands
    program     for the NPU: instructions, and what they read from where
    golden      the outputs the self test expects
    names       of the user's layers and tensors; a device may drop them
    structure   the FlatBuffer around all this: tables, offsets, alignment
    trailer     checksums
    """

    weights: int
    parameters: int
    program: int
    golden: int
    names: int
    structure: int
    trailer: int


@dataclass(frozen=True)
class Region:
    """Bytes of the arena in use from step `first` to step `last`.

    first  -1: from before the run, written by the caller
    last   the number of steps: until after the run, read by the caller
    kind   "input", "output", "tensor", "scratch" or "ring"
    """

    name: str
    offset: int
    bytes: int
    first: int
    last: int
    kind: str


def model_cost(graph: Graph) -> tuple[int, int]:
    """(MACs of one run, weights) of a model as imported: before anything is folded."""
    macs = sum(node.op.macs(graph.ins(node), graph.outs(node)) for node in graph.nodes)
    weights = {
        name for node in graph.nodes for kinds, numbers in WEIGHTS if isinstance(node.op, kinds)
        for name in (node.inputs[i] for i in numbers)}
    return macs, sum(graph.tensors[name].size for name in weights)


def flash_of(plan: Plan) -> Flash:
    """Add up the file; the parts sum to plan.flash_bytes."""
    model = plan.model
    weights = sum(layer.weight_bytes for layer in plan.layers)
    parameters = sum(_parameter_bytes(step) for step in model.steps)
    parameters += sum(t.data.nbytes for t in model.tensors if t.data is not None)
    parameters += _stream_bytes(model.stream)
    program = model.npu.commands.nbytes + BLOB_BYTES * len(model.npu.blobs) if model.npu else 0
    golden = model.golden.outputs.nbytes if model.golden else 0
    names = sum(len(name.encode()) for name in _names(model.names))
    named = weights + parameters + program + golden + names + TRAILER.size
    return Flash(
        weights, parameters, program, golden, names, plan.flash_bytes - named, TRAILER.size)


def _parameter_bytes(step: pm.Step) -> int:
    arrays = []
    for mac in pm.macs_of(step.source):
        arrays.append(mac.bias)
        if mac.weights.row_order is not None:
            arrays.append(mac.weights.row_order)
    if isinstance(step.source, pm.Svdf):
        arrays += [step.source.time, step.source.bias]
    for stage in _stages(step):
        if isinstance(stage, pm.Requant):
            arrays += [stage.multiplier, stage.shift]
        elif isinstance(stage, pm.AddSingleRequant):
            arrays += [stage.multiplier, stage.other_multiplier, stage.shift]
        elif isinstance(stage, pm.Lut):
            arrays.append(stage.table)
    return sum(array.nbytes for array in arrays)


def _stream_bytes(stream: Stream | None) -> int:
    """Taps and tables."""
    if stream is None:
        return 0
    taps = stream.front_end.taps.nbytes if stream.front_end is not None else 0
    beats = stream.beats
    return taps + (beats.probability.nbytes + beats.power.nbytes if beats is not None else 0)


def _names(names: pm.Names | None) -> Iterator[str]:
    if names is not None:
        yield names.model
        for part in (names.tensors, names.steps, names.inputs, names.outputs, names.labels):
            yield from part


def _stages(step: pm.Step) -> Iterator[pm.StageBody]:
    for branch in step.branches:
        yield from branch.stages


# ---- RAM --------------------------------------------------------------------------------------


def memory_map(plan: Plan) -> tuple[Region, ...]:
    """Every tensor, ring and scratch area of the arena and the state of the stream, in order of
    address.

    Windows into another tensor (a slice, a part of a concatenation) are listed too, so regions
    may overlap while they live; in-place results stand where their input stood.
    """
    model = plan.model
    lives = _lifetimes(model)
    names = model.names.tensors if model.names else ()
    inputs = {io.tensor for io in model.inputs}
    outputs = {io.tensor for io in model.outputs}
    regions = []
    for number, (first, last) in lives.items():
        kind = "input" if number in inputs else "output" if number in outputs else "tensor"
        name = names[number] if number < len(names) else f"tensor {number}"
        low, high = extent(model.tensors[number].place)
        regions.append(Region(name, low, high - low, first, last, kind))
    for number, step in enumerate(model.steps):
        if step.scratch_bytes:
            regions.append(Region(
                f"scratch of step {number}", step.scratch_offset, step.scratch_bytes, number,
                number, "scratch"))
    for number, ring in enumerate(model.rings):
        regions.append(Region(
            f"ring {number}", ring.offset, ring.columns * ring.channels, -1, len(model.steps),
            "ring"))
    if model.stream is not None:
        places = [model.tensors[ios[0].tensor].place for ios in (model.inputs, model.outputs)]
        size = stream_state_bytes(model.stream, places[0].channels, places[1].channels - 1)
        regions.append(Region(
            "stream", model.stream.state_offset, size, -1, len(model.steps), "stream"))
    return tuple(sorted(regions, key=lambda r: (r.offset, r.first, r.last, r.name)))


def _lifetimes(model: pm.PlanModel) -> dict[int, tuple[int, int]]:
    """Tensor number -> (first, last) step, of everything in the arena but ring tensors."""
    uses = [(io.tensor, -1) for io in model.inputs]
    for number, step in enumerate(model.steps):
        operands = [s.operand for s in _stages(step)
                    if isinstance(s, (pm.Add, pm.Mul, pm.AddSingleRequant))]
        touched = (step.input, *operands, *(branch.output for branch in step.branches))
        uses += [(tensor, number) for tensor in touched]
    uses += [(io.tensor, len(model.steps)) for io in model.outputs]
    lives: dict[int, tuple[int, int]] = {}
    for tensor, step_number in uses:
        place = model.tensors[tensor]
        if place.data is None and place.place.ring_role is pm.RingRole.NONE:
            first, last = lives.get(tensor, (step_number, step_number))
            lives[tensor] = (min(first, step_number), max(last, step_number))
    return lives
