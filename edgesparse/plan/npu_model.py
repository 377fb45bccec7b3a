"""The part of the plan about the emulated NPU: twins of the table Npu and its struct.

docs/PLAN_FORMAT.md section 11 says what a blob names, docs/NPU.md what the commands mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgesparse.plan.scalars import U8, U16, U32, UInt8Aligned


class BlobPart(IntEnum):
    """Which vector of a step a blob is; TENSOR: the data of a constant tensor."""

    VALUES = 0
    INDEX = 1
    BIAS = 2
    MULTIPLIER = 3
    SHIFT = 4
    TABLE = 5
    TENSOR = 6


@dataclass(frozen=True, kw_only=True)
class NpuBlob:
    """A vector of the plan that the program transfers from flash.

    index   VALUES, INDEX: row group of the step's Mac; TABLE: stage in the branch, a Lut;
            TENSOR: tensor (step 0); otherwise 0
    branch  MULTIPLIER, SHIFT (of the branch's Requant), TABLE; otherwise 0
    """

    step: U16 = 0
    index: U16 = 0
    part: BlobPart
    branch: U8 = 0
    reserved: U16 = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Npu:
    """A program: `commands` [16 * instructions] uint8, the first `prologue` of them for the reset.

    config            the configuration it was made for; Plan.config
    scratchpad_bytes  that it uses
    """

    config: U32
    scratchpad_bytes: U32
    prologue: U32
    commands: UInt8Aligned
    blobs: tuple[NpuBlob, ...] = ()
