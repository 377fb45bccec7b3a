"""The intermediate representation: frozen tensors, nodes and graphs.

A graph is immutable. A pass builds a new one and shares what it does not change.
Nodes stand in execution order; every tensor has at most one producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from edgesparse.ops.base import Op

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
DType = Literal[
    "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "bool", "other"
]


@dataclass(frozen=True)
class Quant:
    """Affine quantization: real = scale * (stored - zero_point).

    scale       [1] or [channels] float, each exactly representable in float32, > 0
    zero_point  [1] or [channels] int
    axis        the dimension the entries run along; None when there is one entry
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        return self.axis is not None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph. `data` is present exactly when it is a constant."""

    name: str
    shape: Shape
    dtype: DType
    quant: Quant | None = None
    data: Array | None = None
    kept: tuple[int, ...] | None = None
    """Which channels (last dimension) of the model's tensor these are; None: all of them."""

    def __post_init__(self) -> None:
        if self.data is not None and self.data.flags.writeable:
            frozen = self.data.copy()
            frozen.flags.writeable = False
            object.__setattr__(self, "data", frozen)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def channels(self) -> int:
        """The last dimension: what runs fastest in memory (1 for a scalar)."""
        return self.shape[-1] if self.shape else 1

    @property
    def columns(self) -> int:
        """All dimensions but the last: time steps, or pixels row by row."""
        return self.size // self.channels if self.channels else 0

    @property
    def scale(self) -> float:
        """The single scale of a per-tensor quantized tensor."""
        if self.quant is None or len(self.quant.scale) != 1:
            raise ValueError(f"{self.name} has no single scale")
        return self.quant.scale[0]

    @property
    def zero_point(self) -> int:
        """The single zero point of a per-tensor quantized tensor."""
        if self.quant is None or len(self.quant.zero_point) != 1:
            raise ValueError(f"{self.name} has no single zero point")
        return self.quant.zero_point[0]


@dataclass(frozen=True)
class Node:
    """One operator. `origin` names the user's layers it came from, in order."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What a person is shown: the user's layer names, or the output tensor."""
        return " + ".join(self.origin) if self.origin else self.outputs[0]


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: tensors by name, nodes in execution order, inputs and outputs by tensor name.

    float_inputs, float_outputs  which inputs and outputs are real numbers for the user, to be
                                 quantized at the edge of the model; empty: none
    uint8_outputs                which outputs are uint8 for the user: stored + 128; empty: none
    input_names, output_names    what the user calls them; empty: as the tensors
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    source_sha256: bytes = field(default=b"\0" * 32)
    float_inputs: tuple[bool, ...] = ()
    float_outputs: tuple[bool, ...] = ()
    uint8_outputs: tuple[bool, ...] = ()
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    @cached_property
    def producer(self) -> Mapping[str, Node]:
        """Tensor name -> the node that computes it."""
        return MappingProxyType({t: n for n in self.nodes for t in n.outputs})

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """Tensor name -> the nodes that read it, in order; graph outputs are not counted."""
        readers: dict[str, list[Node]] = {t: [] for t in self.tensors}
        for node in self.nodes:
            for t in dict.fromkeys(node.inputs):
                readers[t].append(node)
        return MappingProxyType({t: tuple(ns) for t, ns in readers.items()})

    def ins(self, node: Node) -> tuple[Tensor, ...]:
        return tuple(self.tensors[t] for t in node.inputs)

    def outs(self, node: Node) -> tuple[Tensor, ...]:
        return tuple(self.tensors[t] for t in node.outputs)

    def sole_consumer(self, tensor: str) -> Node | None:
        """The one node that reads `tensor`, or None when others or the user read it too."""
        readers = self.consumers[tensor]
        if len(readers) != 1 or tensor in self.outputs:
            return None
        return readers[0]

    def with_nodes(
        self,
        nodes: Iterable[Node],
        new_tensors: Iterable[Tensor] = (),
        outputs: tuple[str, ...] | None = None,
        inputs: tuple[str, ...] | None = None,
    ) -> Graph:
        """Return a graph with these nodes; tensors that nothing mentions any more are dropped."""
        nodes = tuple(nodes)
        outputs = self.outputs if outputs is None else outputs
        inputs = self.inputs if inputs is None else inputs
        tensors = {**self.tensors, **{t.name: t for t in new_tensors}}
        used = {*inputs, *outputs}
        for node in nodes:
            used.update(node.inputs, node.outputs)
        return replace(
            self,
            nodes=nodes,
            inputs=inputs,
            outputs=outputs,
            tensors={n: t for n, t in tensors.items() if n in used},
        )
