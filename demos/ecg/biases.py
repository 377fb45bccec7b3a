"""Figures of cross-validated logits at other biases of the S and V logits, or of averaged nets.

python -m demos.ecg.biases LOGITS.npz ... [--together] [--s -1 0 1] [--v -1 0 1] [--choose]
The files are those that cross_validate.py --bias 0 0 writes, all four folds.
--choose applies the rule of EXPERIMENTS.md to the grid: the pair with the largest macro-F1 (mean
over the files) among those whose V sensitivity is at most 1.0 point below that at S -0.7, V 0.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demos.ecg import data, evaluate
from demos.ecg import reference_decoder as rd
from demos.ecg.cross_validate import SHOWN, line, mean_and_sd
from demos.ecg.split import DS1

Logits = dict[str, Any]
"""Record -> logits [steps, 4] float32."""
ANCHOR = (-0.7, 0.0)
"""S and V shift that the rule measures V sensitivity against: that of the earlier study."""
ALLOWED_V_SE = 1.0


@dataclass(frozen=True)
class Detected:
    """One record's beats; where they are does not depend on the biases of the classes.

    rows    [beats + extra] int64, annotated class 0 .. 4, or 5 for none
    beat    [beats + extra, 3] float64, probability of a beat at three steps
    logits  [beats + extra, 3, 3] float64, N S V at three steps
    missed  [6] int64, annotated beats without a partner, by class
    """

    rows: NDArray[np.int64]
    beat: NDArray[np.float64]
    logits: NDArray[np.float64]
    missed: NDArray[np.int64]


def detected(record: data.Record, logits: NDArray[np.float32]) -> Detected:
    """Decode and match once."""
    beats = rd.decode(logits)
    inside = beats.position < len(record.samples)
    pairs = evaluate.match(record.peaks, beats.position[inside])
    missed = np.zeros(6, np.int64)
    rows = np.full(int(inside.sum()), 5, np.int64)
    for i, j in pairs:
        if j < 0:
            missed[record.kinds[i]] += 1
        elif i >= 0:
            rows[j] = record.kinds[i]
    padded = np.pad(np.asarray(logits, np.float64), ((1, 1), (0, 0)))
    around = padded[beats.step[inside][:, None] + np.arange(3)]
    beat = 1.0 / (1.0 + np.exp(-around[:, :, 0]))
    last = len(logits) - 1
    outside = beats.step[inside][:, None] + np.arange(-1, 2)
    beat[(outside < 0) | (outside > last)] = 0.0
    return Detected(rows, beat, around[:, :, 1:], missed)


def figures_at(records: list[Detected], s: float, v: float) -> dict[str, Any]:
    """Gross figures with the logits of S and V shifted."""
    shift = np.array([0.0, s, v])
    counts = np.zeros((6, 4), np.int64)
    kinds, shares = [], []
    for record in records:
        z = record.logits + shift
        share = np.exp(z - z.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
        vote = (record.beat[:, :, None] * share).sum(axis=1)
        np.add.at(counts, (record.rows, vote.argmax(axis=1)), 1)
        counts[:, 3] += record.missed
        nsv = record.rows < 3
        kinds.append(record.rows[nsv])
        shares.append((vote / vote.sum(axis=1, keepdims=True))[nsv])
    gross: dict[str, Any] = evaluate.figures(counts)
    kind, share = np.concatenate(kinds), np.concatenate(shares)
    for k, name in ((2, "v_ap"), (1, "s_ap")):
        gross[name] = evaluate.average_precision(kind == k, share[:, k])
    return gross


def main() -> None:
    """Print one line for each pair of shifts: means over the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/mitdb"))
    parser.add_argument("--together", action="store_true", help="average the logits: an ensemble")
    parser.add_argument("--s", type=float, nargs="+", default=[0.0])
    parser.add_argument("--v", type=float, nargs="+", default=[0.0])
    parser.add_argument("--choose", action="store_true", help="apply the rule to these shifts")
    args = parser.parse_args()
    records = {name: data.load_record(args.data, name) for name in DS1}
    runs: list[Logits] = [dict(np.load(path)) for path in args.files]
    if args.together:
        runs = [{name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}]
    beats = [[detected(records[name], run[name]) for name in run] for run in runs]

    def means(s: float, v: float) -> dict[str, float]:
        spread = mean_and_sd([figures_at(run, s, v) for run in beats])
        return {name: spread[name][0] for name in SHOWN}

    found = {(s, v): means(s, v) for s in args.s for v in args.v}
    for (s, v), figures in found.items():
        print(f"S {s:+.2f} V {v:+.2f}  {line(figures)}", flush=True)
    if args.choose:
        floor = means(*ANCHOR)["v_se"] - ALLOWED_V_SE
        allowed = {pair: f for pair, f in found.items() if f["v_se"] >= floor}
        s, v = max(allowed, key=lambda pair: allowed[pair]["mf1"])
        print(f"V Se of at least {floor:.2f}: S {s:+.2f} V {v:+.2f}  {line(allowed[s, v])}")


if __name__ == "__main__":
    main()
