"""The instruction set in one table.

native/include/edgesparse/npu_isa.inc and the table of docs/NPU.md are made from it
(tools/npu_isa.py); assembler and disassembler read it. An instruction is 16 bytes, little-endian:
op u8, a u8, b u8, c u8, i0 u32, i1 u32, i2 u32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

ISA_VERSION = 1
INSTRUCTION_BYTES = 16
LOOP_DEPTH = 4
LOOP_BODY = 64
"""Instructions the loop buffer holds; the longest body."""
STREAM_DIMS = 4
DMA_CHANNELS = 8
NPOS_MAX = 8
DMA_PENDING = 64
"""Transfers that may be pending at one time."""
EXECUTED_MAX = 1 << 24
"""Instructions a run may execute."""


class Kind(IntEnum):
    """What a field of an instruction is; the verifier checks the range of each.

    NONE must be 0. ACC and VEC name the first of NPOS registers, ONE_VEC one register. MASK is
    the first of NPOS mask registers, plus 1; 0: no mask. STREAM, RING, CHANNEL, CONFIG name one.
    RING_OR_NONE is a ring plus 1; 0: none. U8, U32, I32: any value of the type, checked where used.
    """

    NONE = 0
    ACC = 1
    VEC = 2
    ONE_VEC = 3
    MASK = 4
    STREAM = 5
    RING = 6
    RING_OR_NONE = 7
    CHANNEL = 8
    CONFIG = 9
    U8 = 10
    U32 = 11
    I32 = 12


class Op(IntEnum):
    END = 0
    NOP = 1
    LOOP = 2
    CFG = 3
    SET = 4
    STRD = 5
    RING = 6
    RADV = 7
    DMA = 8
    DMA2 = 9
    DWAIT = 10
    FILL = 11
    VLDA = 12
    VLD = 13
    VST = 14
    VSTC = 15
    VLDC = 16
    MACB = 17
    MACV = 18
    MACW = 19
    MACG = 20
    REQ = 21
    LUT = 22
    VADDQ = 23
    VMULQ = 24
    VMAX = 25
    VCLAMP = 26
    ACCV = 27
    AVGR = 28
    MSK = 29
    MAND = 30
    GATH = 31
    SCAT = 32
    HOST = 33
    MARK = 34


class Config(IntEnum):
    """The registers CFG sets; each holds its default at the start of a program."""

    VL = 0
    NPOS = 1
    INZP = 2
    OUTZP = 3
    QMIN = 4
    QMAX = 5
    REQMODE = 6
    QMULT = 7
    QSHIFT = 8
    ACCINIT = 9
    XSTRIDE = 10
    COLS = 11
    ROWLEN = 12
    ROWPITCH = 13
    COLPITCH = 14
    DROWS = 15
    DSPITCH = 16
    DEPITCH = 17
    A_ZP = 18
    A_MULT = 19
    A_SHIFT = 20
    B_ZP = 21
    B_MULT = 22
    B_SHIFT = 23
    O_ZP = 24
    O_MULT = 25
    O_SHIFT = 26
    LSHIFT = 27


class Space(IntEnum):
    """Direction of a DMA, field b; add TRANSPOSE to DMA2's."""

    FLASH_READ = 0
    DRAM_READ = 1
    DRAM_WRITE = 2


TRANSPOSE = 16
"""Flag in field b of DMA2: columns of channels become channels of columns (or back, on a write)."""


class Index(IntEnum):
    """How MACB finds the column of a stored step: bits 0..3 of its i1."""

    DENSE = 0
    COLUMNS8 = 1
    COLUMNS16 = 2
    BITMASK = 3
    N_OF_M = 4


INDEX_BITS = 15
SKIP = 1 << 8
"""Flag in i1 of MACB and MACV: steps whose activation is the zero point take no slot."""
N_SHIFT, M_SHIFT = 16, 24
"""Where n and m of N_OF_M stand in i1 of MACB."""
GROUP_BITS = 255
"""Lanes that share a column, in i1 of MACG."""
WIDE_COLUMNS = 1 << 9
"""Flag in i1 of MACG: column numbers of 16 bits."""
PER_TENSOR = 1
SINGLE_ROUNDING = 2
"""Bits of REQMODE."""


class Trap(IntEnum):
    """Why a program is refused or a run stopped; docs/NPU.md section 5."""

    OK = 0
    BADCFG = 1
    BADOP = 2
    BADREG = 3
    BADVALUE = 4
    ALIGN = 5
    LOOP = 6
    STREAM = 7
    OOB = 8
    BADBLOB = 9
    DMAHAZ = 10
    LIMIT = 11
    END = 12
    FMT = 13


