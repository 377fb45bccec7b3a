"""The emulated NPU through cffi: what native/include/edgesparse/npu.h offers, as Python objects.

What it counts are emulated cycles (docs/NPU.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from edgesparse.errors import BadInput, NpuRefused, NpuTrapped
from edgesparse.graph.ir import Array
from edgesparse.npu.disassemble import decode, instruction_text
from edgesparse.npu.isa import COUNTERS, INSTRUCTION_BYTES, Space, Trap
from edgesparse.runtime.native import ffi, lib
from edgesparse.target import NpuConfig

Counters = dict[str, int]
"""Counter of docs/NPU.md section 7 -> its value."""
NO_STEP = (1 << 32) - 1
EVENT = np.dtype(
    [("start", "u8"), ("end", "u8"), ("instruction", "u4"), ("step", "u4"), ("engine", "u4")],
    align=True)


@dataclass(frozen=True)
class NpuProgram:
    """es_npu_program: everything a machine needs besides its configuration.

    commands     instructions, 16 bytes each
    prologue     so many of them run once, at reset
    config       id of the configuration it is for
    blobs        what transfers from flash name
    dram_bytes   size of the arena; its first state_bytes are not written
    steps        HOST and MARK name those below
    """

    commands: bytes
    prologue: int = 0
    config: int = 1
    blobs: tuple[bytes, ...] = ()
    dram_bytes: int = 0
    state_bytes: int = 0
    steps: int = 0


@dataclass(frozen=True)
class NpuKnobs:
    """How to run.

    launch_cycles     counted before the first instruction
    fetch             instructions come from flash, in time
    scan_width        activations looked at for zeros in a cycle; 0: the configuration's
    bound             no activation is taken for zero (docs/NPU.md section 8)
    max_instructions  0: as many as it takes
    """

    launch_cycles: int = 500
    fetch: bool = True
    scan_width: int = 0
    bound: bool = False
    max_instructions: int = 0


BARE = NpuKnobs(launch_cycles=0, fetch=False)
"""The engines alone."""


@dataclass(frozen=True)
class NpuTraffic:
    """What every run does, known without running: instructions, and bytes a transfer direction."""

    instructions: int
    dma_bytes: dict[Space, int]


@dataclass(frozen=True)
class NpuRun:
    """What a run counted.

    marks  per step, what MARK gave it
    trace  [events] of EVENT: engine (isa.Engine) busy, or the machine waiting, from cycle start
           to end; step NO_STEP where no MARK followed. Empty unless asked for.
    """

    counters: Counters
    marks: tuple[Counters, ...]
    trace: Array


@dataclass
class _Host:
    """A CPU's steps, and what went wrong in one."""

    run: Callable[[int], None]
    error: BaseException | None = None


def _run_step(user: Any, step: int) -> None:
    host = ffi.from_handle(user)
    if host.error is None:
        host.run(step)


def _step_failed(kind: Any, error: BaseException, trace: Any) -> None:
    """C cannot pass it on; NpuMachine.run raises it again."""
    ffi.from_handle(trace.tb_frame.f_locals["user"]).error = error


ffi.def_extern(name="es_host_step", onerror=_step_failed)(_run_step)


def _counters(pointer: Any) -> Counters:
    values = ffi.cast("uint64_t *", pointer)
    return {name: int(values[i]) for i, name in enumerate(COUNTERS)}


class _Bound:
    """A program and a configuration as C structs, with all they point to."""

    def __init__(self, config: NpuConfig, program: NpuProgram) -> None:
        """Raises BadInput when the commands are no whole instructions."""
        if len(program.commands) % INSTRUCTION_BYTES:
            raise BadInput(
                f"{len(program.commands)} bytes of commands: instructions are "
                f"{INSTRUCTION_BYTES} bytes each")
        self.config = ffi.new("es_npu_config *", asdict(config))
        self._blobs = [ffi.from_buffer("uint8_t[]", blob) for blob in program.blobs]
        self._table = ffi.new("es_npu_blob[]", [
            {"data": data, "size": len(blob)} for data, blob in zip(self._blobs, program.blobs)])
        self._commands = ffi.from_buffer("uint8_t[]", program.commands)
        self.program = ffi.new("es_npu_program *", {
            "commands": self._commands,
            "instructions": len(program.commands) // INSTRUCTION_BYTES,
            "prologue": program.prologue, "config": program.config, "blobs": self._table,
            "blob_count": len(program.blobs), "dram_bytes": program.dram_bytes,
            "state_bytes": program.state_bytes, "steps": program.steps})


def _error(kind: type[NpuRefused], program: NpuProgram, fault: Any) -> NpuRefused:
    at = fault.instruction * INSTRUCTION_BYTES
    text = [instruction_text(one) for one in decode(program.commands[at : at + INSTRUCTION_BYTES])]
    return kind(
        Trap(int(fault.trap)).name, fault.instruction, fault.info, text[0] if text else "no code")


