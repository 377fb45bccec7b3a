"""Every int8 model of docs/MODELS.md on emulated boards: its outputs against the oracle's bytes.

    python benchmarks/device_models.py --data-root ../shared [--cpu cortex-m4] [--model NAME]

Each is converted for the board's target. `by link`: runs of the firmware on inputs sent over its
line, the plan installed as a factory does it; `preloaded`: runs of the same core with inputs and
expected outputs in memory (firmware_sim/firmware/exact.c), after the plan's self test. Inputs,
judges and stand-ins are those of tests/int8_models.py, and a model that keeps state sees the
inputs one after another. Exit status 1 for one byte that differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device_instructions import target_of
from preloaded import ROOT, differing
from records import markdown

from edgesparse.convert import convert_model
from edgesparse.device import Device, nvm
from edgesparse.errors import DoesNotFit
from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.link import inference, open_link
from edgesparse.link.client import Patience
from edgesparse.oracle import judge_of
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.runtime.session import flip, quantize
from edgesparse.stimuli import stimuli
from int8_models import FEW_INPUTS, JUDGED, STAND_INS, model_path

INPUTS, BY_LINK = 32, 2
LARGEST = "cortex-m55"
STEP_COUNTER = 16
"""Bytes of RAM that the firmware takes for each step."""
ICOUNT = 7
"""Time is that of instructions: else the watchdog bites where QEMU takes 8 s for a step."""
PATIENCE = Patience(wait=2.0)
"""An emulated run of the largest model takes seconds of the host's time."""


@dataclass(frozen=True)
class Given:
    """One run: the plan's inputs, and its outputs as the judge has them; all int8."""

    inputs: list[Array]
    outputs: list[Array]

    def as_bytes(self) -> tuple[bytes, bytes]:
        return (b"".join(x.tobytes() for x in self.inputs),
                b"".join(y.tobytes() for y in self.outputs))


def as_stored(values: Array, io: IoInfo) -> Array:
    """What the plan stores for what the user's model has."""
    if io.float_io:
        return quantize(values, io)
    return flip(values).view(np.int8) if io.uint8_io else values


def judged(plan: Plan, path: Path, count: int) -> Iterator[Given]:
    """Runs one after another, each with what the best judge of that file says."""
    data = path.read_bytes()
    graph = import_tflite(data, path.name)
    judge = judge_of(data, path.name).judge
    for feeds in stimuli(plan.inputs, count, np.random.default_rng(0)):
        values = judge.run({name: x.reshape(graph.tensors[name].shape)
                            for name, x in zip(graph.inputs, feeds)})
        yield Given(
            [quantize(x, io) if io.float_io else x for x, io in zip(feeds, plan.inputs)],
            [as_stored(values[name], io) for name, io in zip(graph.outputs, plan.outputs)])


def expected(root: Path, name: str, plan: Plan, count: int) -> list[Given]:
    """The judge's outputs; where it needed a copy, the file's twin has to have the same."""
    runs = list(judged(plan, model_path(root, name), count))
    if name in STAND_INS:
        twins = judged(plan, model_path(root, STAND_INS[name]), count)
        if any(a.as_bytes() != b.as_bytes() for a, b in zip(runs, twins)):
            raise SystemExit(f"{name}: its judge and its dense twin differ")
    return runs


def plan_for(cpu: str, path: Path) -> tuple[Plan, str]:
    """The plan for a board, and what there is to say of it: the boards have more flash and RAM than
    the small target."""
    try:
        return convert_model(path, target_of(cpu)).plan, ""
    except DoesNotFit:
        return convert_model(path, LARGEST).plan, f"too large for target {target_of(cpu)}"


def why_not(plan: Plan, arena: int) -> str:
    """Why the firmware cannot take a plan; "": it can."""
    if len(plan.data) > nvm.SLOT:
        return f"plan of {len(plan.data):,} bytes, a slot has {nvm.SLOT:,}"
    needed = plan.ram_bytes + STEP_COUNTER * len(plan.model.steps)
    return f"RAM of {needed:,} bytes, the board has {arena:,}" if needed > arena else ""


def arena_of(cpu: str) -> int:
    with Device.start(cpu) as device, open_link(device.port, patience=PATIENCE) as link:
        return inference.memory(link).arena


def by_link(cpu: str, plan: Plan, runs: list[Given]) -> int:
    """Differing bytes of the firmware's runs."""
    count = 0
    with (Device.start(cpu, plan=plan, icount=ICOUNT) as device,
          open_link(device.port, patience=PATIENCE) as link):
        inference.self_test(link)
        for run in runs:
            there = b"".join(y.tobytes() for y in inference.run(link, run.inputs))
            _, right = run.as_bytes()
            count += abs(len(there) - len(right)) + sum(a != b for a, b in zip(there, right))
    return count


@dataclass(frozen=True)
class Row:
    """One model on one board. links, loaded: runs; size: bytes compared of each; note: why it
    cannot run there, or what is special."""

    model: str
    cpu: str
    links: int
    loaded: int
    size: int
    differing: int
    note: str

    @property
    def cells(self) -> tuple[object, ...]:
        compared = self.size * (self.links + self.loaded)
        return (self.model.split("/", 1)[-1], self.cpu, self.links, self.loaded, f"{compared:,}",
                self.differing if compared else "-", self.note)


def compare(root: Path, name: str, cpu: str, arena: int, inputs: int = INPUTS) -> Row:
    """Run a model on a board by both ways.

    arena  the firmware's, bytes; inputs: at most so many preloaded ones
    """
    plan, note = plan_for(cpu, model_path(root, name))
    reason = why_not(plan, arena)
    if reason:
        return Row(name, cpu, 0, 0, 0, 0, reason)
    runs = expected(root, name, plan, min(FEW_INPUTS.get(name, INPUTS), inputs))
    linked = by_link(cpu, plan, runs[:BY_LINK])
    loaded = differing(cpu, plan, [run.as_bytes() for run in runs])
    size = len(runs[0].as_bytes()[1])
    return Row(name, cpu, len(runs[:BY_LINK]), len(runs), size, linked + sum(loaded), note)


def rows(args: argparse.Namespace) -> Iterator[Row]:
    arenas = {cpu: arena_of(cpu) for cpu in args.cpu}
    for name in JUDGED:
        if not args.model or name.rsplit("/", 1)[1] in args.model:
            for cpu in args.cpu:
                yield compare(args.data_root, name, cpu, arenas[cpu], args.inputs)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--cpu", action="append", help="default: cortex-m4 and cortex-m55")
    parser.add_argument("--model", action="append", metavar="NAME",
                        choices=[name.rsplit("/", 1)[1] for name in JUDGED],
                        help="without its folder; default: all")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="at most, of each model")
    args = parser.parse_args()
    args.cpu = args.cpu or ["cortex-m4", "cortex-m55"]
    found = []
    for row in rows(args):
        print(*row.cells, file=sys.stderr, flush=True)
        found.append(row)
    heads = "model", "core", "by link", "preloaded", "bytes compared", "differing", ""
    print(markdown(heads, [row.cells for row in found]))
    wrong = sum(row.differing for row in found)
    print(f"\n{len(found)} plans, {wrong} differing bytes")
    return int(wrong > 0 or not found)


if __name__ == "__main__":
    sys.exit(main())
