"""The runtimes whose bytes ours must equal, what they are known to get wrong, and who stands in.

A judge computes every tensor of a .tflite model; values are keyed by the importer's tensor names.
What a model keeps from run to run, its judge keeps too: a new one starts a new stream.
The oracle is tflite-runtime 2.14.0 with its reference kernels (BUILTIN_REF); it rounds twice, as
plans do unless they say otherwise. Its default kernels are no oracle: they differ from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import tflite

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.importers.tflite_schema import RawModel, RawOperator, RawTensor, read_model
from edgesparse.importers.tflite_sparsity import DenseLevel, decode_sparse
from edgesparse.runtime.session import flip
from edgesparse.streaming.simulate import Simulator

MICRO_ARENAS = (1 << 20, 1 << 24, 1 << 28)
"""Bytes; tflite-micro wants to be told and cannot say how much."""


class Judge(Protocol):
    """`name` says who it is; run() takes inputs and gives tensors by the importer's names.

    What the model keeps from run to run goes on until reset().
    """

    name: str

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...

    def reset(self) -> None: ...


class OracleRefused(BadInput):
    """A runtime does not load or run this model."""


@dataclass(frozen=True)
class Judgement:
    """Who judges a model; `notes` say why not the oracle as it is, and are empty when it does."""

    judge: Judge
    notes: tuple[str, ...] = ()


def judge_of(data: bytes, name: str) -> Judgement:
    """The best judge of a model that edgesparse imports.

    Raises BadInput when no oracle is installed, ImportFailed when the file is damaged.
    """
    if find_spec("tflite_runtime") is None:
        raise BadInput(
            "no oracle is installed to compare with: pip install 'edgesparse[oracle]' "
            "(tflite-runtime 2.14.0, Python 3.11 or older)")
    raw = read_model(data, name)
    faults = known_faults(raw)
    if any(fault.twin_heals for fault in faults):
        data = dense_twin(data, raw)
    if all(fault.twin_heals for fault in faults):
        try:
            return Judgement(TfliteRuntime(data, raw), _notes(faults, TWIN))
        except OracleRefused as refusal:
            faults = (*faults, Fault("", f"it refuses the file: {refusal}", twin_heals=False))
    try:
        stand_in: Judge = _micro(data, raw)
    except OracleRefused:
        stand_in = NumpyReference(data, name)
    return Judgement(stand_in, _notes(faults, stand_in.name))


def _micro(data: bytes, raw: RawModel) -> TfliteMicro:
    if find_spec("tflite_micro") is None:
        raise OracleRefused("it is not installed")
    return TfliteMicro(data, raw)


def _notes(faults: tuple[Fault, ...], stand_in: str) -> tuple[str, ...]:
    layers: dict[str, list[str]] = {}
    for fault in faults:
        layers.setdefault(fault.reason, []).append(fault.layer)
    return tuple(
        f"{ORACLE} cannot judge this model: {reason}"
        f"{' (' + ', '.join(names) + ')' if all(names) else ''}; stand-in: {stand_in}"
        for reason, names in layers.items())


# ---- what the oracle gets wrong ---------------------------------------------------------------

ORACLE = "tflite-runtime"
TWIN = "the same runtime on this model with dense weights"
REFERENCE = "the NumPy reference of edgesparse"
LONGEST_REFUSAL = 160


@dataclass(frozen=True)
class Fault:
    """Something tflite-runtime 2.14.0 gets wrong; `layer` is empty when it is the whole model.

    twin_heals  it computes the layer right when the weights are stored densely
    """

    layer: str
    reason: str
    twin_heals: bool


def known_faults(model: RawModel) -> tuple[Fault, ...]:
    """The layers of a model that meet a known fault of the oracle."""
    faults = []
    for op in model.operators:
        if op.name != "FULLY_CONNECTED" or len(op.inputs) < 2 or not op.outputs:
            continue
        weights, layer = model.tensors[op.inputs[1]], model.tensors[op.outputs[0]].name
        if weights.type != "INT8":
            continue
        per_channel = weights.scale.size > 1
        if weights.sparsity is not None and (per_channel or _block(weights) != 16):
            faults.append(Fault(layer, _sparse_reason(weights, per_channel), twin_heals=True))
        if per_channel and len(model.tensors[op.inputs[0]].shape) >= 3:
            faults.append(Fault(
                layer, "it miscomputes FULLY_CONNECTED with per-channel weights and an input of "
                "three or more dimensions", twin_heals=False))
    return tuple(faults)


def _block(weights: RawTensor) -> int:
    """Length of the blocks of sparse weights; 1: none."""
    assert weights.sparsity is not None
    level = weights.sparsity.levels[-1] if weights.sparsity.block_map else None
    return level.size if isinstance(level, DenseLevel) else 1


def _sparse_reason(weights: RawTensor, per_channel: bool) -> str:
    if per_channel:
        return "it miscomputes sparse FULLY_CONNECTED with per-channel weights"
    blocks = f"in blocks of {_block(weights)}" if _block(weights) > 1 else "without blocks"
    return f"it refuses or misreads sparse int8 FULLY_CONNECTED {blocks}"


# ---- judges -----------------------------------------------------------------------------------


class TfliteRuntime:
    """tflite-runtime with its reference kernels; gives every tensor an operator computes."""

    def __init__(self, data: bytes, raw: RawModel) -> None:
        """raw: what read_model says of the model. Raises OracleRefused."""
        from tflite_runtime.interpreter import Interpreter, OpResolverType

        self.name = f"{ORACLE} {version('tflite-runtime')} BUILTIN_REF"
        self.raw = raw
        self._computed = _computed(raw)
        try:
            self.interpreter = Interpreter(
                model_content=_with_outputs(data, self._computed),
                experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True, num_threads=1)
            self.interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise OracleRefused(_one_line(error)) from error

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        tensors = self.raw.tensors
        for index in self.raw.inputs:
            self.interpreter.set_tensor(index, inputs[tensors[index].name])
        _invoke(self)
        return {tensors[i].name: self.interpreter.get_tensor(i)
                for i in (*self.raw.inputs, *self._computed)}

    def reset(self) -> None:
        self.interpreter.reset_all_variables()


class TfliteMicro:
    """tflite-micro; gives every tensor an operator computes."""

    def __init__(self, data: bytes, raw: RawModel) -> None:
        """Raises OracleRefused."""
        self.name = f"tflite-micro {version('tflite-micro')}"
        self.raw = raw
        self._computed = _computed(raw)
        self.interpreter = _micro_interpreter(data)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        tensors = self.raw.tensors
        for position, index in enumerate(self.raw.inputs):
            self.interpreter.set_input(inputs[tensors[index].name], position)
        _invoke(self)
        return {tensors[i].name: np.array(self.interpreter.GetTensor(i, 0)["tensor_data"])
                for i in self._computed}

    def reset(self) -> None:
        self.interpreter.reset()


def _computed(raw: RawModel) -> list[int]:
    """The tensors with values that operators write; handles of variables have none."""
    written = {i for op in raw.operators for i in op.outputs}
    return sorted(i for i in written if raw.tensors[i].type != "RESOURCE")


def _micro_interpreter(data: bytes) -> Any:
    from tflite_micro.python.tflite_micro.runtime import Interpreter, InterpreterConfig

    for arena in MICRO_ARENAS:
        try:
            return Interpreter.from_bytes(
                data, arena_size=arena, intrepreter_config=InterpreterConfig.kPreserveAllTensors)
        except RuntimeError as error:
            refusal = error
    raise OracleRefused(_one_line(refusal)) from refusal


class NumpyReference:
    """The definitions of the operators, on the graph as imported, before any pass."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = REFERENCE
        self._model = Simulator(import_tflite(data, name))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        graph = self._model.graph
        values = self._model.run(inputs)
        for name, t, uint8 in zip(graph.output_names, graph.outputs, graph.uint8_outputs):
            if uint8:
                values[name] = flip(values[t]).view(np.uint8)
        return values

    def reset(self) -> None:
        self._model.reset()


