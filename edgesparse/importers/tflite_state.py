"""Resource variables that are ring buffers -> History.

Streaming layers keep the last columns of their input in a variable:

    h = CONCATENATION([v, x])                 v = READ_VARIABLE, or its last columns
    ASSIGN_VARIABLE(v, last columns of h)     STRIDED_SLICE, or all of h

As long as v starts as nothing but zero points, h is the last columns of all x so far. A variable
used in any other way is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Node, Shape, Tensor
from edgesparse.importers.tflite_build import Build
from edgesparse.importers.tflite_call import Call, DependsOnRefused
from edgesparse.importers.tflite_schema import RawGraph, RawOperator, RawTensor
from edgesparse.ops import Concat, Dequantize, Quantize, Reshape, Slice
from edgesparse.ops.history import History

WAY_OUT = ("a ring buffer: concatenate the state and the new columns along time, and assign the "
           "last columns of the result; or export the model without state")


# ---- the four operators -----------------------------------------------------------------------


def var_handle(call: Call) -> None:
    """VAR_HANDLE: the name of a variable; handles of one name are one variable."""
    raw = call.output()
    call.build.values[raw.index] = call.build.tensor(raw, raw.shape)
    call.build.variables.handles[raw.index] = _called(call.op)


def call_once(call: Call) -> None:
    """CALL_ONCE of a subgraph that assigns constants: the values that variables start with."""
    number = int(call.option("InitSubgraphIndex"))
    variables = call.build.variables
    if number in variables.called:
        return  # it runs once, whoever calls it
    variables.called.add(number)
    graph = call.build.model.called[number]
    handles: dict[int, str] = {}
    for op in graph.operators:
        tensors = _tensors(call, graph, op)
        if op.name == "VAR_HANDLE" and len(op.outputs) == 1:
            handles[op.outputs[0]] = _called(op)
            continue
        constant = len(tensors) == 2 and call.build.is_constant(tensors[1])
        if op.name != "ASSIGN_VARIABLE" or not constant:
            call.refuse(f"what it runs at the start has a {op.name}; VAR_HANDLE and "
                        "ASSIGN_VARIABLE of constants are allowed", WAY_OUT)
        if op.inputs[0] not in handles:
            call.fail(f"{op} of subgraph {number} assigns to no variable")
        name = handles[op.inputs[0]]
        if name in variables.initial:
            call.refuse(f"'{name}' is given two values at the start; one is allowed", WAY_OUT)
        variables.initial[name] = call.build.constant(tensors[1])


def read_variable(call: Call) -> None:
    """READ_VARIABLE: a tensor that resolve_states() finds an operator for."""
    name = _variable(call)
    try:
        tensor = call.declare()
    except Unsupported:
        call.build.variables.given_up.add(name)
        raise
    call.build.variables.read.setdefault(name, []).append(tensor)
    if name not in call.build.variables.initial:
        call.build.variables.late.add(name)


def assign_variable(call: Call) -> None:
    name = _variable(call)
    value = call.any(1)
    if call.index(1) in call.build.refused:
        call.build.variables.given_up.add(name)
        raise DependsOnRefused
    call.build.variables.assigned.setdefault(name, []).append(value)


def _variable(call: Call) -> str:
    index = call.index(0)
    if index not in call.build.variables.handles:
        if index in call.build.refused:
            raise DependsOnRefused
        call.fail(f"'{call.build.model.tensors[index].name}' is no variable")
    return call.build.variables.handles[index]


def _called(op: RawOperator) -> str:
    """The name that makes two handles one variable."""
    container, name = op.options.get("Container", ""), op.options.get("SharedName", "")
    return f"{container}/{name}" if container else str(name)


def _tensors(call: Call, graph: RawGraph, op: RawOperator) -> list[RawTensor]:
    """The inputs of an operator of another subgraph."""
    for index in (*op.inputs, *op.outputs):
        if not 0 <= index < len(graph.tensors):
            call.fail(f"{op} of the subgraph it calls has tensor index {index}; that graph has "
                      f"{len(graph.tensors)}")
    return [graph.tensors[index] for index in op.inputs]


# ---- variables that are the past of a tensor --------------------------------------------------


def resolve_states(build: Build) -> None:
    """Put a History in the place of every CONCATENATION with a variable.

    What does not fit is added to build.issues, a variable at a time.
    """
    variables = build.variables
    rings = _Rings(build)
    for name in dict.fromkeys((*variables.read, *variables.assigned)):
        if name in variables.given_up:
            continue
        try:
            rings.resolve(name)
        except Unsupported as issue:
            build.issues.append(issue)
        except DependsOnRefused:
            continue
    rings.finish()


class _Rings:
    """The nodes of a graph under construction, and what is to stand in the place of some."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self.maker = {t: node for node in build.nodes for t in node.outputs}
        self.readers: dict[str, list[Node]] = {}
        for node in build.nodes:
            for t in dict.fromkeys(node.inputs):
                self.readers.setdefault(t, []).append(node)
        # Whoever else looks at a tensor: the user, or a variable it is assigned to.
        self.seen = {build.values[i].name for i in build.model.outputs if i in build.values}
        self.seen |= {t.name for values in build.variables.assigned.values() for t in values}
        self.refused = {build.model.tensors[i].name for i in build.refused}
        self.instead: dict[int, list[Node]] = {}

    def finish(self) -> None:
        if self.instead:
            old = self.build.nodes
            self.build.nodes = [n for node in old for n in self.instead.get(id(node), [node])]
            used = {t for node in self.build.nodes for t in (*node.inputs, *node.outputs)}
            self.build.tensors = {n: t for n, t in self.build.tensors.items() if n in used}

    def resolve(self, name: str) -> None:
        variables = self.build.variables
        read, assigned = variables.read.get(name, []), variables.assigned.get(name, [])
        if (len(read), len(assigned)) != (1, 1):
            _refuse(name, f"it is read {len(read)} times and assigned {len(assigned)} times in a "
                          "run; once each is allowed")
        if name not in variables.initial or name in variables.late:
            _refuse(name, "nothing gives it a value before it is read")
        state = read[0]
        dropped, past = self._kept(name, state)
        concat = self._concat(name, past)
        h, x = (self.build.tensors[t] for t in (concat.outputs[0], concat.inputs[1]))
        assert isinstance(concat.op, Concat)
        axis = concat.op.axis % len(h.shape)
        if dropped is not None and not _is_tail(dropped.op, state.shape, axis):
            _refuse(name, f"'{past.name}' is not its last columns along dimension {axis}")
        if math.prod(h.shape[:axis]) != 1:
            _refuse(name, f"'{h.name}' of shape {list(h.shape)} grows along dimension {axis}; the "
                          "dimensions before it must be 1")
        if x.data is not None:
            _refuse(name, f"the columns that '{h.name}' adds to it are a constant")
        self._check_assigned(name, (state, h, x), assigned[0], axis)
        _check_initial(name, state, h, variables.initial[name])
        self.instead[id(concat)] = self._history(concat, x, h, axis)
        if dropped is not None:
            self.instead[id(dropped)] = []

    def _kept(self, name: str, state: Tensor) -> tuple[Node | None, Tensor]:
        """The Slice that leaves the oldest columns away, if there is one, and what goes on."""
        node = self._only_reader(name, state)
        if not isinstance(node.op, Slice):
            return None, state
        return node, self.build.tensors[node.outputs[0]]

    def _only_reader(self, name: str, t: Tensor) -> Node:
        readers = self.readers.get(t.name, [])
        if not readers and t.name not in self.seen:
            raise DependsOnRefused  # its reader is not there
        if len(readers) != 1 or t.name in self.seen:
            _refuse(name, f"its value '{t.name}' has {len(readers) + (t.name in self.seen)} "
                          "readers; one CONCATENATION is allowed")
        return readers[0]

    def _concat(self, name: str, past: Tensor) -> Node:
        node = self._only_reader(name, past)
        if not isinstance(node.op, Concat) or len(node.inputs) != 2 or (
            node.inputs[0] != past.name or node.inputs[1] == past.name
        ):
            _refuse(name, f"layer '{node.name}' reads it; a CONCATENATION of it and the new "
                          "columns, in this order, is allowed")
        return node

    def _check_assigned(
        self, name: str, tensors: tuple[Tensor, Tensor, Tensor], value: Tensor, axis: int
    ) -> None:
        """What is assigned must be the last columns of the result, as many as the variable has."""
        state, h, x = tensors
        way: list[Node] = []
        at = value.name
        while at != h.name:
            node = self.maker.get(at)
            if node is None or not isinstance(node.op, (Slice, Quantize, Dequantize)):
                if at in self.refused:
                    raise DependsOnRefused
                _refuse(name, f"'{value.name}' is assigned to it; the last columns of '{h.name}' "
                              "are allowed")
            way.insert(0, node)
            at = node.inputs[0]
        cuts = [node.op for node in way if isinstance(node.op, Slice)]
        tail = h.shape == state.shape if not cuts else (
            len(cuts) == 1 and _is_tail(cuts[0], h.shape, axis) and value.shape == state.shape)
        if not tail:
            _refuse(name, f"'{value.name}' of shape {list(value.shape)} is assigned to it; the "
                          f"last {state.shape[axis]} columns of '{h.name}' are allowed")
        rounded = [node for node in way if not isinstance(node.op, Slice)]
        if rounded and not self._on_grid(rounded, x):
            _refuse(name, f"'{value.name}' is rounded on its way from '{h.name}'; that is allowed "
                          "where new columns are DEQUANTIZE of the same scale and zero point")

    def _on_grid(self, rounded: Sequence[Node], x: Tensor) -> bool:
        """Whether Quantize and Dequantize change nothing, because x has been through it."""
        maker = self.maker.get(x.name)
        if len(rounded) != 2 or maker is None or not (
            isinstance(rounded[0].op, Quantize) and isinstance(rounded[1].op, Dequantize)
            and isinstance(maker.op, Dequantize)
        ):
            return False
        source = self.build.tensors[maker.inputs[0]]
        names = (rounded[0].outputs[0], rounded[1].inputs[0])
        if any(self.build.tensors[t].quant != source.quant for t in names) or (
            source.dtype != "int8"
        ):
            return False
        stored = np.arange(-128, 128).astype(np.int8)
        real = Dequantize().int8_ref((stored,), (source,), (x,))
        return bool((Quantize().int8_ref(real, (x,), (source,))[0] == stored).all())

    def _history(self, concat: Node, x: Tensor, h: Tensor, axis: int) -> list[Node]:
        """Reshape, History, Reshape: columns are what runs along `axis`."""
        channels = math.prod(h.shape[axis + 1 :])
        new, past = (1, x.shape[axis], channels), (1, h.shape[axis], channels)
        columns, whole = x, h
        if x.shape != new:
            columns = self._tensor(f"{h.name}/new", new, x)
        if h.shape != past:
            whole = self._tensor(f"{h.name}/past", past, h)
        nodes = [Node(History(past[1]), (columns.name,), (whole.name,), concat.origin)]
        if columns is not x:
            nodes.insert(0, Node(Reshape(new), (x.name,), (columns.name,), concat.origin))
        if whole is not h:
            nodes.append(Node(Reshape(h.shape), (whole.name,), (h.name,), concat.origin))
        return nodes

    def _tensor(self, name: str, shape: Shape, like: Tensor) -> Tensor:
        made = Tensor(self.build.fresh_name(name), shape, like.dtype, like.quant)
        self.build.tensors[made.name] = made
        return made


