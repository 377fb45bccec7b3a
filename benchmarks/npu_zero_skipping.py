"""What skipping zeros is worth in emulated cycles, layer by layer, of untrained masks.

    python benchmarks/npu_zero_skipping.py [--data-root ../shared] [--json]

The four 1x1 convolutions of MLPerf KWS and the nine fully connected layers of ad01 whose outputs
are a multiple of 16, on esn-lab: weights resident, no launch, no instruction fetch. Each layer
gets the activations that the dense model gives it, for uniform int8 inputs and for real ones. Masks
are made in place by magnitude and not trained: the figures say what a pattern is worth, not what
it costs in accuracy. Then the same layers streamed from flash with everything counted, what
looking for zeros costs where there are none, and a scanner that looks at one activation a cycle.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from npu_layers import (
    ROOT,
    Layer,
    alone,
    converted,
    counted,
    layers_of,
    machine,
    npu_of,
    picojoules,
)
from records import markdown

from edgesparse.graph.ir import Array
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.runtime.npu import BARE, Counters, NpuKnobs
from edgesparse.sparsity.formats import Format, Lanes

TARGET = "esn-lab"
LANES = 16
MODELS = {"kws": "mlperf/mlperf_kws_dscnn_int8", "ad01": "mlperf/mlperf_ad01_int8"}
INPUTS = {"kws": "mlperf_kws_int8_inputs", "ad01": "mlperf_ad01_int8_inputs"}
RUNS = 4
"""Inputs each."""


def vector_norms(w: Array) -> Array:
    """[slices, K]: squared norms of the vectors of LANES weights."""
    rows, cols = w.shape
    wide = w.astype(np.int64).reshape(rows // LANES, LANES, cols)
    norms: Array = (wide**2).sum(axis=1)
    return norms


def masked(w: Array, keep: Array) -> Array:
    """keep [slices, K] bool."""
    out: Array = w * keep.repeat(LANES, axis=0)
    return out.astype(np.int8)


def two_of_four(w: Array) -> Array:
    """Of each 4 columns the 2 whose vectors have the larger norm."""
    norms = vector_norms(w).reshape(-1, 4)
    keep = np.zeros(norms.shape, bool)
    np.put_along_axis(keep, np.argsort(-norms, axis=1, kind="stable")[:, :2], True, axis=1)
    return masked(w, keep.reshape(len(w) // LANES, -1))


def a_quarter(w: Array) -> Array:
    """The quarter of all vectors with the largest norm."""
    norms = vector_norms(w)
    order = np.argsort(-norms.ravel(), kind="stable")
    keep = np.zeros(norms.size, bool)
    keep[order[: norms.size // 4]] = True
    return masked(w, keep.reshape(norms.shape))


@dataclass(frozen=True)
class Variant:
    name: str
    mask: Callable[[Array], Array]
    form: Callable[[Array], Format]
    skip: bool


def _dense(w: Array) -> Format:
    del w
    return Lanes.dense(LANES)


def _columns(w: Array) -> Format:
    return Lanes.columns(LANES, LANES, w.shape[1])


def _pairs(w: Array) -> Format:
    del w
    return Lanes.n_of_m(LANES, 2, 4)


VARIANTS = (
    Variant("dense", lambda w: w, _dense, False),
    Variant("dense + skip", lambda w: w, _dense, True),
    Variant("2:4", two_of_four, _pairs, False),
    Variant("2:4 + skip", two_of_four, _pairs, True),
    Variant("75 % 16x1", a_quarter, _columns, False),
    Variant("75 % 16x1 + skip", a_quarter, _columns, True),
)
DENSE = VARIANTS[0]


def layers(model: str, root: Path, real: bool = False, runs: int = RUNS) -> list[Layer]:
    """The layers that are compared, with activations of the dense model."""
    done = converted(root / "models" / f"{MODELS[model]}.tflite", TARGET)
    shape = done.plan.inputs[0].shape
    if real:
        stored = np.load(root / "models" / "inputs" / f"{INPUTS[model]}.npz")["x"]
        feeds = [x.reshape(shape) for x in stored[:runs]]
    else:
        rng = np.random.default_rng(0)
        feeds = [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(runs)]
    return [layer for layer in layers_of(done, feeds) if _compared(layer.mac.geometry)]


def _compared(g: pm.Geometry) -> bool:
    """1x1, all channels of the input: pointwise convolutions and wide fully connected layers."""
    return (g.kernel_h, g.kernel_w, g.groups) == (1, 1, 1) and g.rows % LANES == 0


def cycles(
    layer: Layer, variant: Variant, knobs: NpuKnobs = BARE, resident: bool = True
) -> Counters:
    """Counters of the layer's kernel; streamed: of a program with that layer alone."""
    w = variant.mask(layer.weights)
    plan = alone(layer, w, variant.form(w), between=resident)
    options = NpuOptions(resident=resident, skip=variant.skip)
    on = machine(plan, npu_of(TARGET if resident else "esn-s"), options)
    return counted(plan, on, layer.inputs, knobs, step=1 if resident else None)


