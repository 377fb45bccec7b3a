"""One operator of the file while it is turned into nodes: its inputs, outputs and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Node, Quant, Shape, Tensor
from edgesparse.importers.tflite_build import Build, fits
from edgesparse.importers.tflite_schema import DTYPES, RawOperator, RawTensor
from edgesparse.ops import Op
from edgesparse.ops.layout import Layout

WAYS_OUT = {
    "UINT8": ("uint8 (legacy quantization)", "re-export with int8 inputs, outputs and activations"),
    "INT16": ("int16", "re-export with int8 activations"),
}

MAX_LIST = 1 << 12
"""Axes, paddings or part sizes of one operator."""


class DependsOnRefused(Exception):
    """A shape or weight comes out of an operator that is refused already: nothing new to say."""


class Call:
    """`layer` is the user's name for the operator: its first output tensor."""

    def __init__(self, build: Build, op: RawOperator) -> None:
        self.build = build
        self.op = op
        self.layer = build.model.tensors[op.outputs[0]].name if op.outputs else str(op)

    def fail(self, problem: str) -> NoReturn:
        """The file contradicts itself here."""
        self.build.fail(f"operator {self.op.index} ({self.op.name} '{self.layer}')", problem)

    def refuse(self, reason: str, suggestion: str = "") -> NoReturn:
        raise Unsupported(self.layer, self.op.name, reason, suggestion)

    def option(self, field: str, default: Any = 0) -> Any:
        return self.op.options.get(field, default)

    # Inputs

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
        self._check_activation(tensor, self.build.model.tensors[self.index(i)])
        if 0 in tensor.shape:
            if self.index(i) in self.build.refused:
                raise DependsOnRefused
            self.fail(f"input '{tensor.name}' of shape {list(tensor.shape)} has no elements")
        return tensor

    def moved(self, i: int) -> Tensor:
        """Input i of an operator that only moves elements: any constant may be moved."""
        tensor = self.any(i)
        if tensor.data is None:
            return self.data(i)
        self._check_one_scale(tensor)
        return tensor

    def constant(self, i: int, x: Tensor) -> Tensor:
        """Input i as weights or bias beside input `x`: as stored, behind a DEQUANTIZE if any."""
        index = self.index(i)
        if index not in self.build.dequantized:
            self._known(i, "weights must be constant", "fold or freeze the weights before export")
        elif x.dtype != "float32":
            self.refuse(f"'{self.build.model.tensors[index].name}' is float32 beside {x.dtype} "
                        "activations", "int8 weights and int32 biases")
        return self.build.source(index)

    def parameter(
        self, i: int, x: Tensor, reorder: Callable[[Tensor, str], Tensor] | None = None
    ) -> Tensor:
        """The same as the graph has it: constant, or a Dequantize of a constant."""
        self.constant(i, x)
        return self.build.parameter(self.index(i), x.dtype == "float32", reorder)

    def integers(self, i: int) -> tuple[int, ...]:
        """Input i as numbers known at import: axes, paddings, a shape."""
        data = self._known(i, "it must be constant", "export with fixed shapes")
        if data.dtype.kind != "i" or data.dtype.itemsize < 4:
            self.fail(f"input {i} is {data.dtype.name}, not int32 or int64")
        if data.size > MAX_LIST:
            self.fail(f"input {i} lists {data.size} numbers; at most {MAX_LIST} are read")
        return tuple(data.reshape(-1).tolist())

    def integer(self, i: int) -> int:
        values = self.integers(i)
        if len(values) != 1:
            self.fail(f"input {i} has {len(values)} entries instead of 1")
        return values[0]

    def pairs(self, i: int, count: int) -> tuple[tuple[int, int], ...]:
        """Input i as [count, 2] integers >= 0: paddings or crops."""
        values = self.integers(i)
        if len(values) != 2 * count or min(values, default=0) < 0:
            self.fail(f"input {i} is {list(values)}; it must be {count} pairs of numbers >= 0")
        return tuple(zip(values[::2], values[1::2]))

    def axis(self, axis: int, rank: int) -> int:
        """A dimension number from either end -> from the front."""
        if not -rank <= axis < rank:
            self.fail(f"dimension {axis} of {rank}")
        return axis % rank

    def same_type(self, tensors: Sequence[Tensor]) -> None:
        types = sorted({tensor.dtype for tensor in tensors})
        if len(types) > 1:
            self.refuse(f"it mixes {' and '.join(types)}", "one type for all its tensors")

    def rank4(self, tensor: Tensor, what: str) -> None:
        if len(tensor.shape) != 4:
            self.refuse(f"{what} '{tensor.name}' has shape {list(tensor.shape)}; four dimensions "
                        "are allowed")

    # Outputs

    def output(self, i: int = 0) -> RawTensor:
        if i >= len(self.op.outputs):
            self.fail(f"output {i} is missing")
        return self.build.model.tensors[self.op.outputs[i]]

    def out_quant(self) -> Quant | None:
        raw = self.output()
        return self.build.tensor(raw, raw.shape).quant

    def same_quant(self, ins: Sequence[Tensor]) -> None:
        """For kernels that move stored numbers: inputs and output share scale and zero point."""
        out = self.out_quant()
        for x in ins:
            if x.dtype == "int8" and x.quant != out:
                self.refuse(f"'{x.name}' and the output have different scales or zero points",
                            "re-export; the converter gives this operator one quantization")

    def emit(self, op: Op, ins: Sequence[Tensor], output: int = 0, converts: bool = False) -> None:
        """Output number `output` is computed by `op`; `converts` when its type is another."""
        raw = self.output(output)
        shape = self._infer(op, ins)
        if not fits(raw, shape):
            self.fail(f"its inputs give shape {list(shape)}; the file says {list(raw.shape)}")
        out = self.build.tensor(raw, shape)
        if self._folds(op, ins):
            self._check_one_scale(out)
        else:
            self._check_activation(out, raw)
        if not converts and out.dtype != ins[0].dtype:
            self.refuse(f"it makes {out.dtype} out of {ins[0].dtype}", "one type for all tensors")
        self.build.values[raw.index] = self._append(op, ins, out)

    def declare(self) -> Tensor:
        """The output as the file states it; its value is found later."""
        raw = self.output()
        out = self.build.tensor(raw, raw.shape)
        self._check_activation(out, raw)
        self.build.values[raw.index] = out
        return out

    def through(self, op: Op, x: Tensor, label: str) -> Tensor:
        """A result that the file does not have: x moved by a layout operator."""
        name = self.build.fresh_name(f"{self.layer}/{label}")
        return self._append(op, (x,), Tensor(name, self._infer(op, (x,)), x.dtype, x.quant))

    def bind(self, data: Array) -> None:
        """The output is a constant."""
        raw = self.output()
        if DTYPES.get(raw.type) != data.dtype.name or not fits(raw, data.shape):
            self.fail(f"its value is {data.dtype.name} {list(data.shape)}; the file says "
                      f"{raw.type} {list(raw.shape)}")
        self.build.values[raw.index] = self.build.tensor(raw, data.shape, data)

    def _known(self, i: int, must: str, suggestion: str) -> Array:
        tensor = self.any(i)
        if tensor.data is None:
            self._check_state(tensor, self.build.model.tensors[self.index(i)])
            if self.index(i) in self.build.refused:
                raise DependsOnRefused
            self.refuse(f"'{tensor.name}' is computed at run time; {must}", suggestion)
        return tensor.data

    def _infer(self, op: Op, ins: Sequence[Tensor]) -> Shape:
        for tensor in ins:
            if 0 in tensor.shape:
                self.fail(f"'{tensor.name}' of shape {list(tensor.shape)} has no elements")
        try:
            (shape,) = op.infer(ins)
        except Unsupported as issue:  # it speaks of our operator: say it of the user's layer
            raise Unsupported(self.layer, self.op.name, issue.reason, issue.suggestion) from issue
        return shape

    def _folds(self, op: Op, ins: Sequence[Tensor]) -> bool:
        return isinstance(op, Layout) and all(tensor.data is not None for tensor in ins)

    def _append(self, op: Op, ins: Sequence[Tensor], out: Tensor) -> Tensor:
        if self._folds(op, ins):
            self.build.room(math.prod(out.shape), f"operator {self.op.index} ({self.op.name})")
            (data,) = op.int8_ref([t.data for t in ins if t.data is not None], ins, (out,))
            return Tensor(out.name, out.shape, out.dtype, out.quant, data)
        names = tuple(tensor.name for tensor in ins)
        self.build.add(Node(op, names, (out.name,), (self.layer,)), *ins, out)
        return out

    def _check_state(self, tensor: Tensor, raw: RawTensor) -> None:
        if raw.is_variable:
            self.refuse(f"'{tensor.name}' is a state variable", "export the model without state")

    def _check_activation(self, tensor: Tensor, raw: RawTensor) -> None:
        self._check_state(tensor, raw)
        if tensor.dtype not in ("int8", "float32"):
            what, way_out = WAYS_OUT.get(
                raw.type, (raw.type.lower(), "re-export with int8 or float32 activations"))
            self.refuse(f"'{tensor.name}' is {what}; activations are int8 or float32", way_out)
        if tensor.dtype == "int8" and tensor.quant is None:
            self.refuse(f"'{tensor.name}' is int8 without scale and zero point",
                        "re-export with full integer quantization")
        self._check_one_scale(tensor)

    def _check_one_scale(self, tensor: Tensor) -> None:
        if tensor.quant is not None and tensor.quant.per_channel:
            self.refuse(f"'{tensor.name}' has a scale per channel; one scale is allowed",
                        "re-export with per-tensor activations")
