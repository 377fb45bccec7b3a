"""How well the int8 graph follows the float graph: layer by layer, and before the last softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops import Conv, FullyConnected, Quantize, Softmax
from edgesparse.ops.layout import Layout
from edgesparse.quantize.samples import check_samples, one_by_one

MAX_DB = 200.0
"""What stands for an error of 0 (and, negative, for a signal of 0)."""


@dataclass(frozen=True)
class LayerReport:
    """One operator that computes.

    layer         the user's name of it
    tensor        its output
    operator      what it is
    sqnr_db       10 log10(sum of float values squared / sum of error squared)
    max_error     largest difference from float, in real units
    saturated     share of values cut at -128 or 127: the float value lies beyond that number
    scale, zero_point  of the output
    weights, zeros, float_zeros  how many weights there are, are 0 in int8, were 0 in float
    """

    layer: str
    tensor: str
    operator: str
    sqnr_db: float
    max_error: float
    saturated: float
    scale: float
    zero_point: int
    weights: int = 0
    zeros: int = 0
    float_zeros: int = 0


@dataclass(frozen=True)
class OutputReport:
    """A model output, looked at before its Softmax, which would hide large differences.

    output  what the user calls it
    tensor  where it was measured
    """

    output: str
    tensor: str
    sqnr_db: float
    max_error: float


@dataclass(frozen=True)
class QuantReport:
    """Float against int8 over `samples` inputs."""

    samples: int
    layers: tuple[LayerReport, ...]
    outputs: tuple[OutputReport, ...]

    @property
    def sqnr_db(self) -> float:
        """Of the worst output."""
        return min(output.sqnr_db for output in self.outputs)


def quantization_report(
    float_graph: Graph, int8_graph: Graph, inputs: Mapping[str, Array]
) -> QuantReport:
    """Run both graphs on the same inputs and compare.

    int8_graph  what quantize_graph made of float_graph
    inputs      tensor name -> [N, *shape] real numbers, the calibration's own or, better, others
    Raises BadInput when the inputs do not fit.
    """
    checked = check_samples(float_graph, inputs, "evaluation data")
    layers = [node for node in int8_graph.nodes if not isinstance(node.op, Layout)]
    compared = [name for name in (*float_graph.inputs, *(t for n in layers for t in n.outputs))
                if name in float_graph.tensors]
    compared += [t for t in _before_softmax(float_graph).values() if t not in compared]
    seen = {name: _Difference(int8_graph.tensors[name]) for name in dict.fromkeys(compared)}
    for sample in one_by_one(checked):
        real = evaluate(float_graph, sample)
        stored = evaluate(int8_graph, quantize_inputs(int8_graph, sample))
        for name, difference in seen.items():
            difference.add(real[name], stored[name])
    return QuantReport(
        len(checked[float_graph.inputs[0]]),
        tuple(_layer(float_graph, int8_graph, node, seen[node.outputs[0]])
              for node in layers if node.outputs[0] in seen),
        tuple(OutputReport(called, tensor, seen[tensor].sqnr_db, seen[tensor].largest)
              for called, tensor in _before_softmax(float_graph).items()),
    )


def quantize_inputs(graph: Graph, sample: Mapping[str, Array]) -> dict[str, Array]:
    """One sample of real numbers as the int8 inputs of `graph`."""
    return {
        name: Quantize().int8_ref((value,), (), (graph.tensors[name],))[0]
        for name, value in sample.items()
    }


def _before_softmax(graph: Graph) -> dict[str, str]:
    """What the user calls an output -> the tensor before its Softmax, or itself."""
    found = {}
    for called, output in zip(graph.output_names or graph.outputs, graph.outputs):
        tensor, node = output, graph.producer.get(output)
        while node is not None and isinstance(node.op, (Layout, Softmax)):
            if isinstance(node.op, Softmax):
                tensor = node.inputs[0]
                break
            node = graph.producer.get(node.inputs[0])
        found[called] = tensor
    return found


class _Difference:
    """Running sums over samples for one tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.scale, self.zero_point = tensor.scale, tensor.zero_point
        self.signal = self.noise = self.largest = 0.0
        self.count = self.cut = 0

    def add(self, real: Array, stored: Array) -> None:
        real = real.astype(np.float64)
        error = (stored.astype(np.float64) - self.zero_point) * self.scale - real
        self.signal += float(np.sum(real**2))
        self.noise += float(np.sum(error**2))
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))
        self.count += stored.size
        for limit, side in ((-128, -1), (127, 1)):
            beyond = real * side > ((limit - self.zero_point) * side + 0.5) * self.scale
            self.cut += int(np.count_nonzero((stored == limit) & beyond))

    @property
    def sqnr_db(self) -> float:
        if not self.noise or not self.signal:
            return MAX_DB if not self.noise else -MAX_DB
        return 10 * (math.log10(self.signal) - math.log10(self.noise))

    @property
    def saturated(self) -> float:
        return self.cut / self.count if self.count else 0.0


def _layer(
    float_graph: Graph, int8_graph: Graph, node: Node, difference: _Difference
) -> LayerReport:
    weights = zeros = float_zeros = 0
    if isinstance(node.op, (Conv, FullyConnected)):
        w = int8_graph.tensors[node.inputs[1]].data
        before = float_graph.tensors[float_graph.producer[node.outputs[0]].inputs[1]].data
        assert w is not None
        assert before is not None
        weights, zeros = w.size, w.size - int(np.count_nonzero(w))
        float_zeros = w.size - int(np.count_nonzero(before))
    return LayerReport(
        node.name, node.outputs[0], type(node.op).__name__, difference.sqnr_db,
        difference.largest, difference.saturated, difference.scale, difference.zero_point,
        weights, zeros, float_zeros,
    )
