"""Run a hop model on its references, run after run: the definition the plan is tested against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgesparse.graph.evaluate import evaluate_node
from edgesparse.graph.ir import Array, Graph
from edgesparse.ops.history import History
from edgesparse.ops.running import Running
from edgesparse.ops.stateful import State, Stateful


def keeps_state(graph: Graph) -> bool:
    """Whether a run depends on the runs before it."""
    return any(isinstance(node.op, (History, Running, Stateful)) for node in graph.nodes)


class Simulator:
    """A hop model with its past; every tensor starts with nothing but zero points behind it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._reach = {
            node.inputs[0]: max(
                n.op.reach(graph.ins(n)[0].columns) for n in graph.nodes
                if isinstance(n.op, History) and n.inputs[0] == node.inputs[0])
            for node in graph.nodes if isinstance(node.op, History)
        }
        self._past: dict[str, Array] = {}
        self._states: dict[str, State] = {}
        """By the first output of the operator."""
        self._summed: dict[str, Array] = {}
        self.reset()

    def reset(self) -> None:
        """Forget every run."""
        for name, reach in self._reach.items():
            t = self.graph.tensors[name]
            start = t.zero_point if t.dtype == "int8" else 0
            self._past[name] = np.full((1, reach, t.shape[2]), start, np.dtype(t.dtype))
        for node in self.graph.nodes:
            if isinstance(node.op, Stateful):
                self._states[node.outputs[0]] = node.op.start(
                    self.graph.ins(node), self.graph.outs(node))
            elif isinstance(node.op, Running):
                (x,) = self.graph.ins(node)
                self._summed[node.outputs[0]] = np.full(
                    (1, node.op.columns, x.channels), node.op.start(x), np.int8)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One hop; returns every tensor's value."""
        values: dict[str, Array] = {
            n: t.data for n, t in self.graph.tensors.items() if t.data is not None}
        values.update(inputs)
        pushed: set[str] = set()
        for node in self.graph.nodes:
            if isinstance(node.op, History):
                name = node.inputs[0]
                if name not in pushed:
                    past = np.concatenate([self._past[name], values[name]], axis=1)
                    self._past[name] = past[:, past.shape[1] - self._reach[name] :]
                    pushed.add(name)
                values[node.outputs[0]] = node.op.of_past(
                    self._past[name], values[name].shape[1])
            elif isinstance(node.op, Running):
                name, x = node.outputs[0], values[node.inputs[0]]
                (values[name],) = node.op.of_past(
                    self._summed[name], x, self.graph.ins(node), self.graph.outs(node))
                self._summed[name] = node.op.remembered(self._summed[name], x)
            elif isinstance(node.op, Stateful):
                y = node.outputs[0]
                results, self._states[y] = node.op.advance(
                    [values[t] for t in node.inputs], self.graph.ins(node), self.graph.outs(node),
                    self._states[y])
                values.update(zip(node.outputs, results, strict=True))
            else:
                results = evaluate_node(
                    node, [values[t] for t in node.inputs], self.graph.ins(node),
                    self.graph.outs(node))
                values.update(zip(node.outputs, results, strict=True))
        return values
