"""Which bytes of the arena a program writes: what is left of the intermediate results of a run."""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.npu.disassemble import decode
from edgesparse.npu.isa import Config, Op, Space


def arena_writes(commands: bytes, arena_bytes: int) -> Array:
    """[arena_bytes] bool: bytes that a transfer of a verified program writes.

    Addresses of transfers are constants, so one look at each instruction is enough.
    """
    written = np.zeros(arena_bytes, bool)
    rows, pitch = 1, 0
    for instruction in decode(commands):
        a, b, _, i0, _, i2 = instruction.fields
        if instruction.op == Op.CFG:
            if a == Config.DROWS:
                rows = i0
            elif a == Config.DEPITCH:
                pitch = i0 - (i0 >> 31 << 32)
        elif instruction.op in (Op.DMA, Op.DMA2) and b & 0xF == Space.DRAM_WRITE:
            for row in range(rows if instruction.op == Op.DMA2 else 1):
                first = i0 + row * pitch
                written[first : first + (i2 & 0xFFFFFF)] = True
    return written