class Engine(IntEnum):
    """Whose time an event of a trace is."""

    DMA = 0
    MAC = 1
    REQ = 2
    LUT = 3
    VEC = 4
    STALL_DMA = 5
    STALL_FETCH = 6


COUNTERS = (
    "cycles", "launch_cyc", "issue", "insns", "cmd_fetch_bytes", "mac_cyc", "mac_issued",
    "mac_skip_w", "mac_skip_a", "mac_pad", "mac_gated", "vec_store_skipped", "req_cyc", "lut_cyc",
    "vec_cyc", "index_cyc", "scan_extra", "gather_conflict_cyc", "stall_dma", "stall_fetch",
    "dma_busy", "dma_flash_rd_bytes", "dma_dram_rd_bytes", "dma_dram_wr_bytes", "dma_transfers",
    "sram_rd_bytes", "sram_wr_bytes", "w_bytes", "idx_bytes", "host_steps")
"""docs/NPU.md section 7, in the order of the C struct."""


@dataclass(frozen=True)
class Instruction:
    """One row of the table.

    fields   kinds of a, b, c, i0, i1, i2
    names    of the fields, for assembler and disassembler; "" where the kind is NONE
    does     semantics in one line
    cycles   in one line; L lanes, P = NPOS, R and T elements a cycle of requantizer and table unit
    """

    op: Op
    fields: tuple[Kind, Kind, Kind, Kind, Kind, Kind]
    names: tuple[str, str, str, str, str, str]
    does: str
    cycles: str


def _row(op: Op, does: str, cycles: str, **fields: Kind | str) -> Instruction:
    """fields: a="acc:ACC" style, name and kind of each used field."""
    kinds: list[Kind] = []
    names: list[str] = []
    for slot in ("a", "b", "c", "i0", "i1", "i2"):
        name, _, kind = str(fields.get(slot, ":NONE")).partition(":")
        kinds.append(Kind[kind])
        names.append(name)
    return Instruction(op, tuple(kinds), tuple(names), does, cycles)  # type: ignore[arg-type]


