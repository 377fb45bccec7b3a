"""Does a plan give the bytes of the model it came from? Every tensor it still has is compared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgesparse.convert import is_float, read_file
from edgesparse.errors import BadInput
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Reshape
from edgesparse.oracle import Judge, judge_of
from edgesparse.passes.pipeline import CANONICAL, INT8, run_passes
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.quantize.calibrate import calibrate
from edgesparse.quantize.lower_int8 import quantize_graph
from edgesparse.runtime.session import Session, dequantize, quantize

INTERPRETER = "the NumPy interpreter of the plan"
INT8_REFERENCE = "the NumPy reference on the graph as quantized"


@dataclass(frozen=True)
class VerifyOptions:
    """How to compare.

    inputs       how many runs: both ends of the range, then noise and smooth signals in turn
    calibration  of a model that edgesparse quantized: what it was quantized with, tensor name ->
                 [samples, ...]; without it only the executors of the plan are compared
    progress     called after each run
    """

    inputs: int = 32
    seed: int = 0
    backend: str = "portable"
    calibration: Mapping[str, Array] | None = None
    progress: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Difference:
    """One element: ours is what the plan gave, theirs what the judge did."""

    run: int
    index: tuple[int, ...]
    ours: float
    theirs: float


@dataclass(frozen=True)
class Compared:
    """One tensor over all runs.

    tensor     the model's name of it
    layer      the step of the plan that wrote it
    elements   compared in all
    differing  how many of them differ in any bit
    """

    tensor: str
    layer: str
    elements: int
    differing: int
    first: Difference | None


@dataclass(frozen=True)
class Report:
    """What was compared and what came out.

    judge         who the plan was compared with
    notes         why not the oracle itself, where it is not; and what else limits the result
    tensors       intermediate results, in the order of the steps, then the outputs
    not_compared  results of the plan that the model does not have
    sqnr_db       output name -> SQNR against float over the calibration samples; models that
                  edgesparse quantized only
    """

    model: str
    judge: str
    notes: tuple[str, ...]
    inputs: int
    backend: str
    tensors: tuple[Compared, ...]
    not_compared: tuple[str, ...]
    sqnr_db: Mapping[str, float]

    @property
    def differing(self) -> int:
        return sum(compared.differing for compared in self.tensors)

    @property
    def passed(self) -> bool:
        return self.differing == 0

    @property
    def first(self) -> Compared | None:
        """The first tensor that differs, in the order of the steps."""
        return next((compared for compared in self.tensors if compared.differing), None)


def verify(plan: Plan, model: str | Path | bytes, options: VerifyOptions | None = None) -> Report:
    """Compare a plan with a .tflite model, byte for byte.

    Raises BadInput when the model is not one this plan can be compared with, or no oracle is
    installed; ImportFailed or UnsupportedModel as convert().
    """
    options = options or VerifyOptions()
    if options.inputs < 1:
        raise BadInput(f"inputs = {options.inputs}: at least 1 run is needed")
    data, name = read_file(model)
    imported = import_tflite(data, name)
    graph = run_passes(imported, CANONICAL)
    notes = _source_note(plan, data, name)
    if is_float(graph):
        return _verify_quantized(plan, graph, options, (data, notes))
    graph = run_passes(graph, INT8)
    _check_same_interface(plan, imported, name)
    judgement = judge_of(data, name)
    known = {n for n, t in imported.tensors.items() if t.data is None}
    return _compare(
        plan, judgement.judge, _counterparts(plan, graph, known), options,
        Report(name, judgement.judge.name, (*notes, *judgement.notes), options.inputs,
               options.backend, (), (), {}),
        _Ends(imported.inputs, imported.outputs))


def _source_note(plan: Plan, data: bytes, name: str) -> tuple[str, ...]:
    source = plan.model.source_sha256
    if source and source != hashlib.sha256(data).digest():
        return (f"the plan was made from another file than {name} (its SHA-256 differs)",)
    return ()


def _check_same_interface(plan: Plan, graph: Graph, name: str) -> None:
    """The same number of inputs and outputs, each with as many elements."""
    for what, ios, tensors in (("input", plan.inputs, graph.inputs),
                               ("output", plan.outputs, graph.outputs)):
        ours = [list(io.shape) for io in ios]
        theirs = [list(graph.tensors[t].shape) for t in tensors]
        if [math.prod(s) for s in ours] != [math.prod(s) for s in theirs]:
            raise BadInput(f"the plan has {what}s {ours}, {name} has {theirs}: it is not a plan of "
                           "this model; name the model it was converted from")


# ---- which tensor is which --------------------------------------------------------------------


@dataclass(frozen=True)
class _Counterpart:
    """The judge's tensor that holds the same elements, and which of its channels we kept."""

    name: str
    kept: tuple[int, ...] | None

    def pick(self, values: Array, columns: int) -> Array:
        """values as [columns, channels], the kept channels only."""
        wide = values.reshape(columns, -1)
        return wide if self.kept is None else wide[:, list(self.kept)]


