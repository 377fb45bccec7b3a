"""A .tflite file -> Graph, with TFLite's meaning of every operator.

The file is untrusted. Damage raises ImportFailed at once; what is sound but not executed is
collected, so that a user sees all of it together.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from edgesparse.errors import ImportFailed, Unsupported, UnsupportedModel
from edgesparse.graph.ir import Graph
from edgesparse.importers.tflite_build import Build
from edgesparse.importers.tflite_call import Call, DependsOnRefused
from edgesparse.importers.tflite_ops import HANDLERS
from edgesparse.importers.tflite_schema import RawModel, RawOperator, RawTensor, read_model
from edgesparse.importers.tflite_state import resolve_states

UNKNOWN = ("this operator is not executed",
           "express it by supported operators, or do its work outside the model")
REFUSED = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": (
        "this recurrent layer is not executed",
        "two LSTM layers, one on the reversed sequence, unrolled (Keras: unroll=True)"),
    "LSTM": ("this old form of the operator is not executed",
             "re-export with a converter that writes UNIDIRECTIONAL_SEQUENCE_LSTM"),
    "WHILE": ("loops are not executed", "unroll the layer (Keras: unroll=True)"),
    "IF": ("branches are not executed", "export one branch"),
    "PRELU": ("a slope per channel is not executed", "LEAKY_RELU, which has one slope, or RELU"),
    "ELU": ("it is not executed", "RELU, LEAKY_RELU or HARD_SWISH"),
    "GELU": ("it is not executed", "RELU or HARD_SWISH"),
}
"""Operators with a reason and a way out of their own."""


def import_tflite(data: bytes, name: str) -> Graph:
    """Return the graph of a .tflite file; batch is pinned to 1.

    name  how errors call the model

    Raises ImportFailed when the file is damaged and UnsupportedModel, with every refusal, when
    it needs what edgesparse does not execute.
    """
    model = read_model(data, name)
    build = _build(model)
    if build.issues:
        raise UnsupportedModel(name, tuple(build.issues))
    inputs = tuple(build.values[i].name for i in model.inputs)
    outputs = tuple(build.values[i].name for i in model.outputs)
    tensors = {build.values[i].name: build.values[i] for i in model.inputs} | build.tensors
    digest = hashlib.sha256(data).digest()
    graph = Graph(name, tensors, tuple(build.nodes), inputs, outputs, digest)
    if not build.uint8_outputs:
        return graph
    return replace(
        graph, uint8_outputs=tuple(i in build.uint8_outputs for i in model.outputs),
        output_names=tuple(model.tensors[i].name for i in model.outputs))


def check_tflite(data: bytes, name: str) -> tuple[Unsupported, ...]:
    """Every refusal of a .tflite file, in the order of its operators; none when it imports.

    Raises ImportFailed when the file is damaged.
    """
    return tuple(_build(read_model(data, name)).issues)


def _build(model: RawModel) -> Build:
    build = Build(model)
    if not model.operators:
        build.issues.append(Unsupported(
            model.name, "graph", "it has no operators: there is nothing to run",
            "a model with at least one layer"))
    _check_buffers(model)
    _open_inputs(build)
    for op in model.operators:
        _check_order(build, op)
        call = Call(build, op)
        try:
            _operator(call)
        except Unsupported as issue:
            build.issues.append(issue)
            _give_up(build, op)
        except DependsOnRefused:
            _give_up(build, op)
    _check_outputs(build)
    resolve_states(build)
    return build


def _operator(call: Call) -> None:
    name = call.op.name
    if name in HANDLERS:
        HANDLERS[name](call)
    elif name.startswith("CUSTOM:"):
        call.refuse("custom operators are not executed", "builtin operators only")
    else:
        call.refuse(*REFUSED.get(name, UNKNOWN))


def _check_buffers(model: RawModel) -> None:
    graphs = (model, *model.called.values())
    for raw in (tensor for graph in graphs for tensor in graph.tensors):
        if raw.buffer >= len(model.buffers):
            raise ImportFailed(f"{model.name}: {raw} is in buffer {raw.buffer}; the file has "
                               f"{len(model.buffers)}")


def _raw(build: Build, index: int, place: object) -> RawTensor:
    if not 0 <= index < len(build.model.tensors):
        build.fail(place, f"tensor index {index}; the graph has {len(build.model.tensors)}")
    return build.model.tensors[index]


def _open_inputs(build: Build) -> None:
    """The graph's inputs: int8 or float32, every dimension fixed, batch 1."""
    if not build.model.inputs or not build.model.outputs:
        build.fail("graph", "it has no inputs or no outputs")
    for index in build.model.inputs:
        raw = _raw(build, index, "graph inputs")
        if 0 in raw.shape or build.is_constant(raw):
            build.fail(raw, "a graph input is a constant, or has no elements")
        if index in build.values:
            build.fail(raw, "a graph input is listed twice")
        build.values[index] = build.tensor(raw, raw.shape)
        reason = _input_refusal(build, raw)
        if reason:
            build.issues.append(Unsupported(raw.name, "graph input", *reason))


