"""How many times faster than real time, how much memory after a day, and whether it repeats.

python benchmarks/ecg_throughput.py --data-root ../shared

`edgesparse stream --source - --json` is fed one record of DS1 over and over through a pipe, twice.
Resident memory is read when so many hours have been written; what waits in the pipe is at most two
minutes of signal. All output but the times of the summary must be the same both times. Below: the
same signal through es.Stream, which hands every run to Python, and through es_push alone. Multiples
of real time are of processor time, on one core; start-up is in them for the command.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from os import sysconf, wait4
from pathlib import Path
from typing import IO, Any

import numpy as np
from records import converted, markdown, options, records

from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat

HOUR = 3600 * 360
CHUNK = 60 * 360
FLAT_BYTES = 1 << 20
"""Memory that is taken as the same."""
TIMES = ("wall_s", "worst_run_s", "times_real_time", "latency_p50_s", "latency_p99_s",
         "latency_max_s", "worst_late_s", "overruns")
"""What a summary says about the clock."""


def resident(process: int) -> int:
    """Bytes of memory a process has now. Linux only."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * sysconf("SC_PAGE_SIZE")


def looped(samples: Array, start: int, count: int) -> Array:
    """`count` samples of the endless repetition of a record, from `start` on."""
    found: Array = samples[(start + np.arange(count)) % len(samples)]
    return found


@dataclass
class Output:
    """What a command printed: how many lines, their hash, and the last one, the summary."""

    lines: int = 0
    last: bytes = b""
    hashed: Any = field(default_factory=hashlib.sha256)

    def read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.hashed.update(self.last)
            self.lines, self.last = self.lines + 1, line

    def fingerprint(self) -> tuple[int, str, str]:
        """Of everything but times."""
        summary = {k: v for k, v in json.loads(self.last).items() if k not in TIMES}
        return self.lines, self.hashed.hexdigest(), json.dumps(summary, sort_keys=True)


@dataclass(frozen=True)
class Ran:
    """One run of the command: output, processor and wall seconds, hours -> resident bytes."""

    output: Output
    cpu_s: float
    wall_s: float
    memory: dict[float, int]


def command(plan: Path, samples: Array, hours: list[float]) -> Ran:
    """The command on so many hours of signal; memory is read at each of `hours`, which rise."""
    arguments = (sys.executable, "-m", "edgesparse", "stream", str(plan), "--source", "-", "--rate",
                 "360", "--json")
    output, memory, start = Output(), {}, time.perf_counter()
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reader = threading.Thread(target=output.read, args=(process.stdout,))
        reader.start()
        at = 0
        for hour in hours:
            while at < hour * HOUR:
                count = min(CHUNK, round(hour * HOUR) - at)
                process.stdin.write(looped(samples, at, count).astype("<i2").tobytes())
                at += count
            memory[hour] = resident(process.pid)
        process.stdin.close()
        reader.join()
        _, status, used = wait4(process.pid, 0)
        process.returncode = status
    if status:
        raise SystemExit(f"edgesparse stream ended with status {status}")
    return Ran(output, used.ru_utime + used.ru_stime, time.perf_counter() - start, memory)


def processor_seconds(work: Callable[[Array], object], samples: Array, hours: float) -> float:
    """Of a work that is given the signal a minute at a time."""
    start = time.process_time()
    for at in range(0, round(hours * HOUR), CHUNK):
        work(looped(samples, at, CHUNK))
    return time.process_time() - start


def in_process(plan: Plan, samples: Array, hours: float) -> dict[str, float]:
    """Name -> processor seconds, without those of making the signal."""
    everything, core = Stream(plan), Stream(plan).native
    counted = [0]

    def api(part: Array) -> None:
        counted[0] += sum(isinstance(event, Beat) for event in everything.push(part))

    own = processor_seconds(lambda part: None, samples, hours)
    return {
        "es.Stream, runs and beats to Python": processor_seconds(api, samples, hours) - own,
        "es_push, the C core alone": processor_seconds(
            lambda part: core.push(part[:, None], None), samples, hours) - own}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--hours", default="1,6,24", help="rising, with commas")
    arguments = parser.parse_args()
    hours = [float(hour) for hour in arguments.hours.split(",")]
    plan, ecg = converted(arguments.model), records(arguments)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.esp"
        plan.save(path)
        both = [command(path, ecg.samples, hours) for _ in range(2)]
    same = both[0].output.fingerprint() == both[1].output.fingerprint()
    grown = max(ran.memory[hours[-1]] - ran.memory[hours[0]] for ran in both)
    print(f"{arguments.model}, record {ecg.name} over and over, {hours[-1]:g} hours\n")
    rows = [[f"edgesparse stream --source - --json, run {number}",
             f"{hours[-1] * 3600 / ran.cpu_s:,.0f}", f"{ran.cpu_s:.1f}", f"{ran.wall_s:.1f}"]
            for number, ran in enumerate(both, 1)]
    part = hours[0]
    rows += [[name, f"{part * 3600 / seconds:,.0f}", f"{seconds:.1f} of {part:g} h", "-"]
             for name, seconds in in_process(plan, ecg.samples, part).items()]
    print(markdown(("path", "x real time", "processor, s", "wall, s"), rows), "\n")
    print(markdown(
        ("resident, MiB", *(f"{hour:g} h" for hour in hours)),
        [[f"run {number}", *(f"{ran.memory[hour] / 2**20:.2f}" for hour in hours)]
         for number, ran in enumerate(both, 1)]), "\n")
    print(f"{both[0].output.lines:,} lines of output, "
          f"{'the same' if same else 'NOT the same'} both times")
    return int(not same or grown > FLAT_BYTES)


if __name__ == "__main__":
    sys.exit(main())
