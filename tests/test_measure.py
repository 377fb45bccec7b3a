"""Measuring zeros, naming the pattern, choosing the encoding."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgesparse.errors import DoesNotFit
from edgesparse.graph.ir import Array
from edgesparse.plan.model import Weights
from edgesparse.sparsity.choose import MAX_GROUPS, MIN_SAVING, Decision, choose
from edgesparse.sparsity.formats import decode_weights
from edgesparse.sparsity.measure import BLOCK_SIZES, measure
from plan_builder import random_weights

Rng = np.random.Generator


# ---- pruners ------------------------------------------------------------------------------------


def block_pruned(rng: Rng, shape: tuple[int, int], block: tuple[int, int], zeros: float) -> Array:
    """Whole blocks are zero; the last ones may be cut off."""
    rows, cols = shape
    kept = rng.random((-(-rows // block[0]), -(-cols // block[1]))) >= zeros
    mask = np.repeat(np.repeat(kept, block[0], 0), block[1], 1)[:rows, :cols]
    return random_weights(rng, rows, cols) * mask.astype(np.int8)


def nm_pruned(rng: Rng, shape: tuple[int, int], n: int, m: int) -> Array:
    w = random_weights(rng, *shape)
    groups = w.reshape(shape[0], -1, m)
    rank = rng.random(groups.shape).argsort(axis=2).argsort(axis=2)
    return (groups * (rank < n)).reshape(shape).astype(np.int8)


def dead_pruned(rng: Rng, shape: tuple[int, int], rows: int, cols: int) -> Array:
    w = random_weights(rng, *shape)
    w[rng.permutation(shape[0])[:rows]] = 0
    w[:, rng.permutation(shape[1])[:cols]] = 0
    return w


def sprinkled(rng: Rng, w: Array, zeros: float) -> Array:
    """Zeros of quantization on top."""
    return (w * (rng.random(w.shape) >= zeros)).astype(np.int8)


# ---- the numbers --------------------------------------------------------------------------------


def test_the_numbers_of_a_small_matrix_are_those_counted_by_hand() -> None:
    w = np.array([
        [1, 2, 0, 0, 0, 0, 0, 3],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 1, 0],
    ], np.int8)
    stats = measure(w)
    assert (stats.rows, stats.cols, stats.zeros) == (3, 8, 17)
    assert stats.zero_fraction == 17 / 24
    assert stats.dead_rows == (1,)
    assert stats.dead_cols == (3, 5)
    assert stats.balance == 4 / (7 / 3)
    assert stats.row_histogram == (1, 0, 0, 1, 0, 1, 0, 0, 0, 0)
    by_m = {g.m: g for g in stats.groups}
    assert (by_m[4].histogram, by_m[4].exact) == ((2, 1, 3, 0, 0), 2)
    assert (by_m[8].histogram, by_m[8].exact) == ((1, 0, 0, 1, 1, 0, 0, 0, 0), 4)
    assert by_m[4].mean == 7 / 6
    assert (by_m[16].exact, sum(by_m[16].histogram)) == (None, 0)
    by_size = {(b.rows, b.cols): b for b in stats.blocks}
    assert set(by_size) == set(BLOCK_SIZES)
    assert by_size[1, 2].density == 6 / 12
    assert by_size[1, 4].density == 4 / 6
    assert by_size[1, 16].density == 2 / 3
    assert by_size[2, 1].density == 7 / 16
    assert by_size[4, 1].density == 6 / 8
    assert by_size[2, 4].density == 4 / 4
    assert by_size[1, 2].inside == 12 / 17
    assert by_size[1, 2].live_zeros == 5 / 12


def test_a_weight_equal_to_the_zero_point_is_a_zero() -> None:
    w = np.array([[3, 0, 3, 1]], np.int8)
    assert measure(w, zero_point=3).zeros == 2
    assert measure(w).zeros == 1


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (3, 5)])
def test_matrices_without_weights_have_no_zero_divisions(shape: tuple[int, int]) -> None:
    stats = measure(np.zeros(shape, np.int8))
    assert stats.balance == 1
    assert stats.zeros == shape[0] * shape[1]
    assert str(stats.pattern) == ("dead channels" if stats.zeros else "dense")


# ---- the pattern --------------------------------------------------------------------------------

SHAPES = ((32, 60), (48, 144), (64, 320), (128, 96), (20, 80))
ZEROS = (0.3, 0.5, 0.75, 0.9)
NATURAL = (0.0, 0.04)


def patterns() -> list[tuple[str, Array]]:
    """(what was done, matrix) for every pruner, shape, share of zeros and seed."""
    out: list[tuple[str, Array]] = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for shape in SHAPES:
            for natural in NATURAL:
                out.append(("dense", sprinkled(rng, random_weights(rng, *shape), natural)))
                dead = dead_pruned(rng, shape, shape[0] // 4, shape[1] // 5)
                out.append(("dead channels", sprinkled(rng, dead, natural)))
            for zeros in ZEROS:
                out.append(("unstructured", random_weights(rng, *shape, density=1 - zeros)))
                for block in BLOCK_SIZES:
                    few = -(-shape[0] // block[0]) < 4 or -(-shape[1] // block[1]) < 4
                    if few:  # too few blocks in a line: whole rows or columns die instead
                        continue
                    for natural in NATURAL:
                        w = sprinkled(rng, block_pruned(rng, shape, block, zeros), natural)
                        out.append((f"block {block[0]}x{block[1]}", w))
            for n, m in ((1, 4), (2, 4), (3, 4), (1, 8), (3, 8), (4, 8), (5, 16), (1, 16)):
                if shape[1] % m == 0:
                    out.append((f"{n}:{m}", nm_pruned(rng, shape, n, m)))
    return out


def test_the_pattern_of_every_generated_matrix_is_recognised() -> None:
    cases = patterns()
    wrong = [(done, str(measure(w).pattern), w.shape) for done, w in cases
             if str(measure(w).pattern) != done]
    assert len(cases) > 1200
    assert wrong == []


# ---- the choice ---------------------------------------------------------------------------------


def decided(w: Array, **options: object) -> Decision:
    decision = choose(measure(w), w, **options)  # type: ignore[arg-type]
    weights = Weights(rows=w.shape[0], cols=w.shape[1], groups=decision.groups,
                      row_order=decision.row_order)
    assert np.array_equal(decode_weights(weights), w)
    assert decision.bytes == sum(len(g.values) + len(g.index) for g in decision.groups)
    assert 1 <= len(decision.groups) <= MAX_GROUPS
    return decision


def chosen(w: Array) -> str:
    decision = decided(w)
    assert len(decision.groups) == 1
    return decision.reason.split(":" if not re.match(r"\d+:\d+", decision.reason) else ": ")[0]


RNG = np.random.default_rng(11)


@pytest.mark.parametrize(("w", "name"), [
    (random_weights(RNG, 48, 144), "dense"),
    (random_weights(RNG, 48, 144, 0.95), "dense"),
    (random_weights(RNG, 48, 144, 0.4), "bitmask"),
    (random_weights(RNG, 48, 144, 0.1), "delta4"),
    (random_weights(RNG, 48, 2000, 0.005), "delta8"),
    (block_pruned(RNG, (48, 144), (4, 1), 0.75), "bsr 4x1"),
    (block_pruned(RNG, (48, 144), (16, 1), 0.75), "bsr 16x1"),
    (block_pruned(RNG, (48, 144), (1, 4), 0.75), "bsr 1x4"),
    (block_pruned(RNG, (48, 144), (1, 16), 0.75), "bsr 1x16"),
    (block_pruned(RNG, (48, 144), (2, 4), 0.75), "bsr 2x4"),
    (nm_pruned(RNG, (48, 144), 2, 4), "2:4"),
    (nm_pruned(RNG, (48, 144), 1, 4), "1:4"),
    (nm_pruned(RNG, (48, 144), 1, 8), "1:8"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_each_pattern_gets_its_encoding(w: Array, name: str) -> None:
    assert chosen(w) == name


def test_the_smallest_is_taken_or_one_within_ten_percent_of_it() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = (int(rng.integers(1, 60)), int(rng.integers(1, 120)))
        w = sprinkled(rng, block_pruned(rng, shape, (4, 1), rng.random()), rng.random() * 0.4)
        decision = decided(w)
        smallest = decision.candidates[0][1]
        assert [size for _, size in decision.candidates] == sorted(
            size for _, size in decision.candidates)
        if len(decision.groups) > 1:
            assert decision.bytes < 0.95 * 1.1 * smallest
        elif decision.reason.startswith("dense"):
            assert smallest >= (1 - MIN_SAVING) * w.size
        else:
            assert decision.bytes <= 1.1 * smallest
            assert decision.bytes < (1 - MIN_SAVING) * w.size


def test_dense_stays_unless_fifteen_percent_are_saved() -> None:
    """100 x 100: 13 index bytes per row, so that bitmask takes 1,300 B and the weights."""
    w = random_weights(RNG, 100, 100)
    w.ravel()[np.random.default_rng(0).permutation(10_000)[:2750]] = 0
    assert decided(w, only=("dense", "bitmask")).reason.startswith("dense: ")
    w.ravel()[np.random.default_rng(0).permutation(10_000)[:2850]] = 0
    assert decided(w, only=("dense", "bitmask")).reason.startswith("bitmask: ")


def test_the_reason_says_what_people_want_to_know() -> None:
    w = random_weights(RNG, 48, 256)
    mask = np.zeros((12, 256), np.int8)
    for i in range(12):
        mask[i, i % 4 :: 4] = 1
    w = w * np.repeat(mask, 4, axis=0)
    w[np.arange(0, 48, 4), np.arange(12) % 4] = 0
    assert decided(w).reason == (
        "bsr 4x1: 75.1 % zeros, 75.0 % in whole 4x1 blocks; 3,864 B against 12,288 B dense "
        "(31 %), 1:4 3,840 B")
    w[np.arange(0, 48, 4), np.arange(12) % 4] = 1
    assert decided(w).reason.startswith("bsr 4x1: 75.0 % zeros in whole 4x1 blocks; 3,864 B")


def test_only_the_named_formats_are_tried() -> None:
    w = block_pruned(RNG, (48, 144), (4, 1), 0.75)
    assert decided(w, only=("dense",)).candidates == (("dense", w.size),)
    assert decided(w, only=("2:4", "bitmask")).reason.startswith("bitmask")
    with pytest.raises(DoesNotFit, match="2:4"):
        decided(w, only=("2:4",))


def test_one_bad_group_costs_a_row_group_and_not_the_layer() -> None:
    w = nm_pruned(RNG, (128, 256), 1, 4)
    w[65, 8:12] = 1, 2, 3, 4
    decision = decided(w)
    assert len(decision.groups) == 3
    bad = decision.groups[1]
    assert (bad.first_row, bad.row_count) == (64, 4)
    assert {g.encoding.name for g in (decision.groups[0], decision.groups[2])} == {"NM"}
    assert decision.reason.startswith("3 row groups (rows 0-63 1:4, rows 64-67 ")


def test_a_dense_and_a_sparse_part_are_stored_apart() -> None:
    w = random_weights(RNG, 64, 100)
    w[32:] = block_pruned(RNG, (32, 100), (4, 1), 0.9)
    decision = decided(w)
    assert [(g.first_row, g.encoding.name) for g in decision.groups] == [(0, "DENSE"), (32, "BSR")]


def test_a_split_that_saves_little_is_not_made() -> None:
    w = random_weights(RNG, 64, 100, 0.5)
    w[:4] = random_weights(RNG, 4, 100)
    assert len(decided(w).groups) == 1


def test_rows_are_sorted_only_when_allowed_and_when_it_pays() -> None:
    w = random_weights(RNG, 64, 200)
    w[1::2] = random_weights(RNG, 32, 200, 0.05)
    assert decided(w).row_order is None
    decision = decided(w, allow_permutation=True)
    assert decision.row_order is not None
    assert set(decision.row_order[:32].tolist()) == set(range(0, 64, 2))
    assert decision.bytes + 128 < 0.95 * decided(w).bytes
    even = random_weights(RNG, 64, 200, 0.5)
    assert decided(even, allow_permutation=True).row_order is None
