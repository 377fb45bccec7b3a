"""Weight encodings: decode(encode(w)) == w, sizes are told beforehand, broken bytes are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broken_npu import BROKEN
from edgesparse.errors import BadInput, DoesNotFit, PlanInvalid
from edgesparse.graph.ir import Array
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.model import Encoding, RowGroup, Weights
from edgesparse.plan.write import write_plan
from edgesparse.sparsity.formats import (
    FORMATS,
    Bitmask,
    Bsr,
    Coo,
    Csc,
    Csr,
    DeltaCsr,
    Dense,
    EvenLanes,
    Format,
    Lanes,
    Nm,
    Packing,
    decode_group,
    decode_weights,
)
from everything import everything

EVERY: tuple[Format, ...] = (
    Dense(), Bitmask(), DeltaCsr(4), DeltaCsr(8),
    *(Bsr(r, c, bits) for r, c in (
        (1, 1), (4, 1), (16, 1), (1, 4), (1, 16), (2, 4), (4, 4), (8, 1), (3, 5), (16, 16))
      for bits in (8, 16)),
    *(Nm(n, m) for n, m in (
        (1, 2), (1, 4), (2, 4), (3, 4), (1, 8), (2, 8), (4, 8), (7, 8), (1, 16), (15, 16))),
    *(form for lanes in (16, 32) for form in (
        Lanes.dense(lanes), Lanes.bitmask(lanes), Lanes.n_of_m(lanes, 2, 4),
        Lanes.n_of_m(lanes, 1, 2), Lanes.n_of_m(lanes, 3, 8), Lanes.n_of_m(lanes, 1, 16),
        *(Lanes(lanes, share, Packing.COLUMNS, bits)
          for share in (lanes, 4, 1) for bits in (8, 16)))),
)
SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)
"""Tile edges and primes; the tiles are 2, 4, 8, 16 and 32."""
WIDE = (255, 256, 257, 300)
"""Where an 8-bit index or delta ends."""


def fitting(form: Format, w: Array) -> Array:
    """w as the format can hold it: N:M drops what is too much."""
    if not isinstance(form, (Nm, Lanes)) or not form.m:
        return w
    w = w[:, : w.shape[1] // form.m * form.m].copy()
    height = form.block_rows if isinstance(form, Lanes) else 1
    for first in range(0, w.shape[0], height):
        some = w[first : first + height]
        part = some.reshape(len(some), w.shape[1] // form.m, form.m)
        part[:, np.cumsum((part != 0).any(axis=0), axis=1) > form.n] = 0
    return w


def check(form: Format, w: Array) -> None:
    if form.refusal(w):
        with pytest.raises(DoesNotFit):
            form.row_group(w)
        return
    group = form.row_group(w, first_row=3)
    assert np.array_equal(decode_group(group, w.shape[1]), w)
    assert (group.first_row, group.row_count) == (3, w.shape[0])
    assert group.nnz == np.count_nonzero(w)
    assert form.size(w) == len(group.values) + len(group.index)
    assert (group.values.dtype, group.index.dtype) == (np.int8, np.uint8)


@pytest.mark.parametrize("form", EVERY, ids=lambda f: f"{f.name} {vars(f)}")
def test_decoding_gives_the_weights_back(form: Format) -> None:
    """Every pair of sides, three densities, values at both ends of int8."""
    rng = np.random.default_rng(0)
    for rows in (0, *SIDES):
        for cols in (*SIDES, *(WIDE if rows == 5 else ())):
            for density in (0.0, 0.5, 1.0):
                w = rng.choice(np.array([-128, -1, 1, 127], np.int8), (rows, cols))
                w = w * (rng.random((rows, cols)) < density)
                check(form, fitting(form, w.astype(np.int8)))


@settings(max_examples=150, deadline=None)
@given(
    form=st.sampled_from(EVERY),
    w=st.tuples(st.integers(1, 40), st.integers(1, 70)).flatmap(
        lambda shape: arrays(np.int8, shape, elements=st.sampled_from([0, 0, 0, 1, -128, 127]))))
def test_any_matrix_comes_back(form: Format, w: Array) -> None:
    check(form, fitting(form, w))


def test_every_encoding_of_the_plan_has_a_format() -> None:
    assert set(FORMATS) == set(Encoding)
    assert {type(form) for form in EVERY} == set(FORMATS.values())


def test_bytes_are_those_of_the_plan_format() -> None:
    """Each encoding of one small matrix, worked out by hand from section 7."""
    w = np.array([[0, 5, 0, 0, 0, 0, -128, 1], [0, 0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 2, 0, 0, 0, 3]],
                 np.int8)

    def stored(form: Format) -> tuple[list[int], list[int]]:
        group = form.row_group(w)
        return group.values.tolist(), group.index.tolist()

    assert stored(Bitmask()) == ([5, -128, 1, 7, 2, 3], [0b11000010, 0, 0b10001001])
    assert stored(DeltaCsr(8)) == (
        [5, -128, 1, 7, 2, 3], [3, 0, 0, 0, 3, 0, 1, 4, 0, 0, 2, 3])
    assert stored(DeltaCsr(4)) == (
        [5, -128, 1, 7, 2, 3], [3, 0, 0, 0, 3, 0, 0x41, 0x00, 0x20, 0x03])
    assert stored(Bsr(2, 4)) == (
        [0, 5, 0, 0, 0, 0, 0, 0, 0, 0, -128, 1, 0, 0, 0, 0, 7, 0, 0, 2, 0, 0, 0, 0,
         0, 0, 0, 3, 0, 0, 0, 0],
        [2, 0, 2, 0, 0, 1, 0, 1])
    assert stored(Nm(2, 4)) == (
        [0, 5, -128, 1, 0, 0, 0, 0, 7, 2, 0, 3],
        [0b11100100, 0b01000100, 0b11001100])


def test_lanes_are_those_of_the_plan_format() -> None:
    """17 rows: a slice, and one with a single row. Rows 0 and 1 hold something, and row 16."""
    w = np.zeros((17, 5), np.int8)
    w[0, 1], w[0, 4], w[1, 3], w[16, 2] = 1, 2, 3, 4

    def stored(form: Lanes) -> tuple[dict[int, int], list[int]]:
        group = form.row_group(w)
        return {int(i): int(group.values[i]) for i in np.flatnonzero(group.values)}, (
            group.index.tolist())

    assert stored(Lanes.dense(16)) == ({16: 1, 49: 3, 64: 2, 80 + 32: 4}, [])
    assert stored(Lanes.columns(16, 16, 5)) == (
        {0: 1, 17: 3, 32: 2, 48: 4}, [3, 0, 1, 0, 1, 3, 4, 0, 2, 0])
    assert stored(Lanes.columns(16, 4, 5)) == (
        {0: 1, 17: 3, 32: 2, 48: 4},
        [3, 0, 1, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0])
    assert stored(Lanes.columns(16, 1, 5)) == (
        {0: 1, 1: 3, 16: 2, 32: 4},
        [2, 0, 1, 0, 1, 3, *[0] * 14, 4, *[0] * 15, 2, *[0] * 15])
    assert stored(Lanes.bitmask(16)) == (
        {0: 1, 17: 3, 32: 2, 48: 4}, [3, 0, 1, 0, 0b11010, 0, 0b100, 0])
    # Up to 8 steps each, but not more than there are columns: those without weights are 0.
    assert stored(EvenLanes.of(Lanes.bitmask(16))) == (
        {16: 1, 49: 3, 64: 2, 80 + 32: 4}, [5, 0, 5, 0, 0b11111, 0, 0b11111, 0])
    wide = np.zeros((17, 20), np.int8)
    wide[0, 3], wide[16, 19] = 1, 2
    even = EvenLanes.of(Lanes.columns(16, 16, 20)).row_group(wide)
    assert even.index.tolist() == [8, 0, 8, 0, *range(8), *range(7), 19]
    np.testing.assert_array_equal(decode_group(even, 20), wide)
    w = np.ascontiguousarray(w[:, 1:])  # columns 0, 2, 3 of the first slice, 1 of the second
    assert stored(Lanes.n_of_m(16, 3, 4)) == (
        {0: 1, 17: 3, 32: 2, 64: 4}, [0b111000, 0, 0b100100, 0])


def test_a_gap_longer_than_a_delta_is_bridged_by_stored_zeros() -> None:
    w = np.zeros((2, 40), np.int8)
    w[0, [0, 17, 39]] = 1, 2, 3
    group = DeltaCsr(4).row_group(w)
    assert group.values.tolist() == [1, 0, 2, 0, 3]
    assert group.index.tolist() == [5, 0, 0, 0, 0xF0, 0xF0, 0x05]
    assert group.nnz == 3


@pytest.mark.parametrize(("form", "w", "what"), [
    (Nm(2, 4), np.ones((1, 6), np.int8), "6 columns are no multiple of 4"),
    (Nm(2, 4), np.ones((1, 4), np.int8), "a group of 4 holds 4 weights"),
    (Bsr(4, 1, 8), np.ones((1, 257), np.int8), "257 block columns"),
    (Bsr(4, 1, 16), np.zeros((1, 65537), np.int8), "65537 block columns"),
    (Bsr(4, 1, 16), np.ones((1, 65536), np.int8), "65536 blocks in one block row"),
    (DeltaCsr(8), np.ones((1, 65536), np.int8), "65536 weights in one row"),
    (Lanes.n_of_m(16, 2, 4), np.ones((1, 6), np.int8), "6 columns are no multiple of 4"),
    (Lanes.n_of_m(16, 2, 4), np.eye(4, dtype=np.int8), "4 of 4 columns hold weights"),
    (Lanes(16, 16, Packing.COLUMNS, 8), np.ones((1, 257), np.int8), "257 columns"),
    (Lanes.bitmask(16), np.ones((1, 65536), np.int8), "65536 steps of one slice"),
])
def test_what_an_encoding_cannot_hold_is_refused(form: Format, w: Array, what: str) -> None:
    with pytest.raises(DoesNotFit, match=what):
        form.row_group(w)


def test_bsr_takes_the_narrowest_index() -> None:
    assert Bsr.for_columns(4, 1, 256).index_bits == 8
    assert Bsr.for_columns(4, 1, 257).index_bits == 16
    assert Bsr.for_columns(1, 4, 1024).index_bits == 8


# ---- bytes that are no weights ------------------------------------------------------------------

W = np.array([[0, 5, 0, 9, 0, 0, -128, 1, 4], [0] * 9, [7, 0, 0, 2, 0, 0, 0, 3, 0]], np.int8)
W8 = W[:, :8]


def edited(array: Array, at: int, value: int) -> Array:
    array = array.copy()
    array[at] = value
    return array


def broken(form: Format, w: Array, **changes: object) -> None:
    """`changes` of the row group, given as functions of its fields, are refused."""
    group = form.row_group(w)
    new = {k: v(getattr(group, k)) if callable(v) else v for k, v in changes.items()}
    with pytest.raises(PlanInvalid, match=f"^{form.invariant}: "):
        decode_group(replace(group, **new), w.shape[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [
    Dense(), Bitmask(), Bsr(2, 4), Bsr(2, 4, 16), Nm(2, 4), DeltaCsr(4), DeltaCsr(8)],
    ids=lambda f: f.name)
def test_wrong_sizes_are_refused(form: Format) -> None:
    w = fitting(form, W)
    for name in ("values", "index"):
        broken(form, w, **{name: lambda a: np.append(a, a.dtype.type(0))})
        if form != Dense() or name == "values":
            broken(form, w, **{name: lambda a: a[:-1]})
            broken(form, w, **{name: lambda a: a[:0]})


def test_broken_indexes_are_refused() -> None:
    broken(Bitmask(), W, index=lambda i: edited(i, 1, i[1] | 2))
    broken(Bitmask(), W, index=lambda i: edited(i, 0, i[0] ^ 1))
    broken(Bsr(2, 4), W8, index=lambda i: edited(i, 4, 1))
    broken(Bsr(2, 4), W8, index=lambda i: edited(i, 5, 2))
    broken(Bsr(2, 4), W8, index=lambda i: edited(i, 5, 0))
    broken(Bsr(2, 4), W8, index=lambda i: edited(edited(i, 0, 3), 2, 1))
    broken(Bsr(2, 4), W8, values=lambda v: edited(v, len(v) - 1, 1))
    broken(Bsr(2, 4), W, values=lambda v: edited(v, 17, 1))
    broken(Bsr(2, 4), W8, index_bits=4)
    broken(Bsr(2, 4), W8, block_rows=0)
    broken(Bsr(2, 4), W8, block_cols=17)
    broken(Nm(2, 4), W8 * (np.arange(8) != 6), index=lambda i: edited(i, 0, 0))
    broken(Nm(2, 4), W8 * (np.arange(8) != 6), m=3)
    broken(Nm(2, 4), W8 * (np.arange(8) != 6), n=4)
    broken(Nm(2, 4), W8 * (np.arange(8) != 6), n=0)
    broken(Nm(1, 2), np.eye(3, 6, dtype=np.int8), index=lambda i: edited(i, 0, i[0] | 8))
    broken(DeltaCsr(8), W, index=lambda i: edited(i, 6, 200))
    broken(DeltaCsr(4), W, index=lambda i: edited(i, 8, i[8] | 0xF0))
    broken(DeltaCsr(4), W, index_bits=6)


@pytest.mark.parametrize("name", BROKEN[58])
def test_broken_lanes_are_refused(name: str) -> None:
    """What the core refuses in one group of everything()."""
    data = write_plan(BROKEN[58][name](everything()))
    with pytest.raises(PlanInvalid, match=r"^I-58: "):
        Interpreter(data)


def test_parameters_an_encoding_does_not_use_are_refused() -> None:
    for changes in ({"block_rows": 2}, {"m": 4}, {"index_bits": 8}, {"packing": 1}):
        with pytest.raises(PlanInvalid, match=r"^I-52: "):
            decode_group(replace(Dense().row_group(W), **changes), 9)


def test_a_wrong_count_of_weights_is_refused() -> None:
    with pytest.raises(PlanInvalid, match=r"^I-57: "):
        decode_group(replace(Bitmask().row_group(W), nnz=3), 9)


def mutant(group: RowGroup, rng: np.random.Generator) -> RowGroup:
    name = ("values", "index")[int(rng.integers(2))]
    array = getattr(group, name).copy()
    if len(array):
        array[rng.integers(len(array))] = rng.integers(0, 127)
    return replace(group, **{name: array[: len(array) - int(rng.integers(0, 2))]})


def test_mutated_bytes_are_decoded_or_refused() -> None:
    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(4000):
        form = EVERY[int(rng.integers(len(EVERY)))]
        w = fitting(form, rng.integers(-1, 2, (rng.integers(1, 9), rng.integers(16, 40)), np.int8))
        try:
            decode_group(mutant(form.row_group(w), rng), w.shape[1])
            accepted += 1
        except PlanInvalid:
            pass
    assert 200 < accepted < 3800


# ---- whole matrices -----------------------------------------------------------------------------


def test_row_groups_and_row_order_give_output_channels() -> None:
    order = np.array([2, 0, 1], np.uint16)
    groups = (Bitmask().row_group(W[:1]), Dense().row_group(W[1:], 1))
    weights = Weights(rows=3, cols=9, groups=groups, row_order=order)
    decoded = decode_weights(weights)
    assert np.array_equal(decoded[[2, 0, 1]], W)
    assert np.array_equal(decode_weights(replace(weights, row_order=None)), W)


@pytest.mark.parametrize("changes", [
    {"rows": 4}, {"row_order": np.array([0, 0, 1], np.uint16)},
    {"row_order": np.array([0, 1], np.uint16)}, {"groups": (Dense().row_group(W, 1),)},
])
def test_row_groups_that_do_not_cut_the_rows_are_refused(changes: dict[str, object]) -> None:
    weights = Weights(rows=3, cols=9, groups=(Dense().row_group(W),))
    with pytest.raises(PlanInvalid, match=r"^I-51: "):
        decode_weights(replace(weights, **changes))  # type: ignore[arg-type]


# ---- interchange --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Csr, Csc, Coo])
def test_interchange_formats_give_the_weights_back(kind: type[Csr] | type[Csc] | type[Coo]) -> None:
    rng = np.random.default_rng(2)
    for rows in (0, 1, 4, 17):
        for cols in (1, 5, 16):
            for density in (0.0, 0.5, 1.0):
                w = rng.integers(-128, 128, (rows, cols)) * (rng.random((rows, cols)) < density)
                w = w.astype(np.int8)
                assert np.array_equal(kind.encode(w).decode(), w)


def test_interchange_formats_are_those_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    csr, csc = sparse.csr_matrix(W), sparse.csc_matrix(W)
    ours, by_column = Csr.encode(W), Csc.encode(W)
    assert np.array_equal(ours.columns, csr.indices)
    assert np.array_equal(ours.starts, csr.indptr)
    assert np.array_equal(by_column.rows, csc.indices)
    assert np.array_equal(by_column.starts, csc.indptr)
    assert np.array_equal(by_column.values, csc.data)


def test_interchange_sizes_count_every_array() -> None:
    """8 weights: 8-bit values, 16-bit coordinates, 32-bit starts."""
    assert Csr.encode(W).size == 8 + 2 * 8 + 4 * 4
    assert Csc.encode(W).size == 8 + 2 * 8 + 4 * 10
    assert Coo.encode(W).size == 8 + 2 * 8 + 2 * 8


def test_interchange_arrays_that_do_not_fit_are_refused() -> None:
    csr, coo = Csr.encode(W), Coo.encode(W)
    for bad in (
        replace(csr, starts=csr.starts[:-1]), replace(csr, values=csr.values[:-1]),
        replace(csr, columns=csr.columns + 5), replace(csr, starts=csr.starts[::-1]),
        replace(coo, rows=coo.rows[:-1]), replace(coo, columns=coo.columns - 9),
        replace(coo, rows=coo.rows * 0, columns=coo.columns * 0),
    ):
        with pytest.raises(BadInput):
            bad.decode()
