"""Which beats pair up: one to one, within the window, the nearest, ties as bxb has them."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.scoring import match

WINDOW = 54  # 150 ms at 360 Hz


def matched(reference: list[int], test: list[int], window: int = WINDOW) -> list[tuple[int, int]]:
    found = match(np.array(reference, np.int64), np.array(test, np.int64), window)
    assert sorted([i for i, _ in found.pairs] + list(found.missed)) == list(range(len(reference)))
    assert sorted([j for _, j in found.pairs] + list(found.extra)) == list(range(len(test)))
    return [(reference[i], test[j]) for i, j in found.pairs]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_beat_exactly_at_the_window_matches_and_one_sample_more_does_not(sign: int) -> None:
    assert matched([1000], [1000 + sign * WINDOW]) == [(1000, 1000 + sign * WINDOW)]
    assert matched([1000], [1000 + sign * (WINDOW + 1)]) == []


def test_each_beat_has_at_most_one_partner() -> None:
    assert matched([1000], [990, 1005, 1020]) == [(1000, 1005)]
    assert matched([990, 1005, 1020], [1000]) == [(1005, 1000)]


def test_of_two_tests_near_one_reference_the_nearer_one_wins() -> None:
    assert matched([1000], [970, 1010]) == [(1000, 1010)]
    assert matched([1000], [990, 1030]) == [(1000, 990)]


def test_a_tie_goes_to_the_later_one() -> None:
    assert matched([1000], [990, 1010]) == [(1000, 1010)]
    assert matched([990, 1010], [1000]) == [(1010, 1000)]


def test_two_beats_at_the_same_sample_find_one_partner() -> None:
    assert matched([1000, 1000], [1000]) == [(1000, 1000)]
    assert matched([1000], [1000, 1000]) == [(1000, 1000)]


def test_a_doublet_closer_than_the_window_pairs_in_order() -> None:
    assert matched([1000, 1040], [1005, 1046]) == [(1000, 1005), (1040, 1046)]
    assert matched([1000, 1040], [981, 1020]) == [(1000, 981), (1040, 1020)]


def test_ties_in_a_doublet_cost_a_pair_as_in_bxb() -> None:
    # 980 leaves 1000 to 1020, then 1000 leaves 1020 to 1040.
    assert matched([1000, 1040], [980, 1020]) == [(1040, 1020)]
    assert matched([1000, 1000], [1000, 1000]) == [(1000, 1000)]


def test_a_test_between_two_references_goes_to_the_nearer_even_if_that_costs_a_pair() -> None:
    # 1030 is nearer to 1050; then 1090, though near enough to 1050, has no partner left.
    assert matched([1000, 1050], [1030, 1090]) == [(1050, 1030)]


def test_empty_lists_match_nothing() -> None:
    assert matched([], []) == []
    assert matched([5], []) == []
    assert matched([], [5]) == []


def test_a_window_of_zero_wants_the_same_sample() -> None:
    assert matched([10, 20], [10, 21], window=0) == [(10, 10)]
