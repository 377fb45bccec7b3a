"""The graph under construction: what the tensors of the file have become so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from edgesparse.errors import ImportFailed, Unsupported
from edgesparse.graph.ir import Array, DType, Node, Quant, Shape, Tensor
from edgesparse.importers.tflite_schema import DTYPES, MAX_RANK, RawModel, RawTensor
from edgesparse.importers.tflite_sparsity import decode_sparse
from edgesparse.ops import Dequantize

MAX_ELEMENTS = 2**31 - 1
MAX_CONSTANTS = 1 << 25
"""Elements of all constants together, read, decoded, filled and folded ones. A file may name one
buffer as many tensors, or ask for much in few bytes; this bounds the work for all of it."""

STORED_RANGE: dict[DType, tuple[int, int]] = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
}


@dataclass
class Variables:
    """What the operators of resource variables said so far; variables by name.

    handles    tensor index -> the variable it is a handle of
    called     subgraphs run at the start
    initial    the constant it starts as
    read       the tensors it was read into, `assigned` those it was assigned
    late       read before it had a value
    given_up   with a read or an assignment that is refused already
    """

    handles: dict[int, str] = field(default_factory=dict)
    called: set[int] = field(default_factory=set)
    initial: dict[str, Tensor] = field(default_factory=dict)
    read: dict[str, list[Tensor]] = field(default_factory=dict)
    assigned: dict[str, list[Tensor]] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)


class Build:
    """Graph tensors by name and by file index, nodes in order, and what was refused.

    `uint8_outputs` are graph outputs, by file index, that are an int8 result plus 128;
    `shown_as_uint8` those results.
    `dequantized` holds parameters that a DEQUANTIZE makes out of a constant: its node is added
    when something reads the result, so that a convolution may reorder the constant first.
    """

    def __init__(self, model: RawModel) -> None:
        self.model = model
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.values: dict[int, Tensor] = {}
        self.dequantized: dict[int, Tensor] = {}
        self.refused: set[int] = set()
        self.issues: list[Unsupported] = []
        self.variables = Variables()
        self.uint8_outputs: set[int] = set()
        self.shown_as_uint8: set[int] = set()
        self._elements = 0
        self._names = {tensor.name for tensor in model.tensors}
        self._parameters: dict[tuple[int, object], Tensor] = {}

    def fail(self, place: object, problem: str) -> NoReturn:
        raise ImportFailed(f"{self.model.name}: {place}: {problem}")

    def fresh_name(self, wanted: str) -> str:
        while wanted in self._names:
            wanted += "#"
        self._names.add(wanted)
        return wanted

    def room(self, elements: int, place: object) -> None:
        """Charge a constant before it is read or made."""
        self._elements += elements
        if self._elements > MAX_CONSTANTS:
            self.fail(place, f"the constants exceed {MAX_CONSTANTS} elements")

    def add(self, node: Node, *tensors: Tensor) -> None:
        """Append a node and the tensors it mentions."""
        self.nodes.append(node)
        self.tensors.update((tensor.name, tensor) for tensor in tensors)

    def is_constant(self, raw: RawTensor) -> bool:
        """Buffer 0 is empty by convention; a tensor without elements needs no bytes."""
        return 0 in raw.shape or (raw.buffer != 0 and self.model.buffers[raw.buffer].size > 0)

    def tensor(self, raw: RawTensor, shape: Shape, data: Array | None = None) -> Tensor:
        """The graph tensor of a file tensor, with its quantization checked."""
        self._check_shape(raw, shape)
        dtype = DTYPES.get(raw.type, "other")
        return Tensor(raw.name, shape, dtype, self._quant(raw, shape, dtype), data)

    def value(self, index: int) -> Tensor:
        """The tensor as the graph has it; constants are read, decoded and checked here."""
        if index not in self.values:
            raw = self.model.tensors[index]
            if index in self.dequantized:
                self.values[index] = self._dequantize(self.dequantized[index], raw.name)
            else:
                self.values[index] = self.constant(raw)
        return self.values[index]

    def constant(self, raw: RawTensor) -> Tensor:
        """A constant of the file, of whichever subgraph."""
        self._check_shape(raw, raw.shape)
        return self.tensor(raw, raw.shape, self._data(raw))

    def _check_shape(self, raw: RawTensor, shape: Shape) -> None:
        if len(shape) > MAX_RANK or any(n < 0 for n in shape) or math.prod(shape) > MAX_ELEMENTS:
            self.fail(raw, f"impossible shape {list(shape)}")

    def source(self, index: int) -> Tensor:
        """The constant behind a parameter: behind its DEQUANTIZE if it has one."""
        return self.dequantized[index] if index in self.dequantized else self.value(index)

    def parameter(
        self, index: int, real: bool, reorder: Callable[[Tensor, str], Tensor] | None = None
    ) -> Tensor:
        """A constant as weights, in another order if asked; dequantized for a `real` input."""
        key = (index, reorder)
        if key not in self._parameters:
            tensor = self.source(index)
            if reorder is not None:
                self.room(tensor.size, self.model.tensors[index])
                tensor = reorder(tensor, self.fresh_name(f"{tensor.name}/reordered"))
            if real and tensor.dtype in ("int8", "float16"):
                if tensor.dtype == "int8" and tensor.quant is None:
                    self.fail(self.model.tensors[index], "int8 weights without a scale")
                tensor = (
                    self.value(index) if index in self.dequantized and reorder is None
                    else self._dequantize(tensor, self.fresh_name(f"{tensor.name}/dequantized"))
                )
            self._parameters[key] = tensor
        return self._parameters[key]

    def _dequantize(self, source: Tensor, name: str) -> Tensor:
        tensor = Tensor(name, source.shape, "float32")
        self.add(Node(Dequantize(), (source.name,), (name,), (name,)), source, tensor)
        return tensor

    def _data(self, raw: RawTensor) -> Array:
        dtype = DTYPES.get(raw.type, "other")
        if dtype == "other":
            self.fail(raw, f"constant of type {raw.type}")
        stored = self.model.buffers[raw.buffer]
        kind = np.dtype(dtype).newbyteorder("<")
        self.room(math.prod(raw.shape), raw)
        if raw.sparsity is not None:
            if stored.size % kind.itemsize:
                self.fail(raw, f"buffer {raw.buffer} has {stored.size} bytes, no whole number of "
                               f"{dtype}")
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


def fits(raw: RawTensor, shape: Shape) -> bool:
    """Whether a computed shape agrees with the file's, where the exporter fixed it.

    A scalar's shape and an unknown one look alike in the file.
    """
    if raw.shape in ((), shape):
        return True
    signature = raw.signature or raw.shape
    return len(raw.shape) == len(shape) == len(signature) and all(
        stored == n or fixed == -1 for stored, n, fixed in zip(raw.shape, shape, signature))