def summed(
    of: list[Layer], variant: Variant, knobs: NpuKnobs = BARE, resident: bool = True
) -> Counters:
    total: Counters = {}
    for layer in of:
        found = cycles(layer, variant, knobs, resident)
        total = {name: total.get(name, 0) + value for name, value in found.items()}
    return total


def without_zeros(of: list[Layer]) -> list[Layer]:
    """The same layers with activations that are never the zero point."""
    changed = []
    for layer in of:
        zero = layer.zero_point
        other = np.int8(zero + 1 if zero < 127 else zero - 1)
        inputs = np.where(layer.inputs == zero, other, layer.inputs)
        changed.append(Layer(layer.name, layer.plan, layer.number, inputs))
    return changed


def overhead(of: list[Layer]) -> tuple[float, float]:
    """SKIP that finds nothing: (share of all cycles, cycles a MACB) more than without."""
    full = without_zeros(of)
    plain, skip = summed(full, VARIANTS[0]), summed(full, VARIANTS[1])
    assert skip["mac_skip_a"] == 0
    # SKIP's own cycle is what scan_extra counts when nothing is skipped, once a MACB.
    more = skip["cycles"] - plain["cycles"]
    return more / plain["cycles"], more / max(1, skip["scan_extra"])


def speedups(of: list[Layer], knobs: NpuKnobs, resident: bool = True) -> Iterator[list[object]]:
    base = summed(of, DENSE, knobs, resident)
    for variant in VARIANTS:
        c = summed(of, variant, knobs, resident)
        yield [variant.name, c["cycles"] // len(of[0].inputs), base["cycles"] / c["cycles"],
               picojoules(base) / picojoules(c)]


def narrow(of: list[Layer]) -> Iterator[list[object]]:
    base = summed(of, DENSE)
    for width in (1, 4, 16):
        knobs = NpuKnobs(launch_cycles=0, fetch=False, scan_width=width)
        c = summed(of, VARIANTS[1], knobs)
        yield [width, c["cycles"] // len(of[0].inputs), base["cycles"] / c["cycles"],
               picojoules(base) / picojoules(c)]


def rows(found: Iterator[list[object]]) -> list[list[str]]:
    return [[f"{v:.2f}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v)
             for v in row] for row in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--json", action="store_true", help="the floors' figures only")
    args = parser.parse_args()
    heads = ("variant", "cycles a run", "times fewer", "energy, times less")
    for model in MODELS:
        uniform = layers(model, args.data_root)
        if args.json:
            print(json.dumps({"model": model, **{
                str(row[0]): row[2] for row in speedups(uniform, BARE)}}))
            continue
        real = layers(model, args.data_root, real=True)
        zeros = np.mean(np.concatenate(
            [(layer.inputs == layer.zero_point).ravel() for layer in uniform]))
        print(f"{model}: {len(uniform)} layers, {zeros:.1%} of their inputs are zero\n")
        print(markdown(heads, rows(speedups(uniform, BARE))), "\n")
        print("real inputs\n")
        print(markdown(heads, rows(speedups(real, BARE))), "\n")
        print("real inputs, esn-s, a program a layer, weights streamed, everything counted\n")
        print(markdown(heads, rows(speedups(real, NpuKnobs(), resident=False))), "\n")
        share, each = overhead(uniform)
        print(f"skip where nothing is zero: {share:.2%} more cycles, {each:.2f} a MACB\n")
        print(markdown(("scan width", *heads[1:]), rows(narrow(uniform))), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
