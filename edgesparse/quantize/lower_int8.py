"""A calibrated float graph becomes an int8 graph, by the TFLite int8 specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from edgesparse.errors import BadInput, Unsupported, UnsupportedModel
from edgesparse.graph.ir import Array, Graph, Node, Quant, Tensor
from edgesparse.ops import (
    Activation,
    Add,
    Concat,
    Conv,
    FullyConnected,
    Mean,
    Mul,
    Requantize,
    Softmax,
    Sub,
)
from edgesparse.quantize.calibrate import Calibration
from edgesparse.quantize.correct_bias import correct_biases
from edgesparse.quantize.groups import Range, Sharing, share_scales
from edgesparse.quantize.ranges import LEVELS, affine
from edgesparse.quantize.samples import one_by_one
from edgesparse.quantize.weights import quantize_constant, quantize_weights

BINARY = (Add, Sub, Mul)


@dataclass(frozen=True)
class QuantOptions:
    """How to quantize.

    correct_bias  take the mean error of each output channel away, on the calibration's examples
    """

    correct_bias: bool = True


DEFAULT_OPTIONS = QuantOptions()


def quantize_graph(
    graph: Graph, calibration: Calibration, options: QuantOptions = DEFAULT_OPTIONS
) -> Graph:
    """Return `graph` with int8 activations and weights and int32 biases; names stay.

    rewrite:  every activation becomes int8 with the parameters its calibrated range asks for,
              weights symmetric per output channel, biases int32, operands of Add, Sub, Mul that
              are constant int8; Requantize in front of a Concat where scales differ
    keeps:    zero weights are zero; inputs and outputs are float for the user
    Raises UnsupportedModel for a graph that is not all float32, BadInput for a calibration of
    another graph. Source: TFLite 8-bit quantization specification.
    """
    _refuse_mixed(graph)
    sharing = share_scales(graph, _ranges(graph, calibration))
    quants = _parameters(graph, sharing)
    _refuse_wide_softmax(graph, quants)
    made = _Made(set(graph.tensors))
    activations = [
        replace(tensor, dtype="int8", quant=quants[name])
        for name, tensor in graph.tensors.items() if tensor.data is None
    ]
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.op, (Conv, FullyConnected)):
            nodes.append(_mac(graph, node, quants[node.inputs[0]], made))
        elif isinstance(node.op, Concat):
            nodes += _concat(graph, node, (sharing, quants), made)
        elif isinstance(node.op, BINARY):
            names = (made.operand(t) if t.data is not None else t.name for t in graph.ins(node))
            nodes.append(replace(node, inputs=tuple(names)))
        else:
            nodes.append(node)
    result = graph.with_nodes(nodes, (*activations, *made.all()))
    result = replace(
        result,
        float_inputs=(True,) * len(graph.inputs),
        float_outputs=(True,) * len(graph.outputs),
        input_names=graph.input_names or graph.inputs,
        output_names=graph.output_names or graph.outputs,
    )
    if options.correct_bias:
        result = correct_biases(graph, result, tuple(one_by_one(calibration.examples)))
    return result


def _refuse_mixed(graph: Graph) -> None:
    issues = tuple(
        Unsupported(node.name, type(node.op).__name__,
                    f"'{tensor.name}' is {tensor.dtype} in a model that is float elsewhere",
                    "export the whole model as float32, or the whole model as int8")
        for node in graph.nodes for tensor in (*graph.ins(node), *graph.outs(node))
        if tensor.dtype != "float32")
    if issues:
        raise UnsupportedModel(graph.name, issues)


def _refuse_wide_softmax(graph: Graph, quants: Mapping[str, Quant]) -> None:
    """The exponent is fixed-point with 5 integer bits: beta * scale < 2**4 (PLAN_FORMAT, I-45)."""
    issues = tuple(
        Unsupported(node.name, "Softmax",
                    f"its input covers {LEVELS * quants[node.inputs[0]].scale[0]:g} in "
                    f"calibration; less than {LEVELS * 16 / node.op.beta:g} is allowed",
                    "smaller logits, or leave the softmax away")
        for node in graph.nodes if isinstance(node.op, Softmax)
        and quants[node.inputs[0]].scale[0] * node.op.beta >= 16)
    if issues:
        raise UnsupportedModel(graph.name, issues)


def _ranges(graph: Graph, calibration: Calibration) -> dict[str, Range]:
    """What every activation, and every constant joined into one, has to represent."""
    computed = {name for node in graph.nodes for name in node.outputs}
    if foreign := calibration.observed.keys() - (computed | set(graph.inputs)):
        raise BadInput(f"the calibration knows '{min(foreign)}', {graph.name} does not: calibrate "
                       "the graph that is quantized")
    if missing := set(graph.inputs) - calibration.observed.keys():
        raise BadInput(f"the calibration does not know input '{min(missing)}' of {graph.name}: "
                       "calibrate the graph that is quantized")
    ranges = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is None:
            low, high = calibration.range(name)
            bottom, top = _activation(graph, name).value
            ranges[name] = (max(low, bottom), min(high, top))
        elif tensor.dtype == "float32":
            low, high = float(tensor.data.min(initial=0)), float(tensor.data.max(initial=0))
            ranges[name] = (low, high)
    return ranges


def _activation(graph: Graph, name: str) -> Activation:
    """The activation that cuts what a tensor can hold."""
    node = graph.producer.get(name)
    found = getattr(node.op, "activation", None) if node is not None else None
    return found if isinstance(found, Activation) else Activation.NONE


def _parameters(graph: Graph, sharing: Sharing) -> dict[str, Quant]:
    """Activation name -> its parameters, with no scale so small that integers overflow."""
    by_group = {
        group: sharing.fixed.get(group) or affine(*range_)
        for group, range_ in sharing.ranges.items()
    }
    for node in graph.nodes:
        name, least = _least_scale(graph, node, {
            t: by_group[sharing.group[t]].scale[0] for t in node.inputs if t in sharing.group})
        group = sharing.group[name]
        if group not in sharing.fixed and by_group[group].scale[0] < least:
            by_group[group] = affine(*sharing.ranges[group], least)
    return {name: by_group[group] for name, group in sharing.group.items()}


def _least_scale(graph: Graph, node: Node, scales: Mapping[str, float]) -> tuple[str, float]:
    """(tensor, smallest scale it may have) so that the operator's integers stay in int32.

    Only tensors that calibration saw almost constant come near: sums that always cancel, say.
    The bounds keep a factor 2 from those of PLAN_FORMAT.md, I-43 and I-45.
    """
    out = node.outputs[0]
    if isinstance(node.op, (Conv, FullyConnected)):
        w, b = (tensor.data for tensor in graph.ins(node)[1:])
        assert w is not None
        assert b is not None
        weight_sum = np.abs(w.astype(np.float64)).reshape(w.shape[0], -1).sum(axis=1)
        worst = np.abs(b) + weight_sum * LEVELS * scales[node.inputs[0]]
        return out, float(worst.max(initial=0.0)) * 2.0**-29
    if isinstance(node.op, (Add, Sub)):
        return out, max(_operand_scales(graph, node, scales)) * 2.0**-18
    if isinstance(node.op, Mul):
        return out, float(np.prod(_operand_scales(graph, node, scales))) * 2.0**-14
    if isinstance(node.op, Mean):
        return out, scales[node.inputs[0]] * 2.0**-20
    if isinstance(node.op, Softmax):
        return node.inputs[0], 2.0**-25 / node.op.beta
    return out, 0.0


def _operand_scales(graph: Graph, node: Node, scales: Mapping[str, float]) -> list[float]:
    return [scales[t.name] if t.data is None else quantize_constant(t.data)[1].scale[0]
            for t in graph.ins(node)]


@dataclass
class _Made:
    """Tensors made so far; a use of a constant with the same parameters gets the same tensor."""

    taken: set[str]
    """Names of the float graph."""
    constants: dict[tuple[str, Quant], Tensor] = field(default_factory=dict)
    requantized: dict[str, Tensor] = field(default_factory=dict)

    def operand(self, tensor: Tensor, quant: Quant | None = None) -> str:
        """The name of a float constant as int8, per tensor."""
        assert tensor.data is not None
        data, quant = quantize_constant(tensor.data, quant)
        return self.constant(tensor.name, data, quant)

    def constant(self, name: str, data: Array, quant: Quant) -> str:
        """The name of a constant; its first form keeps the float one's."""
        key = (name, quant)
        if key not in self.constants:
            taken = {tensor.name for tensor in self.constants.values()}
            free = self._free(name) if name in taken else name
            self.constants[key] = Tensor(free, data.shape, _dtype(data), quant, data)
        return self.constants[key].name

    def activation(self, source: Tensor, quant: Quant) -> str:
        """The name of a new tensor for what `source` holds, in other parameters."""
        name = self._free(f"{source.name}/requantized")
        self.requantized[name] = replace(source, name=name, dtype="int8", quant=quant)
        return name

    def all(self) -> tuple[Tensor, ...]:
        return (*self.constants.values(), *self.requantized.values())

    def _free(self, name: str) -> str:
        taken = self.taken | {tensor.name for tensor in self.all()}
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name}:{number}"
        return free


