"""Train, prune and export the model of the ECG demo.

python -m demos.ecg.train --help; README.md has the commands.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from demos.ecg import data
from demos.ecg.evaluate import agreement, evaluate
from demos.ecg.net import EcgNet, Folded, fold, run_folded
from demos.ecg.prune import Pruner

LOG = logging.getLogger("ecg.train")
BATCH = 16
CLASS_WEIGHTS = (1.0, 3.0, 1.5)
WARM_UP = 50
EMA = 0.99
SPARSITY = 0.75
CALIBRATION_PER_RECORD = 10


@dataclass(frozen=True)
class Phase:
    """One optimisation run: steps, peak learning rate, and whether it prunes."""

    name: str
    steps: int
    rate: float
    prune: bool


def loss_of(logits: Tensor, beat: Tensor, kind: Tensor) -> tuple[Tensor, Tensor]:
    """Detection and class loss, warm-up steps left out.

    logits   [batch, 4, steps]
    beat     [batch, steps] 0.0 or 1.0
    kind     [batch, steps] 0 .. 2 or IGNORE
    returns  binary cross entropy over all steps, and weighted cross entropy over the beats' steps
    """
    late = slice(data.WARM_UP_STEPS, None)
    detect = functional.binary_cross_entropy_with_logits(logits[:, 0, late], beat[:, late])
    classify = functional.cross_entropy(
        logits[:, 1:, late],
        kind[:, late],
        weight=torch.tensor(CLASS_WEIGHTS),
        ignore_index=data.IGNORE,
        label_smoothing=0.02,
    )
    return detect, classify


@torch.no_grad()
def follow(average: EcgNet, net: EcgNet, step: int) -> None:
    """Move the average of weights and batch statistics towards the net; quicker at first."""
    keep = min(EMA, (1 + step) / (10 + step))
    for slow, fast in zip(average.state_dict().values(), net.state_dict().values(), strict=True):
        if slow.is_floating_point():
            slow.lerp_(fast, 1 - keep)
        else:
            slow.copy_(fast)


def optimise(net: EcgNet, chunks: data.Chunks, phase: Phase) -> EcgNet:
    """Run one phase on `net` and return its averaged copy, in evaluation mode."""
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=phase.rate, betas=(0.9, 0.98), weight_decay=1e-3
    )
    pruner = Pruner(net, SPARSITY) if phase.prune else None
    average = copy.deepcopy(net)
    net.train()
    begin = time.monotonic()
    recent: list[tuple[float, float]] = []
    for step in range(phase.steps):
        scale = min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / phase.steps))
        optimizer.param_groups[0]["lr"] = phase.rate * scale
        x, beat, kind = chunks.batch(BATCH)
        detect, classify = loss_of(net(x), beat, kind)
        optimizer.zero_grad()
        (detect + classify).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()
        if pruner is not None:
            pruner.apply(step, phase.steps)
        follow(average, net, step)
        recent.append((detect.item(), classify.item()))
        if (step + 1) % 50 == 0 or step + 1 == phase.steps:
            means = np.mean(recent[-50:], axis=0)
            LOG.info(
                "%s %4d/%d  detection %.4f  class %.4f  %.0f s",
                phase.name,
                step + 1,
                phase.steps,
                means[0],
                means[1],
                time.monotonic() - begin,
            )
    if pruner is not None:
        pruner.hide(average.pruned_layers())
    half = np.mean(recent[len(recent) // 2 :], axis=0)
    LOG.info("%s: mean of the last half: detection %.4f, class %.4f", phase.name, half[0], half[1])
    average.eval()
    return average


def export(
    folded: list[Folded], records: list[data.Record], seed: int
) -> tuple[bytes, dict[str, Any]]:
    """The .tflite, calibrated on these (training) records, and what was checked about it."""
    from demos.ecg import export as exporter  # TensorFlow is slow to import and not needed before

    calibration = data.windows(
        records, exporter.WINDOW_INPUTS, CALIBRATION_PER_RECORD, np.random.default_rng(seed)
    )
    keras = exporter.keras_model(folded)
    difference = exporter.float_difference(keras, folded, calibration[::20])
    if difference > 1e-4:
        raise ValueError(f"Keras and torch differ by {difference:.2e}, allowed 1e-4")
    model = exporter.to_tflite(keras, calibration)
    sqnr = exporter.sqnr_db(exporter.Int8Model(model), folded, calibration[::10])
    return model, {
        "bytes": len(model),
        "keras_torch_max_difference": difference,
        "sqnr_db": {
            "windows": len(sqnr),
            "median": float(np.median(sqnr)),
            "min": min(sqnr),
            "max": max(sqnr),
        },
        "operators": exporter.operator_names(model),
        "layers": exporter.weight_zeros(model),
    }


def score(model: bytes, folded: list[Folded], records: list[data.Record]) -> dict[str, Any]:
    """Float net streamed over whole records, and the .tflite in sliding windows over the same."""
    from demos.ecg.export import Int8Model

    int8 = Int8Model(model)
    return {
        "float": evaluate(records, lambda x: run_folded(folded, x)),
        "int8": evaluate(records, int8.sliding),
        "int8_against_float": agreement(records, lambda x: run_folded(folded, x), int8.sliding),
    }


def options() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder of MIT-BIH records, e.g. ../shared/data/mitdb",
    )
    parser.add_argument("--out", type=Path, required=True, help=".tflite to write")
    parser.add_argument("--report", type=Path, help="JSON file for the figures")
    parser.add_argument(
        "--hold-out",
        default="",
        help="records of DS1 to keep out of training and score, e.g. 119,124",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dense-steps", type=int, default=1200)
    parser.add_argument("--prune-steps", type=int, default=600)
    return parser.parse_args()


def main() -> None:
    """Dense training, pruning, export, checks, scores."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    args = options()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    held = [name for name in args.hold_out.split(",") if name]
    training = [data.load_record(args.data, name) for name in data.DS1 if name not in held]
    testing = [data.load_record(args.data, name) for name in held]
    LOG.info("training on %d records, holding out %s", len(training), held or "none")

    chunks = data.Chunks(training, np.random.default_rng(args.seed))
    net = optimise(EcgNet(), chunks, Phase("dense", args.dense_steps, 4e-3, prune=False))
    net = optimise(net, chunks, Phase("prune", args.prune_steps, 2e-3, prune=True))
    folded = fold(net)

    model, report = export(folded, training, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(model)
    LOG.info("wrote %s, %d bytes; scoring", args.out, len(model))
    report["parameters"] = sum(p.weight.size + p.bias.size for p in folded)
    report["scored_on"] = "held-out records" if testing else "training records"
    report["scores"] = score(model, folded, testing or training)
    text = json.dumps(report, indent=1)
    LOG.info("%s", text)
    if args.report is not None:
        args.report.write_text(text + "\n")


if __name__ == "__main__":
    main()
