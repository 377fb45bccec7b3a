"""What stores that leave out zeros are worth on the NPU: whole models on esn-lab.

    python benchmarks/npu_stores.py [--data-root ../shared]

A masked store writes the lanes that are not zero, and takes no cycle where none is, if its output
was filled with zero points before. `filled`: outputs that need a halo, which are filled anyway;
`all`: every output of a layer without a second operand or pool is filled for it. Weights resident,
no launch, no instruction fetch. Cycles are emulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from npu_layers import ROOT, converted, machine, npu_of
from npu_models import MODELS, path_of
from records import markdown

from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.npu import BARE, Counters

TARGET = "esn-lab"
KINDS = ("none", "filled", "all")


def stores(path: Path, kind: str) -> Counters:
    """Counters of a run on uniform noise."""
    done = converted(path, TARGET)
    plan = done.plan.model
    native = NativeSession(NativePlan(done.plan.data))
    for x in native.inputs:
        x[:] = np.random.default_rng(0).integers(-128, 128, x.size)
    on = machine(plan, npu_of(TARGET), NpuOptions(resident=True, zero_stores=kind))
    return on.run(native.arena, BARE, native.run_step).counters


def vectors(plan: pm.PlanModel, lanes: int) -> int:
    """Vectors that the layers with weights give."""
    total = 0
    for step in plan.steps:
        if isinstance(step.source, pm.Mac):
            place = plan.tensors[step.branches[0].output].place
            total += place.columns * -(-place.channels // lanes)
    return total


def rows(root: Path) -> Iterator[list[str]]:
    for name in MODELS:
        path = path_of(root, name)
        plan = converted(path, TARGET).plan.model
        all_vectors = vectors(plan, npu_of(TARGET).lanes)
        for kind in KINDS:
            c = stores(path, kind)
            yield [Path(name).name, kind, f"{all_vectors:,}", f"{c['vec_store_skipped']:,}",
                   f"{100 * c['vec_store_skipped'] / all_vectors:.1f}", f"{c['vec_cyc']:,}",
                   f"{c['cycles']:,}", f"{c['sram_wr_bytes']:,}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    print(markdown(
        ("model", "masked", "vectors", "not stored", "of all, %", "vector cycles", "cycles",
         "SRAM bytes written"), rows(parser.parse_args().data_root)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
