"""The boards that QEMU emulates and the firmware knows."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.errors import BadInput


@dataclass(frozen=True)
class Board:
    """cpu         as the compiler calls it, and --cpu
    machine     as QEMU calls it
    host_word   address of __host_word, firmware_sim/sections.ld
    nvm_bytes   of the memory that stands for flash, all of which QEMU keeps in a file
    nvm_offset  where in it the plan store begins; firmware_sim/firmware/board.h has the address
    """

    cpu: str
    machine: str
    host_word: int
    nvm_bytes: int = 16 << 20
    nvm_offset: int = 0


BOARDS: dict[str, Board] = {
    board.cpu: board
    for board in (
        Board("cortex-m4", "mps2-an386", 0x203FFFF0),
        Board("cortex-m33", "mps2-an505", 0x383FFFF0),
        Board("cortex-m7", "mps2-an500", 0x203FFFF0),
        # Its DDR has 2 GiB, QEMU takes no less; the store is where the secure alias starts.
        Board("cortex-m55", "mps3-an547", 0x311FFFF0, nvm_bytes=2 << 30, nvm_offset=0x10000000),
    )
}


def board_of(cpu: str) -> Board:
    """Raises BadInput for one that is not emulated."""
    if cpu not in BOARDS:
        raise BadInput(f"cpu {cpu!r}: no such device; there are {', '.join(BOARDS)}")
    return BOARDS[cpu]


def instructions(ticks: float, ticks_per_second: int, icount: int) -> float:
    """What a device started with `icount` has executed in so many ticks of its session's clock.

    From icount 7 on its ticks are instructions, exactly; below, a reading may be one off.
    ticks_per_second  the device's info has it, `tps`
    icount            an instruction takes 2^icount ns
    """
    return ticks / ticks_per_second * 1e9 / (1 << icount)
