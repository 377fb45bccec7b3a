"""The ECG stream on emulated boards in their own time: hours of real ECG, and the host's results.

    python benchmarks/device_ecg.py --by link --hours 1 [--cpu cortex-m4] [--data-root ../shared]
    python benchmarks/device_ecg.py --by preloaded --hours 24

Time is QEMU's: an instruction takes 64 ns (-icount shift=6), sleep none (sleep=off). Through the
link, the firmware takes the samples as fast as it can; preloaded, firmware_sim/firmware/soak.c has
the record in memory and takes a hop when it is due, 44.4 ms after the one before. Every result is
compared with the same plan's in the portable core on this machine: all runs with their outputs,
beats, states of the signal. Exit status 1 for a hop that was late, a byte that differed or was
lost, a mark that rose. A day takes about half an hour of a free core.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from device_instructions import ECG, target_of
from preloaded import ROOT, Report, Soak, reports
from records import Ecg, markdown

from edgesparse.convert import Options, convert_model
from edgesparse.device import Device, DeviceOptions
from edgesparse.graph.ir import Array
from edgesparse.link import Link, inference, open_link
from edgesparse.link.client import Patience
from edgesparse.link.inference import Memory
from edgesparse.link.stream import DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Event
from edgesparse.streaming.plan import StreamOptions
from stream_plans import comparable, packed

RATE_HZ, HOP = 360, 16
ICOUNT = 6
BUDGET_MS = 1000 * HOP / RATE_HZ
RECORDS = ("208", "119")
"""Of DS1, half an hour each: many ectopic beats and noise; a clean one."""
PATIENCE = Patience(wait=1.0)
"""The host may be slow, which is no fault of the device's."""
INTERRUPT = 256
"""Bytes of stack that one takes, with the registers of floats. Whether one has come when the stack
was deepest is chance, so a mark may rise once by so much."""
MARKS_S = (10, 600)
"""When the marks of memory are read, before the end."""