@dataclass(frozen=True)
class _Ends:
    """The judge's names of inputs and outputs, in the plan's order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def _counterparts(plan: Plan, graph: Graph, known: set[str]) -> dict[int, _Counterpart]:
    """Plan tensor number -> the tensor of the judge with the same elements.

    A plan's tensor has the name of the graph's, perhaps with the shape it is seen in behind a
    colon; a graph's tensor is the model's, or a Reshape of it.
    """
    found: dict[int, _Counterpart] = {}
    names = plan.model.names.tensors if plan.model.names else ()
    for number, name in enumerate(names):
        base = name
        while base not in graph.tensors and ":" in base:
            base = base.rpartition(":")[0]
        if base not in graph.tensors or graph.tensors[base].data is not None:
            continue
        alias = _reshaped_from(graph, base, known)
        size = math.prod(plan.model.tensors[number].shape)
        if alias is not None and size == graph.tensors[base].size:
            found[number] = _Counterpart(alias, graph.tensors[base].kept)
    return found


def _reshaped_from(graph: Graph, name: str, known: set[str]) -> str | None:
    """The nearest tensor the model has among those that Reshapes connect with `name`."""
    waiting, seen = [name], {name}
    while waiting:
        tensor = waiting.pop(0)
        if tensor in known:
            return tensor
        nodes = [*graph.consumers.get(tensor, ())]
        if tensor in graph.producer:
            nodes.append(graph.producer[tensor])
        for node in nodes:
            if isinstance(node.op, Reshape):
                near = [t for t in (node.inputs[0], node.outputs[0]) if t not in seen]
                waiting += near
                seen.update(near)
    return None


# ---- comparing --------------------------------------------------------------------------------


class _Tally:
    """Running sums of one tensor."""

    def __init__(self, tensor: str, layer: str) -> None:
        self.tensor, self.layer = tensor, layer
        self.elements = self.differing = 0
        self.first: Difference | None = None

    def add(self, run: int, ours: Array, theirs: Array) -> None:
        """Both of one shape and type; floats are compared by their bits."""
        self.elements += ours.size
        kind = f"V{ours.dtype.itemsize}"
        different = np.argwhere(np.ascontiguousarray(ours).view(kind)
                                != np.ascontiguousarray(theirs).view(kind))
        self.differing += len(different)
        if len(different) and self.first is None:
            index = tuple(int(i) for i in different[0])
            self.first = Difference(run, index, float(ours[index]), float(theirs[index]))

    def result(self) -> Compared:
        return Compared(self.tensor, self.layer, self.elements, self.differing, self.first)


def _compare(
    plan: Plan, judge: Judge, counterparts: Mapping[int, _Counterpart], options: VerifyOptions,
    report: Report, ends: _Ends,
) -> Report:
    session = Session(plan, options.backend)
    written = {branch.output: layer.name for step, layer in zip(plan.model.steps, plan.layers)
               for branch in step.branches}
    names = plan.model.names.tensors if plan.model.names else ()
    tallies = {number: _Tally(counterparts[number].name, layer)
               for number, layer in written.items() if number in counterparts}
    outputs = [_Tally(f"output {io.name}", "") for io in plan.outputs]
    rng = np.random.default_rng(options.seed)
    for run, feeds in enumerate(stimuli(plan.inputs, options.inputs, rng)):
        theirs = judge.run({name: _as_judged(judge, name, x) for name, x in zip(ends.inputs, feeds)})
        session.reset()
        results = session.run(feeds)
        for tally, name, y in zip(outputs, ends.outputs, _tuple(results)):
            tally.add(run, y, theirs[name].reshape(y.shape))
        session.reset()
        traced = session.run_traced(feeds)
        for number, tally in tallies.items():
            place = plan.model.tensors[number].place
            expected = theirs.get(tally.tensor)
            if expected is None or expected.dtype != np.int8:
                continue
            ours = traced[number].reshape(place.columns, place.channels)
            picked = counterparts[number].pick(expected, place.columns)
            tally.add(run, ours, picked)
        options.progress()
    compared = [t.result() for t in (*tallies.values(), *outputs) if t.elements]
    missing = tuple(names[n] if n < len(names) else f"tensor {n}" for n in written
                    if n not in tallies or not tallies[n].elements)
    return replace(report, tensors=tuple(compared), not_compared=missing)


def _tuple(results: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)
