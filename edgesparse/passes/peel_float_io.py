"""Float inputs and outputs of an int8 model become int8 ones with a note."""

from __future__ import annotations

from dataclasses import replace

from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.quantize import Dequantize, Quantize


def peel_float_io(graph: Graph) -> Graph:
    """Leave quantizing the input and dequantizing the output to whoever calls the model.

    rewrite:  input x; q = Quantize(x)      ->   input q, float_inputs says so
              y = Dequantize(q); output y   ->   output q, float_outputs says so
    when:     nothing else reads x, nothing reads y;
              input_names and output_names keep the user's names
    keeps:    every int8 value, bit for bit
    """
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    real_in = list(graph.float_inputs or [False] * len(inputs))
    real_out = list(graph.float_outputs or [False] * len(outputs))
    gone: list[Node] = []
    for i, name in enumerate(graph.inputs):
        reader = graph.sole_consumer(name)
        if reader is not None and isinstance(reader.op, Quantize):
            inputs[i], real_in[i] = reader.outputs[0], True
            gone.append(reader)
    for i, name in enumerate(graph.outputs):
        maker = graph.producer.get(name)
        if maker is None or not isinstance(maker.op, Dequantize) or graph.consumers[name]:
            continue
        stored = graph.tensors[maker.inputs[0]]
        if stored.dtype == "int8" and stored.data is None:
            outputs[i], real_out[i] = stored.name, True
            gone.append(maker)
    if not gone:
        return graph
    peeled = graph.with_nodes(
        (node for node in graph.nodes if node not in gone),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    return replace(
        peeled,
        float_inputs=tuple(real_in),
        float_outputs=tuple(real_out),
        input_names=graph.input_names or graph.inputs,
        output_names=graph.output_names or graph.outputs,
    )
