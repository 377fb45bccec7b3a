"""How fast the NPU is emulated: python benchmarks/npu_speed.py

Products a second of dense MACB without skip, the best of five runs, on one core of this machine.
This is the speed of the emulator; emulated cycles do not depend on it.
"""

from __future__ import annotations

import time

import numpy as np

from edgesparse.npu.disassemble import LAYOUT
from edgesparse.npu.isa import Config, Op
from edgesparse.runtime.npu import BARE, NpuMachine, NpuProgram
from edgesparse.target import load_target

COLUMNS = 64
RUNS = 5
PRODUCTS = 1 << 27


def program(target: str, positions: int) -> tuple[NpuMachine, int]:
    """A 1x1 convolution with 64 channels over and over, and the products of a run."""
    npu = load_target(target).npu
    assert npu is not None
    each = COLUMNS * npu.lanes * positions
    count = PRODUCTS // each
    registers = {Config.NPOS: positions, Config.COLS: COLUMNS, Config.ROWLEN: COLUMNS,
                 Config.XSTRIDE: COLUMNS}
    weights = np.random.default_rng(0).integers(-128, 128, 1 << 13).astype(np.int8)
    code = [
        LAYOUT.pack(Op.DMA, 0, 0, 0, 0, 0, len(weights)), LAYOUT.pack(Op.DWAIT, *[0] * 6),
        LAYOUT.pack(Op.END, *[0] * 6),
        *(LAYOUT.pack(Op.CFG, register, 0, 0, value, 0, 0)
          for register, value in registers.items()),
        LAYOUT.pack(Op.SET, 0, 0, 0, 0, 0, 0), LAYOUT.pack(Op.SET, 1, 0, 0, 4096, 0, 0),
        LAYOUT.pack(Op.LOOP, 0, 0, 0, count, 2, 0), LAYOUT.pack(Op.VLDA, 0, 0, 1, 0, 0, 0),
        LAYOUT.pack(Op.MACB, 0, 0, 1, COLUMNS, 0, 0), LAYOUT.pack(Op.END, *[0] * 6)]
    machine = NpuMachine(npu, NpuProgram(
        b"".join(code), prologue=3, config=npu.id, blobs=(weights.tobytes(),)))
    return machine, count * each


def seconds(machine: NpuMachine) -> float:
    start = time.perf_counter()
    machine.run(np.zeros(0, np.uint8), BARE)
    return time.perf_counter() - start


def main() -> None:
    print("| target | positions | million products/s |\n| --- | --- | --- |")
    for target in ("esn-s", "esn-m"):
        for positions in (1, 4, 8):
            machine, products = program(target, positions)
            best = min(seconds(machine) for _ in range(RUNS))
            print(f"| {target} | {positions} | {products / best / 1e6:.0f} |")


if __name__ == "__main__":
    main()
