"""Safe reading of a .tflite FlatBuffer into plain records.

The generated bindings trust their file: they follow any offset and believe any length. Here
every call of theirs goes through `_Reader.get`, and every vector is charged against the size
of the file before it is walked, so damaged bytes end as ImportFailed and never as a crash, a
long loop or a large allocation. The records hold what the file says; whether that makes sense
is for their readers to ask.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from edgesparse.errors import ImportFailed
from edgesparse.graph.ir import Array, DType, Shape
from edgesparse.importers.tflite_sparsity import DenseLevel, Level, SparseLayout, SparseLevel

IDENTIFIER = b"TFL3"
VERSION = 3
MAX_RANK = 8
MAX_SUBGRAPH = 1 << 16
"""Tensors or operators of a graph; the largest public model for small devices has under 1,000."""

CUSTOM_CODE, DESCRIPTION, TENSOR_NAME = 6, 8, 10
"""Vtable slots of the strings: of OperatorCode, Model and Tensor."""

OPERATOR_NAMES: Mapping[int, str] = {
    code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
TYPE_NAMES: Mapping[int, str] = {
    code: name for name, code in vars(tflite.TensorType).items() if isinstance(code, int)}
DTYPES: Mapping[str, DType] = {
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "FLOAT16": "float16", "FLOAT32": "float32", "BOOL": "bool",
}
"""Types with a name in the graph; all others are "other"."""

_POOL = ("Pool2DOptions", ("Padding", "StrideW", "StrideH", "FilterWidth", "FilterHeight",
                           "FusedActivationFunction"))
OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "AVERAGE_POOL_2D": _POOL,
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "CONV_2D": ("Conv2DOptions", (
        "Padding", "StrideW", "StrideH", "DilationWFactor", "DilationHFactor",
        "FusedActivationFunction")),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (
        "Padding", "StrideW", "StrideH", "DilationWFactor", "DilationHFactor",
        "FusedActivationFunction")),
    "FULLY_CONNECTED": ("FullyConnectedOptions", (
        "FusedActivationFunction", "WeightsFormat", "KeepNumDims")),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MAX_POOL_2D": _POOL,
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "PACK": ("PackOptions", ("Axis",)),
    "REDUCE_PROD": ("ReducerOptions", ("KeepDims",)),
    "RESHAPE": ("ReshapeOptions", ("NewShapeAsNumpy",)),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SQUEEZE": ("SqueezeOptions", ("SqueezeDimsAsNumpy",)),
    "STRIDED_SLICE": ("StridedSliceOptions", (
        "BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "SVDF": ("SVDFOptions", ("Rank", "FusedActivationFunction")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("UnidirectionalSequenceLSTMOptions", (
        "FusedActivationFunction", "CellClip", "TimeMajor")),
    "UNPACK": ("UnpackOptions", ("Axis",)),
    "VAR_HANDLE": ("VarHandleOptions", ("Container", "SharedName")),
}
"""Operator -> the table of its options and the fields of it that decide what the operator does."""
TEXT_OPTIONS: Mapping[str, int] = {"Container": 4, "SharedName": 6}
"""Those that are strings, with their vtable slots."""


@dataclass(frozen=True, eq=False)
class RawTensor:
    """One tensor as the file has it; `name` is made unique among the graph's tensors."""

    index: int
    name: str
    shape: Shape
    signature: Shape
    """As `shape` with -1 for what the exporter left open; empty when all is fixed."""
    type: str
    buffer: int
    scale: Array
    zero_point: Array
    axis: int
    sparsity: SparseLayout | None
    is_variable: bool

    def __str__(self) -> str:
        return f"tensor {self.index} ({self.name})"


@dataclass(frozen=True)
class RawOperator:
    """One operator; a tensor index of -1 is an optional input left out."""

    index: int
    name: str
    """Builtin operator, or CUSTOM:code."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    intermediates: tuple[int, ...] = ()
    """Tensors without a value that hold scales of the inside of an LSTM."""

    def __str__(self) -> str:
        return f"operator {self.index} ({self.name})"


@dataclass(frozen=True, eq=False)
class RawGraph:
    """Tensors and operators of a subgraph."""

    tensors: tuple[RawTensor, ...]
    operators: tuple[RawOperator, ...]


@dataclass(frozen=True, eq=False)
class RawModel(RawGraph):
    """The main graph of a file and the bytes of its buffers ([n] uint8, views of the file).

    called  the other subgraphs that CALL_ONCE names, by number
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    buffers: tuple[Array, ...]
    called: Mapping[int, RawGraph]


