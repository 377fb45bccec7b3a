"""Emulated cycles of an ECG hop on the NPU, everything counted, and its zeros foretold.

    python benchmarks/npu_ecg.py [--data-root ../shared] [--cycles-only]

The nets of edgesparse/demo as streams on esn-s, 44 ms a hop, on real ECG of DS1: launch (500) and
instruction fetch counted, weights from flash in every hop or resident in the scratchpad. Then, per
layer, the share of products that zero activations make 0: predicted from ten seconds of each
record, counted in ten others, four minutes later. Cycles are emulated (docs/NPU.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from npu_layers import picojoules
from records import Ecg, markdown, options, records

from edgesparse.convert import Conversion, Options, convert_model
from edgesparse.demo.ecg import SAMPLE_RATE_HZ
from edgesparse.graph.ir import Array
from edgesparse.npu.options import NpuOptions
from edgesparse.runtime.npu import Counters
from edgesparse.runtime.stream import Stream
from edgesparse.sparsity.activations import zero_rates
from edgesparse.streaming.plan import StreamOptions

TARGET = "esn-s"
NETS = {
    "C48 dense": "ecg_c48_dense", "C24 dense": "ecg_c24_dense", "C48 4x1 75 %": "ecg_c48_4x1_75",
    "C48 16x1 75 %": "ecg_c48_16x1_75"}
STREAM = StreamOptions(hop=8, mode="continuous", frontend="ecg360", beats=True)
FOR_CYCLES = 3
"""Recordings that hops are counted on; rates are of all."""
CALIBRATION, COUNTED, SECONDS = 60, 300, 10
"""Seconds from the start of a record, and how many are taken."""
TIMES = ("cycles", "launch_cyc", "issue", "mac_cyc", "req_cyc", "lut_cyc", "vec_cyc", "stall_dma",
         "stall_fetch")


@dataclass(frozen=True)
class Hops:
    """Sums over so many hops, and per step what zeros took of its products."""

    count: int
    counters: Counters
    steps: tuple[Counters, ...]

    def mean(self, name: str) -> int:
        return self.counters[name] // self.count

    def zero_rate(self, step: int) -> float:
        c = self.steps[step]
        return c["mac_skip_a"] / max(1, c["mac_skip_a"] + c["mac_issued"])


def converted(net: str, resident: bool = False, skip: bool = True) -> Conversion:
    npu = NpuOptions(resident=resident, skip=skip)
    with as_file(files("edgesparse.demo") / f"{net}.tflite") as path:
        return convert_model(path, TARGET, Options(stream=STREAM, golden=False, npu=npu))


def _added(total: Counters, more: Counters) -> Counters:
    return {name: total.get(name, 0) + value for name, value in more.items()}


def hops(done: Conversion, signals: list[Array]) -> Hops:
    """Push signals hop by hop, one after the other: a stream that starts has rings of zeros."""
    stream = Stream(done.plan, TARGET)
    assert stream.npu is not None
    count, total = 0, Counters()
    steps = [Counters() for _ in done.plan.model.steps]
    for signal in signals:
        for at in range(0, len(signal) - stream.hop + 1, stream.hop):
            stream.npu.last = None
            stream.push(signal[at : at + stream.hop])
            if stream.npu.last is None:
                continue
            count += 1
            total = _added(total, stream.npu.last.counters)
            steps = [_added(*both) for both in zip(steps, stream.npu.last.marks)]
    return Hops(count, total, tuple(steps))


def fed(done: Conversion, signal: Array) -> list[list[Array]]:
    """What the front end makes of a signal, run by run."""
    found: list[list[Array]] = []
    stream, shape = Stream(done.plan), done.plan.inputs[0].shape

    def taken() -> None:
        found.append([stream.native.inputs[0].copy().reshape(shape)])

    stream.native.set_runner(taken)  # nobody asks for the beats
    stream.push(signal)
    return found


def cycle_rows(signals: list[Array]) -> Iterator[list[object]]:
    for name, net in NETS.items():
        for resident in (False, True):
            for skip in (False, True):
                done = converted(net, resident, skip)
                found = hops(done, signals)
                npu = done.plan.model.npu
                assert npu is not None
                yield [name, "resident" if resident else "from flash", "yes" if skip else "no",
                       *(f"{found.mean(c):,}" for c in TIMES),
                       f"{found.mean('dma_flash_rd_bytes'):,}", f"{len(npu.commands) // 16:,}",
                       f"{picojoules(found.counters) / found.count / 1000:,.1f}"]


def rate_rows(
    calibration: list[Array], signals: list[Array]
) -> Iterator[tuple[str, int, float, float]]:
    """(net, step, predicted, counted)."""
    for name, net in NETS.items():
        done = converted(net)
        predicted = zero_rates(done.plan.data, fed(done, np.concatenate(calibration)))
        found = hops(done, signals)
        for step, rate in sorted(predicted.items()):
            yield name, step, rate, found.zero_rate(step)


def parts(recordings: list[Ecg], start: int) -> list[Array]:
    rate = SAMPLE_RATE_HZ
    return [r.samples[start * rate : (start + SECONDS) * rate] for r in recordings]


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--cycles-only", action="store_true", help="without the rates of zeros")
    arguments = parser.parse_args()
    recordings = records(arguments)
    print(markdown(
        ("net", "weights", "skip", *TIMES, "flash bytes", "instructions", "energy, nJ"),
        cycle_rows(parts(recordings[:FOR_CYCLES], COUNTED))), "\n")
    if not arguments.cycles_only:
        rates = rate_rows(parts(recordings, CALIBRATION), parts(recordings, COUNTED))
        print(markdown(("net", "step", "predicted", "counted", "points apart"), (
            (net, step, f"{p:.1%}", f"{c:.1%}", f"{100 * abs(p - c):.1f}")
            for net, step, p, c in rates)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
