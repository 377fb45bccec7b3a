"""Pointwise layers on esn-m beside what ethos-u-vela estimates for ethos-u55-32.

    pip install ethos-u-vela; python benchmarks/npu_vela.py [--data-root ../shared] [--vela PATH]

Both have 32 multipliers. Emulated: weights resident, no launch, no instruction fetch, nothing
skipped, the layer's kernel alone. Vela's: column NPU of its table by layer, an estimate as well.
The layers are those of the model's file, with channels that edgesparse would fold; T >= 15.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from npu_layers import ROOT, machine, npu_of
from records import markdown

from edgesparse.graph.ir import Graph
from edgesparse.importers.tflite import import_tflite
from edgesparse.npu.options import NpuOptions
from edgesparse.ops import Conv
from edgesparse.runtime.npu import BARE
from npu_blocks import Block, block

TARGET = "esn-m"
MODELS = ("mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_strm_ww_old_int8")
LEAST_COLUMNS = 15
VELA = ("--accelerator-config", "ethos-u55-32", "--system-config", "Ethos_U55_Deep_Embedded",
        "--memory-mode", "Shared_Sram", "--verbose-performance")


def pointwise(graph: Graph) -> Iterator[Block]:
    """The 1x1 convolutions over at least LEAST_COLUMNS columns, in order."""
    for node in graph.nodes:
        x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
        if not isinstance(node.op, Conv) or node.op.groups > 1 or y.columns < LEAST_COLUMNS:
            continue
        weights = graph.tensors[node.inputs[1]]
        if weights.size == x.channels * y.channels:
            yield Block(y.columns, x.channels, y.channels, 1)


def emulated(layer: Block) -> int:
    """Cycles of the kernel, without the transfers around it."""
    plan = block(layer, None, npu_of(TARGET).lanes)
    on = machine(plan, npu_of(TARGET), NpuOptions(resident=True, skip=False))
    c = on.run(np.zeros(plan.arena_bytes, np.int8), BARE).counters
    return c["cycles"] - c["stall_dma"]


def estimated(model: Path, vela: str) -> list[tuple[int, int]]:
    """(MACs, NPU cycles) of every Conv2D, in order."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run((vela, *VELA, "--output-dir", folder, str(model)),
                       check=True, capture_output=True)
        table = (Path(folder) / f"{model.stem}_per-layer.csv").read_text()
    return [(int(row["MAC Count"]), int(float(row["NPU"])))
            for row in csv.DictReader(table.splitlines()) if row["NNG Operator"] == "Conv2D"]


def compared(model: Path, vela: str) -> Iterator[tuple[Block, int, int]]:
    """(layer, emulated cycles, Vela's)."""
    theirs = estimated(model, vela)
    for layer in pointwise(import_tflite(model.read_bytes(), model.name)):
        macs = layer.columns * layer.channels * layer.rows
        at = next(i for i, (count, _) in enumerate(theirs) if count == macs)
        yield layer, emulated(layer), theirs[at][1]
        theirs = theirs[at + 1 :]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--vela", default=shutil.which("vela"), help="the compiler's command")
    args = parser.parse_args()
    if args.vela is None:
        parser.error("ethos-u-vela is not installed: pip install ethos-u-vela, or give --vela")
    print(markdown(("model", "layer", "emulated", "Vela", "ratio"), (
        (Path(name).name, layer, f"{ours:,}", f"{theirs:,}", f"{ours / theirs:.2f}")
        for name in MODELS
        for layer, ours, theirs in compared(
            args.data_root / "models" / f"{name}.tflite", args.vela))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
