"""Fused against unfused on the NPU, and one launch for a run against one for each step.

    python benchmarks/npu_fusion.py [--data-root ../shared]

Four blocks of a convolution and a pool of 2, on esn-s, weights resident, launch and instruction
fetch not counted; unfused, the activation is in the convolution all the same. What lies between
goes through DRAM, or stays in the scratchpad. Then whole models, everything counted, for launches
of 0, 500 and 2,000 cycles. Cycles are emulated (docs/NPU.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from npu_layers import ROOT, converted, machine, npu_of, picojoules
from records import markdown

from edgesparse.convert import Options
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.runtime.npu import BARE, Counters, NpuKnobs
from npu_blocks import BLOCKS, Block, block

TARGET = "esn-s"
MODELS = ("mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_ic_resnet8_int8",
          "mlperf/mlperf_strm_ww_old_int8")
LAUNCHES = (0, 500, 2000)


def dram(c: Counters) -> int:
    return c["dma_dram_rd_bytes"] + c["dma_dram_wr_bytes"]


def run(plan: pm.PlanModel, options: NpuOptions, knobs: NpuKnobs) -> Counters:
    arena = np.zeros(plan.arena_bytes, np.int8)
    arena[plan.state_bytes :] = np.random.default_rng(0).integers(
        -128, 128, plan.arena_bytes - plan.state_bytes)
    on = machine(plan, npu_of(TARGET), options)
    return on.run(arena, knobs, host=lambda step: None).counters  # softmaxes: not the NPU's time


def fused_and_not(shape: Block, where: str) -> tuple[Counters, Counters]:
    options = NpuOptions(resident=True, skip=False, intermediates=where)
    one, two = (run(block(shape, fused), options, BARE) for fused in (True, False))
    return one, two


def block_rows() -> Iterator[list[str]]:
    for shape in BLOCKS:
        row = [str(shape)]
        for where in ("dram", "sram"):
            one, two = fused_and_not(shape, where)
            row.append(f"{two['cycles']:,} -> {one['cycles']:,} "
                       f"({100 * (one['cycles'] / two['cycles'] - 1):+.0f} %)")
            if where == "dram":
                row += [f"{dram(two) / dram(one):.2f}", f"{picojoules(two) / picojoules(one):.2f}"]
        yield row


def launch_rows(root: Path) -> Iterator[list[str]]:
    """A launch a step adds its cycles to those of the one program, which loads over the borders of
    steps: what launches of their own would lose there is not counted."""
    for name, path, options in plans(root):
        fused, single = (
            converted(path, TARGET, Options(golden=False, npu_fusion=how)) for how in options)
        for launch in LAUNCHES:
            knobs = NpuKnobs(launch_cycles=launch)
            row = [name, f"{launch:,}"]
            for done in (fused, single):
                plan = done.plan.model
                for where, launches in (("sram", 1), ("sram", len(plan.steps)),
                                        ("dram", len(plan.steps))):
                    if done is single and launches == 1:
                        continue
                    c = run(plan, NpuOptions(intermediates=where), knobs)
                    row.append(f"{c['cycles'] + (launches - 1) * launch:,}")
            yield row


def plans(root: Path) -> Iterator[tuple[str, Path, tuple[str, str]]]:
    for name in MODELS:
        yield Path(name).name, root / "models" / f"{name}.tflite", ("full", "none")
    with as_file(files("edgesparse.demo") / "ecg_c48_16x1_75.tflite") as path:
        yield "ecg_c48_16x1_75, a window", path, ("full", "none")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    root = parser.parse_args().data_root
    print(markdown(
        ("block", "through DRAM: cycles", "DRAM bytes, times fewer", "energy, times less",
         "in the scratchpad: cycles"), block_rows()), "\n")
    print(markdown(
        ("model", "launch", "one launch", "one a step", "one a step, through DRAM",
         "unfused, one a step", "unfused, one a step, through DRAM"), launch_rows(root)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