TABLE: tuple[Instruction, ...] = (
    _row(Op.END, "stop; the run is complete", "1"),
    _row(Op.NOP, "nothing", "1"),
    _row(Op.LOOP, "run the next `body` instructions `count` times; 0: skip them",
         "1 once", i0="count:U32", i1="body:U32"),
    _row(Op.CFG, "configuration register := value", "1", a="register:CONFIG", i0="value:I32"),
    _row(Op.SET, "stream := address (of the scratchpad, or from the ring's head), no dimensions",
         "1", a="stream:STREAM", b="ring:RING_OR_NONE", i0="address:U32"),
    _row(Op.STRD, "append a dimension to the stream; the first appended moves fastest",
         "1", a="stream:STREAM", i0="stride:I32", i1="count:U32"),
    _row(Op.RING, "ring := `size` bytes from `address`; its head is kept between runs",
         "1", a="ring:RING", i0="address:U32", i1="size:U32"),
    _row(Op.RADV, "the ring's head moves on by `bytes`, modulo its size",
         "1", a="ring:RING", i0="bytes:U32"),
    _row(Op.DMA, "copy `bytes & 0xFFFFFF` bytes; flash: from `external` of blob "
         "blob + 256 * (bytes >> 24)",
         "1; the transfer on its own time line", a="channel:CHANNEL", b="space:U8", c="blob:U8",
         i0="external:U32", i1="address:U32", i2="bytes:U32"),
    _row(Op.DMA2, "DROWS such copies, DEPITCH apart outside and DSPITCH in the scratchpad",
         "1; the transfer on its own time line, 1 more a row", a="channel:CHANNEL", b="space:U8",
         c="blob:U8", i0="external:U32", i1="address:U32", i2="bytes:U32"),
    _row(Op.DWAIT, "wait for every transfer of the channel", "max(1, what is left)",
         a="channel:CHANNEL"),
    _row(Op.FILL, "`length` bytes from `address` := value", "1 + ceil(length / (banks * 4))",
         i0="address:U32", i1="length:U32", i2="value:U32"),
    _row(Op.VLDA, "P accumulators := VL int32 of the stream (constant = 0) or ACCINIT (1)",
         "1 + ceil(4 VL / (banks * 4)) if from memory", a="acc:ACC", b="stream:STREAM",
         c="constant:U8"),
    _row(Op.VLD, "P times: vector := VL bytes at the stream's next address", "P", a="v:VEC",
         b="stream:STREAM"),
    _row(Op.VST, "P times: store VL bytes of the vector; with a mask only its lanes",
         "P; a vector whose mask is 0: none", a="v:VEC", b="stream:STREAM", c="mask:MASK"),
    _row(Op.VSTC, "P times: store L / 8 bytes of mask, then the bytes of its lanes only",
         "P", a="v:VEC", b="stream:STREAM", c="mask:MASK"),
    _row(Op.VLDC, "P times: the inverse of VSTC; lanes without a bit := INZP", "2 P", a="v:VEC",
         b="stream:STREAM"),
    _row(Op.MACB, "for each of `steps` stored steps (column, w[L]) and each p < P: "
         "acc[p] += w * (x - INZP), the same x for all lanes",
         "4 + max(pairs run, ceil(steps P / scan) if SKIP, ceil(COLS / 32) if BITMASK) + 1 if SKIP",
         a="acc:ACC", b="weights:STREAM", c="x:STREAM", i0="steps:U32", i1="format:U32",
         i2="index:U32"),
    _row(Op.MACV, "for each of COLS taps: acc[p][l] += w[l] * (x[l] - INZP)",
         "4 + pairs run", a="acc:ACC", b="weights:STREAM", c="x:STREAM", i1="flags:U32"),
    _row(Op.MACW, "for each of `steps` (column, one w): acc[l] += w * (x[l XSTRIDE] - INZP), "
         "lanes along time", "4 + sum over steps and p of the fullest bank", a="acc:ACC",
         b="weights:STREAM", c="x:STREAM", i0="steps:U32", i1="format:U32", i2="index:U32"),
    _row(Op.MACG, "for each of `steps` (L / group columns, w[L]): acc[l] += w[l] * "
         "(x of its group's column - INZP)", "4 + sum over steps and p of the fullest bank",
         a="acc:ACC", b="weights:STREAM", c="x:STREAM", i0="steps:U32", i1="format:U32",
         i2="index:U32"),
    _row(Op.REQ, "P vectors := requantized accumulators; with a mask: its bits := v != OUTZP",
         "1 + P ceil(VL / R)", a="v:VEC", b="acc:ACC", c="mask:MASK", i0="multiplier:U32",
         i1="shift:U32"),
    _row(Op.LUT, "P vectors := table[v + 128]", "1 + P ceil(VL / T)", a="v:VEC", b="from:VEC",
         i0="table:U32"),
    _row(Op.VADDQ, "P vectors := TFLite's int8 ADD of a and b", "1 + 3 P ceil(VL / R)",
         a="v:VEC", b="x:VEC", c="y:VEC"),
    _row(Op.VMULQ, "P vectors := TFLite's int8 MUL of a and b", "1 + 3 P ceil(VL / R)",
         a="v:VEC", b="x:VEC", c="y:VEC"),
    _row(Op.VMAX, "P vectors := the larger, lane by lane", "P", a="v:VEC", b="x:VEC", c="y:VEC"),
    _row(Op.VCLAMP, "P vectors := clamped to QMIN .. QMAX", "P", a="v:VEC", b="x:VEC"),
    _row(Op.ACCV, "P accumulators += vectors, sign-extended", "P", a="acc:ACC", b="v:VEC"),
    _row(Op.AVGR, "P vectors := accumulator / count, halves away from 0, clamped",
         "1 + P ceil(VL / R)", a="v:VEC", b="acc:ACC", i0="count:U32"),
    _row(Op.MSK, "P masks := v != INZP", "P", a="mask:MASK", b="v:VEC"),
    _row(Op.MAND, "P masks := and", "P", a="mask:MASK", b="x:MASK", c="y:MASK"),
    _row(Op.GATH, "vector := bytes at the x stream's address + u16 of the index stream",
         "1 + the fullest bank", a="v:ONE_VEC", b="x:STREAM", c="index:STREAM"),
    _row(Op.SCAT, "store the vector's bytes at the x stream's address + u16 of the index stream",
         "1 + the fullest bank", a="v:ONE_VEC", b="x:STREAM", c="index:STREAM"),
    _row(Op.HOST, "the CPU runs this step of the plan on the arena", "0; counted apart",
         i0="step:U32"),
    _row(Op.MARK, "counters since the last mark belong to this step", "0", i0="step:U32"),
)
