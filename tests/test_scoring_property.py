"""What holds for any annotations, and comparisons with two other ways to match beats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from edgesparse.graph.ir import Array
from edgesparse.scoring import (
    CLASSES,
    SYMBOLS,
    Rules,
    average_precision,
    match,
    score_record,
)
from edgesparse.signals import Annotations, read_annotations
from needs import require

RELAXED = settings(deadline=None)
"""Machines that run tests are busy; time says nothing here."""
RATE = 360.0
WINDOW = 54
SHIFT = 36  # 100 ms
DS1 = ("101", "106", "119", "203", "207", "208", "215", "223")
"""Training records only: one without ectopy, one with flutter, noisy ones, ones with many V."""

anywhere = st.lists(st.integers(0, 5000), max_size=60).map(sorted)


def annotations(samples: list[int], symbols: str) -> Annotations:
    return Annotations("any", np.array(samples, np.int64), tuple(symbols), RATE)


@st.composite
def any_annotations(draw: st.DrawFn, gap: int = 0) -> Annotations:
    """Beats at least `gap` samples apart (0: anywhere, also in one place) and other marks."""
    steps = draw(st.lists(st.integers(gap, gap + 600), max_size=30))
    symbols = draw(st.lists(
        st.sampled_from("NNNAVFQ/LRaJSEejf+~|!"), min_size=len(steps), max_size=len(steps)))
    return annotations(np.cumsum(steps, dtype=np.int64).tolist(), "".join(symbols))


@RELAXED
@given(anywhere, anywhere, st.integers(0, 100))
def test_a_matching_is_one_to_one_in_order_and_within_the_window(
    reference: list[int], test: list[int], window: int
) -> None:
    found = match(np.array(reference, np.int64), np.array(test, np.int64), window)
    left, right = [i for i, _ in found.pairs], [j for _, j in found.pairs]
    assert left == sorted(set(left))
    assert right == sorted(set(right))
    assert sorted([*left, *found.missed]) == list(range(len(reference)))
    assert sorted([*right, *found.extra]) == list(range(len(test)))
    assert all(abs(reference[i] - test[j]) <= window for i, j in found.pairs)


@RELAXED
@given(any_annotations(), any_annotations())
def test_every_beat_is_counted_once(reference: Annotations, test: Annotations) -> None:
    counts = score_record("any", reference, test).counts
    for kind in range(len(CLASSES)):
        assert sum(counts.cells[kind]) == sum(SYMBOLS.get(s) == kind for s in reference.symbols)
        assert sum(row[kind] for row in counts.cells) == sum(
            SYMBOLS.get(s) == kind for s in test.symbols)
    assert counts.reference - counts.missed == counts.qrs.tp == counts.test - counts.extra
    assert counts.cells[-1][-1] == 0


@RELAXED
@given(any_annotations(gap=1))
def test_a_record_agrees_with_itself(record: Annotations) -> None:
    counts = score_record("any", record, record).counts
    assert counts.missed == counts.extra == 0
    assert counts.agreement in (1, None)
    for found in (counts.qrs, counts.normal, counts.veb, counts.sveb):
        assert found.fn == found.fp == 0


@RELAXED
@given(any_annotations(gap=2 * SHIFT + 1), st.integers(-SHIFT, SHIFT))
def test_a_shift_of_up_to_100_ms_keeps_every_pair(record: Annotations, shift: int) -> None:
    later = annotations((record.samples + 1000).tolist(), "".join(record.symbols))
    moved = annotations((record.samples + 1000 + shift).tolist(), "".join(record.symbols))
    assert score_record("any", later, moved).counts == score_record("any", later, later).counts


@RELAXED
@given(any_annotations(gap=2 * WINDOW + 1), any_annotations(gap=2 * WINDOW + 1))
def test_swapping_reference_and_test_transposes_the_counts(
    one: Annotations, other: Annotations
) -> None:
    """Where events of one list are more than two windows apart there is no choice to make."""
    forth = np.array(score_record("any", one, other).counts.cells)
    back = np.array(score_record("any", other, one).counts.cells)
    assert (forth == back.T).all()


@RELAXED
@given(any_annotations(gap=2 * WINDOW + 1), any_annotations(gap=2 * WINDOW + 1))
def test_far_apart_events_match_as_a_linear_assignment_would(
    one: Annotations, other: Annotations
) -> None:
    gap = np.abs(one.samples[:, None] - other.samples[None, :])
    cost = np.where(gap <= WINDOW, gap - 10_000.0, 0.0)
    rows, columns = linear_sum_assignment(cost)
    best = {(int(i), int(j)) for i, j in zip(rows, columns) if gap[i, j] <= WINDOW}
    assert set(match(one.samples, other.samples, WINDOW).pairs) == best


@RELAXED
@given(st.lists(st.tuples(any_annotations(), any_annotations()), min_size=2, max_size=4))
def test_counts_of_records_add_up(records: list[tuple[Annotations, Annotations]]) -> None:
    parts = [score_record("any", *pair).counts for pair in records]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.reference == sum(part.reference for part in parts)
    assert total.veb.tp == sum(part.veb.tp for part in parts)
    assert total.sveb.fp == sum(part.sveb.fp for part in parts)


@RELAXED
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=40))
def test_average_precision_is_its_definition(pairs: list[tuple[bool, int]]) -> None:
    positive = np.array([p for p, _ in pairs], bool)
    scores = np.array([s for _, s in pairs], np.float32)
    expected, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        taken = scores >= threshold
        hits = int((positive & taken).sum())
        recall = hits / max(int(positive.sum()), 1)
        expected += (recall - before) * hits / int(taken.sum())
        before = recall
    found = average_precision(positive, scores)
    assert (found is None) == (not positive.any())
    assert found is None or found == pytest.approx(expected, abs=1e-12)


# ---- real annotations, disturbed ----------------------------------------------------------------


@pytest.fixture(scope="module")
def mitdb(data_root: Path) -> Path:
    require("ecg")
    require("data", (data_root / "data" / "mitdb").is_dir())
    return data_root / "data" / "mitdb"


def beats_only(record: Annotations) -> Annotations:
    kept = [at for at, symbol in enumerate(record.symbols) if symbol in SYMBOLS]
    return Annotations(record.name, record.samples[kept],
                       tuple(record.symbols[at] for at in kept), record.rate_hz, record.length)


def disturbed(record: Annotations, jitter: int, rng: np.random.Generator) -> Annotations:
    """Beats moved by up to `jitter` samples, 1 % dropped, 1 % added, 2 % called V."""
    assert record.length is not None
    samples = record.samples + rng.integers(-jitter, jitter + 1, len(record))
    kept = rng.random(len(record)) > 0.01
    added = rng.integers(0, record.length, len(record) // 100)
    every = np.clip(np.concatenate([samples[kept], added]), 0, record.length - 1)
    symbols = np.concatenate([np.array(record.symbols)[kept], np.full(len(added), "N")])
    symbols[rng.random(len(symbols)) < 0.02] = "V"
    order = np.argsort(every, kind="stable")
    return Annotations(record.name, every[order], tuple(symbols[order].tolist()), RATE)


@pytest.mark.parametrize("name", DS1)
def test_qrs_agrees_with_compare_annotations_of_wfdb(mitdb: Path, name: str) -> None:
    from wfdb.processing import compare_annotations

    record = beats_only(read_annotations(mitdb / f"{name}.atr"))
    for jitter in (5, 25, 40):
        test = disturbed(record, jitter, np.random.default_rng(jitter))
        ours = score_record(name, record, test).counts.qrs
        # Theirs matches below its width, ours up to it.
        theirs = compare_annotations(record.samples, test.samples, WINDOW + 1)
        assert (ours.tp, ours.fn, ours.fp) == (theirs.tp, theirs.fn, theirs.fp)
        assert ours.sensitivity == pytest.approx(theirs.sensitivity, rel=1e-12)
        assert ours.positive_predictivity == pytest.approx(theirs.positive_predictivity, rel=1e-12)


def classes_by_nearest(record: Annotations, test: Annotations) -> Array:
    """Counts by another algorithm: all pairs, nearest first, each event once."""
    gap = np.abs(record.samples[:, None] - test.samples[None, :])
    i, j = np.nonzero(gap <= WINDOW)
    order = np.argsort(gap[i, j], kind="stable")
    cells = np.zeros((6, 6), np.int64)
    used_i, used_j = set(), set()
    for a, b in zip(i[order].tolist(), j[order].tolist()):
        if a not in used_i and b not in used_j:
            used_i.add(a)
            used_j.add(b)
            cells[SYMBOLS[record.symbols[a]], SYMBOLS[test.symbols[b]]] += 1
    for a in set(range(len(record))) - used_i:
        cells[SYMBOLS[record.symbols[a]], 5] += 1
    for b in set(range(len(test))) - used_j:
        cells[5, SYMBOLS[test.symbols[b]]] += 1
    return cells


@pytest.mark.parametrize("name", DS1)
def test_classes_agree_with_nearest_first_matching(mitdb: Path, name: str) -> None:
    record = beats_only(read_annotations(mitdb / f"{name}.atr"))
    test = disturbed(record, 25, np.random.default_rng(7))
    ours = np.array(score_record(name, record, test).counts.cells)
    assert np.abs(ours - classes_by_nearest(record, test)).sum() <= 4  # contested doublets


@pytest.mark.parametrize("name", DS1)
@settings(max_examples=5, deadline=None)
@given(shift=st.integers(0, SHIFT))
def test_real_records_agree_with_themselves_shifted(mitdb: Path, name: str, shift: int) -> None:
    record = read_annotations(mitdb / f"{name}.atr")
    later = Annotations(name, record.samples + shift, record.symbols, RATE)
    counts = score_record(name, record, later, Rules(leave_out_vf=False)).counts
    assert counts.qrs.fn == counts.qrs.fp == 0
    assert counts.accuracy == counts.agreement == 1
