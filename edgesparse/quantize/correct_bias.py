"""Biases that make up for what rounding does to each output channel on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgesparse.graph.edit import fresh
from edgesparse.graph.evaluate import evaluate_node
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops import Activation, Conv, FullyConnected
from edgesparse.quantize.report import quantize_inputs
from edgesparse.quantize.weights import bias_limit

Values = dict[str, Array]


def correct_biases(
    float_graph: Graph, int8_graph: Graph, samples: Sequence[Mapping[str, Array]]
) -> Graph:
    """Add to every int32 bias the mean error of its channel before the activation.

    samples  inputs of float_graph, one mapping each; their mean over positions and samples counts
    Layers are corrected in order, each on what the corrected int8 layers before it give. Rounded
    weights and activations have errors that do not average out over a channel; this takes their
    mean away and costs nothing at run time. A channel without error keeps its bias.
    Source: Nagel, van Baalen, Blankevoort, Welling, "Data-Free Quantization Through Weight
    Equalization and Bias Correction", 2019, section 4.2 (empirical form, appendix D).
    """
    graph = int8_graph
    real: list[Values] = [{**_constants(float_graph), **sample} for sample in samples]
    stored: list[Values] = [
        {**_constants(graph), **quantize_inputs(graph, sample)} for sample in samples]
    origins = [float_graph.producer.get(node.outputs[0]) for node in graph.nodes]
    readers = [(*node.inputs, *(origin.inputs if origin is not None else ()))
               for node, origin in zip(graph.nodes, origins)]
    last = {name: i for i, names in enumerate(readers) for name in names}
    for i, (node, origin) in enumerate(zip(graph.nodes, origins)):
        if origin is not None:
            for values in real:
                _run(float_graph, origin, values)
        if origin is not None and isinstance(node.op, (Conv, FullyConnected)):
            node, bias = _corrected(graph, node, origin, (real, stored))
            nodes = (*graph.nodes[:i], node, *graph.nodes[i + 1 :])
            graph = graph.with_nodes(nodes, (bias,))
            for values in stored:
                values[bias.name] = _data(bias)
        for values in stored:
            _run(graph, node, values)
        for name in {*readers[i], *node.outputs}:
            # Memory: an activation that nobody reads any more goes.
            if last.get(name, -1) <= i and graph.tensors[name].data is None:
                for values in (*real, *stored):
                    values.pop(name, None)
    return graph


def _constants(graph: Graph) -> Values:
    return {name: t.data for name, t in graph.tensors.items() if t.data is not None}


def _run(graph: Graph, node: Node, values: Values) -> None:
    outs = graph.outs(node)
    found = evaluate_node(node, [values[t] for t in node.inputs], graph.ins(node), outs)
    values.update(zip(node.outputs, found))


def _corrected(
    graph: Graph, node: Node, origin: Node, values: tuple[list[Values], list[Values]]
) -> tuple[Node, Tensor]:
    """The node with its new bias."""
    x, w, b = graph.ins(node)
    assert isinstance(origin.op, (Conv, FullyConnected))
    assert w.quant is not None
    linear = replace(origin.op, activation=Activation.NONE)
    scale = np.asarray(w.quant.scale, np.float64)
    weights = _data(w) * scale.reshape(-1, *[1] * (len(w.shape) - 1))
    steps = x.scale * scale
    total, count = np.zeros(w.shape[0]), 0
    for real, stored in zip(*values):
        (wanted,) = linear.float_ref([real[t] for t in origin.inputs])
        centred = (stored[x.name].astype(np.float64) - x.zero_point) * x.scale
        (found,) = linear.float_ref([centred, weights, _data(b) * steps])
        error = (wanted - found).reshape(-1, w.shape[0])
        total += error.sum(axis=0)
        count += len(error)
    limit = bias_limit(_data(w))
    data = np.clip(_data(b) + np.rint(total / (count * steps)), -limit, limit).astype(np.int32)
    shared = len(graph.consumers[b.name]) > 1
    bias = replace(b, name=fresh(graph, b.name) if shared else b.name, data=data)
    return replace(node, inputs=(*node.inputs[:2], bias.name)), bias


def _data(tensor: Tensor) -> Array:
    assert tensor.data is not None
    return tensor.data
