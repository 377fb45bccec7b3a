"""Samples that arrive bit by bit, as on standard input: arrays as soon as they are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.signals.numbers import numbers
from edgesparse.signals.signal import as_float32, as_int16

READ_BYTES = 1 << 16


class Readable(Protocol):
    """sys.stdin.buffer and io.BytesIO are such streams."""

    def read1(self, size: int, /) -> bytes: ...


def int16_chunks(stream: Readable, name: str = "standard input") -> Iterator[Array]:
    """[>= 1] int16 per array, from raw little-endian samples; each read is passed on at once.

    Raises BadInput when the stream ends inside a sample.
    """
    rest = b""
    while data := stream.read1(READ_BYTES):
        data = rest + data
        whole = len(data) // 2 * 2
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], "<i2").astype(np.int16)
    if rest:
        raise BadInput(f"{name}: ends inside a sample: one byte is left over of 16-bit samples")


def text_chunks(
    stream: Readable, dtype: type[np.int16 | np.float32], name: str = "standard input"
) -> Iterator[Array]:
    """[>= 1] samples per array, from lines with one number each.

    dtype  int16: lines are ADC units, whole numbers; float32: lines are mV

    "nan", "-" or an empty line is a missing sample. The last line may lack its end.

    Raises BadInput that names the line.
    """
    rest, line = b"", 1
    while data := stream.read1(READ_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield _parsed(whole, dtype, name, line)
            line += len(whole)
    if rest:
        yield _parsed([rest], dtype, name, line)


def _parsed(
    lines: list[bytes], dtype: type[np.int16 | np.float32], name: str, first: int
) -> Array:
    texts = [line.decode("ascii", errors="replace").strip() for line in lines]
    whole = dtype is np.int16
    found = numbers(texts, whole)
    if found.bad is not None:
        raise BadInput(f"{name}: line {first + found.bad}: '{texts[found.bad]}' is no "
                       f"{'whole ' if whole else ''}number")
    if whole:
        return as_int16(found.values, f"{name}: from line {first} on")
    return as_float32(found.values)
