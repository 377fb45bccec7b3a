"""What the choice of encodings is worth on Cortex-M: QEMU instructions of block-sparse nets as the
converter stores them, with all rows dense, and with the encodings that take the fewest bytes.

    python benchmarks/cortex_m_choice.py [--net ad01] [--blocks 4x1] [--share 50] [--cpu cortex-m4]

The nets are those of cortex_m_nets.py, with blocks of every kind in both. Exit code 1: what was
chosen takes more instructions than dense rows. All of it takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from itertools import product

from cortex_m_nets import NETS, Blocks, model_of
from device_instructions import BOARDS, checked, target_of
from records import markdown

from edgesparse.convert import Options, convert_model
from edgesparse.target import load_target

BLOCKS = tuple(Blocks(rows, cols) for rows, cols in ((4, 1), (1, 4), (2, 4), (4, 4)))
SHARES = (35, 50, 75, 90)


@dataclass(frozen=True)
class Row:
    """Instructions of a run, and bytes of the plans."""

    net: str
    blocks: str
    share: int
    cpu: str
    chosen: int
    dense: int
    fewest_bytes: int
    chosen_bytes: int
    dense_bytes: int
    least_bytes: int

    @property
    def slower(self) -> bool:
        """Than a plan without sparse rows."""
        return self.chosen > self.dense


def row_of(net: str, blocks: Blocks, share: int, cpu: str) -> Row:
    model, target = model_of(net, blocks, share), target_of(cpu)
    every = Options(encodings=load_target(target).encodings)
    plans = [convert_model(model, target, options).plan
             for options in (Options(), Options(encodings=("dense",)), every)]
    counts = [checked(cpu, plan).regions[-1] for plan in plans]
    return Row(net, str(blocks), share, cpu, *counts, *(plan.flash_bytes for plan in plans))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=NETS, action="append", help="default: both")
    parser.add_argument("--blocks", choices=[str(b) for b in BLOCKS], action="append",
                        help="default: all")
    parser.add_argument("--share", type=int, action="append", help="percent; default: 35 to 90")
    parser.add_argument("--cpu", choices=BOARDS, action="append", help="default: M4 and M55")
    parser.add_argument("--json", action="store_true", help="a line for each")
    args = parser.parse_args()
    rows = []
    for net, blocks, share, cpu in product(
            args.net or NETS, BLOCKS, args.share or SHARES,
            args.cpu or ("cortex-m4", "cortex-m55")):
        if args.blocks is None or str(blocks) in args.blocks:
            rows.append(row_of(net, blocks, share, cpu))
            if args.json:
                print(json.dumps(vars(rows[-1]) | {"slower": rows[-1].slower}), flush=True)
    if not args.json:
        print(markdown(
            ("net", "blocks", "zeros", "core", "chosen", "dense", "fewest bytes", "plan bytes",
             "dense", "fewest"),
            [(r.net, r.blocks, f"{r.share} %", r.cpu, *(f"{n:,}" for n in (
                r.chosen, r.dense, r.fewest_bytes, r.chosen_bytes, r.dense_bytes, r.least_bytes)))
             for r in rows]))
    return int(any(row.slower for row in rows))


if __name__ == "__main__":
    sys.exit(main())
