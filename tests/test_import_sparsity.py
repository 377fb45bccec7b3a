"""SparsityParameters: every layout decodes to the tensor it was made from, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import ImportFailed
from edgesparse.graph.evaluate import evaluate
from edgesparse.graph.ir import Array, Tensor
from edgesparse.importers.tflite import import_tflite
from edgesparse.importers.tflite_schema import DTYPES, read_model
from edgesparse.importers.tflite_sparsity import (
    MAX_DECODED,
    DenseLevel,
    Level,
    SparseLayout,
    SparseLevel,
    decode_sparse,
)
from edgesparse.ops import Conv, FullyConnected
from oracle import tflite_oracle
from test_import_tflite import random_inputs, read
from tflite_builder import Call, Dimension, Sparsity, build

INDEX_TYPES = (np.uint8, np.uint16, np.int32)


def encode_sparse(
    dense: Array, order: tuple[int, ...], blocks: dict[int, int], sparse: set[int]
) -> tuple[SparseLayout, Array]:
    """The layout and stored values of `dense`, by walking the tree of its levels.

    order   the dimension of each level; rank + b is the b-th dimension of `blocks`
    blocks  dimension -> block size
    sparse  the levels that list coordinates
    """
    block_map = tuple(blocks)
    split: list[int] = []
    for dimension, size in enumerate(dense.shape):
        block = blocks.get(dimension, 1)
        split += [size // block, block]
    where = [2 * d if d < dense.ndim else 2 * block_map[d - dense.ndim] + 1 for d in order]
    rest = [axis for axis in range(2 * dense.ndim) if axis not in where]  # of size 1
    tree = dense.reshape(split).transpose(*where, *rest).reshape([split[axis] for axis in where])
    nodes = [tree]
    levels: list[Level] = []
    for number in range(len(order)):
        if number not in sparse:
            levels.append(DenseLevel(tree.shape[number]))
            nodes = [child for node in nodes for child in node]
            continue
        kept = [[i for i, child in enumerate(node) if np.any(child)] for node in nodes]
        segments = np.cumsum([0, *map(len, kept)])
        indices = np.array([i for group in kept for i in group], np.int32)
        levels.append(SparseLevel(segments, indices))
        nodes = [node[i] for node, group in zip(nodes, kept) for i in group]
    values = np.array(nodes, dense.dtype).reshape(-1)
    return SparseLayout(order, block_map, tuple(levels)), values


def random_case(
    rng: np.random.Generator, blocks_last: bool, dtype: type = np.int8
) -> tuple[Array, SparseLayout, Array]:
    """A tensor of 1 to 4 dimensions in a layout of any kind."""
    rank = int(rng.integers(1, 5))
    cut = sorted(rng.choice(rank, int(rng.integers(0, rank + 1)), replace=False).tolist())
    blocks = {d: int(rng.integers(1, 5)) for d in cut}
    shape = [int(rng.integers(1, 6)) * blocks.get(d, 1) for d in range(rank)]
    dense = rng.integers(-128, 128, shape).astype(dtype)
    dense[rng.random(shape) < rng.choice([0.0, 0.5, 0.9, 1.0])] = 0
    levels = rank + len(blocks)
    order = [*rng.permutation(rank), *(rank + rng.permutation(len(blocks)))]
    if not blocks_last:
        order = list(rng.permutation(levels))
    sparse = {n for n, d in enumerate(order) if d < rank and rng.random() < 0.5}
    layout, values = encode_sparse(dense, tuple(int(d) for d in order), blocks, sparse)
    return dense, layout, values


@pytest.mark.parametrize("blocks_last", [True, False])
def test_random_layouts_decode_to_their_tensor(blocks_last: bool) -> None:
    rng = np.random.default_rng(11)
    kinds = set()
    for _ in range(400):
        dense, layout, values = random_case(rng, blocks_last)
        kind = INDEX_TYPES[int(rng.integers(3))]
        levels = tuple(
            SparseLevel(level.segments.astype(kind), level.indices.astype(kind))
            if isinstance(level, SparseLevel) and level.segments[-1] < 256 else level
            for level in layout.levels
        )
        found = decode_sparse(values, dense.shape, replace(layout, levels=levels), "t")
        assert found.dtype == dense.dtype
        np.testing.assert_array_equal(found, dense)
        kinds.add((dense.ndim, len(layout.block_map), values.size < dense.size))
    assert len(kinds) > 20


def test_the_oracle_decodes_random_layouts_alike() -> None:
    """TFLite's own DENSIFY, on the layouts it reads: block dimensions last."""
    rng = np.random.default_rng(12)
    compared = 0
    while compared < 40:
        dense, layout, values = random_case(rng, True, np.float32)
        rank, order = dense.ndim, layout.order
        involution = all(order[order[n]] == n for n in range(rank, len(order)))
        if not values.size or not involution:
            continue  # an empty buffer is no constant; TFLite reads block sizes by the order
        dimensions = tuple(
            Dimension(level.size) if isinstance(level, DenseLevel)
            else Dimension(0, level.segments.tolist(), level.indices.tolist())
            for level in layout.levels
        )
        x = Tensor("x", dense.shape, "float32")
        stored, wide, y = (Tensor(n, dense.shape, "float32") for n in ("stored", "wide", "y"))
        model = build(
            [x, stored, wide, y],
            [Call("DENSIFY", ("stored",), ("wide",)), Call("ADD", ("x", "wide"), ("y",))],
            ["x"], ["y"],
            {"stored": (Sparsity(order, dimensions, layout.block_map), values)},
        )
        found = tflite_oracle(model).run({"x": np.zeros(dense.shape, np.float32)})["wide"]
        np.testing.assert_array_equal(found, dense)
        if dense.shape[0] == 1:
            graph = import_tflite(model, "densify")
            np.testing.assert_array_equal(graph.tensors["wide"].data, dense)
        compared += 1


