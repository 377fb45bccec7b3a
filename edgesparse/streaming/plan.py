"""Model -> hop model and the plan's Stream table: what `convert --stream` does."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from edgesparse.errors import BadInput, Unsupported
from edgesparse.graph.ir import Graph, Tensor
from edgesparse.ops import History, Lstm, Stateful
from edgesparse.plan.stream_model import Beats, Stream, StreamMode
from edgesparse.streaming.beats import ecg_beats
from edgesparse.streaming.continuous import Continuous, continuous
from edgesparse.streaming.extent import smallest_hop
from edgesparse.streaming.frontend import ECG360_RATE_MHZ, AdcInput, ecg360
from edgesparse.streaming.incremental import Incremental, incremental
from edgesparse.streaming.quality import ECG360_QUALITY
from edgesparse.streaming.source import along_time

MODES = ("auto", "incremental", "continuous")
FRONT_ENDS = ("none", "ecg360")
MOST_RATE_MHZ = 4_000_000_000
"""A round number of what the u32 of a plan holds."""


@dataclass(frozen=True)
class StreamOptions:
    """How a windowed model becomes a stream.

    hop        columns of the model's input per run; None: its total stride, the smallest hop that
               loses nothing
    mode       "continuous", "incremental", or "auto": continuous where the model allows it
    phases     incremental: keep columns several times where hop is no multiple of a layer's stride
    compact    incremental: recompute the start of padded windows from the input, for less memory
    rate       of the pushed samples, Hz; 0 is unknown
    frontend   "ecg360": 360 Hz ADC samples in, with signal quality; "none": stored input values
    beats      report beats instead of leaving the outputs to the caller
    units      ADC units per unit of the model's input (mV); of "ecg360"
    """

    hop: int | None = None
    _: KW_ONLY
    mode: str = "auto"
    phases: bool = True
    compact: bool = False
    rate: float = 0.0
    frontend: str = "none"
    beats: bool = False
    units: float = 200.0


@dataclass(frozen=True)
class Streamed:
    """The hop model, its table (state_offset is the assembler's to fill), and what to say.

    options  as given, with the hop that was chosen
    """

    graph: Graph
    table: Stream
    notes: tuple[str, ...]
    options: StreamOptions


def streamed(graph: Graph, options: StreamOptions) -> Streamed:
    """Make an int8 model a stream.

    graph  one input [1, W, C]; its outputs run along time in continuous mode
    Raises BadInput for options that do not fit each other or the model, Unsupported where the
    model does not allow the mode that was asked for, or is a stream already.
    """
    _refuse_own_state(graph)
    graph = along_time(graph)
    source = graph.tensors[graph.inputs[0]]
    options, chosen = _with_hop(graph, options)
    _check(options, source)
    made, notes = _rewritten(graph, options)
    return Streamed(made.graph, stream_table(made, options, source), (*chosen, *notes), options)


def _refuse_own_state(graph: Graph) -> None:
    """A model that goes on from run to run has no windows to be rewritten.

    An LSTM over several columns is taken as one that starts anew in every window.
    """
    columns = graph.tensors[graph.inputs[0]].columns
    for node in graph.nodes:
        lstm = isinstance(node.op, Lstm)
        if isinstance(node.op, (History, Stateful)) and not (lstm and columns > 1):
            step = "one column" if columns == 1 else f"{columns} columns"
            raise Unsupported(
                node.name, type(node.op).__name__, "the model already carries its state from run "
                f"to run: each run is one step of {step}",
                "convert it without --stream; run() goes on, reset() starts a new stream")


def stream_table(made: Continuous | Incremental, options: StreamOptions, source: Tensor) -> Stream:
    """The table of a hop model; `source` is the input of the model it was made from."""
    front_end = None
    if options.frontend == "ecg360":
        front_end = ecg360(AdcInput(source.scale, source.zero_point, options.units))
    quality = ECG360_QUALITY if front_end is not None else None
    beats = _beats(made) if options.beats else None
    decimation = front_end.decimation if front_end is not None else 1
    rate = ECG360_RATE_MHZ if front_end is not None else round(options.rate * 1000)
    table = Stream(
        mode=StreamMode.CONTINUOUS if isinstance(made, Continuous) else StreamMode.INCREMENTAL,
        rate_mhz=rate, hop=made.hop, delay=made.hop * decimation - 1, state_offset=0,
        front_end=front_end, beats=beats, quality=quality)
    if isinstance(made, Incremental):
        return replace(
            table, window=made.window, lead=made.lead, first_run=made.warm_up - 1)
    if beats is not None:
        table = replace(table, delay=_beat_delay(made, beats, decimation))
    return replace(
        table, stride=made.stride, behind=made.behind, exact=made.exact,
        first_run=(made.behind + made.exact) // made.columns)


def _beat_delay(made: Continuous, beats: Beats, decimation: int) -> int:
    """Samples from a beat to the end of the run in which it becomes final, at most.

    A beat at P is final when step u is judged, u the first with step * u + position_shift >=
    P + refractory; judging u - 1 takes output u + 1; that takes (u + 2 + behind) * stride inputs,
    and at most hop - stride more until a run ends.
    """
    step = made.stride * decimation
    wait = (made.hop - made.stride) * decimation
    last = -beats.position_shift + beats.refractory + step - 1
    return last + step * (2 + made.behind) + wait - decimation


def _rewritten(
    graph: Graph, options: StreamOptions
) -> tuple[Continuous | Incremental, tuple[str, ...]]:
    """The hop model, and a line for everything that stopped reuse."""
    if options.mode == "incremental":
        return _incremental(graph, options)
    assert options.hop is not None
    try:
        return continuous(graph, options.hop), _without_windows(options)
    except Unsupported as issue:
        if options.mode == "continuous":
            raise
        made, notes = _incremental(graph, options)
        return made, (f"not continuous: {issue}", *notes)


def _without_windows(options: StreamOptions) -> tuple[str, ...]:
    """A line for each option that only windows have, where the stream has none."""
    given = StreamOptions()
    return tuple(
        f"{name} has no effect: an endless stream has no windows (mode=incremental has)"
        for name in ("phases", "compact") if getattr(options, name) != getattr(given, name))


def _incremental(
    graph: Graph, options: StreamOptions
) -> tuple[Incremental, tuple[str, ...]]:
    assert options.hop is not None
    made = incremental(graph, options.hop, options.phases, options.compact)
    phased = tuple(
        f"{p.layer}: hop {made.hop} is no multiple of its stride of {p.stride}: from here on "
        f"columns are kept {p.phases} times; a multiple of {p.stride} keeps them once, "
        "phases=no never"
        for p in made.phased)
    return made, phased + tuple(
        f"{stop.layer}: computed in full in every run: {stop.reason}" for stop in made.stopped)


def _with_hop(
    graph: Graph, options: StreamOptions
) -> tuple[StreamOptions, tuple[str, ...]]:
    """The options with a hop, and a line about it where it was ours to choose."""
    if options.hop is not None:
        return options, ()
    hop = min(smallest_hop(graph), graph.tensors[graph.inputs[0]].columns)
    chosen = f"hop {hop} was chosen: the model's total stride, the smallest that loses nothing"
    return replace(options, hop=hop), (chosen,)


def _check(options: StreamOptions, source: Tensor) -> None:
    """Raises BadInput for options that do not fit each other or the input."""
    for name, value, allowed in (
        ("mode", options.mode, MODES), ("frontend", options.frontend, FRONT_ENDS)):
        if value not in allowed:
            raise BadInput(f"stream {name} {value!r}: {', '.join(allowed)} is allowed")
    if options.rate != 0 and not 1 <= options.rate * 1000 <= MOST_RATE_MHZ:  # nan is not
        raise BadInput(f"stream rate {options.rate}: 0, or 0.001 to {MOST_RATE_MHZ / 1000:g} Hz is "
                       "allowed; 0 is unknown")
    if options.beats and options.mode == "incremental":
        raise BadInput("stream beats need mode=continuous: a beat is found on one endless output")
    if options.hop is None or not 1 <= options.hop <= source.columns:
        raise BadInput(
            f"stream hop {options.hop}: 1 to {source.columns} is allowed, the window of the model")
    if options.frontend == "none" and options.units != StreamOptions.units:
        raise BadInput(f"stream units {options.units}: only a front end has them (frontend=ecg360)")
    if options.frontend != "none" and source.channels != 1:
        raise BadInput(
            f"stream frontend {options.frontend!r} has one channel, input {source.name!r} "
            f"{source.channels}")
    if options.frontend != "none" and round(options.rate * 1000) not in (0, ECG360_RATE_MHZ):
        raise BadInput(
            f"stream frontend {options.frontend!r} is for 360 Hz, the rate is {options.rate} Hz; "
            "resample the signal, or convert without a front end")


def _beats(made: Continuous | Incremental) -> Beats:
    graph = made.graph
    out = graph.tensors[graph.outputs[0]]
    if not isinstance(made, Continuous) or out.channels < 2:
        raise BadInput(
            "stream beats need mode=continuous and an output of columns (beat, classes...); "
            f"output {out.name!r} has shape {list(out.shape)}")
    return ecg_beats(out.scale, out.zero_point)

