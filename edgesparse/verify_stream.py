"""Does a stream plan give the bytes of the model it came from?

Samples are pushed into the core in chunks of any size. What it reports is compared with the plain
reference of streams (edgesparse/streaming/reference.py), and, so that both cannot be wrong
together, with windows of the model that the oracle computes anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from edgesparse.comparison import (
    Compared,
    Difference,
    StreamReport,
    Tally,
    VerifyOptions,
    conversion_options,
    source_note,
)
from edgesparse.convert import Options, int8_graph, is_float
from edgesparse.errors import BadInput, Unsupported
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph
from edgesparse.importers.tflite import import_tflite
from edgesparse.oracle import judge_of
from edgesparse.passes.pipeline import CANONICAL, run_passes
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_model import Stream as Table
from edgesparse.plan.stream_model import StreamMode
from edgesparse.runtime.session import Session, as_user_gets
from edgesparse.runtime.stream import Stream
from edgesparse.stimuli import sample_span, stream_stimulus
from edgesparse.streaming.events import Beat, Event, Run
from edgesparse.streaming.extent import extents
from edgesparse.streaming.reference import REFERENCE, ReferenceStream
from edgesparse.streaming.source import along_time

INT8_REFERENCE = "the NumPy reference on the graph as quantized"
RUNS, EVENTS = "runs", "order, beats and states"
"""What is compared with the plain reference: bytes of outputs; everything else that is reported."""
WINDOWS = 3
"""So many windows long is the signal, so that every ring wraps."""
ALL_STATES = 8000
"""Samples that take a signal through all its states."""

Recompute = Callable[[Array], list[Array]]
"""A window of the input, [columns, channels] int8 -> the model's outputs as users get them."""


def verify_stream(plan: Plan, data: bytes, name: str, options: VerifyOptions) -> StreamReport:
    """Compare a stream plan with the model in `data`.

    Raises BadInput for a model the plan cannot come from, or when no oracle is installed.
    """
    model = _model(plan, data, name, options)
    signal = _signal(plan, model.shape.columns, options)
    fed: list[Array] = []
    reference = ReferenceStream(plan.data, fed.append)
    expected = [*reference.push(signal.tolist()), *reference.flush()]
    stream = Stream(plan, options.backend)
    pieces = _pieces(signal, stream.hop, np.random.default_rng((options.seed, 1)))
    found = [event for piece in pieces for event in stream.push_raw(piece)]
    found += stream.flush()
    lead = reference.spec.lead
    columns = np.concatenate([x.reshape(-1, stream.channels) for x in fed])[lead:]
    windows = list(_windows(plan, model.shape, columns, options.inputs))
    outputs = _against_windows(plan, model, (columns, windows), found, options.progress)
    self_test = (
        Session(plan, options.backend).self_test() if plan.model.golden is not None else None)
    notes = (*source_note(plan, data, name), *model.notes, *_unseen(outputs))
    return StreamReport(
        name, model.judge, notes, options.backend,
        len(signal), len(pieces), reference.runs,
        sum(isinstance(event, Beat) for event in found), len(windows),
        (*_against_reference(found, expected), *outputs), self_test)