def read_model(data: bytes, name: str) -> RawModel:
    """Read the file's first subgraph, which is the one that runs, and those it calls once.

    Raises ImportFailed when a field, offset or length points outside the file.
    """
    if data[4:8] != IDENTIFIER:
        raise ImportFailed(f"{name}: not a .tflite file ({len(data)} bytes, identifier "
                           f"{data[4:8]!r}; it must be {IDENTIFIER!r} at byte 4)")
    reader = _Reader(data, name)
    model = reader.get("file header", tflite.Model.GetRootAs, data)
    version = reader.get("version", model.Version)
    if version != VERSION:
        raise ImportFailed(f"{name}: schema version {version}; edgesparse reads {VERSION}")
    reader.text("description", model, DESCRIPTION)  # decides nothing: see _operator_name
    codes = [
        _operator_name(reader, code, place)
        for place, code in reader.tables("operator code", model.OperatorCodesLength,
                                         model.OperatorCodes)
    ]
    subgraphs = reader.tables("subgraph", model.SubgraphsLength, model.Subgraphs)
    if not subgraphs:
        raise ImportFailed(f"{name}: the file holds no graph")
    main = subgraphs[0][1]
    graph = _graph(reader, main, codes)
    called: dict[int, RawGraph] = {}
    for op in graph.operators:
        if op.name == "CALL_ONCE":
            number = op.options.get("InitSubgraphIndex", 0)
            if not 0 < number < len(subgraphs):
                raise ImportFailed(f"{name}: {op} calls subgraph {number}; the file holds "
                                   f"{len(subgraphs)}, and the first one is the caller")
            if number not in called:
                called[number] = _graph(reader, subgraphs[number][1], codes)
    buffers = tuple(
        _buffer(reader, table, place)
        for place, table in reader.tables("buffer", model.BuffersLength, model.Buffers)
    )
    return RawModel(
        tensors=graph.tensors, operators=graph.operators, name=name,
        inputs=reader.integers("graph inputs", main.InputsAsNumpy),
        outputs=reader.integers("graph outputs", main.OutputsAsNumpy),
        buffers=buffers, called=called,
    )


def _graph(reader: _Reader, table: Any, codes: list[str]) -> RawGraph:
    tensors = [
        _tensor(reader, tensor, place, index)
        for index, (place, tensor) in enumerate(
            reader.tables("tensor", table.TensorsLength, table.Tensors, MAX_SUBGRAPH))
    ]
    operators = tuple(
        _operator(reader, operator, index, codes)
        for index, (_, operator) in enumerate(
            reader.tables("operator", table.OperatorsLength, table.Operators, MAX_SUBGRAPH))
    )
    return RawGraph(_with_unique_names(tensors), operators)


