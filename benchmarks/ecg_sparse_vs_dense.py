"""Time and bytes of the sparse ECG nets beside dense ones, as streams and as whole windows.

python benchmarks/ecg_sparse_vs_dense.py

Times are those of the portable kernels on this computer, taken in turns (benchmarks/paired.py):
`times faster` than dense C48 is a median, with quartiles. RAM and plan are what a device needs;
`as dense` is what the weights would take without an encoding; MACs are those of weights that are
not zero, and all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

import numpy as np
from paired import Paired, paired
from records import converted, markdown

from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream

# The first one is what the others are compared with.
NETS = {
    "C48 dense": "ecg_c48_dense", "C48 4x1 75 %": "ecg_c48_4x1_75",
    "C48 16x1 75 %": "ecg_c48_16x1_75", "C48 unstructured 90 %": "ecg_c48_un_90",
    "C24 dense": "ecg_c24_dense", "C15 dense": "ecg_c15_dense",
}
HOPS = 20
"""Runs of a stream that are timed together, so that calling from Python does not count."""


def pushing(plan: Plan) -> Callable[[], object]:
    """HOPS runs of a stream, 16 samples each; nobody takes the results."""
    stream = Stream(plan)
    samples = np.random.default_rng(0).integers(-300, 300, (HOPS * stream.hop, 1)).astype(np.int16)
    return lambda: stream.native.push(samples, None)


def running(plan: Plan) -> Callable[[], object]:
    """One whole window."""
    native = Session(plan).native
    x = np.random.default_rng(0).integers(-128, 128, native.inputs[0].size)
    native.inputs[0][:] = x.astype(np.int8)
    return native.run


def rows(plans: Mapping[str, Plan], times: Mapping[str, Paired], runs: int) -> list[list[str]]:
    """A net a row; `runs` are in each time."""
    found = []
    for name, plan in plans.items():
        layers, time = plan.layers, times[name]
        macs, stored = (sum(getattr(layer, of) for layer in layers)
                        for of in ("macs", "macs_stored"))
        weights, dense = (sum(getattr(layer, of) for layer in layers)
                          for of in ("weight_bytes", "dense_bytes"))
        found.append([
            name, f"{time.times:.2f} ({time.spread[0]:.2f}-{time.spread[1]:.2f})",
            f"{time.ns / 1000 / runs:.1f}", f"{stored:,}", f"{macs:,}",
            f"{weights:,}", f"{dense:,}", f"{plan.flash_bytes:,}", f"{plan.ram_bytes:,}"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41, help="of turns")
    rounds = parser.parse_args().rounds
    for title, stream, work, runs in (
        ("A run of a stream: 16 samples, 44 ms", True, pushing, HOPS),
        ("A whole window of 8 s", False, running, 1)):
        plans = {name: converted(f"{file}.tflite", stream) for name, file in NETS.items()}
        times = paired({name: work(plan) for name, plan in plans.items()}, rounds)
        print(f"{title}\n")
        print(markdown(
            ("net", "times faster", "us", "MACs stored", "MACs", "weights, bytes", "as dense",
             "plan, bytes", "RAM, bytes"), rows(plans, times, runs)), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
