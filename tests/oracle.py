"""The runtimes that edgesparse must equal, behind one call.

    values = Oracle(model).run({"input": x})     every tensor that the runtime keeps
    values = MicroOracle(model).run({"input": x})  outputs only, for what the first refuses

Values are keyed by the importer's tensor names, which are unique.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tflite

from edgesparse.graph.ir import Array
from edgesparse.importers.tflite_schema import read_model
from needs import require


class Oracle:
    """tflite-runtime 2.14.0 with its reference kernels."""

    def __init__(self, model: bytes) -> None:
        require("oracle")
        from tflite_runtime.interpreter import Interpreter, OpResolverType

        self.raw = read_model(model, "oracle")
        self.computed = sorted(
            i for i in {i for op in self.raw.operators for i in op.outputs}
            if self.raw.tensors[i].type != "RESOURCE")  # a handle has no value
        self.interpreter = Interpreter(
            model_content=with_outputs(model, self.computed),
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
        self.interpreter.allocate_tensors()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One run; what every operator computed, and the inputs."""
        for index in self.raw.inputs:
            self.interpreter.set_tensor(index, inputs[self.raw.tensors[index].name])
        self.interpreter.invoke()
        return {
            self.raw.tensors[index].name: self.interpreter.get_tensor(index)
            for index in (*self.raw.inputs, *self.computed)
        }


def with_outputs(model: bytes, outputs: list[int]) -> bytes:
    """The model with other graph outputs.

    Operators of tflite-runtime 2.14 that may work in place overwrite their input even when all
    tensors are to be preserved, but never a graph output. The new list goes behind the file.
    """
    table = tflite.Model.GetRootAs(model).Subgraphs(0)._tab
    field = table.Pos + table.Offset(8)
    end = len(model) + -len(model) % 4
    patched = bytearray(model.ljust(end, b"\0"))
    patched[field : field + 4] = (end - field).to_bytes(4, "little")
    return bytes(patched) + np.array([len(outputs), *outputs], "<u4").tobytes()


class MicroOracle:
    """The tflite-micro wheel; gives outputs only."""

    def __init__(self, model: bytes) -> None:
        require("tflm")
        from tflite_micro import runtime

        self.raw = read_model(model, "oracle")
        self.interpreter = runtime.Interpreter.from_bytes(model)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        for position, index in enumerate(self.raw.inputs):
            self.interpreter.set_input(inputs[self.raw.tensors[index].name], position)
        self.interpreter.invoke()
        return {
            self.raw.tensors[index].name: np.array(self.interpreter.get_output(position))
            for position, index in enumerate(self.raw.outputs)
        }
