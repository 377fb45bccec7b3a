"""Build small .tflite models from tensors of the graph, for tests.

    call = Call("SOFTMAX", ("x",), ("y",), Options("Softmax", {"Beta": 1.0}))
    model = build([x, y], [call], ["x"], ["y"])
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

from edgesparse.graph.ir import Tensor

TYPES = {
    "int8": tflite.TensorType.INT8, "int16": tflite.TensorType.INT16,
    "int32": tflite.TensorType.INT32, "int64": tflite.TensorType.INT64,
    "uint8": tflite.TensorType.UINT8, "float16": tflite.TensorType.FLOAT16,
    "float32": tflite.TensorType.FLOAT32, "bool": tflite.TensorType.BOOL,
    "other": tflite.TensorType.RESOURCE,
}


@dataclass(frozen=True)
class Options:
    """A table of BuiltinOptions: its name without "Options", and its fields in CamelCase.

    Tuples and lists become vectors of int32, texts become strings.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One operator of the model; tensors by name, "" for an absent optional input."""

    code: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Options | None = None
    version: int = 1
    intermediates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dimension:
    """Dense of `size`, or sparse with `segments` and `indices`."""

    size: int = 0
    segments: Sequence[int] | None = None
    indices: Sequence[int] = ()


@dataclass(frozen=True)
class Sparsity:
    """How a tensor's stored values are spread; the tensor's data holds the stored values."""

    traversal: tuple[int, ...]
    dimensions: tuple[Dimension, ...]
    block_map: tuple[int, ...] = ()


def build(
    tensors: Sequence[Tensor],
    calls: Sequence[Call],
    inputs: Sequence[str],
    outputs: Sequence[str],
    sparsity: Mapping[str, tuple[Sparsity, np.ndarray]] | None = None,
    start: tuple[Sequence[Tensor], Sequence[Call]] | None = None,
    variables: Collection[str] = (),
) -> bytes:
    """Return the model's bytes.

    sparsity  layout and stored values of sparse constants
    start     tensors and calls of a second subgraph, for CALL_ONCE
    variables tensors that are state
    """
    sparsity = sparsity or {}
    b = flatbuffers.Builder(1024)
    more_tensors, more_calls = start or ((), ())
    every = [*tensors, *more_tensors]
    stored = [sparsity[t.name][1] if t.name in sparsity else t.data for t in every]
    buffers = [_buffer(b, None), *(_buffer(b, data) for data in stored)]
    tables = [
        _tensor(b, t, i + 1, sparsity[t.name][0] if t.name in sparsity else None,
                t.name in variables)
        for i, t in enumerate(every)
    ]
    kinds = list(dict.fromkeys((c.code, c.version) for c in (*calls, *more_calls)))
    codes = [_code(b, *kind) for kind in kinds]

    def subgraph(
        held: Sequence[Tensor], offsets: list[int], run: Sequence[Call],
        ends: tuple[Sequence[str], Sequence[str]],
    ) -> int:
        number = {t.name: i for i, t in enumerate(held)} | {"": -1}
        operators = [_operator(b, c, kinds.index((c.code, c.version)), number) for c in run]
        return _table(
            b, tflite.SubGraph,
            Tensors=_offsets(b, offsets),
            Inputs=_ints(b, [number[n] for n in ends[0]]),
            Outputs=_ints(b, [number[n] for n in ends[1]]),
            Operators=_offsets(b, operators),
        )

    subgraphs = [subgraph(tensors, tables[: len(tensors)], calls, (inputs, outputs))]
    if start is not None:
        subgraphs.append(subgraph(more_tensors, tables[len(tensors) :], more_calls, ((), ())))
    model = _table(
        b, tflite.Model,
        OperatorCodes=_offsets(b, codes),
        Subgraphs=_offsets(b, subgraphs),
        Buffers=_offsets(b, buffers),
        Version=3,
    )
    b.Finish(model, file_identifier=b"TFL3")
    return bytes(b.Output())


def _table(b: flatbuffers.Builder, cls: type, **fields: Any) -> int:
    """Write one table; children must have been written before."""
    name = cls.__name__
    module = __import__(f"tflite.{name}", fromlist=["*"])
    _of(module, f"{name}Start")(b)
    for key, value in fields.items():
        if value is not None:
            _of(module, f"{name}Add{key}")(b, value)
    return int(_of(module, f"{name}End")(b))


def _of(module: Any, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module, name)
    return function


def _ints(b: flatbuffers.Builder, values: Sequence[int], dtype: type = np.int32) -> int:
    return int(b.CreateNumpyVector(np.asarray(values, dtype)))


def _offsets(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _buffer(b: flatbuffers.Builder, data: np.ndarray | None) -> int:
    vector = None
    if data is not None:
        raw = np.ascontiguousarray(data).tobytes()
        b.StartVector(1, len(raw), 16)
        b.head -= len(raw)
        b.Bytes[b.head : b.head + len(raw)] = raw
        vector = b.EndVector()
    return _table(b, tflite.Buffer, Data=vector)


def _tensor(
    b: flatbuffers.Builder, t: Tensor, buffer: int, sparsity: Sparsity | None, variable: bool
) -> int:
    quantization = None
    if t.quant is not None:
        quantization = _table(
            b, tflite.QuantizationParameters,
            Scale=b.CreateNumpyVector(np.asarray(t.quant.scale, np.float32)),
            ZeroPoint=b.CreateNumpyVector(np.asarray(t.quant.zero_point, np.int64)),
            QuantizedDimension=t.quant.axis,
        )
    return _table(
        b, tflite.Tensor,
        Name=b.CreateString(t.name),
        Shape=_ints(b, t.shape),
        Type=TYPES[t.dtype],
        Buffer=buffer,
        Quantization=quantization,
        Sparsity=None if sparsity is None else _sparsity(b, sparsity),
        IsVariable=variable or None,
    )


def _sparsity(b: flatbuffers.Builder, s: Sparsity) -> int:
    dimensions = []
    for d in s.dimensions:
        if d.segments is None:
            table = _table(b, tflite.DimensionMetadata, Format=tflite.DimensionType.DENSE,
                           DenseSize=d.size)
        else:
            segments = _table(b, tflite.Int32Vector, Values=_ints(b, d.segments))
            indices = _table(b, tflite.Int32Vector, Values=_ints(b, d.indices))
            kind = tflite.SparseIndexVector.Int32Vector
            table = _table(
                b, tflite.DimensionMetadata, Format=tflite.DimensionType.SPARSE_CSR,
                ArraySegmentsType=kind, ArraySegments=segments,
                ArrayIndicesType=kind, ArrayIndices=indices,
            )
        dimensions.append(table)
    return _table(
        b, tflite.SparsityParameters,
        TraversalOrder=_ints(b, s.traversal),
        BlockMap=_ints(b, s.block_map) if s.block_map else None,
        DimMetadata=_offsets(b, dimensions),
    )


def _operator(b: flatbuffers.Builder, c: Call, code: int, number: Mapping[str, int]) -> int:
    options = kind = None
    if c.options is not None:
        name = f"{c.options.kind}Options"
        fields = {
            key: _ints(b, value) if isinstance(value, (tuple, list)) else
            b.CreateString(value) if isinstance(value, str) else value
            for key, value in c.options.fields.items()
        }
        options = _table(b, getattr(tflite, name), **fields)
        kind = getattr(tflite.BuiltinOptions, name)
    return _table(
        b, tflite.Operator,
        OpcodeIndex=code,
        Inputs=_ints(b, [number[n] for n in c.inputs]),
        Outputs=_ints(b, [number[n] for n in c.outputs]),
        BuiltinOptionsType=kind,
        BuiltinOptions=options,
        Intermediates=(
            _ints(b, [number[n] for n in c.intermediates]) if c.intermediates else None),
    )


def _code(b: flatbuffers.Builder, code: str, version: int) -> int:
    value = getattr(tflite.BuiltinOperator, code)
    return _table(
        b, tflite.OperatorCode,
        DeprecatedBuiltinCode=min(value, 127), BuiltinCode=value, Version=version,
    )
