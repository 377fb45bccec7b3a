"""What an operator is: a shape rule and two NumPy definitions, all in one file per operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from edgesparse.graph.ir import Array, Shape, Tensor

OPS: dict[str, type[Op]] = {}
"""Every operator by name, in the order of registration; cross-cutting tests walk it."""

T = TypeVar("T", bound="type[Op]")


def register(cls: T) -> T:
    """Class decorator: make the operator known under its class name."""
    OPS[cls.__name__] = cls
    return cls


class Op(ABC):
    """Attributes of one operator (frozen dataclass); the tensors stand in the Node.

    `ins` and `outs` give shapes, dtypes and quantization of the node's tensors;
    `args` are the input values in the same order (constants included).
    """

    tflite: ClassVar[tuple[str, ...]] = ()
    """The TFLite builtin operators that import as this one."""

    @abstractmethod
    def infer(self, ins: Sequence[Tensor]) -> tuple[Shape, ...]:
        """Output shapes. Raises Unsupported when the inputs break the operator's rules."""

    @abstractmethod
    def float_ref(self, args: Sequence[Array]) -> tuple[Array, ...]:
        """The definition in float64."""

    @abstractmethod
    def int8_ref(
        self, args: Sequence[Array], ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> tuple[Array, ...]:
        """The exact integer definition; every backend equals it byte for byte."""

    def macs(self, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> int:
        """Multiply-accumulates of one run as if every weight were stored (0: not a MAC op)."""
        return 0
