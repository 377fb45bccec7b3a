"""How a plan is lowered for an NPU."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.target import NpuConfig

RESIDENT_FROM = 1 << 20
"""Bytes of scratchpad from which weights are loaded once unless told otherwise: esn-lab."""


@dataclass(frozen=True)
class NpuOptions:
    """How to lower. What to lower for is the NpuConfig.

    resident       weights are loaded once, in the prologue, as far as they fit beside the tensors;
                   and push none out; None: only where the scratchpad is large (RESIDENT_FROM)
    skip           activations at the zero point take no slot
    intermediates  "sram", or "dram": every tensor goes through the arena, for comparison
    zero_stores    which zeros a store leaves out, by a mask: "filled": where a halo has filled the
                   output with them anyway; "none"; "all": fill every output for it, for comparison
    keep           every tensor keeps its bytes to the end of a run, for tests
    """

    resident: bool | None = None
    skip: bool = True
    intermediates: str = "sram"
    zero_stores: str = "filled"
    keep: bool = False


def wants_resident(options: NpuOptions, config: NpuConfig) -> bool:
    """Whether weights are to be loaded once."""
    if options.resident is None:
        return config.scratchpad_bytes >= RESIDENT_FROM
    return options.resident