def _traffic(traffic: Any) -> NpuTraffic:
    return NpuTraffic(traffic.instructions, {space: traffic.bytes[space] for space in Space})


class NpuMachine:
    """A machine with one program, verified.

    config, program  as given
    scratchpad      [scratchpad_bytes] uint8, all of it; for debuggers and tests, as are
    accumulators, vectors, masks  [registers, lanes] uint32, [registers, lanes] int8, [registers]
                    uint32: as the last run left them; rows and lanes beyond those of the
                    configuration are not used
    traffic         of every run
    reset_traffic   of the prologue
    """

    def __init__(self, config: NpuConfig, program: NpuProgram) -> None:
        """Raises NpuRefused, BadInput when the commands are no whole instructions."""
        self.config = config
        self.program = program
        self._bound = _Bound(config, program)
        self.scratchpad: Array = np.zeros(config.scratchpad_bytes, np.uint8)
        self._memory = ffi.from_buffer("uint8_t[]", self.scratchpad)
        self._machine = ffi.new("es_npu *")
        report, fault = ffi.new("es_npu_report *"), ffi.new("es_npu_fault *")
        if lib.es_npu_verify(self._bound.program, self._bound.config, report, fault):
            raise _error(NpuRefused, program, fault)
        if lib.es_npu_init(
                self._machine, self._bound.program, self._bound.config, self._memory, fault):
            raise _error(NpuRefused, program, fault)
        self.accumulators = self._registers("acc", np.uint32)
        self.vectors = self._registers("vec", np.int8)
        self.masks = self._registers("mask", np.uint32)[:, 0]
        self.traffic = _traffic(report.run)
        self.reset_traffic = _traffic(report.prologue)
        self.reset()

    def _registers(self, name: str, dtype: type[np.generic]) -> Array:
        values = getattr(self._machine, name)
        return np.frombuffer(ffi.buffer(values), dtype).reshape(len(values), -1)

    def counters(self) -> Counters:
        """Of the last run or reset, as far as it came."""
        return _counters(ffi.addressof(self._machine, "counters"))

    def reset(self, knobs: NpuKnobs = BARE) -> Counters:
        """Clear scratchpad and rings and run the prologue; returns what that took.

        Raises NpuTrapped when the prologue stops.
        """
        if lib.es_npu_reset(self._machine, self._knobs(knobs)):
            raise _error(NpuTrapped, self.program, self._machine.fault)
        return self.counters()

    def run(
        self, dram: Array, knobs: NpuKnobs | None = None,
        host: Callable[[int], None] | None = None, trace: bool = False,
    ) -> NpuRun:
        """Run the program once on the arena.

        dram  [dram_bytes] uint8 or int8, C order, written in place
        host  runs a step of the plan on the CPU; what it raises is raised here, after the run

        Raises NpuTrapped when the run stops, BadInput for an arena of another size.
        """
        size = self.program.dram_bytes
        if dram.nbytes != size or dram.itemsize != 1 or not dram.flags.c_contiguous:
            raise BadInput(f"an arena of {dram.nbytes} bytes; the program needs {size} in one row")
        marks = ffi.new("es_npu_counters[]", self.program.steps)
        room = 2 * self.traffic.instructions if trace else 0
        events: Array = np.zeros(room, EVENT)
        c_knobs = self._knobs(knobs or NpuKnobs())
        c_knobs.marks = marks
        c_knobs.events = ffi.from_buffer("es_npu_event[]", events)
        c_knobs.event_room = room
        steps = _Host(host) if host else None
        handle = ffi.new_handle(steps)
        if steps:
            c_knobs.host, c_knobs.user = lib.es_host_step, handle
        memory = ffi.from_buffer("uint8_t[]", dram, require_writable=True)
        trap = lib.es_npu_run(self._machine, memory, c_knobs)
        if steps and steps.error:
            raise steps.error
        if trap:
            raise _error(NpuTrapped, self.program, self._machine.fault)
        return NpuRun(
            self.counters(), tuple(_counters(ffi.addressof(marks, i)) for i in range(len(marks))),
            events[: min(room, self._machine.events)])

    def _knobs(self, knobs: NpuKnobs) -> Any:
        return ffi.new("es_npu_knobs *", asdict(knobs))


def cycle_bound(
    config: NpuConfig, program: NpuProgram, knobs: NpuKnobs | None = None
) -> NpuRun:
    """What no run of the program exceeds (docs/NPU.md section 8), found without inputs.

    Raises NpuRefused; NpuTrapped when the program stops on its own weights.
    """
    machine = NpuMachine(config, program)
    arena: Array = np.zeros(program.dram_bytes, np.uint8)
    bound = replace(knobs or NpuKnobs(), bound=True)
    return machine.run(arena, bound, host=lambda step: None)
