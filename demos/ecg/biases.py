"""Figures of cross-validated logits at other biases of the S and V logits, or of averaged nets.

python -m demos.ecg.biases LOGITS.npz ... [--together] [--s -1 0 1] [--v -1 0 1]
The files are those that cross_validate.py writes; the shipped nets have no shift.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from demos.ecg import data, evaluate
from demos.ecg.cross_validate import line, mean_and_sd

Logits = dict[str, Any]
"""Record -> logits [steps, 4] float32."""


def figures_at(logits: Logits, records: list[data.Record], s: float, v: float) -> dict[str, Any]:
    """Gross figures with the logits of S and V shifted."""
    shift = np.array([0.0, 0.0, s, v], np.float32)
    parts = {
        r.name: evaluate.compare(r, evaluate.decode_float(logits[r.name] + shift))
        for r in records
        if r.name in logits
    }
    gross: dict[str, Any] = evaluate.pooled(parts)["pooled"]
    return gross


def main() -> None:
    """Print one line for each pair of shifts: means over the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/mitdb"))
    parser.add_argument("--together", action="store_true", help="average the logits: an ensemble")
    parser.add_argument("--s", type=float, nargs="+", default=[0.0])
    parser.add_argument("--v", type=float, nargs="+", default=[0.0])
    args = parser.parse_args()
    records = [data.load_record(args.data, name) for name in data.DS1]
    runs: list[Logits] = [dict(np.load(path)) for path in args.files]
    if args.together:
        runs = [{name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}]
    for s in args.s:
        for v in args.v:
            means = mean_and_sd([figures_at(run, records, s, v) for run in runs])
            print(
                f"S {s:+.2f} V {v:+.2f}  {line({k: m for k, (m, _) in means.items()})}", flush=True
            )


if __name__ == "__main__":
    main()