@pytest.mark.parametrize(
    ("sparse", "dense"),
    [
        ("cases/tflite/sfc_csr", "cases/tflite/sfc_dense"),
        ("cases/tflite/sfc_b4", "cases/tflite/sfcb_dense"),
        ("cases/tflite/b16", "cases/tflite/b16d"),
        ("cases/tflite/f_csr", "cases/tflite/f_dense"),
        ("cases/tflite/f_b4", "cases/tflite/f_b4d"),
        ("generated/conv1d_uns80_int8_SP", "generated/conv1d_uns80_int8"),
        ("generated/conv2d_uns80_int8_SP", "generated/conv2d_uns80_int8"),
        ("generated/conv2d_uns90_int8_SP", "generated/conv2d_uns90_int8"),
        ("generated/conv2d_b1480_int8_SP", "generated/conv2d_b1480_int8"),
        ("generated/mlp_b11680_int8_SP", "generated/mlp_b11680_int8"),
    ],
)
def test_sparse_model_equals_its_dense_twin(sparse: str, dense: str, data_root: Path) -> None:
    ours = import_tflite(read(data_root, sparse), sparse)
    twin = import_tflite(read(data_root, dense), dense)
    raw = read_model(read(data_root, sparse), sparse)
    assert any(tensor.sparsity for tensor in raw.tensors)
    assert [node.op for node in ours.nodes] == [node.op for node in twin.nodes]
    inputs = random_inputs(ours, np.random.default_rng(13))
    values = evaluate(ours, inputs)
    expected = evaluate(twin, dict(zip(twin.inputs, inputs.values())))
    for a, b in zip(ours.nodes, twin.nodes):
        if isinstance(a.op, (Conv, FullyConnected)):
            np.testing.assert_array_equal(ours.ins(a)[1].data, twin.ins(b)[1].data)
        np.testing.assert_array_equal(values[a.outputs[0]], expected[b.outputs[0]])


def test_all_tensors_of_a_public_sparse_model_decode_as_in_the_oracle(data_root: Path) -> None:
    """46 float16 tensors of a model that is refused for other reasons."""
    data = read(data_root, "mp/mp_face_detection_full_range_sparse")
    raw = read_model(data, "face")
    image = raw.tensors[raw.inputs[0]]
    expected = tflite_oracle(data).run({image.name: np.zeros(image.shape, np.float32)})
    densify = [op for op in raw.operators if op.name == "DENSIFY"]
    assert len(densify) == 46
    for op in densify:
        stored = raw.tensors[op.inputs[0]]
        assert stored.sparsity is not None
        values = raw.buffers[stored.buffer].view(DTYPES[stored.type])
        found = decode_sparse(values, stored.shape, stored.sparsity, stored.name)
        np.testing.assert_array_equal(found, expected[raw.tensors[op.outputs[0]].name])
        assert np.count_nonzero(found) <= values.size < found.size


