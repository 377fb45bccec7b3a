"""Print what streaming saves: MACs and wall time of a hop against recomputing the window.

    python benchmarks/streaming.py [--net tcn] [--hop 32] [--json]

A window of 1440 columns for the nets of tests/streaming_nets.py and each padding, three plans
timed in turns by the portable C core: the window, `incremental`, and, where the net looks at
nothing to come, `continuous` without its head. Times faster are medians over pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from paired import Paired, paired

from edgesparse.graph.ir import Graph
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.streaming.continuous import continuous
from edgesparse.streaming.incremental import incremental
from streaming_nets import PADDINGS, WITH_ECG, build

WINDOW = 1440


@dataclass(frozen=True)
class Saved:
    """One mode of one net against its window.

    macs   MACs of the window / MACs of a hop
    state  bytes kept from run to run; ram: all of the arena
    """

    net: str
    padding: str
    mode: str
    macs: float
    time: Paired
    state: int
    ram: int


def measured(net: str, padding: str, hop: int) -> Iterator[Saved]:
    """The window itself, then what streams of it."""
    whole = build(net, padding, WINDOW, head=net != "ecg_c48")
    modes = {"window": whole, "incremental": incremental(whole, hop).graph}
    if padding != "same":
        modes["continuous"] = continuous(build(net, padding, WINDOW, head=False), hop).graph
    sessions = {mode: session(graph) for mode, graph in modes.items()}
    times = paired({mode: made.run for mode, (made, _, _) in sessions.items()})
    for mode, graph in modes.items():
        _, state, ram = sessions[mode]
        yield Saved(net, padding, mode, macs(whole) / macs(graph), times[mode], state, ram)


def macs(graph: Graph) -> int:
    return sum(node.op.macs(graph.ins(node), graph.outs(node)) for node in graph.nodes)


def session(graph: Graph) -> tuple[NativeSession, int, int]:
    """Ready to run on noise; its state and its arena in bytes."""
    model = assemble(lower(graph), "host", "benchmark", "{}").model
    made = NativeSession(NativePlan(write_plan(model)))
    made.inputs[0][:] = np.random.default_rng(1).integers(-128, 128, made.inputs[0].size)
    return made, model.state_bytes, model.arena_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=WITH_ECG, action="append", help="default: all")
    parser.add_argument("--hop", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.json:
        print("| net | padding | mode | MACs saved | times faster (quartiles) | us a run | state "
              "| RAM |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for net in args.net or WITH_ECG:
        for padding in PADDINGS:
            for s in measured(net, padding, args.hop):
                print(json.dumps(flat(s)) if args.json else row(s), flush=True)


def row(s: Saved) -> str:
    low, high = s.time.spread
    return (f"| {s.net} | {s.padding} | {s.mode} | {s.macs:.1f} | {s.time.times:.1f} "
            f"({low:.1f}-{high:.1f}) | {s.time.ns / 1000:.1f} | {s.state:,} | {s.ram:,} |")


def flat(s: Saved) -> dict[str, object]:
    return {**vars(s), "time": vars(s.time)}


if __name__ == "__main__":
    main()
