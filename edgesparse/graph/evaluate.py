"""Run a graph in NumPy by the definition of each operator: what every other executor must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops.layout import Layout
from edgesparse.ops.quantize import Quantize


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the value of every tensor by name: inputs, constants and all results.

    inputs  for each graph input an array of its shape and dtype

    Integer tensors are exact (int8_ref); float ones are computed in float64 and rounded to
    float32 after every operator.
    Raises BadInput for an input that is missing, unknown, or of another shape or dtype.
    """
    if inputs.keys() != set(graph.inputs):
        raise BadInput(f"{graph.name}: inputs are {sorted(inputs)}; the model has "
                       f"{sorted(graph.inputs)}")
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    for name, value in inputs.items():
        tensor = graph.tensors[name]
        if value.shape != tensor.shape or value.dtype != np.dtype(tensor.dtype):
            raise BadInput(f"{graph.name}: input '{name}' is {value.dtype.name}"
                           f"{list(value.shape)}; the model takes {tensor.dtype}"
                           f"{list(tensor.shape)}")
        values[name] = value
    for node in graph.nodes:
        args = [values[name] for name in node.inputs]
        outs = graph.outs(node)
        for tensor, value in zip(outs, evaluate_node(node, args, graph.ins(node), outs)):
            values[tensor.name] = value
    return values


def evaluate_node(
    node: Node, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
) -> tuple[Array, ...]:
    """What one operator makes of the values of its inputs, in the dtypes of `outs`.

    Real arithmetic is float_ref; whatever reads or writes stored numbers, or only moves
    elements, is int8_ref.
    """
    if ins[0].dtype == "float32" and not isinstance(node.op, (Layout, Quantize)):
        found = node.op.float_ref(args)
    else:
        found = node.op.int8_ref(args, ins, outs)
    return tuple(np.asarray(value, tensor.dtype) for value, tensor in zip(found, outs))
