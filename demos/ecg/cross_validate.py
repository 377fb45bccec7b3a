"""Four-fold cross-validation over the patients of DS1: the only basis of every choice here.

Each fold's records are scored by a net that was trained on the other folds; the 22 records are
then counted together. python -m demos.ecg.cross_validate --help; EXPERIMENTS.md has the results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demos.ecg import data, evaluate
from demos.ecg import reference_integer as ri
from demos.ecg.folded import SHAPES, Folded, Shape, run_folded, save
from demos.ecg.net import EcgNet
from demos.ecg.recipe import Recipe, add_recipe, recipe_of
from demos.ecg.split import DS1, FOLDS
from demos.ecg.train import (
    LOG,
    averaged,
    dense,
    export,
    finished,
    kept,
    score,
    set_up,
    teachers_of,
    tuned,
)

SHOWN = ("qrs_se", "qrs_pp", "v_se", "v_pp", "v_ap", "s_se", "s_pp", "s_ap", "n_se", "acc", "mf1")


@dataclass(frozen=True)
class Experiment:
    """What one run of this command trains.

    dense_folder, tuned_folder, folder  checkpoints of the three phases; made where missing
    teachers                    dense C24 nets of the same fold that teach the second phase
    """

    shape: Shape
    recipe: Recipe
    only_dense: bool
    teachers: int
    dense_folder: Path
    tuned_folder: Path
    folder: Path

    def net(self, train: list[data.Record], k: int, seed: int) -> EcgNet:
        """The net of one fold, trained on these records unless it is there already."""

        def first(shape: Shape, name: str, how: Recipe, seed: int) -> EcgNet:
            path = self.dense_folder / f"{name}_{shape.widths[-1]}_{k}_{seed}.pt"
            return kept(path, shape, lambda: dense(train, shape, how, seed))

        if self.only_dense:
            return first(self.shape, "dense", self.recipe, seed)
        teachers = teachers_of(self.recipe, self.teachers, first)
        parts = [*map(str, dataclasses.astuple(self.shape)[1:]), str(self.shape.widths[-1])]
        name = f"{'x'.join(parts)}_{k}_{seed}.pt"

        def second() -> EcgNet:
            start = first(self.shape, "dense", self.recipe, seed)
            return tuned(start, train, self.recipe, seed, teachers)

        def third() -> EcgNet:
            return averaged(pruned, train, self.recipe, seed, teachers)

        pruned = kept(self.tuned_folder / f"tuned_{name}", self.shape, second)
        if not self.recipe.soup:
            return pruned
        return kept(self.folder / f"soup_{name}", self.shape, third)


def line(gross: dict[str, Any]) -> str:
    """One line of a table."""
    return "  ".join(f"{name} {gross[name]:.2f}" for name in SHOWN)


def mean_and_sd(runs: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Over seeds."""
    return {
        name: (
            round(float(np.mean([run[name] for run in runs])), 2),
            round(float(np.std([run[name] for run in runs], ddof=1)), 2) if len(runs) > 1 else 0.0,
        )
        for name in SHOWN
    }


def scored(
    folded: list[Folded], records: list[data.Record]
) -> tuple[dict[str, evaluate.Scored], dict[str, NDArray[np.float32]]]:
    """Float figures and the logits they come from, by record."""
    logits = {r.name: run_folded(folded, ri.millivolts(evaluate.whole(r))) for r in records}
    parts = {r.name: evaluate.compare(r, evaluate.decode_float(logits[r.name])) for r in records}
    return parts, logits


def main() -> None:
    """Train and score every fold with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_recipe(parser)
    parser.add_argument("--name", required=True, help="of the experiment; names the report")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folds", type=int, nargs="+", default=range(4), help="0 .. 3, all")
    parser.add_argument("--only-dense", action="store_true", help="score after the first phase")
    parser.add_argument("--int8", action="store_true", help="also export and score as int8")
    parser.add_argument(
        "--export", type=Path, help="folder for the nets of the folds: score_ds2 --records folds"
    )
    parser.add_argument("--work", type=Path, default=Path("build/ecg"))
    parser.add_argument("--dense-name", help="experiment whose dense nets to start from")
    parser.add_argument("--tuned-name", help="experiment whose second phase to start from")
    args = parser.parse_args()
    set_up()
    experiment = Experiment(
        SHAPES[args.net],
        recipe_of(args),
        args.only_dense,
        args.teachers,
        args.work / (args.dense_name or args.name),
        args.work / (args.tuned_name or args.name),
        args.work / args.name,
    )
    records = {name: data.load_record(args.data, name) for name in DS1}
    begin = time.monotonic()
    runs, int8 = [], []
    for seed in args.seeds:
        parts: dict[str, evaluate.Scored] = {}
        logits: dict[str, NDArray[np.float32]] = {}
        for k in args.folds:
            held = FOLDS[k]
            train = [r for name, r in records.items() if name not in held]
            test = [records[name] for name in held]
            folded = finished(experiment.net(train, k, seed), experiment.recipe)
            fold_parts, fold_logits = scored(folded, test)
            parts |= fold_parts
            logits |= fold_logits
            if args.int8 or args.export:
                model, _ = export(folded, train, experiment.shape, seed)
            if args.export:
                save(args.export / f"fold{k}" / f"{args.net}.npz", folded)
                (args.export / f"fold{k}" / f"{args.net}.tflite").write_bytes(model)
            if args.int8:
                int8.append({"fold": k, "seed": seed} | score(model, folded, test))
        runs.append(evaluate.pooled(parts))
        np.savez(args.work / f"{args.name}_{args.net}_{seed}.npz", **logits)
        LOG.info("%s seed %d  %s", args.name, seed, line(runs[-1]["pooled"]))
        LOG.info("false V by record: %s", runs[-1]["v_false"])
    report = {
        "name": args.name,
        "net": args.net,
        "recipe": dataclasses.asdict(experiment.recipe) | {"teachers": args.teachers},
        "only_dense": args.only_dense,
        "seeds": args.seeds,
        "folds": list(args.folds),
        "mean_sd": mean_and_sd([run["pooled"] for run in runs]),
        "runs": runs,
        "int8": int8,
        "seconds": round(time.monotonic() - begin),
    }
    (args.work / f"{args.name}_{args.net}.json").write_text(json.dumps(report, indent=1) + "\n")
    LOG.info("%s: %s  %d s", args.name, report["mean_sd"], report["seconds"])


if __name__ == "__main__":
    main()
