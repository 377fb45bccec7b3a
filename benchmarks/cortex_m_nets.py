"""Instructions of block-sparse nets on emulated Cortex-M cores, and what they are to stay below.

    python benchmarks/cortex_m_nets.py [--net ecg] [--net ad01] [--cpu cortex-m4] [--share 75]

Two nets with random int8 weights (a fixed seed), 0, 50, 75 and 90 % of them zero in blocks R x C:
R output channels, C neighbouring input channels of one tap.

ecg   256x1, conv k7 s2 16, k5 s2 32, k5 64, k5 64 with ReLU and SAME padding, mean over the 64
      columns, fully connected 5, softmax: 2,144,576 MACs. First conv and fully connected are dense,
      the others have blocks of 1x4, 2x4 or 1x16 (stored as 1x4)
ad01  640, 4 times 128, 8, 4 times 128, 640, fully connected with ReLU: 264,192 MACs. What reads or
      writes the 8 is dense, the others have blocks of 4x4

Counts are exact (benchmarks/device_instructions.py), and outputs are compared with those of the
portable core. They are QEMU instructions, not cycles.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from device_instructions import BOARDS, checked, show_functions, target_of
from records import markdown

from edgesparse.convert import Options, convert_model
from edgesparse.graph.ir import Array, Quant
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from tflite_chain import Net

SEED = 5
SHARES = (0, 50, 75, 90)
"""Percent of weights that are zero, in the layers that have blocks."""


@dataclass(frozen=True)
class Blocks:
    """rows x cols weights that are zero together."""

    rows: int
    cols: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"

    @property
    def encoding(self) -> str:
        """What stores such weights; blocks of 1x16 are four of 1x4, which have kernels."""
        return "bsr 1x4" if self.rows == 1 else f"bsr {self}"


NETS = {
    "ecg": (Blocks(1, 4), Blocks(2, 4), Blocks(1, 16)),
    "ad01": (Blocks(4, 4),),
}
GOALS = {
    ("ecg", "cortex-m4"): (3.3e6, 1.95e6, 1.12e6, 0.62e6),
    ("ecg", "cortex-m55"): (0.56e6, 0.36e6, 0.26e6, 0.20e6),
    ("ad01", "cortex-m4"): (0.48e6, 0.29e6, 165e3, 85e3),
    ("ad01", "cortex-m55"): (105e3, None, None, None),
}
"""Most instructions, by SHARES; None: no limit was set."""


def masked(rng: np.random.Generator, shape: Sequence[int], blocks: Blocks, share: int) -> Array:
    """Random weights [rows, ..., channels] float32 with `share` % of the blocks zero.

    Which ones is random, but every block row and block column keeps one: channels that have no
    weights, or that nobody reads, would be removed from the model. Where a share leaves fewer
    blocks than that takes, it is missed (1x16 at 90 % of the second conv: 80 %).
    """
    rows, cols = shape[0], int(np.prod(shape[1:]))
    grid = (rows // blocks.rows, cols // blocks.cols)
    keep = np.zeros(grid, bool)
    each = np.arange(max(grid))
    keep[tuple(rng.permutation(n)[each % n] for n in grid)] = True
    missing = round((100 - share) / 100 * keep.size) - len(each)
    if missing > 0:
        keep.flat[rng.choice(np.flatnonzero(~keep), missing, replace=False)] = True
    mask = np.repeat(np.repeat(keep, blocks.rows, axis=0), blocks.cols, axis=1)
    # None rounds to 0, and every block has both signs: no channel is always 0 after its ReLU.
    sign = np.where((np.arange(cols) + np.arange(rows)[:, None]) % 2, -1, 1)
    w = sign * rng.uniform(0.1, 1, mask.shape)
    made: Array = np.where(mask, w, 0).reshape(shape).astype(np.float32)
    return made


def ends_at_zero(net: Net, x: str) -> str:
    """x quantized as the converter does after a ReLU: without codes for negative numbers."""
    net.tensors[x] = replace(net.tensors[x], quant=Quant((net.tensors[x].scale,), (-128,)))
    return x


def ecg(blocks: Blocks, share: int) -> bytes:
    """The .tflite file."""
    rng = np.random.default_rng(SEED)
    net = Net(rng)
    x = net.input(1, 1, 256, 1)
    conv = partial(net.conv, padding="same", activation="relu")
    x = ends_at_zero(net, conv(x, 16, (1, 7), stride=(1, 2)))
    for rows, stride in ((32, 2), (64, 1), (64, 1)):
        w = masked(rng, (rows, 1, 5, net.shape(x)[-1]), blocks, share)
        x = ends_at_zero(net, conv(x, rows, (1, 5), stride=(1, stride), weights=w))
    x = net.pool("AVERAGE_POOL_2D", x, (1, 64))
    return net.build(net.softmax(net.dense(net.flat(x), 5)))


def ad01(blocks: Blocks, share: int) -> bytes:
    """The .tflite file."""
    rng = np.random.default_rng(SEED)
    net = Net(rng)
    x = net.input(1, 640)
    layers = (*(128,) * 4, 8, *(128,) * 4, 640)
    for number, rows in enumerate(layers, 1):
        narrow = min(rows, net.shape(x)[-1]) == 8
        w = masked(rng, (rows, net.shape(x)[-1]), blocks, 0 if narrow else share)
        last = number == len(layers)
        x = net.dense(x, rows, "none" if last else "relu", weights=w)
        x = x if last else ends_at_zero(net, x)
    return net.build(x)


def model_of(net: str, blocks: Blocks, share: int) -> bytes:
    return {"ecg": ecg, "ad01": ad01}[net](blocks, share)


def plan_of(net: str, blocks: Blocks, share: int, cpu: str) -> Plan:
    """Its plan for a core, with pruned layers stored in these blocks and the others densely.

    SystemExit when the converter chose otherwise.
    """
    options = Options(encodings=("dense", blocks.encoding))
    plan = convert_model(model_of(net, blocks, share), target_of(cpu), options).plan
    found = sorted(_stored(plan))
    dense = {"ecg": 2, "ad01": 2}[net] if share else len(found)
    wanted = sorted(["dense"] * dense + [blocks.encoding] * (len(found) - dense))
    if found != wanted:
        raise SystemExit(f"{net} {blocks} {share} %: stored as {found}")
    return plan


def _stored(plan: Plan) -> list[str]:
    """The encoding of every layer with weights."""
    names = []
    for step in plan.model.steps:
        if isinstance(step.source, pm.Mac):
            (group,) = step.source.weights.groups
            block = f"bsr {group.block_rows}x{group.block_cols}"
            names.append("dense" if group.encoding is pm.Encoding.DENSE else block)
    return names


@dataclass(frozen=True)
class Row:
    """Instructions of one run; goal: most that are allowed, None: as many as there are."""

    net: str
    blocks: str
    share: int
    cpu: str
    instructions: int
    goal: float | None

    @property
    def text(self) -> tuple[str, ...]:
        goal = "-" if self.goal is None else f"{self.goal:,.0f}"
        part = "-" if self.goal is None else f"{self.instructions / self.goal:.2f}"
        return (self.net, self.blocks, f"{self.share} %", self.cpu, f"{self.instructions:,}",
                goal, part)


def best(rows: Iterable[Row]) -> list[Row]:
    """Of every net, share and core the blocks with the fewest instructions."""
    found: dict[tuple[str, int, str], Row] = {}
    for row in sorted(rows, key=lambda row: row.instructions):
        found.setdefault((row.net, row.share, row.cpu), row)
    return sorted(found.values(), key=lambda row: (row.net, row.cpu, row.share))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=NETS, action="append", help="default: both")
    parser.add_argument("--cpu", choices=BOARDS, action="append", help="default: M4 and M55")
    parser.add_argument("--share", type=int, choices=SHARES, action="append", help="default: all")
    parser.add_argument("--blocks", action="append", help="such as 1x4; default: all of a net")
    parser.add_argument("--functions", action="store_true", help="where they go, to stderr")
    parser.add_argument("--json", action="store_true", help="a line for each count")
    args = parser.parse_args()
    rows = []
    for net in args.net or NETS:
        for share in args.share or SHARES:
            for blocks in NETS[net] if share else NETS[net][:1]:
                if args.blocks and share and str(blocks) not in args.blocks:
                    continue
                for cpu in args.cpu or ("cortex-m4", "cortex-m55"):
                    found = checked(cpu, plan_of(net, blocks, share, cpu),
                                    functions=args.functions)
                    goal = GOALS[net, "cortex-m55" if cpu == "cortex-m55" else "cortex-m4"]
                    row = Row(net, str(blocks) if share else "dense", share, cpu,
                              found.regions[-1], goal[SHARES.index(share)])
                    rows.append(row)
                    if args.functions:
                        show_functions(f"{net} {row.blocks} {share} %", found)
                    print(json.dumps(vars(row)) if args.json else " ".join(row.text),
                          file=sys.stdout if args.json else sys.stderr, flush=True)
    if not args.json:
        heads = ("net", "blocks", "zeros", "core", "instructions", "goal", "of goal")
        print(markdown(heads, (row.text for row in rows)))
        print("\nThe best blocks of each:\n")
        print(markdown(heads, (row.text for row in best(rows))))


if __name__ == "__main__":
    main()