def csr(**changes: object) -> SparseLayout:
    """A [4, 6] matrix with 5 values in compressed rows, one part of it changed."""
    parts = {"segments": [0, 2, 2, 4, 5], "indices": [1, 5, 0, 3, 2], "rows": 4,
             "order": (0, 1), "block_map": ()} | changes
    rows = DenseLevel(parts["rows"])
    columns = SparseLevel(np.array(parts["segments"]), np.array(parts["indices"], int))
    return SparseLayout(parts["order"], parts["block_map"], (rows, columns))


def blocked(size: int = 2, inner: Level | None = None) -> SparseLayout:
    """A [4, 6] matrix in 1 x 2 blocks, 3 of them stored."""
    columns = SparseLevel(np.array([0, 1, 1, 3, 3]), np.array([2, 0, 1]))
    return SparseLayout((0, 1, 2), (1,), (DenseLevel(4), columns, inner or DenseLevel(size)))


LAYOUTS: dict[str, tuple[Callable[[], SparseLayout], int, str]] = {
    "segments that fall": (lambda: csr(segments=[0, 3, 2, 4, 5]), 5, "level 1.*segment bounds"),
    "segments that start late": (lambda: csr(segments=[1, 2, 2, 4, 5]), 5, "segment bounds"),
    "segments past the indices": (lambda: csr(segments=[0, 2, 2, 4, 6]), 5, "segment bounds"),
    "a segment too few": (lambda: csr(segments=[0, 2, 2, 5]), 5, "level 0"),
    "no segments": (lambda: csr(segments=[], indices=[]), 5, "level 0"),
    "an index past the row": (lambda: csr(indices=[1, 6, 0, 3, 2]), 5, "outside 0 ... 5"),
    "a negative index": (lambda: csr(indices=[1, -1, 0, 3, 2]), 5, "outside 0 ... 5"),
    "an index twice": (lambda: csr(indices=[1, 1, 0, 3, 2]), 5, "twice"),
    "a value too few": (csr, 4, "describe 5 stored values; the buffer holds 4"),
    "a dense level of another size": (lambda: csr(rows=5), 5, "dense with 5 entries"),
    "a dense level of 2**31 - 1": (lambda: csr(rows=2**31 - 1), 5, "dense with 2147483647"),
    "a dimension twice": (lambda: csr(order=(0, 0)), 5, "no permutation"),
    "a dimension too many": (lambda: csr(order=(0, 1, 2)), 5, "no permutation"),
    "a block map without levels": (lambda: csr(order=(0, 1, 2), block_map=(1,)), 5, "2 sparsity"),
    "a block that does not divide": (lambda: blocked(4), 6, "blocks of 4"),
    "a block of 0": (lambda: blocked(0), 6, "blocks of 0"),
    "a sparse block": (
        lambda: blocked(inner=SparseLevel(np.array([0, 1]), np.array([0]))), 6, "not dense inside"),
    "a block of no dimension": (lambda: replace(blocked(), block_map=(2,)), 6, "block map"),
    "values of another count": (blocked, 5, "level 2 leads to 6 entries"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_contradiction_is_named(case: str) -> None:
    layout, stored, message = LAYOUTS[case]
    with pytest.raises(ImportFailed, match=f"weights.*{message}"):
        decode_sparse(np.ones(stored, np.int8), (4, 6), layout(), "weights")


def test_the_sound_forms_of_these_decode() -> None:
    found = decode_sparse(np.arange(1, 6, dtype=np.int8), (4, 6), csr(), "weights")
    assert [tuple(at) for at in np.argwhere(found)] == [(0, 1), (0, 5), (2, 0), (2, 3), (3, 2)]
    found = decode_sparse(np.arange(1, 7, dtype=np.int8), (4, 6), blocked(), "weights")
    assert found[0].tolist() == [0, 0, 0, 0, 1, 2]
    assert found[2].tolist() == [3, 4, 5, 6, 0, 0]


def test_a_few_bytes_do_not_ask_for_gigabytes() -> None:
    empty = SparseLayout(
        (0, 1), (), (SparseLevel(np.array([0, 0]), np.array([], int)), DenseLevel(1 << 20)))
    with pytest.raises(ImportFailed, match=f"more than {MAX_DECODED} elements"):
        decode_sparse(np.zeros(0, np.int8), (1 << 20, 1 << 20), empty, "weights")
    # All sizes are checked before the first allocation: the second level is wrong here.
    late = SparseLayout((0, 1), (), (DenseLevel(MAX_DECODED), DenseLevel(0)))
    with pytest.raises(ImportFailed, match="level 1 is dense with 0"):
        decode_sparse(np.zeros(0, np.int8), (MAX_DECODED, 1), late, "weights")