# ---- the model --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """Of a window of the model.

    columns     of the input
    stride      input columns from one output column to the next; 0: outputs are of the window
    incomplete  output columns at the start of a window that have not seen all of their past
    """

    columns: int
    stride: int = 0
    incomplete: int = 0


@dataclass(frozen=True)
class _Model:
    """Who computes a window anew."""

    shape: _Shape
    recompute: Recompute
    judge: str
    notes: tuple[str, ...] = ()


def _model(plan: Plan, data: bytes, name: str, options: VerifyOptions) -> _Model:
    imported = import_tflite(data, name)
    if not is_float(run_passes(imported, CANONICAL)):
        graph, _ = int8_graph(data, name, Options())
        shape = _shape(plan, graph)
        judgement = judge_of(data, name)
        source, called = imported.inputs[0], imported.output_names or imported.outputs

        def judged(window: Array) -> list[Array]:
            judgement.judge.reset()  # an LSTM starts anew in every window
            x = as_user_gets(window, plan.inputs[0]).reshape(imported.tensors[source].shape)
            values = judgement.judge.run({source: x})
            return [values[t] for t in called]

        return _Model(shape, judged, judgement.judge.name, judgement.notes)
    if options.calibration is None:
        raise BadInput(f"{name} is a float model: no oracle has the bytes of its int8 form. Give "
                       "the calibration data of the conversion to rebuild that form")
    graph, _ = int8_graph(data, name, conversion_options(plan, options.calibration))
    source = graph.inputs[0]

    def evaluated(window: Array) -> list[Array]:
        values = evaluate(graph, {source: window.reshape(graph.tensors[source].shape)})
        return [as_user_gets(values[t], io) for t, io in zip(graph.outputs, plan.outputs)]

    return _Model(_shape(plan, graph), evaluated, INT8_REFERENCE)


def _shape(plan: Plan, graph: Graph) -> _Shape:
    """The window of a model, after a look whether the plan can be of it."""
    table = _table(plan)
    try:
        graph = along_time(graph)
    except Unsupported as issue:
        raise _other_model(graph, str(issue)) from issue
    x, outputs = graph.tensors[graph.inputs[0]], [graph.tensors[t] for t in graph.outputs]
    ours = [io.shape for io in (*plan.inputs, *plan.outputs)]
    if ours[0][-1] != x.channels or len(plan.outputs) != len(outputs):
        raise _other_model(graph, f"the plan has {ours[0][-1]} channels and {len(plan.outputs)} "
                           f"outputs, the model {x.channels} and {len(outputs)}")
    if table.mode is StreamMode.INCREMENTAL:
        sizes = [y.size for y in outputs]
        if table.window != x.columns or [math.prod(s) for s in ours[1:]] != sizes:
            raise _other_model(graph, f"the plan's windows have {table.window} columns, those of "
                               f"the model {x.columns}, or its outputs have other sizes")
        return _Shape(x.columns)
    known = extents(graph, x.name)
    found = [known.get(t) for t in graph.outputs]
    for extent, y, shape in zip(found, outputs, ours[1:]):
        if extent is None or extent.stride != table.stride or y.channels != shape[-1]:
            raise _other_model(graph, f"the plan gives {shape[-1]} channels every {table.stride} "
                               f"columns, output {y.name} does not")
    return _Shape(x.columns, table.stride, max(e.left for e in found if e is not None))


def _other_model(graph: Graph, reason: str) -> BadInput:
    return BadInput(f"{graph.name}: it is no model of this plan ({reason}); name the model it was "
                    "converted from")


def _table(plan: Plan) -> Table:
    assert plan.model.stream is not None
    return plan.model.stream


# ---- the signal -------------------------------------------------------------------------------


def _signal(plan: Plan, columns: int, options: VerifyOptions) -> Array:
    """[samples, channels] int16."""
    table, source = _table(plan), plan.inputs[0]
    span, decimation = sample_span(plan)
    count = max(WINDOWS * columns, options.inputs * table.hop) * decimation
    if table.quality is not None:
        count = max(count, ALL_STATES)
    rng = np.random.default_rng(options.seed)
    return stream_stimulus((count, source.shape[-1]), span, rng)


def _pieces(signal: Array, hop: int, rng: np.random.Generator) -> list[Array]:
    """The signal in chunks of 0 to 3 runs, as many short ones as long ones."""
    pieces: list[Array] = []
    at = 0
    while at < len(signal):
        size = int(rng.integers(0, 3 * hop) if len(pieces) % 2 else rng.integers(1, 4))
        pieces.append(signal[at : at + size])
        at += size
    return pieces


# ---- comparing --------------------------------------------------------------------------------


def _against_reference(found: list[Event], expected: list[Event]) -> tuple[Compared, Compared]:
    """Bytes of the runs, and all the rest of what was reported, in order."""
    runs = Tally(RUNS, REFERENCE)
    pairs = zip_longest(*(
        [e for e in events if isinstance(e, Run)] for events in (found, expected)))
    for number, (mine, theirs) in enumerate(pairs):
        bytes_of = [None if run is None else np.concatenate([y.ravel() for y in run.outputs])
                    for run in (mine, theirs)]
        there = next(values for values in bytes_of if values is not None)
        runs.add(number, *(~there if values is None else values for values in bytes_of))
    both = list(zip_longest(map(_plain, found), map(_plain, expected)))
    wrong = [number for number, (mine, theirs) in enumerate(both) if mine != theirs]
    first = None
    if wrong:
        mine, theirs = (pair[-1] if pair else math.nan for pair in both[wrong[0]])
        first = Difference(wrong[0], (), mine, theirs)
    return runs.result(), Compared(EVENTS, REFERENCE, len(both), len(wrong), first)


def _plain(event: Event) -> tuple[float, ...]:
    """All numbers of an event but outputs; the sample comes last."""
    if isinstance(event, Run):
        return (0, event.column, event.skip, event.sample)
    if isinstance(event, Beat):
        return (1, event.kind, event.strength, event.position)
    return (2, event.state, event.sample)


@dataclass(frozen=True)
class _Window:
    """Input columns from `start` on; its output columns from `first` on are compared."""

    start: int
    first: int = 0


def _windows(plan: Plan, shape: _Shape, columns: Array, count: int) -> Iterator[_Window]:
    """At most `count`, spread over the signal, the first and the last among them."""
    step = shape.stride or _table(plan).hop
    last = (len(columns) - shape.columns) // step
    for number in np.unique(np.linspace(0, last, count).round().astype(int)).tolist():
        yield _Window(step * number, shape.incomplete if number else 0)


def _against_windows(
    plan: Plan, model: _Model, windows: tuple[Array, list[_Window]], found: list[Event],
    progress: Callable[[], None],
) -> list[Compared]:
    """Each output of the core against the windows that the judge computes."""
    columns, chosen = windows
    step = model.shape.stride or _table(plan).hop
    runs = [event for event in found if isinstance(event, Run)]
    given = [_rows(runs, number, model.shape) for number in range(len(plan.outputs))]
    tallies = [Tally(io.name, model.judge) for io in plan.outputs]
    for number, window in enumerate(chosen):
        outputs = model.recompute(columns[window.start : window.start + model.shape.columns])
        for tally, y, io, (first, values) in zip(tallies, outputs, plan.outputs, given):
            theirs = y.reshape(-1, values.shape[1])
            base = window.start // step
            low = max(base + window.first, first)
            high = max(low, min(base + len(theirs), first + len(values)))
            ours = as_user_gets(values[low - first : high - first], io)
            tally.add(number, ours, theirs[low - base : high - base])
        progress()
    return [tally.result() for tally in tallies]


def _unseen(outputs: list[Compared]) -> tuple[str, ...]:
    """A line for each output of which no window has a column that has seen all of its past."""
    return tuple(
        f"{output.tensor}: not compared with {output.layer}: each of its columns needs more past "
        "than a window of the model has" for output in outputs if output.elements == 0)


def _rows(runs: list[Run], output: int, shape: _Shape) -> tuple[int, Array]:
    """Number of the first row, and one output over all runs: a row [channels] for each column, or
    [elements] for each window."""
    parts = [run.outputs[output] for run in runs]
    if shape.stride == 0:
        return runs[0].column, np.stack([y.ravel() for y in parts])
    rows = [y.reshape(-1, y.shape[-1])[run.skip :] for run, y in zip(runs, parts)]
    return runs[0].column + runs[0].skip, np.concatenate(rows)
