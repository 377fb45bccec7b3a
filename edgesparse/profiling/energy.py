"""An estimate of energy from counters: a sum of products of constants, never a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EnergyModel:
    """Picojoules, of a 45 nm process.

    mac_pj             int8 product 0.2, and its sum 0.1
    sram_pj_per_byte   64 bits of an 8 KB memory, 10 pJ
    dram_pj_per_byte   64 bits, 1.3 nJ: the low end of 1.3 to 2.6
    flash_pj_per_byte  an assumption, that of DRAM: no figure that could be cited was found

    Requantizer, tables, control and leakage are not in it.
    Source: M. Horowitz, "Computing's energy problem", ISSCC 2014.
    """

    mac_pj: float = 0.3
    sram_pj_per_byte: float = 1.25
    dram_pj_per_byte: float = 162.5
    flash_pj_per_byte: float = 162.5


@dataclass(frozen=True)
class Energy:
    """Estimated picojoules, by what takes them."""

    mac: float
    sram: float
    dram: float
    flash: float

    @property
    def total(self) -> float:
        return self.mac + self.sram + self.dram + self.flash


FLASH_SETTINGS = (16.25, 162.5, 325.0)
"""pJ a byte of flash: a tenth of the low end of DRAM, the low end, the high end."""


def energy_of(counters: Mapping[str, float], model: EnergyModel) -> Energy:
    """counters: of docs/NPU.md section 7. Lanes that MACV gates take none; what a transfer reads
    from the scratchpad or writes to it counts as SRAM too, fetched instructions as flash."""
    dram = counters["dma_dram_rd_bytes"] + counters["dma_dram_wr_bytes"]
    flash = counters["dma_flash_rd_bytes"]
    sram = counters["sram_rd_bytes"] + counters["sram_wr_bytes"] + dram + flash
    return Energy(
        mac=model.mac_pj * (counters["mac_issued"] - counters["mac_gated"]),
        sram=model.sram_pj_per_byte * sram, dram=model.dram_pj_per_byte * dram,
        flash=model.flash_pj_per_byte * (flash + counters["cmd_fetch_bytes"]))
