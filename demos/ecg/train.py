"""Train, prune and export one of the shipped ECG nets on the 22 records of DS1.

python -m demos.ecg.train --help; README.md has the commands.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from demos.ecg import data, evaluate
from demos.ecg import reference_decoder as rd
from demos.ecg import reference_integer as ri
from demos.ecg.folded import SHAPES, Folded, Shape, run_folded, save, with_bias
from demos.ecg.net import EcgNet, fold
from demos.ecg.prune import Pruner
from demos.ecg.recipe import Recipe, add_recipe, recipe_of
from demos.ecg.split import DS1

LOG = logging.getLogger("ecg.train")
BATCH = 16
WARM_UP = 50
EMA = 0.99
STATISTICS_BATCHES = 60
"""Batches that batch statistics of averaged weights come from."""
CALIBRATION_PER_RECORD = 10


@torch.no_grad()
def teach(teachers: Sequence[EcgNet], x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean opinion of the teachers.

    x        [batch, 1, time]
    returns  beat probability [batch, steps], class probabilities [batch, 3, steps]
    """
    logits = torch.stack([teacher(x) for teacher in teachers])
    return logits[:, :, 0].sigmoid().mean(0), logits[:, :, 1:].softmax(2).mean(0)


def loss_of(
    logits: Tensor, labels: tuple[Tensor, Tensor], opinion: tuple[Tensor, Tensor] | None, r: Recipe
) -> tuple[Tensor, Tensor]:
    """Detection and class loss, warm-up steps left out.

    logits   [batch, 4, steps]
    labels   beat [batch, steps] 0.0 or 1.0; kind [batch, steps] 0 .. 2 or IGNORE
    opinion  of the teachers, or None
    returns  binary cross entropy over all steps, and weighted cross entropy over the beats' steps
    """
    late = slice(data.WARM_UP_STEPS, None)
    beat, kind = (part[:, late] for part in labels)
    logits = logits[:, :, late]
    weights = torch.tensor(r.weights)
    target = beat
    if opinion is not None:
        target = beat + r.distil * (opinion[0][:, late] - beat)
    detect = functional.binary_cross_entropy_with_logits(logits[:, 0], target)
    if r.focus:
        each = functional.cross_entropy(
            logits[:, 1:],
            kind,
            reduction="none",
            ignore_index=data.IGNORE,
            label_smoothing=r.smoothing,
        )
        known = kind != data.IGNORE
        right = logits[:, 1:].detach().softmax(1).gather(1, kind.clamp(min=0)[:, None])[:, 0]
        weight = weights[kind.clamp(min=0)] * known
        classify = (weight * (1 - right) ** r.focus * each).sum() / weight.sum() * 2**r.focus
    else:
        classify = functional.cross_entropy(
            logits[:, 1:],
            kind,
            weight=weights,
            ignore_index=data.IGNORE,
            label_smoothing=r.smoothing,
        )
    if opinion is not None:
        told = opinion[1][:, :, late]
        each = -(told * logits[:, 1:].log_softmax(1)).sum(1)
        weight = (told * weights[:, None]).sum(1) * (beat > 0)
        classify = classify + r.distil * ((weight * each).sum() / weight.sum() - classify)
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


@dataclass(frozen=True)
class Phase:
    """One run of the optimizer: how long, how fast, and what keeps weights at zero."""

    name: str
    steps: int
    rate: float
    pruner: Pruner | None = None