def _input_refusal(build: Build, raw: RawTensor) -> tuple[str, str] | None:
    tensor = build.values[raw.index]
    if raw.type == "UINT8":
        return ("uint8 activations (legacy quantization) are not executed",
                "re-export with int8 inputs, outputs and activations")
    if tensor.dtype not in ("int8", "float32"):
        return (f"{raw.type.lower()} activations are not executed",
                "re-export with int8 or float32 activations")
    if tensor.dtype == "int8" and (tensor.quant is None or tensor.quant.per_channel):
        return "an int8 input needs one scale and zero point", "re-export with full quantization"
    open_dims = [i for i, n in enumerate(raw.signature) if n == -1 and i > 0]
    if open_dims:
        return (f"dimension {open_dims[0]} is dynamic (shape {list(raw.signature)})",
                "export with fixed shapes")
    if len(raw.shape) > 1 and raw.shape[0] != 1:
        return f"its batch is {raw.shape[0]}; one window runs at a time", "export with batch 1"
    return None


def _check_order(build: Build, op: RawOperator) -> None:
    """Inputs exist before they are read; no tensor is written twice."""
    for index in op.inputs:
        if index == -1:
            continue
        raw = _raw(build, index, op)
        if raw.is_variable and index not in build.values:
            build.values[index] = build.tensor(raw, raw.shape)  # refused by whoever reads it
        if index not in build.values and index not in build.dequantized and (
            not build.is_constant(raw)
        ):
            build.fail(op, f"it reads {raw}, which nothing before it computes")
    for index in op.outputs:
        raw = _raw(build, index, op)
        if index in build.values or index in build.dequantized or build.is_constant(raw):
            build.fail(op, f"it writes {raw}, which has a value already")
    if len(set(op.outputs)) != len(op.outputs):
        build.fail(op, "it lists an output twice")


def _give_up(build: Build, op: RawOperator) -> None:
    """Later operators are still checked: they see the shapes that the file states."""
    for index in op.outputs:
        raw = build.model.tensors[index]
        build.refused.add(index)
        build.dequantized.pop(index, None)
        build.values[index] = build.tensor(raw, raw.shape)


def _check_outputs(build: Build) -> None:
    for index in build.model.outputs:
        raw = _raw(build, index, "graph outputs")
        if index not in build.values and index not in build.dequantized:
            build.fail(raw, "nothing computes this graph output")
    if len(set(build.model.outputs)) != len(build.model.outputs):
        build.fail("graph outputs", "a tensor is listed twice")
    computed = {name for node in build.nodes for name in node.outputs}
    for index in build.model.outputs:
        tensor = build.value(index)
        if index in build.refused or tensor.name in computed:
            continue
        if build.model.operators:
            build.issues.append(Unsupported(
                tensor.name, "graph output", "it is an input or a constant, not a result",
                "remove this output from the model"))

