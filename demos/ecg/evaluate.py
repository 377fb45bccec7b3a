"""Scores of decoded beats against annotations.

A short re-implementation of the usual beat-by-beat rules, not the bxb program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demos.ecg import reference_decoder as rd
from demos.ecg.data import Record

MATCH_SAMPLES = 54
"""150 ms at 360 Hz."""
ROWS = ("N", "S", "V", "F", "Q", "extra")
COLUMNS = (*rd.CLASSES, "missed")

Infer = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""inputs [time] mV at 180 Hz -> logits [ceil(time / 8), 4]."""


def match(peaks: NDArray[np.int64], found: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pair annotated and found beats one to one within 150 ms, walking forward; -1 is "none".

    peaks, found  [beats] samples at 360 Hz, ascending
    """
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(peaks) and j < len(found):
        gap = found[j] - peaks[i]
        if abs(gap) <= MATCH_SAMPLES:
            if j + 1 < len(found) and abs(found[j + 1] - peaks[i]) < abs(gap):
                pairs.append((-1, j))
            elif i + 1 < len(peaks) and abs(found[j] - peaks[i + 1]) < abs(gap):
                pairs.append((i, -1))
                i += 1
                continue
            else:
                pairs.append((i, j))
                i += 1
            j += 1
        elif gap > 0:
            pairs.append((i, -1))
            i += 1
        else:
            pairs.append((-1, j))
            j += 1
    pairs.extend((k, -1) for k in range(i, len(peaks)))
    pairs.extend((-1, k) for k in range(j, len(found)))
    return pairs


def confusion(record: Record, infer: Infer) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Run one whole record, flushed at its end.

    returns  counts [6, 4] int64 (ROWS annotated, COLUMNS found);
             timing error of matched beats [beats] float64, ms
    """
    inputs = rd.front_end(rd.flushed(record.samples[:, 0]))
    beats = rd.decode(infer(inputs))
    inside = beats.position < len(record.samples)
    counts = np.zeros((len(ROWS), len(COLUMNS)), np.int64)
    errors = []
    position, kind = beats.position[inside], beats.kind[inside]
    for i, j in match(record.peaks, position):
        counts[5 if i < 0 else record.kinds[i], 3 if j < 0 else kind[j]] += 1
        if i >= 0 and j >= 0:
            errors.append((position[j] - record.peaks[i]) / rd.SAMPLE_RATE_HZ * 1e3)
    return counts, np.array(errors)


def figures(counts: NDArray[np.int64]) -> dict[str, float | None]:
    """Gross sensitivity (Se) and positive predictivity (+P) in per cent, from counts [6, 4].

    qrs  all beats
    v    F or Q called V is not counted as false
    s    Q called S is not counted as false
    acc  correct class over all annotated N, S, V, missed ones included
    """

    def percent(part: int, whole: int) -> float | None:
        return round(100.0 * part / whole, 2) if whole else None

    c = counts.astype(int)
    hit = int(c[:5, :3].sum())
    return {
        "qrs_se": percent(hit, int(c[:5].sum())),
        "qrs_pp": percent(hit, hit + int(c[5].sum())),
        "n_se": percent(c[0, 0], int(c[0].sum())),
        "v_se": percent(c[2, 2], int(c[2].sum())),
        "v_pp": percent(c[2, 2], int(c[[0, 1, 2, 5], 2].sum())),
        "s_se": percent(c[1, 1], int(c[1].sum())),
        "s_pp": percent(c[1, 1], int(c[[0, 1, 2, 3, 5], 1].sum())),
        "acc": percent(int(c[0, 0] + c[1, 1] + c[2, 2]), int(c[:3].sum())),
    }


def evaluate(records: list[Record], infer: Infer) -> dict[str, Any]:
    """Confusion, figures (pooled and per record) and timing error of matched beats."""
    parts = {record.name: confusion(record, infer) for record in records}
    total = np.sum([counts for counts, _ in parts.values()], axis=0)
    error = np.concatenate([e for _, e in parts.values()])
    return {
        "pooled": figures(total),
        "rows": ROWS,
        "columns": COLUMNS,
        "confusion": total.tolist(),
        "timing_ms": {
            "mean": round(float(error.mean()), 2),
            "sd": round(float(error.std()), 2),
            "p95_abs": round(float(np.quantile(abs(error), 0.95)), 2),
        },
        "records": {name: figures(counts) for name, (counts, _) in parts.items()},
    }


def agreement(records: list[Record], left: Infer, right: Infer) -> dict[str, float]:
    """Beats of two runs of one net: per cent unmatched, per cent of matched in the same class."""
    unmatched = same = matched = 0
    for record in records:
        inputs = rd.front_end(rd.flushed(record.samples[:, 0]))
        a, b = rd.decode(left(inputs)), rd.decode(right(inputs))
        for i, j in match(np.rint(a.position).astype(np.int64), b.position):
            if i < 0 or j < 0:
                unmatched += 1
            else:
                matched += 1
                same += int(a.kind[i] == b.kind[j])
    return {
        "unmatched_percent": round(100.0 * unmatched / (matched + unmatched), 3),
        "same_class_percent": round(100.0 * same / matched, 3),
    }
