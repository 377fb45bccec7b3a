"""Builtin operators that only move elements, or compute with shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgesparse.graph.ir import Shape, Tensor
from edgesparse.importers.tflite_call import Call
from edgesparse.importers.tflite_schema import DTYPES
from edgesparse.ops import (
    BatchToSpace,
    Concat,
    Pad,
    Reshape,
    Slice,
    SpaceToBatch,
    Transpose,
)


def reshape(call: Call) -> None:
    """RESHAPE: the target is the second input if there is one, else an option."""
    x = call.moved(0)
    target = list(call.integers(1) if call.has(1) else call.option("NewShape", ()))
    if target == [0]:  # how old converters wrote a scalar
        target = []
    known = math.prod(n for n in target if n != -1)
    if target.count(-1) == 1 and known > 0:
        target[target.index(-1)] = x.size // known
    if min(target, default=1) < 1 or math.prod(target) != x.size:
        call.fail(f"{list(x.shape)} does not reshape to {target}")
    call.emit(Reshape(tuple(target)), (x,))


def expand_dims(call: Call) -> None:
    x = call.moved(0)
    axis = call.axis(call.integer(1), len(x.shape) + 1)
    call.emit(Reshape((*x.shape[:axis], 1, *x.shape[axis:])), (x,))


def squeeze(call: Call) -> None:
    x = call.moved(0)
    axes = {call.axis(axis, len(x.shape)) for axis in call.option("SqueezeDims", ())}
    axes = axes or {i for i, n in enumerate(x.shape) if n == 1}
    if any(x.shape[axis] != 1 for axis in axes):
        call.fail(f"dimensions {sorted(axes)} of {list(x.shape)} are not all 1")
    call.emit(Reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes)), (x,))


def transpose(call: Call) -> None:
    x, order = call.moved(0), call.integers(1)
    perm = tuple(call.axis(axis, len(x.shape)) for axis in order)
    if sorted(perm) != list(range(len(x.shape))):
        call.fail(f"order {list(order)} is no permutation of {len(x.shape)} dimensions")
    call.emit(Transpose(perm), (x,))


def concatenation(call: Call) -> None:
    if call.option("FusedActivationFunction"):
        call.refuse("it has a fused activation; none is allowed",
                    "make the activation an operator of its own")
    _join(call, [call.moved(i) for i in range(len(call.op.inputs))], call.option("Axis"))


def pack(call: Call) -> None:
    """PACK: each input gets a dimension of 1, then they are joined along it."""
    parts = [call.moved(i) for i in range(len(call.op.inputs))]
    if not parts:
        call.fail("it has no inputs")
    shape = parts[0].shape
    axis = call.axis(call.option("Axis"), len(shape) + 1)
    if any(part.shape != shape for part in parts):
        call.fail(f"its inputs have shapes {sorted({part.shape for part in parts})}")
    raised = Reshape((*shape[:axis], 1, *shape[axis:]))
    _join(call, [call.through(raised, x, f"part{i}") for i, x in enumerate(parts)], axis)


def _join(call: Call, parts: Sequence[Tensor], axis: int) -> None:
    if not parts or len({len(part.shape) for part in parts}) != 1:
        call.fail(f"its inputs have shapes {sorted({part.shape for part in parts})}")
    call.same_type(parts)
    call.same_quant(parts)
    call.emit(Concat(call.axis(axis, len(parts[0].shape))), parts)


def pad(call: Call) -> None:
    x = call.moved(0)
    pairs = call.pairs(1, len(x.shape))
    call.same_quant([x])
    call.emit(Pad(tuple(b for b, _ in pairs), tuple(a for _, a in pairs)), (x,))


def split(call: Call) -> None:
    """SPLIT: equal parts, one per output."""
    x = call.moved(1)
    axis, count = call.axis(call.integer(0), len(x.shape)), len(call.op.outputs)
    if not count or x.shape[axis] % count:
        call.fail(f"dimension {axis} of {list(x.shape)} does not split into {count} equal parts")
    _cut(call, x, axis, [x.shape[axis] // count] * count)


def split_v(call: Call) -> None:
    """SPLIT_V: parts of given sizes; one may be -1, what remains."""
    x, sizes = call.moved(0), list(call.integers(1))
    axis = call.axis(call.integer(2), len(x.shape))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(n for n in sizes if n != -1)
    if min(sizes, default=0) < 1 or sum(sizes) != x.shape[axis] or (
        len(sizes) != len(call.op.outputs)
    ):
        call.fail(f"sizes {sizes} do not cut dimension {axis} of {list(x.shape)} into "
                  f"{len(call.op.outputs)} outputs")
    _cut(call, x, axis, sizes)


def _cut(call: Call, x: Tensor, axis: int, sizes: Sequence[int]) -> None:
    start = 0
    for i, size in enumerate(sizes):
        call.emit(_part(x.shape, axis, start, size), (x,), i)
        start += size


def _part(shape: Shape, axis: int, start: int, size: int) -> Slice:
    begin, extent = [0] * len(shape), list(shape)
    begin[axis], extent[axis] = start, size
    return Slice(tuple(begin), (1,) * len(shape), tuple(extent))


def unpack(call: Call) -> None:
    """UNPACK: one output per entry of a dimension, which vanishes."""
    x = call.moved(0)
    axis = call.axis(call.option("Axis"), len(x.shape))
    if x.shape[axis] != len(call.op.outputs):
        call.fail(f"dimension {axis} of {list(x.shape)} for {len(call.op.outputs)} outputs")
    flat = Reshape((*x.shape[:axis], *x.shape[axis + 1 :]))
    for i in range(x.shape[axis]):
        part = call.through(_part(x.shape, axis, i, 1), x, f"part{i}")
        call.emit(flat, (part,), i)


def strided_slice(call: Call) -> None:
    """STRIDED_SLICE with begin, end and shrink masks; leading dimensions may be named only."""
    for mask in ("EllipsisMask", "NewAxisMask"):
        if call.option(mask):
            call.refuse(f"it has {mask} {call.option(mask)}; 0 is allowed",
                        "write out all indices, or reshape after the slice")
    x = call.moved(0)
    begins, ends, strides = (call.integers(i) for i in (1, 2, 3))
    if not len(begins) == len(ends) == len(strides) <= len(x.shape):
        call.fail(f"{len(begins)} begins, {len(ends)} ends and {len(strides)} strides for "
                  f"{len(x.shape)} dimensions")
    box, shrunk = [], []
    for i, n in enumerate(x.shape):
        if i >= len(begins):
            box.append((0, 1, n))
            continue
        masks = [bool(call.option(m) >> i & 1) for m in ("BeginMask", "EndMask", "ShrinkAxisMask")]
        end = ends[i] + begins[i] if call.option("Offset") else ends[i]
        box.append(_range(call, n, (begins[i], end, strides[i]), masks))
        if masks[2]:
            shrunk.append(i)
    begin, stride, size = (tuple(column) for column in zip(*box)) if box else ((), (), ())
    cut = Slice(begin, stride, size)
    if not shrunk:
        call.emit(cut, (x,))
        return
    rest = tuple(n for i, n in enumerate(size) if i not in shrunk)
    call.emit(Reshape(rest), (call.through(cut, x, "slice"),))


def _range(
    call: Call, n: int, bounds: tuple[int, int, int], masks: Sequence[bool]
) -> tuple[int, int, int]:
    """(first, stride, count) of one dimension of n, as Python's slice has it.

    Source: TFLite strided_slice_logic.h; a shrunk dimension takes its begin and nothing else.
    """
    begin, end, stride = bounds
    begin_masked, end_masked, shrink = masks
    if stride == 0:
        call.fail("a stride is 0")
    if shrink:
        first = 0 if begin_masked else call.axis(begin, n)
        return first, 1, 1
    numbers = range(n)[slice(None if begin_masked else begin, None if end_masked else end, stride)]
    if not numbers:
        call.fail(f"nothing is left of a dimension of {n} from {begin} to {end} by {stride}")
    return numbers[0], stride, len(numbers)


def space_to_batch(call: Call) -> None:
    x, block = call.moved(0), _block(call)
    call.same_quant([x])
    call.emit(SpaceToBatch(block, call.pairs(2, len(block))), (x,))


def batch_to_space(call: Call) -> None:
    x, block = call.moved(0), _block(call)
    call.same_quant([x])
    call.emit(BatchToSpace(block, call.pairs(2, len(block))), (x,))


def _block(call: Call) -> tuple[int, ...]:
    block = call.integers(1)
    if len(call.any(0).shape) not in (3, 4):
        call.refuse(f"input of shape {list(call.any(0).shape)}; 3 or 4 dimensions are allowed")
    if not 1 <= len(block) <= 2 or not all(1 <= n < 1 << 15 for n in block):
        call.fail(f"block {list(block)} is not one or two sizes")
    return block


def densify(call: Call) -> None:
    """DENSIFY: the sparse constant is decoded already; it takes the name of the output."""
    tensor, raw = call.any(0), call.build.model.tensors[call.index(0)]
    if tensor.data is None or raw.sparsity is None:
        call.refuse(f"'{tensor.name}' is not a sparse constant")
    call.bind(tensor.data)


def shape(call: Call) -> None:
    """SHAPE: all shapes are fixed at import, so it is a constant."""
    x, kind = call.any(0), DTYPES.get(call.output().type)
    if kind not in ("int32", "int64"):
        call.fail(f"its output is {call.output().type}, not INT32 or INT64")
    call.bind(np.array(x.shape, kind))


def fill(call: Call) -> None:
    """FILL: shape and value are fixed at import, so it is a constant."""
    dims, value = call.integers(0), call.any(1)
    if value.data is None or value.size != 1:
        call.refuse(f"'{value.name}' is not a constant of one element")
    if min(dims, default=1) < 1:
        call.fail(f"shape {list(dims)}")
    call.build.room(math.prod(dims), f"operator {call.op.index} (FILL)")
    call.bind(np.full(dims, value.data.reshape(()), value.data.dtype))


def gather(call: Call) -> None:
    """GATHER of shapes: the one kind that is known at import."""
    values, indices = _shape_arithmetic(call, 0), _shape_arithmetic(call, 1)
    axis = call.axis(call.option("Axis"), values.ndim)
    if call.option("BatchDims") or (indices.size and not (
        0 <= indices.min() <= indices.max() < values.shape[axis]
    )):
        call.fail(f"indices {indices.tolist()} into dimension {axis} of {list(values.shape)}")
    call.build.room(indices.size * values.size, f"operator {call.op.index} (GATHER)")
    call.bind(np.take(values, indices, axis))


def reduce_prod(call: Call) -> None:
    """REDUCE_PROD of shapes."""
    values = _shape_arithmetic(call, 0)
    axes = tuple({call.axis(axis, values.ndim) for axis in call.integers(1)})
    keep = bool(call.option("KeepDims"))
    call.bind(np.prod(values, axes, values.dtype, keepdims=keep))


def _shape_arithmetic(call: Call, i: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    tensor = call.any(i)
    call.integers(i)
    assert tensor.data is not None
    return tensor.data
