"""Annotations that give a field of model.py its type in plan.fbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from edgesparse.graph.ir import Array


@dataclass(frozen=True)
class Scalar:
    """A number of the schema; a table leaves it out when it equals `default`."""

    type: str
    default: int = 0


@dataclass(frozen=True)
class Vector:
    """A vector of numbers: `type` in the schema, `dtype` in NumPy, alignment of its first byte.

    Where the schema says ubyte, the bytes may well be signed: it has no aligned vectors of byte.
    """

    type: str
    dtype: str
    align: int = 0


I8: TypeAlias = Annotated[int, Scalar("byte")]
U8: TypeAlias = Annotated[int, Scalar("ubyte")]
I16: TypeAlias = Annotated[int, Scalar("int16")]
U16: TypeAlias = Annotated[int, Scalar("uint16")]
I32: TypeAlias = Annotated[int, Scalar("int32")]
U32: TypeAlias = Annotated[int, Scalar("uint32")]
F32: TypeAlias = Annotated[float, Scalar("float32")]
Bool: TypeAlias = Annotated[bool, Scalar("bool")]
U8One: TypeAlias = Annotated[int, Scalar("ubyte", 1)]

U32Tuple: TypeAlias = Annotated[tuple[int, ...], Vector("uint32", "<u4")]
I32Tuple: TypeAlias = Annotated[tuple[int, ...], Vector("int32", "<i4")]
I32Array: TypeAlias = Annotated[Array, Vector("int32", "<i4")]
I16Array: TypeAlias = Annotated[Array, Vector("int16", "<i2")]
U16Array: TypeAlias = Annotated[Array, Vector("uint16", "<u2")]
I8Array: TypeAlias = Annotated[Array, Vector("byte", "i1")]
Int8Data: TypeAlias = Annotated[Array, Vector("ubyte", "i1")]
Int8Aligned: TypeAlias = Annotated[Array, Vector("ubyte", "i1", 16)]
UInt8Aligned: TypeAlias = Annotated[Array, Vector("ubyte", "u1", 16)]
Bytes: TypeAlias = Annotated[bytes, Vector("ubyte", "u1")]
