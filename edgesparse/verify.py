"""Does a plan give the bytes of the model it came from? Every tensor it still has is compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgesparse.comparison import (
    OUTPUT,
    Compared,
    Report,
    StreamReport,
    Tally,
    VerifyOptions,
    conversion_options,
    source_note,
)
from edgesparse.convert import Options, int8_graph, is_float, read_file
from edgesparse.errors import BadInput
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph
from edgesparse.importers.tflite import import_tflite
from edgesparse.ops import Reshape
from edgesparse.oracle import Judge, judge_of
from edgesparse.passes.pipeline import CANONICAL, run_passes
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.runtime.session import Session, as_user_gets, quantize
from edgesparse.stimuli import stimuli
from edgesparse.streaming.simulate import keeps_state
from edgesparse.verify_stream import INT8_REFERENCE, verify_stream

INTERPRETER = "the NumPy interpreter of the plan"

Values = tuple[dict[int, Array], list[Array]]
"""Of one run: plan tensor number -> [columns, channels] int8, and the outputs as users get them."""
Executor = Callable[[list[Array]], Values]
"""Takes one array per plan input, int8 or, where the user's model has float32, float32."""


def verify(
    plan: Plan, model: str | Path | bytes, options: VerifyOptions | None = None
) -> Report | StreamReport:
    """Compare a plan with a .tflite model, byte for byte.

    Raises BadInput when the model is not one this plan can be compared with, or no oracle is
    installed; ImportFailed or UnsupportedModel as convert().
    """
    options = options or VerifyOptions()
    if options.inputs < 1:
        raise BadInput(f"inputs = {options.inputs}: at least 1 run is needed")
    data, name = read_file(model)
    if plan.model.stream is not None:
        return verify_stream(plan, data, name, options)
    return _verify_windows(plan, data, name, options)


def _verify_windows(plan: Plan, data: bytes, name: str, options: VerifyOptions) -> Report:
    imported = import_tflite(data, name)
    _check_same_interface(plan, imported)
    notes = source_note(plan, data, name)
    if not is_float(run_passes(imported, CANONICAL)):
        judgement = judge_of(data, name)
        graph, _ = int8_graph(data, name, Options())
        known = {t: t for t, tensor in imported.tensors.items() if tensor.data is None}
        counterparts = _counterparts(plan, graph, known)
        theirs = _judged(plan, judgement.judge, imported, counterparts)
        judge, notes = judgement.judge.name, (*notes, *judgement.notes)
        sqnr: Mapping[str, float] = {}
    elif options.calibration is not None:
        graph, quantization = int8_graph(data, name, conversion_options(plan, options.calibration))
        counterparts = _counterparts(plan, graph, {t: t for t in graph.tensors})
        theirs = _evaluated(plan, graph, counterparts)
        judge = INT8_REFERENCE
        assert quantization is not None
        sqnr = {out.output: out.sqnr_db for out in quantization.outputs}
    else:
        names = plan.model.names.tensors if plan.model.names else ()
        counterparts = {i: _Counterpart(t) for i, t in enumerate(names)}
        theirs, judge, sqnr = _interpreted(plan), INTERPRETER, {}
        notes = (*notes, f"{name} is a float model: no oracle has the bytes of its int8 form. Give "
                 "the calibration data of the conversion to rebuild and compare that form")
    ours = _executed(plan, options.backend, stream=keeps_state(imported))
    tensors, missing, unseen = _compare(plan, (ours, theirs), counterparts, options)
    return Report(
        name, judge, notes, options.inputs, options.backend, tensors, missing, unseen, sqnr)


def _check_same_interface(plan: Plan, graph: Graph) -> None:
    """As many inputs and outputs, each with as many elements."""
    for what, ios, tensors in (("inputs", plan.inputs, graph.inputs),
                               ("outputs", plan.outputs, graph.outputs)):
        ours = [list(io.shape) for io in ios]
        theirs = [list(graph.tensors[t].shape) for t in tensors]
        if list(map(math.prod, ours)) != list(map(math.prod, theirs)):
            raise BadInput(f"the plan's {what} are {ours}, those of {graph.name} {theirs}: it is "
                           "no plan of this model; name the model it was converted from")


# ---- which tensor is which --------------------------------------------------------------------


@dataclass(frozen=True)
class _Counterpart:
    """The judge's tensor that holds the same elements, and which of its channels we kept."""

    name: str
    kept: tuple[int, ...] | None = None

    def pick(self, values: Array, place: pm.Place) -> Array | None:
        """values as [columns, channels] of the plan's tensor, the kept channels only; None when
        they are not its elements."""
        if self.kept is not None and values.size % place.columns == 0:
            wide = values.reshape(place.columns, -1)
            values = wide[:, [c for c in self.kept if c < wide.shape[1]]]
        if values.size != place.columns * place.channels:
            return None
        return values.reshape(place.columns, place.channels)


def _counterparts(
    plan: Plan, graph: Graph, known: Mapping[str, str]
) -> dict[int, _Counterpart]:
    """Plan tensor number -> the tensor of the judge with the same elements.

    A plan's tensor has the name of the graph's, perhaps with the shape it is seen in behind a
    colon; a graph's tensor is the model's, or a Reshape of it.
    known  tensors that the judge has
    """
    found: dict[int, _Counterpart] = {}
    for number, name in enumerate(plan.model.names.tensors if plan.model.names else ()):
        base = name
        while base not in graph.tensors and ":" in base:
            base = base.rpartition(":")[0]
        if base not in graph.tensors or graph.tensors[base].data is not None:
            continue
        alias = _reshaped_from(graph, base, known)
        same_size = math.prod(plan.model.tensors[number].shape) == graph.tensors[base].size
        if alias is not None and same_size:
            found[number] = _Counterpart(alias, graph.tensors[base].kept)
    return found


