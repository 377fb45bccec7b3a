"""SparsityParameters of a .tflite tensor: any layout of the format, decoded to a dense array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import ImportFailed
from edgesparse.graph.ir import Array, Shape

MAX_DECODED = 1 << 24
"""Elements a sparse tensor may decode to: a small file must not ask for gigabytes."""


@dataclass(frozen=True)
class DenseLevel:
    """Every coordinate 0 ... size - 1 is present."""

    size: int


@dataclass(frozen=True, eq=False)
class SparseLevel:
    """Only listed coordinates are present ("SPARSE_CSR").

    segments  [parents + 1] int, not falling: the coordinates of parent p are
              indices[segments[p] : segments[p + 1]]
    indices   [children] int >= 0
    """

    segments: Array
    indices: Array


Level = DenseLevel | SparseLevel


@dataclass(frozen=True)
class SparseLayout:
    """How the stored values of a tensor with n dimensions and k block dimensions are ordered.

    order      a permutation of 0 ... n + k - 1: the dimension each level runs along; a number
               n + b is block dimension b
    block_map  [k]: the dimension that block dimension b cuts into blocks
    levels     [n + k], from the outermost, in the order of `order`
    """

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[Level, ...]


def decode_sparse(values: Array, shape: Shape, layout: SparseLayout, place: str) -> Array:
    """Return the dense array [shape] of the dtype of `values`; what is not stored is 0.

    values  [stored elements], in the order the levels enumerate them
    place   how an error names the tensor

    The levels are a tree (Chou et al., "Format abstraction for sparse tensor algebra
    compilers", 2018). Level by level `offset` holds, for every node reached, the place in the
    dense array of its first element.
    Raises ImportFailed when the layout contradicts itself, the shape or the values.
    Source: TFLite schema, SparsityParameters; sparsity_format_converter.cc, Populate.
    """
    extents = _extents(shape, layout, place)
    offset = np.zeros(1, np.int64)
    for number, (level, (size, stride)) in enumerate(zip(layout.levels, extents)):
        where = f"{place}: sparsity level {number}"
        if isinstance(level, DenseLevel):
            _check_room(offset.size, layout.levels[number:], values.size, where)
            steps = np.arange(size, dtype=np.int64) * stride
            offset = (offset[:, None] + steps).reshape(-1)
        else:
            counts = _check_level(level, offset.size, size, where)
            offset = np.repeat(offset, counts) + level.indices.astype(np.int64) * stride
    if offset.size != values.size:
        raise ImportFailed(f"{place}: the sparsity levels describe {offset.size} stored values; "
                           f"the buffer holds {values.size}")
    dense = np.zeros(math.prod(shape), values.dtype)
    taken = np.zeros(dense.size, np.bool_)
    taken[offset] = True
    if np.count_nonzero(taken) != offset.size:
        raise ImportFailed(f"{place}: the sparsity levels name an element twice")
    dense[offset] = values
    return dense.reshape(shape)


def _extents(shape: Shape, layout: SparseLayout, place: str) -> list[tuple[int, int]]:
    """(number of coordinates, distance in the dense array between two of them) per level.

    All sizes are checked here, before anything is allocated.
    """
    _check_order(shape, layout, place)
    rank = len(shape)
    if math.prod(shape) > MAX_DECODED:
        raise ImportFailed(f"{place}: a sparse tensor of shape {list(shape)} would decode to more "
                           f"than {MAX_DECODED} elements")
    strides = [math.prod(shape[d + 1 :]) for d in range(rank)]
    blocks = _block_sizes(shape, layout, place)
    extents = []
    for number, (dimension, level) in enumerate(zip(layout.order, layout.levels)):
        if dimension >= rank:
            size = blocks[layout.block_map[dimension - rank]]
            stride = strides[layout.block_map[dimension - rank]]
        else:
            size = shape[dimension] // blocks.get(dimension, 1)
            stride = strides[dimension] * blocks.get(dimension, 1)
        if isinstance(level, DenseLevel) and level.size != size:
            raise ImportFailed(f"{place}: sparsity level {number} is dense with {level.size} "
                               f"entries; its dimension has {size}")
        extents.append((size, stride))
    return extents


def _check_order(shape: Shape, layout: SparseLayout, place: str) -> None:
    rank, blocks = len(shape), len(layout.block_map)
    if sorted(layout.order) != list(range(rank + blocks)):
        raise ImportFailed(
            f"{place}: traversal order {list(layout.order)} is no permutation of the {rank} "
            f"dimensions and {blocks} block dimensions"
        )
    if len(layout.levels) != rank + blocks:
        raise ImportFailed(f"{place}: {len(layout.levels)} sparsity levels for {rank} dimensions "
                           f"and {blocks} block dimensions")
    if len(set(layout.block_map)) != blocks or not all(0 <= d < rank for d in layout.block_map):
        raise ImportFailed(f"{place}: block map {list(layout.block_map)} does not name distinct "
                           f"dimensions below {rank}")


def _block_sizes(shape: Shape, layout: SparseLayout, place: str) -> dict[int, int]:
    """Block size by dimension; the level of a block dimension states it, so it must be dense."""
    sizes = {}
    for block, dimension in enumerate(layout.block_map):
        level = layout.levels[layout.order.index(len(shape) + block)]
        if not isinstance(level, DenseLevel):
            raise ImportFailed(f"{place}: block dimension {block} is not dense inside")
        if level.size < 1 or shape[dimension] % level.size:
            raise ImportFailed(f"{place}: dimension {dimension} of {shape[dimension]} does not "
                               f"divide into blocks of {level.size}")
        sizes[dimension] = level.size
    return sizes


def _check_room(nodes: int, levels: Sequence[Level], values: int, where: str) -> None:
    """The next sparse level, or the values, say how many nodes there may be: nothing is
    allocated for a level that reaches more."""
    for level in levels:
        if isinstance(level, SparseLevel):
            allowed = level.segments.size - 1
            break
        nodes *= level.size
    else:
        allowed = values
    if nodes != allowed:
        raise ImportFailed(f"{where} leads to {nodes} entries; what follows has {allowed}")


def _check_level(level: SparseLevel, parents: int, size: int, where: str) -> Array:
    """Return the number of children of each parent, [parents] int64."""
    if level.segments.size != parents + 1:
        raise ImportFailed(
            f"{where} has {level.segments.size} segment bounds for {parents} parents"
        )
    segments = level.segments.astype(np.int64)
    counts = np.diff(segments)
    if segments[0] != 0 or segments[-1] != level.indices.size or (counts < 0).any():
        raise ImportFailed(f"{where}: segment bounds do not rise from 0 to the "
                           f"{level.indices.size} indices")
    if level.indices.size and not 0 <= level.indices.min() <= level.indices.max() < size:
        raise ImportFailed(f"{where}: an index is outside 0 ... {size - 1}")
    return counts