def _refuse(name: str, reason: str) -> NoReturn:
    raise Unsupported(name, "READ_VARIABLE", f"as a variable, {reason}", WAY_OUT)


def _check_initial(name: str, state: Tensor, h: Tensor, initial: Tensor) -> None:
    assert initial.data is not None
    if (initial.dtype, initial.shape) != (state.dtype, state.shape):
        _refuse(name, f"it starts as {initial.dtype} {list(initial.shape)} and is read as "
                      f"{state.dtype} {list(state.shape)}")
    start = h.zero_point if h.dtype == "int8" else 0
    others = initial.data[initial.data != start]
    if others.size:
        _refuse(name, f"{others.size} of its {initial.size} elements start as others than the "
                      f"zero point {start}, the first as {others[0]}")


def _is_tail(op: object, shape: Shape, axis: int) -> bool:
    """Whether a Slice takes the last columns along `axis`, in order, and all of the rest."""
    assert isinstance(op, Slice)
    first = tuple(shape[d] - op.size[d] if d == axis else 0 for d in range(len(shape)))
    others = _without(op.size, axis) == _without(shape, axis)
    return op.begin == first and others and set(op.stride) == {1}


def _without(values: Iterable[int], axis: int) -> list[int]:
    return [v for d, v in enumerate(values) if d != axis]