def _dtype(data: Array) -> Literal["int8", "int32"]:
    return "int8" if data.dtype == np.int8 else "int32"


def _mac(graph: Graph, node: Node, input_quant: Quant, made: _Made) -> Node:
    _, w, b = graph.ins(node)
    assert w.data is not None
    assert b.data is not None
    scale = input_quant.scale[0]
    integer = quantize_weights(w.data, b.data, scale)
    weights = made.constant(w.name, integer.weights, integer.weight_quant)
    bias = made.constant(b.name, integer.bias, integer.bias_quant(scale))
    return replace(node, inputs=(node.inputs[0], weights, bias))


def _concat(
    graph: Graph, node: Node, chosen: tuple[Sharing, Mapping[str, Quant]], made: _Made
) -> list[Node]:
    """The Concat with all inputs in its output's parameters, and the Requantize nodes for it."""
    sharing, quants = chosen
    out = node.outputs[0]
    before: list[Node] = []
    names: list[str] = []
    for i, tensor in enumerate(graph.ins(node)):
        name = tensor.name
        if tensor.data is not None:
            name = made.operand(tensor, quants[out])
        elif (out, i) in sharing.requantize and quants[name] != quants[out]:
            name = made.activation(tensor, quants[out])
            before.append(Node(Requantize(), (tensor.name,), (name,), node.origin))
        names.append(name)
    return [*before, replace(node, inputs=tuple(names))]