def _reshaped_from(graph: Graph, name: str, known: Mapping[str, str]) -> str | None:
    """The nearest known tensor among those that Reshapes connect with `name`."""
    waiting, seen = [name], {name}
    while waiting:
        tensor = waiting.pop(0)
        if tensor in known:
            return tensor
        nodes = [*graph.consumers[tensor]]
        if tensor in graph.producer:
            nodes.append(graph.producer[tensor])
        for node in nodes:
            if isinstance(node.op, Reshape):
                near = [t for t in (node.inputs[0], node.outputs[0]) if t not in seen]
                waiting += near
                seen.update(near)
    return None


# ---- who computes -----------------------------------------------------------------------------


def _judged(
    plan: Plan, judge: Judge, imported: Graph, counterparts: Mapping[int, _Counterpart]
) -> Executor:
    """The judge's values of the tensors that the plan has, too."""
    called = imported.output_names or imported.outputs

    def run(feeds: list[Array]) -> Values:
        values = judge.run({
            name: x.reshape(imported.tensors[name].shape)
            for name, x in zip(imported.inputs, feeds)})
        return (_picked(plan, values, counterparts),
                [values[t].reshape(io.shape) for t, io in zip(called, plan.outputs)])

    return run


def _evaluated(
    plan: Plan, graph: Graph, counterparts: Mapping[int, _Counterpart]
) -> Executor:
    """The NumPy definitions on the int8 graph."""

    def run(feeds: list[Array]) -> Values:
        values = evaluate(graph, dict(zip(graph.inputs, _stored(feeds, plan.inputs))))
        return (_picked(plan, values, counterparts),
                _as_users_get([values[t] for t in graph.outputs], plan.outputs))

    return run


def _interpreted(plan: Plan) -> Executor:
    """The second implementation of the plan format."""
    interpreter = Interpreter(plan.data)

    def run(feeds: list[Array]) -> Values:
        stored = _stored(feeds, plan.inputs)
        interpreter.reset()
        outputs = interpreter.run(stored)
        interpreter.reset()
        return (_matrices(plan, interpreter.run_traced(stored)),
                _as_users_get(outputs, plan.outputs))

    return run


def _executed(plan: Plan, backend: str, stream: bool) -> Executor:
    """The plan on a backend: whole runs for the outputs, step by step for the rest.

    stream  each run goes on where the last one ended
    """
    whole, stepwise = Session(plan, backend), Session(plan, backend)

    def run(feeds: list[Array]) -> Values:
        if not stream:
            whole.reset()
            stepwise.reset()
        results = whole.run(feeds)
        traced = stepwise.run_traced(feeds)
        return (_matrices(plan, traced),
                list(results) if isinstance(results, tuple) else [results])

    return run


def _picked(
    plan: Plan, values: Mapping[str, Array], counterparts: Mapping[int, _Counterpart]
) -> dict[int, Array]:
    """Plan tensor number -> what the judge has for it, where that is int8."""
    found = {}
    for number, counterpart in counterparts.items():
        value = values.get(counterpart.name)
        if value is not None and value.dtype == np.int8:
            picked = counterpart.pick(value, plan.model.tensors[number].place)
            if picked is not None:
                found[number] = picked
    return found


def _matrices(plan: Plan, traced: Mapping[int, Array]) -> dict[int, Array]:
    """Traced tensors as [columns, channels]."""
    return {n: values.reshape(plan.model.tensors[n].place.columns, -1)
            for n, values in traced.items()}


def _stored(feeds: list[Array], ios: tuple[IoInfo, ...]) -> list[Array]:
    return [quantize(x, io) if io.float_io else x for x, io in zip(feeds, ios)]


def _as_users_get(stored: Sequence[Array], ios: tuple[IoInfo, ...]) -> list[Array]:
    return [as_user_gets(y, io).reshape(io.shape) for y, io in zip(stored, ios)]


# ---- comparing --------------------------------------------------------------------------------


def _compare(
    plan: Plan, executors: tuple[Executor, Executor], counterparts: Mapping[int, _Counterpart],
    options: VerifyOptions,
) -> tuple[tuple[Compared, ...], tuple[str, ...], tuple[str, ...]]:
    """Every tensor that both have, in the order of the steps; names of those only ours has, and of
    those that ours did not show."""
    ours, theirs = executors
    layers = {branch.output: layer.name for step, layer in zip(plan.model.steps, plan.layers)
              for branch in step.branches}
    tallies = {n: Tally(counterparts[n].name if n in counterparts else f"tensor {n}", layer)
               for n, layer in layers.items()}
    outputs = [Tally(io.name, OUTPUT) for io in plan.outputs]
    rng = np.random.default_rng(options.seed)
    shown: set[int] = set()
    for run, feeds in enumerate(stimuli(plan.inputs, options.inputs, rng)):
        our_tensors, our_outputs = ours(feeds)
        their_tensors, their_outputs = theirs(feeds)
        shown |= our_tensors.keys()
        for n, tally in tallies.items():
            if n in their_tensors and n in our_tensors:
                tally.add(run, our_tensors[n], their_tensors[n])
        for tally, y, expected in zip(outputs, our_outputs, their_outputs):
            tally.add(run, y, expected)
        options.progress()
    names = plan.model.names.tensors if plan.model.names else ()
    called = {n: names[n] if n < len(names) else t.tensor for n, t in tallies.items()}
    missing = tuple(called[n] for n, t in tallies.items() if n in shown and not t.elements)
    unseen = tuple(name for n, name in called.items() if n not in shown)
    return (tuple(t.result() for t in (*tallies.values(), *outputs) if t.elements), missing,
            unseen)
