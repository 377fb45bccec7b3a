"""Plans on emulated boards with all they are to work on put into the board's memory beforehand:
the images firmware_sim/firmware/exact.c and soak.c."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgesparse.device import board_of, build_firmware
from edgesparse.device.qemu import QEMU
from edgesparse.plan.plan import Plan

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for the scripts that import this module

MEMORY = {
    "cortex-m4": 0x21000000, "cortex-m7": 0x60000000, "cortex-m33": 0x80000000,
    "cortex-m55": 0x70000000}
"""ES_NVM of firmware_sim/firmware/board.h."""
ROOM = 16 << 20
"""Bytes of that memory on the boards that have the least of it."""


def blob(plan: Plan, words: tuple[int, int, int], data: bytes) -> bytes:
    """As firmware_sim/firmware/preloaded.h reads it."""
    head = struct.pack("<4I", len(plan.data), *words)
    return head + plan.data + bytes(-len(plan.data) % 16) + data


@contextmanager
def started(cpu: str, image: str, memory: bytes, *options: str) -> Iterator[Iterator[str]]:
    """The lines that an image prints, as they come. SystemExit when it does not end well."""
    board = board_of(cpu)
    if len(memory) > ROOM:
        raise SystemExit(f"{len(memory):,} bytes for {cpu}, whose memory has {ROOM:,}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory"
        file.write_bytes(memory)
        process = subprocess.Popen(
            (QEMU, "-M", board.machine, "-display", "none", "-monitor", "none", "-serial", "none",
             "-nic", "none", "-semihosting-config", "enable=on,target=native",
             "-device", f"loader,file={file},addr={MEMORY[cpu]:#x},force-raw=on",
             "-kernel", str(build_firmware(cpu, image)), *options),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        said: list[str] = []

        def lines() -> Iterator[str]:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                yield line.rstrip("\n")

        try:
            yield lines()
            status = process.wait(10)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    if status or not said or said[-1] != "ended ok\n":
        raise SystemExit(f"{image} on {cpu} ended with status {status}:\n{''.join(said)}")


def differing(cpu: str, plan: Plan, runs: list[tuple[bytes, bytes]]) -> list[int]:
    """Per run, how many bytes of the outputs on the board are not the expected ones.

    runs  all inputs of a run, one after another, and all outputs; the plan keeps its state from
          one to the next
    """
    sizes = len(runs), len(runs[0][0]), len(runs[0][1])
    data = b"".join(given + expected for given, expected in runs)
    with started(cpu, "exact", blob(plan, sizes, data)) as lines:
        found = [re.fullmatch(r"run (\d+) differing (\d+)", line) for line in lines]
    counts = [int(match[2]) for match in found if match]
    if len(counts) != len(runs):
        raise SystemExit(f"{cpu}: {len(counts)} of {len(runs)} runs")
    return counts


@dataclass(frozen=True)
class Report:
    """What soak.c says after each stretch; its comment has the fields."""

    hops: int
    samples: int
    crc: int
    late: int
    overruns: int
    worst: int
    ticks: int
    due: int
    stack: int
    arena: int


@dataclass(frozen=True)
class Soak:
    """hops: in all, of them `report` between two reports; an instruction takes 2^icount ns."""

    hops: int
    report: int
    icount: int = 6


def reports(cpu: str, plan: Plan, record: bytes, soak: Soak) -> Iterator[Report]:
    """What the board says of a record that it goes through again and again."""
    memory = blob(plan, (len(record) // 2, soak.hops, soak.report), record)
    timing = ("-icount", f"shift={soak.icount},sleep=off")
    with started(cpu, "soak", memory, *timing) as lines:
        for line in lines:
            words = line.split()
            if words[0] == "hops":
                fields = dict(zip(words[::2], words[1::2]))
                yield Report(**{name: int(value) for name, value in fields.items()})
