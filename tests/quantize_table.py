"""How well int8 follows float on every float model, per calibration method.

    python tests/quantize_table.py --data-root ../shared
    python tests/quantize_table.py --data-root ../shared --seeds 3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edgesparse.importers.tflite import import_tflite
from edgesparse.passes.pipeline import CANONICAL, run_passes
from edgesparse.quantize.calibrate import calibrate
from edgesparse.quantize.lower_int8 import QuantOptions, quantize_graph
from edgesparse.quantize.report import QuantReport, quantization_report
from quantize_inputs import SOURCES, Source

METHODS = ("headroom", "minmax", "percentile:99.999", "percentile:99.99", "percentile:99.9", "mse")
UNCORRECTED = "headroom, biases not corrected"


def reports(
    root: Path, source: Source, methods: Sequence[str] = METHODS, seed: int = 0
) -> dict[str, QuantReport]:
    """One model, calibrated on the first half of its inputs and measured on the second.

    Keys are the methods, and UNCORRECTED where that is among them.
    """
    data = (root / "models" / f"{source.model}.tflite").read_bytes()
    graph = run_passes(import_tflite(data, source.model), CANONICAL)
    x = graph.inputs[0]
    half, others = source.halves(root, seed)
    calibration = calibrate(graph, {x: half})
    found = {}
    for method in methods:
        options = QuantOptions(correct_bias=method != UNCORRECTED)
        chosen = calibration.with_method(method.split(",")[0])
        int8 = quantize_graph(graph, chosen, options)
        found[method] = quantization_report(graph, int8, {x: others})
    return found


def table(results: Mapping[str, Sequence[Mapping[str, QuantReport]]]) -> Iterator[str]:
    """Markdown; `results` has for each model one mapping per seed."""
    columns = (*METHODS, UNCORRECTED)
    yield f"| model | {' | '.join(columns)} | zero weights float -> int8 | inputs |"
    yield "| --- " * (len(columns) + 3) + "|"
    for name, seeds in results.items():
        cells = (" / ".join(f"{found[c].sqnr_db:.1f}" for found in seeds) for c in columns)
        layers = seeds[0]["headroom"].layers
        before, after = (sum(getattr(layer, what) for layer in layers)
                         for what in ("float_zeros", "zeros"))
        yield (f"| {Path(name).name} | {' | '.join(cells)} | {before:,} -> {after:,} | "
               f"{SOURCES[name].made_of} |")
    every = [found for seeds in results.values() for found in seeds]
    mean = (f"{sum(found[c].sqnr_db for found in every) / len(every):.2f}" for c in columns)
    worst = (f"{min(found[c].sqnr_db for found in every):.1f}" for c in columns)
    below = (str(sum(found[c].sqnr_db < 20 for found in every)) for c in columns)
    yield f"| **mean** | {' | '.join(mean)} | | |"
    yield f"| **worst** | {' | '.join(worst)} | | |"
    yield f"| **below 20 dB, of {len(every)}** | {' | '.join(below)} | | |"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--data-root", type=Path, required=True)
    arguments.add_argument("--seeds", type=int, default=1)
    given = arguments.parse_args()
    results = {
        name: [reports(given.data_root, source, (*METHODS, UNCORRECTED), seed)
               for seed in range(given.seeds)]
        for name, source in SOURCES.items()}
    sys.stdout.write("\n".join(table(results)) + "\n")


if __name__ == "__main__":
    main()