def _invoke(runtime: TfliteRuntime | TfliteMicro) -> None:
    """Raises OracleRefused for what the runtime finds out only now."""
    try:
        runtime.interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise OracleRefused(f"{runtime.name} does not run the model: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_REFUSAL else text[:LONGEST_REFUSAL] + "..."


# ---- changes to a file the oracle needs -------------------------------------------------------
# Offsets of a FlatBuffer count forwards, a table's offset to its vtable either way: what is new
# goes behind the file, and a field or two are turned to it.

_SUBGRAPH_OUTPUTS, _BUFFER_DATA, _TENSOR_SPARSITY = 8, 4, 16
"""Places in vtables, bytes."""


def _with_outputs(data: bytes, outputs: list[int]) -> bytes:
    """The model with other graph outputs.

    Operators of tflite-runtime 2.14 that may work in place overwrite their input even when all
    tensors are to be preserved, but never a graph output.
    """
    table = tflite.Model.GetRootAs(data).Subgraphs(0)._tab
    patched = bytearray(data)
    _turn(patched, table.Pos + table.Offset(_SUBGRAPH_OUTPUTS))
    return bytes(patched) + np.array([len(outputs), *outputs], "<u4").tobytes()


def dense_twin(data: bytes, raw: RawModel) -> bytes:
    """The model with the sparse weights that FULLY_CONNECTED reads directly stored densely."""
    model = tflite.Model.GetRootAs(data)
    patched = bytearray(data)
    for index in sorted({_weights(op) for op in raw.operators} & _sparse(raw)):
        tensor = raw.tensors[index]
        assert tensor.sparsity is not None
        stored = raw.buffers[tensor.buffer].view(np.int8)
        dense = decode_sparse(stored, tensor.shape, tensor.sparsity, f"{raw.name}: {tensor}")

        table = model.Buffers(tensor.buffer)._tab
        patched += bytes(-(len(patched) + 4) % 16)  # so that the data is aligned to 16 bytes
        _turn(patched, table.Pos + table.Offset(_BUFFER_DATA))
        patched += np.array([dense.size], "<u4").tobytes() + dense.tobytes()

        table = model.Subgraphs(0).Tensors(index)._tab
        old = table.Pos - int.from_bytes(data[table.Pos : table.Pos + 4], "little", signed=True)
        size = int.from_bytes(data[old : old + 2], "little")
        vtable = bytearray(data[old : old + size])  # shared with other tensors: change a copy
        vtable[_TENSOR_SPARSITY : _TENSOR_SPARSITY + 2] = bytes(2)
        patched += bytes(-len(patched) % 4)
        patched[table.Pos : table.Pos + 4] = (table.Pos - len(patched)).to_bytes(
            4, "little", signed=True)
        patched += vtable
    return bytes(patched)


def _weights(op: RawOperator) -> int:
    return op.inputs[1] if op.name == "FULLY_CONNECTED" and len(op.inputs) > 1 else -1


def _sparse(raw: RawModel) -> set[int]:
    return {t.index for t in raw.tensors if t.sparsity is not None and t.type == "INT8"}


def _turn(patched: bytearray, field: int) -> None:
    """Let the offset at `field` point at the next multiple of 4 behind what there is."""
    patched += bytes(-len(patched) % 4)
    patched[field : field + 4] = (len(patched) - field).to_bytes(4, "little")