def optimise(
    net: EcgNet,
    chunks: data.Chunks,
    recipe: Recipe,
    phase: Phase,
    teachers: Sequence[EcgNet] = (),
) -> EcgNet:
    """Run one phase on `net` and return its averaged copy, in evaluation mode."""
    steps, rate, pruner = phase.steps, phase.rate, phase.pruner
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=1e-3)
    average = copy.deepcopy(net)
    net.train()
    begin = time.monotonic()
    recent: list[tuple[float, float]] = []
    for step in range(steps):
        scale = min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate * scale
        x, beat, kind = chunks.batch(BATCH)
        opinion = teach(teachers, x) if teachers else None
        detect, classify = loss_of(net(x), (beat, kind), opinion, recipe)
        optimizer.zero_grad()
        (detect + classify).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()
        if pruner is not None:
            pruner.apply(step, steps)
        follow(average, net, step)
        recent.append((detect.item(), classify.item()))
        if (step + 1) % 200 == 0 or step + 1 == steps:
            means = np.mean(recent[-50:], axis=0)
            LOG.info(
                "%s %4d/%d  detection %.4f  class %.4f  %.0f s",
                phase.name,
                step + 1,
                steps,
                *means,
                time.monotonic() - begin,
            )
    if pruner is not None:
        pruner.hide(average.pruned_layers())
    half = np.mean(recent[len(recent) // 2 :], axis=0)
    LOG.info("mean of the last half: detection %.4f, class %.4f", *half)
    average.eval()
    return average


def dense(records: list[data.Record], shape: Shape, recipe: Recipe, seed: int) -> EcgNet:
    """The first phase."""
    torch.manual_seed(seed)
    chunks = data.Chunks(records, recipe.variety, np.random.default_rng([seed, 0]))
    return optimise(EcgNet(shape), chunks, recipe, Phase("dense", recipe.steps[0], 4e-3))


def tuned(
    start: EcgNet,
    records: list[data.Record],
    recipe: Recipe,
    seed: int,
    teachers: Sequence[EcgNet] = (),
) -> EcgNet:
    """The second phase, from a copy of `start`."""
    torch.manual_seed(1000 + seed)
    chunks = data.Chunks(records, recipe.variety, np.random.default_rng([seed, 1]))
    net = copy.deepcopy(start)
    pruner = Pruner(net, net.shape) if net.shape.sparsity else None
    phase = Phase("second", recipe.steps[1], 2e-3, pruner)
    return optimise(net, chunks, recipe, phase, teachers)


def averaged(
    start: EcgNet,
    records: list[data.Record],
    recipe: Recipe,
    seed: int,
    teachers: Sequence[EcgNet] = (),
) -> EcgNet:
    """The third phase: several runs from copies of `start`, and the mean of their weights."""
    runs = []
    for i in range(recipe.soup):
        torch.manual_seed(2000 + 100 * i + seed)
        chunks = data.Chunks(records, recipe.variety, np.random.default_rng([seed, 2, i]))
        net = copy.deepcopy(start)
        pruner = Pruner.fixed(net) if net.shape.sparsity else None
        phase = Phase(f"third {i}", recipe.steps[2], 2e-3, pruner)
        runs.append(optimise(net, chunks, recipe, phase, teachers))
    return soup(runs, data.Chunks(records, recipe.variety, np.random.default_rng([seed, 3])))


@torch.no_grad()
def soup(nets: Sequence[EcgNet], chunks: data.Chunks) -> EcgNet:
    """Mean of the weights of nets with a common start, with its own batch statistics."""
    net = copy.deepcopy(nets[0])
    states = [one.state_dict() for one in nets]
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.stack([state[name] for state in states]).mean(0))
    norms = [layer for layer in net.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    net.train()
    for _ in range(STATISTICS_BATCHES):
        net(chunks.batch(BATCH)[0])
    return net.eval()


def teachers_of(
    recipe: Recipe, count: int, first_phase: Callable[[Shape, str, Recipe, int], EcgNet]
) -> list[EcgNet]:
    """Dense C24 nets; first_phase takes shape, name, recipe and seed."""
    nets = []
    for number in range(count):
        how, seed = recipe.of_teacher(number)
        name = "milder" if how.variety == recipe.milder else "dense"
        nets.append(first_phase(SHAPES["ecg_c24_dense"], name, how, seed))
    return nets


def finished(net: EcgNet, recipe: Recipe) -> list[Folded]:
    """What is exported: plain convolutions, with the recipe's bias in the head."""
    return with_bias(fold(net), (0.0, 0.0, *recipe.bias))


def kept(path: Path, shape: Shape, make: Any) -> EcgNet:
    """The net of a checkpoint, made and saved if there is none."""
    if path.exists():
        net = EcgNet(shape)
        net.load_state_dict(torch.load(path, weights_only=True))
        return net.eval()
    net = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(net.state_dict(), path)
    return net


def export(
    folded: list[Folded], records: list[data.Record], shape: Shape, seed: int
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
    int8 = exporter.Int8Model(model)
    sqnr = exporter.sqnr_db(int8, folded, calibration[::10])
    return model, {
        "bytes": len(model),
        "sha256": hashlib.sha256(model).hexdigest(),
        "quantization": int8.quantization(),
        "input_scale": dataclasses.asdict(int8.input_scale),
        "keras_torch_max_difference": difference,
        "sqnr_db": {
            "windows": len(sqnr),
            "median": float(np.median(sqnr)),
            "min": min(sqnr),
            "max": max(sqnr),
        },
        "operators": exporter.operator_names(model),
        "layers": exporter.weight_zeros(model, shape),
    }


def score(model: bytes, folded: list[Folded], records: list[data.Record]) -> dict[str, Any]:
    """Float net and decoder against .tflite and integer decoder, over whole records.

    "float_front_end" differs from "float" by the front end (all else reads the integer one),
    "int8_float_decoder" from "int8" by the decoder.
    """
    from demos.ecg.export import Int8Model

    int8 = Int8Model(model)
    exact = evaluate.float_detector(folded)
    names = ("float", "float_front_end", "int8", "int8_float_decoder")
    found: dict[str, list[evaluate.Found]] = {name: [] for name in names}
    for record in records:
        inputs = evaluate.whole(record)
        logits = int8.sliding(inputs)
        found["float"].append(exact(inputs))
        millivolts = rd.front_end(rd.flushed(record.samples[:, 0]) / ri.ADU_PER_MV)
        found["float_front_end"].append(evaluate.decode_float(run_folded(folded, millivolts)))
        found["int8"].append(evaluate.decode_integer(logits, int8.tables))
        found["int8_float_decoder"].append(evaluate.decode_float(int8.dequantized(logits)))
    out: dict[str, Any] = {}
    for name, beats in found.items():
        parts = {r.name: evaluate.compare(r, b) for r, b in zip(records, beats, strict=True)}
        out[name] = evaluate.pooled(parts)
    pairs = zip(found["float"], found["int8"], strict=True)
    out["int8_against_float"] = evaluate.agreement(pairs)
    pairs = zip(found["int8_float_decoder"], found["int8"], strict=True)
    out["decoders"] = evaluate.agreement(pairs)
    pairs = zip(found["float_front_end"], found["float"], strict=True)
    out["front_ends"] = evaluate.agreement(pairs)
    return out


def set_up() -> None:
    """One thread, deterministic, progress to the terminal."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def main() -> None:
    """Dense training, second phase, export, checks, scores on the training records."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_recipe(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help=".tflite; default edgesparse/demo/NET.tflite")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("build/ecg"),
        help="keeps both phases' nets; used again where present",
    )
    parser.add_argument("--report", type=Path, help="JSON file for the figures")
    parser.add_argument("--no-score", action="store_true", help="do not score the training records")
    args = parser.parse_args()
    set_up()
    recipe, shape = recipe_of(args), SHAPES[args.net]
    records = [data.load_record(args.data, name) for name in DS1]

    def first_phase(kind: Shape, name: str, how: Recipe, seed: int) -> EcgNet:
        path = args.work / f"{name}_{kind.widths[-1]}_all_{seed}.pt"
        return kept(path, kind, lambda: dense(records, kind, how, seed))

    start = first_phase(shape, "dense", recipe, args.seed)
    teachers = teachers_of(recipe, args.teachers, first_phase)
    last = args.work / f"{args.net}_all_{args.seed}.pt"
    net = kept(last, shape, lambda: tuned(start, records, recipe, args.seed, teachers))
    if recipe.soup:
        last = args.work / f"{args.net}_soup_{args.seed}.pt"
        second = net
        net = kept(last, shape, lambda: averaged(second, records, recipe, args.seed, teachers))
    folded = finished(net, recipe)
    save(args.work / "float" / f"{args.net}.npz", folded)

    model, report = export(folded, records, shape, args.seed)
    out = args.out or Path("edgesparse/demo") / f"{args.net}.tflite"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(model)
    LOG.info("wrote %s, %d bytes", out, len(model))
    report["recipe"] = dataclasses.asdict(recipe) | {"seed": args.seed, "teachers": args.teachers}
    report["parameters"] = sum(p.weight.size + p.bias.size for p in folded)
    if not args.no_score:
        report["training_records"] = score(model, folded, records)
        LOG.info("%s", json.dumps(report["training_records"]["int8"]["pooled"]))
        LOG.info("%s", report["training_records"]["int8_against_float"])
    if args.report is not None:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