def plan_of(cpu: str) -> Plan:
    options = StreamOptions(hop=HOP // 2, frontend="ecg360", beats=True)
    return convert_model(ECG, target_of(cpu), Options(stream=options)).plan


def record(root: Path) -> Array:
    """[n] int16, whole hops; it follows on itself."""
    parts = [Ecg(root / "data" / "mitdb", name).samples for name in RECORDS]
    samples = np.concatenate(parts)
    return samples[:len(samples) // HOP * HOP]


# ---- through the link ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Streamed:
    """Through the link. differing: results; stats: the device's counters; marks: of its memory."""

    results: int
    differing: int
    repeats: int
    stats: dict[str, int]
    marks: tuple[Memory, ...]

    @property
    def faults(self) -> list[str]:
        counted = "late", "overrun", "drop", "gap", "long", "enc", "crc"
        wrong = [f"{name} {self.stats[name]}" for name in counted if self.stats[name]]
        if self.differing:
            wrong.append(f"{self.differing} results differ")
        depths = [mark.stack_most for mark in self.marks]
        if max(depths) - min(depths) > INTERRUPT:
            wrong.append(f"the stack grew: {depths}")
        if len({replace(mark, stack_most=0) for mark in self.marks}) != 1:
            wrong.append("memory grew")
        return wrong


def streamed(cpu: str, samples: Array) -> Streamed:
    """Push a signal in pieces of any size, polling now and then."""
    plan = plan_of(cpu)
    here = Stream(plan)
    options = DeviceOptions(idle_skips=True)
    with (Device.start(cpu, plan=plan, icount=ICOUNT, options=options) as device,
          open_link(device.port, patience=PATIENCE) as link):
        shapes = [out.shape for out in plan.outputs]
        there = DeviceStream(link, runs=True, shapes=shapes)
        differing = results = 0
        pending: tuple[list[Event], list[Event]] = ([], [])
        marks: list[Memory] = []
        wanted = [s * RATE_HZ for s in MARKS_S if s * RATE_HZ < len(samples)] + [len(samples)]
        for piece, polls, end in pieces(samples):
            pending[0].extend(here.push(piece))
            pending[1].extend(there.push(piece))
            if polls:
                pending[1].extend(there.poll())
            if end >= wanted[len(marks)]:
                marks.append(inference.memory(link))
            agreed = min(map(len, pending))
            differing += sum(a != b for a, b in zip(*(comparable(p[:agreed]) for p in pending)))
            results += agreed
            for events in pending:
                del events[:agreed]
        ours, theirs = [*pending[0], *here.flush()], [*pending[1], *there.finish()]
        differing += abs(len(ours) - len(theirs))
        differing += sum(a != b for a, b in zip(comparable(ours), comparable(theirs)))
        return Streamed(results + len(theirs), differing, link.counters.repeats,
                        counters(link), tuple(marks))


def pieces(samples: Array) -> Iterator[tuple[Array, bool, int]]:
    """Pieces of one sample to five seconds, whether to poll after each, and where it ends."""
    rng = np.random.default_rng(5)
    at = 0
    while at < len(samples):
        size = int(np.exp(rng.uniform(0, np.log(5 * RATE_HZ))))
        yield samples[at:at + size], bool(rng.random() < 0.3), min(at + size, len(samples))
        at += size


def counters(link: Link) -> dict[str, int]:
    return {name: value for name, value in link.stats().items() if isinstance(value, int)}


# ---- preloaded -----------------------------------------------------------------------------------


def host_crcs(plan: Plan, samples: Array, soak: Soak) -> Iterator[int]:
    """What each report should have as `crc`."""
    stream = Stream(plan)
    crc, at = 0, 0
    for _ in range(soak.hops // soak.report):
        left = soak.report * HOP
        while left:
            piece = samples[at:at + left]
            for event in stream.push(piece):
                crc = zlib.crc32(packed(event), crc)
            left -= len(piece)
            at = (at + len(piece)) % len(samples)
        yield crc


def soaked(cpu: str, samples: Array, soak: Soak) -> Iterator[tuple[Report, bool]]:
    """Each report as it comes, and whether all results up to it are the host's."""
    plan = plan_of(cpu)
    found = reports(cpu, plan, samples.astype("<i2").tobytes(), soak)
    expected = host_crcs(plan, samples, soak)
    for report in found:
        yield report, report.crc == next(expected)


def faults_of(all_reports: list[tuple[Report, bool]], soak: Soak) -> list[str]:
    """Drift: samples that are not those of so many hops; a report later than a hop after its due
    time."""
    found = [report for report, _ in all_reports]
    wrong = [] if len(found) == soak.hops // soak.report else ["reports are missing"]
    period = found[0].due // found[0].hops
    for report, same in all_reports:
        if not same:
            wrong.append(f"results differ by hop {report.hops}")
        if report.late or report.overruns:
            wrong.append(f"{report.late} late, {report.overruns} overruns")
        if report.samples != report.hops * HOP or not 0 <= report.ticks - report.due < period:
            wrong.append(f"drift at hop {report.hops}")
    for before, after in pairwise(found):
        if (before.stack, before.arena) != (after.stack, after.arena):
            wrong.append("memory grew")
    return wrong


# ---- both ----------------------------------------------------------------------------------------


def by_link(cpu: str, samples: Array) -> tuple[list[object], list[str]]:
    found = streamed(cpu, samples)
    first = found.marks[0]
    return [
        cpu, f"{len(samples) / RATE_HZ:,.0f}", f"{found.results:,}", found.differing,
        found.stats["late"], found.stats["overrun"], found.repeats,
        " ".join(f"{mark.stack_most:,}" for mark in found.marks),
        f"{first.arena_used:,}"], found.faults


def by_memory(cpu: str, samples: Array, soak: Soak) -> tuple[list[object], list[str]]:
    all_reports: list[tuple[Report, bool]] = []
    start = time.monotonic()
    for report, same in soaked(cpu, samples, soak):
        all_reports.append((report, same))
        print(f"{cpu}: {report.hops * HOP / RATE_HZ / 3600:.2f} h in "
              f"{time.monotonic() - start:,.0f} s: {report}, {same=}", file=sys.stderr, flush=True)
    last = all_reports[-1][0]
    wrong = faults_of(all_reports, soak)
    return [
        cpu, f"{last.samples / RATE_HZ:,.0f}", f"{last.hops:,}",
        sum(not same for _, same in all_reports), last.late, last.overruns,
        f"{BUDGET_MS * last.worst * last.hops / last.due:.1f}",
        f"{min(r.stack for r, _ in all_reports):,} to {max(r.stack for r, _ in all_reports):,}",
        f"{max(r.arena for r, _ in all_reports):,}", last.samples - last.hops * HOP], wrong


LINK_HEADS = ("core", "seconds of ECG", "results", "differing", "late", "bytes lost",
              "requests repeated", "stack: start, 10 min, end", "arena")
MEMORY_HEADS = ("core", "seconds of ECG", "hops", "reports that differ", "late", "overruns",
                "longest of 44.4 ms", "stack", "arena", "drift, samples")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--by", choices=("link", "preloaded"), default="preloaded")
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--reports", type=int, default=24, help="of the preloaded run")
    parser.add_argument("--cpu", action="append", help="default: cortex-m4 and cortex-m55")
    args = parser.parse_args()
    samples = record(args.data_root)
    faults: list[str] = []
    rows = []
    for cpu in args.cpu or ("cortex-m4", "cortex-m55"):
        if args.by == "link":
            count = round(args.hours * 3600 * RATE_HZ)
            row, wrong = by_link(cpu, np.resize(samples, count))
        else:
            report = round(args.hours * 3600 * RATE_HZ / HOP / args.reports)
            row, wrong = by_memory(cpu, samples, Soak(report * args.reports, report, ICOUNT))
        rows.append(row)
        faults += [f"{cpu}: {text}" for text in wrong]
    print(markdown(LINK_HEADS if args.by == "link" else MEMORY_HEADS, rows))
    print("\n".join(faults), file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
