"""Programs for the NPU in tests: instructions by name, and a scratchpad that is full of data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.npu.disassemble import LAYOUT, ROWS
from edgesparse.npu.isa import Config, Op, Space
from edgesparse.runtime.npu import BARE, Counters, NpuKnobs, NpuMachine, NpuProgram, NpuRun
from edgesparse.target import NpuConfig, load_target

ENGINES = ("issue", "mac_cyc", "req_cyc", "lut_cyc", "vec_cyc")
NO_DRAM = np.zeros(0, np.uint8)


def configuration(name: str = "esn-s") -> NpuConfig:
    npu = load_target(name).npu
    assert npu is not None
    return npu


def ins(op: Op, **fields: int) -> bytes:
    """One instruction; fields by their names in the table, the others 0."""
    row = ROWS[op]
    assert fields.keys() <= set(row.names), (op, fields)
    values = [fields.get(name, 0) if name else 0 for name in row.names]
    return LAYOUT.pack(op, *values[:3], *(value & 0xFFFFFFFF for value in values[3:]))


def cfg(**registers: int) -> list[bytes]:
    return [ins(Op.CFG, register=Config[name], value=v) for name, v in registers.items()]


def stream(
    number: int, address: int, *dims: tuple[int, int], ring: int | None = None
) -> list[bytes]:
    """SET and STRD; dims (stride, count), the fastest first."""
    ring_field = 0 if ring is None else ring + 1
    return [
        ins(Op.SET, stream=number, ring=ring_field, address=address),
        *(ins(Op.STRD, stream=number, stride=stride, count=count) for stride, count in dims)]


END = ins(Op.END)


@dataclass
class Image:
    """What stands in the scratchpad when a run starts: loaded by the prologue from one blob."""

    config: NpuConfig = field(default_factory=configuration)
    content: bytearray = field(default_factory=bytearray)
    rings: list[bytes] = field(default_factory=list)

    def place(self, data: Array, align: int = 4) -> int:
        """The address of `data`."""
        self.content += bytes(-len(self.content) % align)
        address = len(self.content)
        self.content += np.ascontiguousarray(data).tobytes()
        return address

    def place_ring(self, data: Array) -> int:
        """The number of a ring that holds `data`, whole units of all banks."""
        address = self.place(data, self.config.banks * 4)
        number = len(self.rings)
        self.rings.append(ins(Op.RING, ring=number, address=address, size=data.nbytes))
        return number

    def room(self, size: int) -> int:
        """The address of `size` bytes of 0."""
        return self.place(np.zeros(size, np.uint8))

    def program(self, *run: bytes, steps: int = 0, dram_bytes: int = 0) -> NpuProgram:
        prologue = [*self.rings]
        if self.content:
            prologue += [
                ins(Op.DMA, space=Space.FLASH_READ, bytes=len(self.content)),
                ins(Op.DWAIT)]
        prologue.append(END)
        return NpuProgram(
            b"".join([*prologue, *run, END]), len(prologue), self.config.id,
            (bytes(self.content),), dram_bytes, 0, steps)

    def machine(self, *run: bytes, steps: int = 0) -> NpuMachine:
        return NpuMachine(self.config, self.program(*run, steps=steps))


def identities(counters: Counters, lanes: int) -> None:
    """docs/NPU.md section 7."""
    parts = ("launch_cyc", *ENGINES, "stall_dma", "stall_fetch")
    assert counters["cycles"] == sum(counters[name] for name in parts)
    assert (counters["mac_issued"] + counters["mac_pad"]) % lanes == 0
    assert counters["mac_gated"] <= counters["mac_issued"]
    for part in ("w_bytes", "idx_bytes"):
        assert counters[part] <= counters["sram_rd_bytes"]


def run(machine: NpuMachine, knobs: NpuKnobs = BARE) -> NpuRun:
    """One run without an arena; its counters agree with each other and with what was declared."""
    done = machine.run(NO_DRAM, knobs)
    identities(done.counters, machine.config.lanes)
    assert done.counters["insns"] == machine.traffic.instructions
    return done


