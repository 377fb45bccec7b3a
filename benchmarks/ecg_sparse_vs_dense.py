"""Time and bytes of the sparse ECG nets beside dense ones, as streams and as whole windows.

python benchmarks/ecg_sparse_vs_dense.py

Times are ratios to dense C48 on the portable kernels of this computer, taken in turns
(benchmarks/turns.py): the median over rounds, the quartiles in brackets. RAM and plan are what a
device needs; `as dense` is what the weights would take without an encoding; MACs are those
of weights that are not zero, and all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from records import converted, markdown
from turns import in_turns, ratio

NETS = {
    "C48 dense": "ecg_c48_dense", "C48 4x1 75 %": "ecg_c48_4x1_75",
    "C48 16x1 75 %": "ecg_c48_16x1_75", "C48 unstructured 90 %": "ecg_c48_un_90",
    "C24 dense": "ecg_c24_dense", "C15 dense": "ecg_c15_dense",
}
BASE = "C48 dense"
HOPS, WINDOWS = 50, 1
"""Runs that are timed together: about a millisecond, so that few are interrupted."""


def pushing(plan: Plan) -> Callable[[], object]:
    """HOPS runs of a stream, 16 samples each."""
    stream = Stream(plan)
    samples = np.random.default_rng(0).integers(-300, 300, HOPS * stream.hop).astype(np.int16)
    return lambda: stream.push(samples)


def running(plan: Plan) -> Callable[[], object]:
    """WINDOWS whole windows."""
    session = Session(plan)
    x = np.random.default_rng(0).integers(-128, 128, (WINDOWS, *plan.inputs[0].shape))
    stored = x.astype(np.int8)
    return lambda: session.run(stored)


def rows(plans: Mapping[str, Plan], seconds: Mapping[str, Array], runs: int) -> list[list[str]]:
    """A net a row; `runs` are in each time."""
    found = []
    for name, plan in plans.items():
        layers = plan.layers
        middle, low, high = ratio(seconds[name], seconds[BASE])
        macs, stored = (sum(getattr(layer, of) for layer in layers)
                        for of in ("macs", "macs_stored"))
        weights, dense = (sum(getattr(layer, of) for layer in layers)
                          for of in ("weight_bytes", "dense_bytes"))
        found.append([
            name, f"{middle:.2f} ({low:.2f} .. {high:.2f})",
            f"{1e6 * np.median(seconds[name]) / runs:.1f}", f"{stored:,}", f"{macs:,}",
            f"{weights:,}", f"{dense:,}", f"{plan.flash_bytes:,}", f"{plan.ram_bytes:,}"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    for title, stream, work, runs in (
        ("A run of a stream: 16 samples, 44 ms", True, pushing, HOPS),
        ("A whole window of 8 s", False, running, WINDOWS)):
        plans = {name: converted(f"{file}.tflite", stream) for name, file in NETS.items()}
        seconds = in_turns({name: work(plan) for name, plan in plans.items()}, rounds)
        print(f"{title}; {rounds} rounds of {runs}\n")
        print(markdown(
            ("net", "time / C48 dense", "us", "MACs stored", "MACs", "weights, bytes", "as dense",
             "plan, bytes", "RAM, bytes"), rows(plans, seconds, runs)), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
