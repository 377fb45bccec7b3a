"""The whole way of a model, on one screen: importer -> passes -> quantize -> mapping -> plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from edgesparse.errors import BadInput, DoesNotFit, Unsupported, UnsupportedModel
from edgesparse.graph.ir import Array, Graph
from edgesparse.importers.tflite import check_tflite, import_tflite
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.mapping.lowered import Fusion
from edgesparse.mapping.memory import MemoryPlan
from edgesparse.mapping.weights import WeightPolicy, policy_of
from edgesparse.npu.lower import LoweredNpu, lower_npu
from edgesparse.npu.options import NpuOptions, wants_resident
from edgesparse.ops.history import History
from edgesparse.ops.lstm import Lstm
from edgesparse.passes.pipeline import CANONICAL, INT8, run_passes
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.model import Golden, PlanModel
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.quantize.calibrate import DEFAULT_METHOD, calibrate
from edgesparse.quantize.lower_int8 import quantize_graph
from edgesparse.quantize.ranges import Method
from edgesparse.quantize.report import QuantReport, quantization_report
from edgesparse.quantize.samples import check_samples
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.session import quantize
from edgesparse.sparsity.activations import zero_rates
from edgesparse.streaming.plan import StreamOptions, streamed
from edgesparse.target import Target, load_target

MOST_FORETOLD = 64
"""Calibration samples that are run to foretell zeros."""


@dataclass(frozen=True)
class Options:
    """How to compile. What to compile for is the Target's matter.

    calibration  input name -> [samples, ...] float32: float models need it; where there is an NPU
                 it foretells how many activations will be zero
    method       how activation ranges are chosen: "headroom", "minmax", "percentile:P" or "mse"
    golden       store a self test in the plan
    seed         of the memory planner and the golden input
    stream       make a plan that samples are pushed into, not one that is given windows
    npu_fusion   "full", or "none": each operator is a kernel of its own, for comparison
    npu          how the program of a target with an NPU is made
    encodings    names of those that weights may have, such as "dense" and "bsr 1x4", where there is
                 no NPU, and bytes decide; empty: as the target has it
    """

    calibration: Mapping[str, Array] | None = None
    method: str = str(DEFAULT_METHOD)
    golden: bool = True
    seed: int = 0
    stream: StreamOptions | None = None
    npu_fusion: str = "full"
    npu: NpuOptions | None = None
    encodings: tuple[str, ...] = ()
    dump_after: Collection[str] = ()
    dump: Callable[[str, str], None] | None = None


@dataclass(frozen=True)
class Conversion:
    """A plan and everything there is to say about how it came to be."""

    plan: Plan
    graph: Graph
    memory: MemoryPlan
    reasons: tuple[str, ...]
    """Per step: why its weights are stored as they are; empty for steps without weights."""
    quantization: QuantReport | None
    notes: tuple[str, ...] = ()
    """What was chosen for a streaming plan and what stopped it from reusing more; what a plan of
    another kind keeps from run to run."""
    npu: LoweredNpu | None = None
    """The program of a target with an NPU, and what there is to say about it."""
    zero_rates: Mapping[int, float] = field(default_factory=dict)
    """Step -> share of its products that zero activations will make 0, by the calibration data; of
    plans of windows for a target with an NPU."""


def convert(
    model: str | Path | bytes, target: str = "host", options: Options | None = None
) -> Plan:
    """Convert a .tflite model into a plan.

    Raises BadInput, ImportFailed, UnsupportedModel or DoesNotFit, each saying where and what to do.
    """
    return convert_model(model, target, options).plan


def convert_model(
    model: str | Path | bytes, target: str = "host", options: Options | None = None
) -> Conversion:
    """As convert(), with the report."""
    options = options or Options()
    Method.parse(options.method)
    machine = load_target(target)
    data, name = read_file(model)
    graph, quantization = int8_graph(data, name, options)
    stream = streamed(graph, options.stream) if options.stream is not None else None
    low = lower(
        graph if stream is None else stream.graph, _weights(machine, options),
        _fusion(machine, options))
    if stream is not None:
        low = replace(low, stream=stream.table)
        options = replace(options, stream=stream.options)
    assembled = assemble(
        low, machine.name, _producer(),
        _options_text(options, quantization is not None, machine.npu is not None), options.seed)
    finished = replace(assembled.model, config=machine.config)
    program = None
    if machine.npu is not None:
        program = lower_npu(finished, machine.npu, options.npu)
        program = replace(program, report=(*low.splits, *program.report))
        finished = replace(finished, npu=program.npu)
    if options.golden:
        finished = replace(finished, golden=_golden(finished, options.seed))
    plan = Plan.from_bytes(write_plan(finished))
    NativePlan(plan.data)  # what we write must pass the check of whoever reads it
    _check_fit(plan, machine)
    return Conversion(
        plan, graph, assembled.memory, assembled.reasons, quantization,
        stream.notes if stream is not None else _state_notes(graph), program,
        _zero_rates(plan, import_tflite(data, name), options) if machine.npu is not None else {})


def _zero_rates(plan: Plan, imported: Graph, options: Options) -> Mapping[int, float]:
    if options.calibration is None or options.stream is not None:
        return {}
    samples = check_samples(imported, options.calibration)
    arrays = [samples[name][:MOST_FORETOLD] for name in imported.inputs]
    return zero_rates(plan.data, (
        [quantize(x, io).reshape(io.shape) for x, io in zip(feed, plan.inputs)]
        for feed in zip(*arrays)))


def _weights(machine: Target, options: Options) -> WeightPolicy:
    resident = machine.npu is not None and wants_resident(
        options.npu or NpuOptions(), machine.npu)
    if options.encodings:
        machine = replace(machine, encodings=options.encodings, instructions=None)
    return policy_of(machine, resident)


def _fusion(machine: Target, options: Options) -> Fusion:
    """Raises BadInput for an unknown kind of fusion."""
    if options.npu_fusion not in ("full", "none"):
        raise BadInput(f"npu_fusion {options.npu_fusion!r}: 'full' or 'none' is allowed")
    on = machine.npu is None or options.npu_fusion == "full"
    return Fusion(on=on, npu=machine.npu)


def int8_graph(data: bytes, name: str, options: Options) -> tuple[Graph, QuantReport | None]:
    """The graph that is lowered to a plan, and how it was quantized if it came as float."""
    graph = replace(import_tflite(data, name), source_sha256=hashlib.sha256(data).digest())
    graph = run_passes(graph, CANONICAL, options.dump_after, options.dump)
    quantization = None
    if is_float(graph):
        graph, quantization = _quantize(graph, options)
    return run_passes(graph, INT8, options.dump_after, options.dump), quantization


def check(model: str | Path | bytes) -> tuple[str, ...]:
    """The texts of find_issues()."""
    return tuple(str(issue) for issue in find_issues(model))


def find_issues(model: str | Path | bytes) -> tuple[Unsupported | DoesNotFit, ...]:
    """Everything in `model` that edgesparse does not execute; empty: it converts.

    An int8 model is taken through the whole way; what a float model becomes depends on its
    calibration, so of it only the operators are judged.
    """
    data, name = read_file(model)
    issues = check_tflite(data, name)
    if issues:
        return issues
    try:
        graph = run_passes(import_tflite(data, name))
        if not is_float(graph):
            assemble(lower(graph), "host", "", "")
    except UnsupportedModel as refused:
        return refused.issues
    except DoesNotFit as refused:
        return (refused,)
    return ()


def read_file(model: str | Path | bytes) -> tuple[bytes, str]:
    """The bytes of a model and what to call it. Raises BadInput when there is no such file."""
    if isinstance(model, bytes):
        return model, "model"
    path = Path(model)
    try:
        return path.read_bytes(), path.name
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def is_float(graph: Graph) -> bool:
    """A model with no int8 activation at all is ours to quantize."""
    return not any(
        graph.tensors[t].dtype == "int8" for node in graph.nodes for t in node.outputs)


def _quantize(graph: Graph, options: Options) -> tuple[Graph, QuantReport]:
    if options.calibration is None:
        inputs = ", ".join(f"{t} {list(graph.tensors[t].shape)}" for t in graph.inputs)
        raise BadInput(
            f"{graph.name} is a float model: give typical inputs with --calibrate X.npz, or "
            f"Options(calibration=...) from Python: float32 [samples, ...] for {inputs}")
    _refuse_state(graph)
    ranges = calibrate(graph, options.calibration, options.method)
    quantized = quantize_graph(graph, ranges)
    return quantized, quantization_report(graph, quantized, options.calibration)


def _state_notes(graph: Graph) -> tuple[str, ...]:
    """An LSTM over a window may have been trained to start anew; its file does not say so."""
    return tuple(
        f"{node.name}: its state goes on from run to run, as in TFLite; reset() before each window "
        "that stands for itself"
        for node in graph.nodes
        if isinstance(node.op, Lstm) and graph.tensors[node.inputs[0]].columns > 1)


def _refuse_state(graph: Graph) -> None:
    """Calibration runs every sample by itself, which a model with a past never sees."""
    issues = tuple(
        Unsupported(node.name, "READ_VARIABLE", "it keeps state from run to run in a float model",
                    "export it as int8, quantized along a stream")
        for node in graph.nodes if isinstance(node.op, History))
    if issues:
        raise UnsupportedModel(graph.name, issues)


def _golden(model: PlanModel, seed: int) -> Golden:
    """What the NumPy interpreter makes of the inputs that the seed stands for."""
    # Small seeds give small numbers first (0 and 4 from seed 1); these bits are mixed at once.
    golden_seed = 0x9E3779B9 * (seed + 1) % 2**32 or 1  # xorshift has no state 0
    trace_crc, outputs = Interpreter(write_plan(model)).self_test_values(golden_seed)
    return Golden(seed=golden_seed, trace_crc=trace_crc, outputs=outputs)


def _check_fit(plan: Plan, target: Target) -> None:
    for what, need, limit in (
        ("flash", plan.flash_bytes, target.flash_bytes),
        ("RAM", plan.ram_bytes, target.ram_bytes),
    ):
        if limit and need > limit:
            raise DoesNotFit(
                f"the plan needs {need:,} bytes of {what}, {target.name} has {limit:,}; "
                "a larger target, a shorter window or fewer channels")


def _producer() -> str:
    return f"edgesparse {version('edgesparse')}"


def _options_text(options: Options, quantized: bool, npu: bool) -> str:
    """Only what was used: the plan of an int8 model does not depend on the method."""
    said: dict[str, object] = {"method": options.method} if quantized else {}
    said["seed"] = options.seed
    if options.stream is not None:
        said["stream"] = asdict(options.stream)
    if npu:
        said["npu"] = {"fusion": options.npu_fusion, **asdict(options.npu or NpuOptions())}
    return json.dumps(said, sort_keys=True)
