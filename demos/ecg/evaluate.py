"""Scores of decoded beats against annotations.

A short re-implementation of the usual beat-by-beat rules, not the bxb program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demos.ecg import reference_decoder as rd
from demos.ecg import reference_integer as ri
from demos.ecg.data import Record
from demos.ecg.folded import Folded, run_folded

MATCH_SAMPLES = 54
"""150 ms at 360 Hz."""
ROWS = ("N", "S", "V", "F", "Q", "extra")
COLUMNS = (*rd.CLASSES, "missed")


@dataclass(frozen=True)
class Found:
    """Decoded beats.

    position  [beats] float64, samples at 360 Hz
    kind      [beats] int64, 0 .. 2
    share     [beats, 3] float64, of N, S, V; adds up to 1
    """

    position: NDArray[np.float64]
    kind: NDArray[np.int64]
    share: NDArray[np.float64]


Detect = Callable[[NDArray[np.int64]], Found]
"""inputs [time] 1/16 ADC unit at 180 Hz -> beats."""


def decode_float(logits: NDArray[np.floating[Any]]) -> Found:
    """logits [steps, 4] -> beats by the float decoder."""
    beats = rd.decode(logits)
    total = beats.vote.sum(axis=1, keepdims=True)
    return Found(beats.position, beats.kind, beats.vote / total)


def decode_integer(logits: NDArray[np.int8], luts: ri.Tables) -> Found:
    """logits [steps, 4] int8 -> beats by the integer decoder."""
    beats = ri.decode(logits, luts)
    total = beats.vote.sum(axis=1, keepdims=True)
    return Found(beats.position.astype(np.float64), beats.kind, beats.vote / total)


def float_detector(folded: list[Folded]) -> Detect:
    """The folded float net and the float decoder."""
    return lambda inputs: decode_float(run_folded(folded, ri.millivolts(inputs)))


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


def whole(record: Record) -> NDArray[np.int64]:
    """The model's inputs over a whole record, flushed at its end: [time] 1/16 ADC unit."""
    return ri.front_end(rd.flushed(record.samples[:, 0]))


@dataclass(frozen=True)
class Scored:
    """One record's comparison.

    counts   [6, 4] int64 (ROWS annotated, COLUMNS found)
    errors   [beats] float64, ms: timing of matched beats
    kinds    [beats] int64, annotated class of matched beats of N, S, V
    share    [beats, 3] float64, what was found for them
    """

    counts: NDArray[np.int64]
    errors: NDArray[np.float64]
    kinds: NDArray[np.int64]
    share: NDArray[np.float64]


def compare(record: Record, found: Found) -> Scored:
    """Count beats of a whole record; those at or after its end do not count."""
    inside = found.position < len(record.samples)
    position, kind, share = found.position[inside], found.kind[inside], found.share[inside]
    counts = np.zeros((len(ROWS), len(COLUMNS)), np.int64)
    both = []
    for i, j in match(record.peaks, position):
        counts[5 if i < 0 else record.kinds[i], 3 if j < 0 else kind[j]] += 1
        if i >= 0 and j >= 0:
            both.append((i, j))
    left, right = np.array(both, np.int64).reshape(-1, 2).T
    errors = (position[right] - record.peaks[left]) / rd.SAMPLE_RATE_HZ * 1e3
    kinds = record.kinds[left]
    nsv = kinds < 3
    return Scored(counts, errors, kinds[nsv], share[right][nsv])


def figures(counts: NDArray[np.int64]) -> dict[str, float | None]:
    """Gross sensitivity (Se) and positive predictivity (+P) in per cent, from counts [6, 4].

    qrs  all beats
    n    F or Q called N is not counted as false
    v    F or Q called V is not counted as false
    s    Q called S is not counted as false
    acc  correct class over all annotated N, S, V, missed ones included
    mf1  mean F1 of N, S, V; None when one of them is not annotated
    """

    def percent(part: float, total: float) -> float | None:
        return round(100.0 * part / total, 2) if total else None

    c = counts.astype(int)
    hit = int(c[:5, :3].sum())
    false = ((1, 2, 5), (0, 2, 3, 5), (0, 1, 5))
    out = {
        "qrs_se": percent(hit, int(c[:5].sum())),
        "qrs_pp": percent(hit, hit + int(c[5].sum())),
    }
    f1 = []
    for k, name in enumerate("nsv"):
        right, annotated = int(c[k, k]), int(c[k].sum())
        called = right + int(c[list(false[k]), k].sum())
        out[f"{name}_se"] = percent(right, annotated)
        out[f"{name}_pp"] = percent(right, called)
        if annotated:
            f1.append(2.0 * right / (annotated + called))
    out["acc"] = percent(int(c[0, 0] + c[1, 1] + c[2, 2]), int(c[:3].sum()))
    out["mf1"] = percent(sum(f1) / 3, 1.0) if len(f1) == 3 else None
    return out


def average_precision(wanted: NDArray[np.bool_], score: NDArray[np.float64]) -> float | None:
    """Mean over the wanted ones of the precision at their rank, per cent; ties in given order."""
    if not wanted.any():
        return None
    hits = wanted[np.argsort(-score, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return round(100.0 * float(precision[hits].mean()), 2)


def pooled(parts: dict[str, Scored]) -> dict[str, Any]:
    """Figures of all records together and of each, confusion, average precision, timing."""
    total = np.sum([p.counts for p in parts.values()], axis=0)
    kinds = np.concatenate([p.kinds for p in parts.values()])
    share = np.concatenate([p.share for p in parts.values()])
    error = np.concatenate([p.errors for p in parts.values()])
    gross = figures(total)
    for k, name in ((2, "v_ap"), (1, "s_ap")):
        gross[name] = average_precision(kinds == k, share[:, k])
    return {
        "pooled": gross,
        "rows": ROWS,
        "columns": COLUMNS,
        "confusion": total.tolist(),
        "timing_ms": {
            "mean": round(float(error.mean()), 2),
            "sd": round(float(error.std()), 2),
            "p95_abs": round(float(np.quantile(abs(error), 0.95)), 2),
        },
        "v_false": {
            name: int(p.counts[[0, 1, 5], 2].sum())
            for name, p in parts.items()
            if p.counts[[0, 1, 5], 2].sum() > 20
        },
        "records": {name: figures(p.counts) for name, p in parts.items()},
    }


def evaluate(records: Iterable[Record], detect: Detect) -> dict[str, Scored]:
    """Compare every record."""
    return {record.name: compare(record, detect(whole(record))) for record in records}


def agreement(pairs: Iterable[tuple[Found, Found]]) -> dict[str, float]:
    """Two decodings of the same records: per cent of events unmatched, of matched of one class."""
    unmatched = same = matched = 0
    for a, b in pairs:
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