class _Reader:
    """Calls the bindings; knows how much of the file may still be walked."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        # Vectors do not overlap in a sound file and an element takes a byte or more: reading
        # more elements than the file has bytes means that tables are shared to make work.
        self.budget = len(data)

    def get(self, place: str, field: Callable[..., Any], *args: Any) -> Any:
        """Call one accessor of the bindings.

        They unpack at any offset (struct.error, IndexError), build tables at it (TypeError
        out of their number range) and view vectors (ValueError past the end, OverflowError).
        Nothing of ours runs inside, so these errors mean damaged bytes and nothing else.
        """
        try:
            return field(*args)
        except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
            raise ImportFailed(f"{self.name}: {place} is damaged ({error})") from error

    def charge(self, place: str, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise ImportFailed(f"{self.name}: {place} has {count} entries, more than "
                               f"{len(self.data)} bytes of file can hold")

    def tables(
        self, place: str, length: Callable[[], Any], item: Callable[[int], Any],
        limit: int | None = None,
    ) -> list[tuple[str, Any]]:
        """Every table of a vector, with its place for messages."""
        count = self.get(f"{place} list", length)
        if limit is not None and count > limit:
            raise ImportFailed(f"{self.name}: {count} {place}s; at most {limit} are read")
        self.charge(f"{place} list", count)
        return [(f"{place} {i}", self.get(f"{place} {i}", item, i)) for i in range(count)]

    def numbers(self, place: str, field: Callable[[], Any]) -> Array:
        """A vector of numbers as a view of the file; empty when it is absent."""
        found = self.get(place, field)
        if not isinstance(found, np.ndarray):  # the bindings return 0 for an absent vector
            return np.empty(0, np.int64)
        self.charge(place, found.size)
        return found

    def integers(self, place: str, field: Callable[[], Any]) -> tuple[int, ...]:
        return tuple(self.numbers(place, field).tolist())

    def text(self, place: str, table: Any, slot: int) -> str:
        """A label for people: what is no printable text is replaced, it decides nothing.

        slot  the field's place in the vtable: the accessors of the bindings shorten a string
              that runs past the end of the file without a word
        """
        field = self.get(place, table._tab.Offset, slot)
        if not field:
            return ""
        start = self.get(place, table._tab.Vector, field)
        length = self.get(place, table._tab.VectorLen, field)
        if start + length >= len(self.data):  # a zero byte follows it
            raise ImportFailed(f"{self.name}: {place} ends at byte {start + length} of "
                               f"{len(self.data)}")
        self.charge(place, length)
        label = str(self.data[start : start + length], "utf-8", "replace")
        return "".join(c if c.isprintable() else "\ufffd" for c in label)


def _operator_name(reader: _Reader, code: Any, place: str) -> str:
    """Operators over 127 stand in builtin_code; older files have deprecated_builtin_code only."""
    number = max(reader.get(place, code.BuiltinCode), reader.get(place, code.DeprecatedBuiltinCode))
    reader.get(place, code.Version)  # decides nothing, but is often the last thing in the file
    name = OPERATOR_NAMES.get(number)
    if name is None:
        return f"BUILTIN:{number}"
    if name == "CUSTOM":
        return f"CUSTOM:{reader.text(place, code, CUSTOM_CODE)}"
    return name


def _operator(reader: _Reader, table: Any, index: int, codes: list[str]) -> RawOperator:
    number = reader.get(f"operator {index}", table.OpcodeIndex)
    if not 0 <= number < len(codes):
        raise ImportFailed(f"{reader.name}: operator {index} has operator code {number}; the file "
                           f"lists {len(codes)}")
    place = f"operator {index} ({codes[number]})"
    return RawOperator(
        index, codes[number],
        reader.integers(f"{place} inputs", table.InputsAsNumpy),
        reader.integers(f"{place} outputs", table.OutputsAsNumpy),
        _options(reader, table, codes[number], place),
        reader.integers(f"{place} intermediates", table.IntermediatesAsNumpy),
    )


def _options(reader: _Reader, table: Any, operator: str, place: str) -> Mapping[str, Any]:
    """Field -> number, tuple of numbers or text; empty when the operator takes or has none."""
    if operator not in OPTIONS:
        return {}
    kind, fields = OPTIONS[operator]
    code = reader.get(f"{place} options", table.BuiltinOptionsType)
    if code == tflite.BuiltinOptions.NONE:
        return {}
    if code != getattr(tflite.BuiltinOptions, kind):
        raise ImportFailed(f"{reader.name}: {place} has options of type {code}, not {kind}")
    union = reader.get(f"{place} options", table.BuiltinOptions)
    if union is None:
        return {}
    options = getattr(tflite, kind)()
    reader.get(f"{place} options", options.Init, union.Bytes, union.Pos)
    found: dict[str, Any] = {}
    for field in fields:
        where = f"{place} {field}"
        if field in TEXT_OPTIONS:
            found[field] = reader.text(where, options, TEXT_OPTIONS[field])
        elif field.endswith("AsNumpy"):
            found[field.removesuffix("AsNumpy")] = reader.integers(where, getattr(options, field))
        else:
            found[field] = reader.get(where, getattr(options, field))
    return found


def _tensor(reader: _Reader, table: Any, place: str, index: int) -> RawTensor:
    name = reader.text(f"{place} name", table, TENSOR_NAME)
    place = f"{place} ({name})"
    shape = reader.integers(f"{place} shape", table.ShapeAsNumpy)
    if len(shape) > MAX_RANK:
        raise ImportFailed(f"{reader.name}: {place} has {len(shape)} dimensions; at most "
                           f"{MAX_RANK} are read")
    quantization = reader.get(f"{place} quantization", table.Quantization)
    scale, zero_point, axis = np.empty(0, np.float32), np.empty(0, np.int64), 0
    if quantization is not None:
        scale = reader.numbers(f"{place} scale", quantization.ScaleAsNumpy)
        zero_point = reader.numbers(f"{place} zero point", quantization.ZeroPointAsNumpy)
        axis = reader.get(f"{place} quantization", quantization.QuantizedDimension)
    sparsity = reader.get(f"{place} sparsity", table.Sparsity)
    code = reader.get(f"{place} type", table.Type)
    return RawTensor(
        index, name, shape,
        reader.integers(f"{place} shape signature", table.ShapeSignatureAsNumpy),
        TYPE_NAMES.get(code, f"type {code}"), reader.get(f"{place} buffer", table.Buffer),
        scale, zero_point, axis,
        None if sparsity is None else _layout(reader, sparsity, f"{place} sparsity"),
        reader.get(f"{place} variable flag", table.IsVariable),
    )


def _layout(reader: _Reader, table: Any, place: str) -> SparseLayout:
    return SparseLayout(
        reader.integers(f"{place} traversal order", table.TraversalOrderAsNumpy),
        reader.integers(f"{place} block map", table.BlockMapAsNumpy),
        tuple(
            _level(reader, level, where)
            for where, level in reader.tables(f"{place} level", table.DimMetadataLength,
                                              table.DimMetadata)
        ),
    )


def _level(reader: _Reader, level: Any, place: str) -> Level:
    kind = reader.get(place, level.Format)
    if kind == tflite.DimensionType.DENSE:
        return DenseLevel(reader.get(place, level.DenseSize))
    if kind != tflite.DimensionType.SPARSE_CSR:
        raise ImportFailed(f"{reader.name}: {place} has format {kind}; the schema has 0 and 1")
    return SparseLevel(
        _indices(reader, level.ArraySegmentsType, level.ArraySegments, f"{place} segments"),
        _indices(reader, level.ArrayIndicesType, level.ArrayIndices, f"{place} indices"),
    )


_INDEX_VECTORS = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}


def _indices(
    reader: _Reader, kind: Callable[[], Any], table: Callable[[], Any], place: str
) -> Array:
    code, union = reader.get(place, kind), reader.get(place, table)
    if union is None or code not in _INDEX_VECTORS:
        raise ImportFailed(f"{reader.name}: {place} are missing (vector type {code})")
    vector = _INDEX_VECTORS[code]()
    reader.get(place, vector.Init, union.Bytes, union.Pos)
    return reader.numbers(place, vector.ValuesAsNumpy)


def _buffer(reader: _Reader, table: Any, place: str) -> Array:
    """[bytes] uint8. Files over 2 GB keep the bytes behind the FlatBuffer, at `offset`."""
    offset, size = reader.get(place, table.Offset), reader.get(place, table.Size)
    if offset > 1:  # 0 and 1 are placeholders of the exporter
        if offset + size > len(reader.data):
            raise ImportFailed(f"{reader.name}: {place} ends at byte {offset + size} of "
                               f"{len(reader.data)}")
        return np.frombuffer(reader.data, np.uint8, size, offset)
    found = reader.get(place, table.DataAsNumpy)
    return found if isinstance(found, np.ndarray) else np.empty(0, np.uint8)


def _with_unique_names(tensors: list[RawTensor]) -> tuple[RawTensor, ...]:
    """Nameless tensors are called by number; a name met again gets its number behind it."""
    seen: set[str] = set()
    named = []
    for tensor in tensors:
        name = tensor.name or f"tensor_{tensor.index}"
        while name in seen:
            name = f"{name}#{tensor.index}"
        seen.add(name)
        named.append(RawTensor(**{**vars(tensor), "name": name}))
    return tuple(named)
