"""The graph under construction: what each tensor and operator of the file has become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from edgesparse.errors import ImportFailed, Unsupported
from edgesparse.graph.ir import Array, DType, Node, Quant, Shape, Tensor
from edgesparse.importers.tflite_schema import DTYPES, RawModel, RawOperator, RawTensor
from edgesparse.importers.tflite_sparsity import MAX_DECODED, decode_sparse
from edgesparse.ops import Dequantize, Op
from edgesparse.ops.layout import Layout

MAX_ELEMENTS = 2**31 - 1
MAX_MADE = 2 * MAX_DECODED
"""Elements of all constants the importer makes: decoded, filled and folded ones together."""

STORED_RANGE: dict[DType, tuple[int, int]] = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
WAYS_OUT = {
    "UINT8": ("uint8 (legacy quantization)", "re-export with int8 inputs, outputs and activations"),
    "INT16": ("int16", "re-export with int8 activations"),
    "RESOURCE": ("a state variable", "export the model without state; feed the window as input"),
}


class DependsOnRefused(Exception):
    """A shape or axis comes out of an operator that is refused already: nothing new to say."""


class Build:
    """What has been read so far: `values` by tensor index, nodes in order, refusals.

    `dequantized` holds parameters that a DEQUANTIZE makes out of a constant: the node is added
    when something reads the result, so that a convolution may reorder the constant first.
    """

    def __init__(self, model: RawModel) -> None:
        self.model = model
        self.values: dict[int, Tensor] = {}
        self.dequantized: dict[int, Tensor] = {}
        self.refused: set[int] = set()
        self.nodes: list[Node] = []
        self.issues: list[Unsupported] = []
        self.made = 0
        self.reordered: dict[int, Tensor] = {}
        self._names = {tensor.name for tensor in model.tensors}

    def fail(self, place: object, problem: str) -> NoReturn:
        raise ImportFailed(f"{self.model.name}: {place}: {problem}")

    def raw(self, index: int, place: object) -> RawTensor:
        if not 0 <= index < len(self.model.tensors):
            self.fail(place, f"tensor index {index}; the graph has {len(self.model.tensors)}")
        return self.model.tensors[index]

    def fresh_name(self, wanted: str) -> str:
        name = wanted
        while name in self._names:
            name += "#"
        self._names.add(name)
        return name

    def room(self, elements: int, place: object) -> None:
        """Charge a constant that is not in the file, before it is made."""
        self.made += elements
        if self.made > MAX_MADE:
            self.fail(place, f"constants made at import exceed {MAX_MADE} elements")

    def is_constant(self, raw: RawTensor) -> bool:
        """Buffer 0 is empty by convention; an empty shape list is stored as no bytes."""
        return raw.buffer != 0 and self.model.buffers[raw.buffer].size > 0 or 0 in raw.shape

    def tensor(self, raw: RawTensor, shape: Shape, data: Array | None = None) -> Tensor:
        """The graph tensor of a file tensor, with its quantization checked."""
        if any(n < 0 for n in shape) or math.prod(shape) > MAX_ELEMENTS:
            self.fail(raw, f"impossible shape {list(shape)}")
        dtype = DTYPES.get(raw.type, "other")
        return Tensor(raw.name, shape, dtype, self._quant(raw, shape, dtype), data)

    def value(self, index: int) -> Tensor:
        """The tensor as the graph has it; constants are read, decoded and checked here."""
        if index in self.values:
            return self.values[index]
        raw = self.model.tensors[index]
        if index in self.dequantized:
            source = self.dequantized[index]
            self.values[index] = self.dequantize(source, raw.name)
        else:
            self.values[index] = self.tensor(raw, raw.shape, self._data(raw))
        return self.values[index]

    def dequantize(self, source: Tensor, name: str) -> Tensor:
        tensor = Tensor(name, source.shape, "float32")
        self.nodes.append(Node(Dequantize(), (source.name,), (name,), (name,)))
        return tensor

    def _data(self, raw: RawTensor) -> Array:
        dtype = DTYPES.get(raw.type, "other")
        if dtype == "other":
            self.fail(raw, f"constant of type {raw.type}")
        stored = self.model.buffers[raw.buffer]
        kind = np.dtype(dtype).newbyteorder("<")
        if raw.sparsity is not None:
            if stored.size % kind.itemsize:
                self.fail(raw, f"buffer {raw.buffer} has {stored.size} bytes, no whole number of "
                               f"{dtype}")
            self.room(math.prod(raw.shape), raw)
            data = decode_sparse(stored.view(kind), raw.shape, raw.sparsity,
                                 f"{self.model.name}: {raw}")
        else:
            needed = math.prod(raw.shape) * kind.itemsize
            if stored.size != needed:
                self.fail(raw, f"shape {list(raw.shape)} of {dtype} takes {needed} bytes; buffer "
                               f"{raw.buffer} has {stored.size}")
            data = stored.view(kind).reshape(raw.shape)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            self.fail(raw, "constant holds NaN or infinity")
        return data

    def _quant(self, raw: RawTensor, shape: Shape, dtype: DType) -> Quant | None:
        scale, zero_point = raw.scale, raw.zero_point
        if not scale.size or dtype not in STORED_RANGE:
            return None
        if zero_point.size != scale.size:
            self.fail(raw, f"{scale.size} scales but {zero_point.size} zero points")
        if not np.isfinite(scale).all() or (scale <= 0).any():
            self.fail(raw, "a scale is not a positive number")
        low, high = STORED_RANGE[dtype]
        if zero_point.min() < low or zero_point.max() > high:
            self.fail(raw, f"a zero point is outside {low} ... {high} of {dtype}")
        axis = None
        if scale.size > 1:
            # Old converters wrote the weights' dimension beside a bias, which has only one.
            axis = 0 if len(shape) == 1 else raw.axis
            if not 0 <= axis < len(shape):
                self.fail(raw, f"quantized along dimension {axis} of {len(shape)}")
            if scale.size != shape[axis]:
                self.fail(raw, f"{scale.size} scales for {shape[axis]} channels (dimension {axis})")
        return Quant(tuple(scale.tolist()), tuple(zero_point.tolist()), axis)


class Call:
    """One operator of the file while it is turned into nodes."""

    def __init__(self, build: Build, op: RawOperator) -> None:
        self.build = build
        self.op = op
        self.layer = build.model.tensors[op.outputs[0]].name if op.outputs else str(op)

    @property
    def place(self) -> str:
        return f"operator {self.op.index} ({self.op.name} '{self.layer}')"

    def fail(self, problem: str) -> NoReturn:
        self.build.fail(self.place, problem)

    def refuse(self, reason: str, suggestion: str = "") -> NoReturn:
        raise Unsupported(self.layer, self.op.name, reason, suggestion)

    def option(self, field: str, default: Any = 0) -> Any:
        return self.op.options.get(field, default)

    def has(self, i: int) -> bool:
        return i < len(self.op.inputs) and self.op.inputs[i] >= 0

    def index(self, i: int) -> int:
        if not self.has(i):
            self.fail(f"input {i} is missing")
        return self.op.inputs[i]

    def any(self, i: int) -> Tensor:
        """Input i, whatever it is."""
        return self.build.value(self.index(i))

    def data(self, i: int) -> Tensor:
        """Input i as an activation: int8 with one scale, or float32."""
        tensor = self.any(i)
        self._check_type(tensor, self.build.model.tensors[self.index(i)])
        return tensor

    def same_kind(self, *tensors: Tensor) -> None:
        kinds = sorted({tensor.dtype for tensor in tensors})
        if len(kinds) > 1:
            self.refuse(f"it mixes {' and '.join(kinds)}", "one type for all its inputs")

    def moved(self, i: int) -> Tensor:
        """Input i of an operator that only moves elements: shape arithmetic may be folded."""
        tensor = self.any(i)
        return tensor if tensor.data is not None else self.data(i)

    def parameter(self, i: int) -> Tensor:
        """Input i as weights or bias: a constant, or what a DEQUANTIZE makes of one."""
        tensor = self.any(i)
        if tensor.data is None and self.index(i) not in self.build.dequantized:
            if self.index(i) in self.build.refused:
                raise DependsOnRefused
            self.refuse(f"'{tensor.name}' is computed by the graph; weights must be constant",
                        "fold or freeze the weights before export")
        return tensor

    def integers(self, i: int) -> tuple[int, ...]:
        """Input i as numbers known at import: axes, paddings, a shape."""
        tensor = self.any(i)
        if tensor.data is None:
            if self.index(i) in self.build.refused:
                raise DependsOnRefused
            self.refuse(f"'{tensor.name}' is computed at run time; it must be constant",
                        "export with fixed shapes")
        if tensor.dtype not in ("int32", "int64"):
            self.fail(f"input {i} ('{tensor.name}') is {tensor.dtype}, not an integer")
        return tuple(tensor.data.reshape(-1).tolist())

    def integer(self, i: int) -> int:
        values = self.integers(i)
        if len(values) != 1:
            self.fail(f"input {i} has {len(values)} entries instead of 1")
        return values[0]

    def axis(self, axis: int, rank: int) -> int:
        """A dimension number from either end -> from the front."""
        if not -rank <= axis < rank:
            self.fail(f"dimension {axis} of {rank}")
        return axis % rank

    def output(self, i: int = 0) -> RawTensor:
        if i >= len(self.op.outputs):
            self.fail(f"output {i} is missing")
        return self.build.model.tensors[self.op.outputs[i]]

    def out_quant(self, i: int = 0) -> Quant | None:
        raw = self.output(i)
        return self.build.tensor(raw, raw.shape).quant

    def emit(self, op: Op, ins: Sequence[Tensor], output: int = 0) -> None:
        """Compute output number `output` with `op`."""
        raw = self.output(output)
        shape = self.infer(op, ins)
        if not fits(raw, shape):
            self.fail(f"its inputs give shape {list(shape)}; the file says {list(raw.shape)}")
        out = self.build.tensor(raw, shape)
        if out.dtype == "int8" or ins[0].data is None:
            self._check_type(out, raw)
        self.build.values[raw.index] = self._append(op, ins, out)

    def through(self, op: Op, x: Tensor, label: str) -> Tensor:
        """An intermediate result that the file does not have: x moved by a layout operator."""
        name = self.build.fresh_name(f"{self.layer}/{label}")
        return self._append(op, (x,), Tensor(name, self.infer(op, (x,)), x.dtype, x.quant))

    def bind(self, data: Array, output: int = 0) -> None:
        """Output number `output` is a constant."""
        raw = self.output(output)
        if DTYPES.get(raw.type) != data.dtype.name or not fits(raw, data.shape):
            self.fail(f"its value is {data.dtype.name} {list(data.shape)}; the file says "
                      f"{raw.type} {list(raw.shape)}")
        self.build.values[raw.index] = self.build.tensor(raw, data.shape, data)

    def infer(self, op: Op, ins: Sequence[Tensor]) -> Shape:
        for tensor in ins:
            if 0 in tensor.shape:
                self.fail(f"'{tensor.name}' has no element: shape {list(tensor.shape)}")
        try:
            (shape,) = op.infer(ins)
        except Unsupported as issue:  # named after our operator: say it of the user's layer
            raise Unsupported(self.layer, self.op.name, issue.reason, issue.suggestion) from issue
        return shape

    def _append(self, op: Op, ins: Sequence[Tensor], out: Tensor) -> Tensor:
        if isinstance(op, Layout) and all(tensor.data is not None for tensor in ins):
            self.build.room(math.prod(out.shape), self.place)
            (data,) = op.int8_ref([t.data for t in ins if t.data is not None], ins, (out,))
            return Tensor(out.name, out.shape, out.dtype, out.quant, data)
        names = tuple(tensor.name for tensor in ins)
        self.build.nodes.append(Node(op, names, (out.name,), (self.layer,)))
        for tensor in (*ins, out):
            self.build.keep(tensor)
        return out

    def _check_type(self, tensor: Tensor, raw: RawTensor) -> None:
        if tensor.dtype not in ("int8", "float32"):
            what, way_out = WAYS_OUT.get(
                raw.type, (raw.type.lower(), "re-export with int8 or float32 activations"))
            self.refuse(f"'{tensor.name}' is {what}; activations are int8 or float32", way_out)
        if tensor.dtype == "int8" and tensor.quant is None:
            self.refuse(f"'{tensor.name}' is int8 without scale and zero point",
                        "re-export with full integer quantization")
        if tensor.quant is not None and tensor.quant.per_channel:
            self.refuse(f"'{tensor.name}' has a scale per channel; activations have one scale",
                        "re-export with per-tensor activations")


def fits(raw: RawTensor, shape: Shape) -> bool:
    """Whether a computed shape agrees with the file's, where the exporter fixed it.

    A scalar's shape and an unknown one look alike in the file.
    """
    if raw.shape == () or raw.shape == shape:
        return True
    signature = raw.signature or raw.shape
    return len(raw.shape) == len(shape) == len(signature) and all(
        stored == n or open_ == -1 for stored, n, open_ in zip(raw.shape, shape, signature))
