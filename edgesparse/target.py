"""What a plan is made for. A Target describes a machine; how to compile is in Options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from edgesparse.errors import BadInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class NpuConfig:
    """An emulated NPU: docs/NPU.md section 1; es_npu_config of the C core, field by field.

    id                          of the configuration, Target.config; programs carry it
    lanes                       int8 multipliers, and elements of a vector
    accumulators .. rings       registers of each kind
    scratchpad_bytes            what vector instructions see
    banks                       of 4 bytes, one access each a cycle
    flash_bytes, flash_cycles   so many bytes in so many cycles; dram_ likewise
    flash_latency               cycles before the first byte; dram_ likewise
    scan_width                  activations looked at for zeros in a cycle
    requant_rate, table_rate    elements a cycle
    """

    id: int
    lanes: int
    accumulators: int
    vectors: int
    masks: int
    streams: int
    rings: int
    scratchpad_bytes: int
    banks: int
    flash_bytes: int
    flash_cycles: int
    flash_latency: int
    dram_bytes: int
    dram_cycles: int
    dram_latency: int
    scan_width: int
    requant_rate: int
    table_rate: int


@dataclass(frozen=True)
class InstructionCosts:
    """What a core takes for work, section [instructions] of a target.

    kernels  that take whole steps: "dsp" or "mve"
    each     kind of work (edgesparse/cortex/work.py) -> QEMU instructions of one; others take none
    """

    kernels: str
    each: Mapping[str, float]


@dataclass(frozen=True)
class Target:
    """A machine, read from targets/<name>.toml.

    config       configuration id the plan carries; 0: any machine may run it
    flash_bytes  what plan and code may take, 0: not limited
    ram_bytes    what the arena may take, 0: not limited
    npu          its emulated NPU, section [npu]; None: it has none
    encodings    of weights, those that have kernels there; empty: any
    widens       its kernels widen inputs to int16 before they multiply, and want scratch for that
    instructions what a Cortex-M core takes; None: nobody foretells it
    cycles_per_instruction
                 an assumption that makes milliseconds of instructions, said wherever it is used
    """

    name: str
    description: str
    config: int
    flash_bytes: int
    ram_bytes: int
    npu: NpuConfig | None = None
    encodings: tuple[str, ...] = ()
    widens: bool = False
    instructions: InstructionCosts | None = None
    cycles_per_instruction: float = 0.0


@cache
def target_names() -> tuple[str, ...]:
    folder = files("edgesparse") / "targets"
    return tuple(sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml")))


@cache
def load_target(name: str) -> Target:
    """Raises BadInput when there is no such target."""
    if name not in target_names():
        raise BadInput(f"target {name!r} is not known; there are {', '.join(target_names())}")
    text = (files("edgesparse") / "targets" / f"{name}.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    npu, each = values.pop("npu", None), values.pop("instructions", None)
    kernels = values.pop("kernels", "")
    encodings = tuple(values.pop("encodings", ()))
    costs = InstructionCosts(kernels, each or {}) if kernels else None
    return Target(
        name=name, npu=NpuConfig(id=values["config"], **npu) if npu else None,
        encodings=encodings, instructions=costs, **values)
