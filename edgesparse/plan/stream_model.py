"""The part of the plan about streaming: twins of the tables Stream, FrontEnd, Beats and Quality.

docs/PLAN_FORMAT.md, "Streams", says what each field means and what is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgesparse.plan.scalars import I32, U8, U16, U32, I16Array, U16Array


class StreamMode(IntEnum):
    """INCREMENTAL: a run gives the result of the window that ends with it; CONTINUOUS: the
    newest columns of one endless run."""

    INCREMENTAL = 0
    CONTINUOUS = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontEnd:
    """FIR low pass, decimation, DC blocker, scale; `taps` [n] int16, newest sample first."""

    taps: I16Array
    tap_bits: U8
    fraction_bits: U8
    decimation: U16
    dc_shift: U8
    multiplier: I32
    shift: U8


@dataclass(frozen=True, kw_only=True, eq=False)
class Beats:
    """Output columns (beat, classes...) -> beats; both tables [256] uint16."""

    probability: U16Array
    power: U16Array
    p_bits: U8
    threshold: U32
    position_shift: I32
    refractory: U32


@dataclass(frozen=True, kw_only=True)
class Quality:
    """When a signal is flat, saturated, missing or noisy; a limit of 0 samples means never."""

    flat_range: U16 = 0
    flat_samples: U32 = 0
    saturation: U16 = 0
    saturated_samples: U32 = 0
    missing_run: U32 = 0
    missing_window: U16 = 0
    missing_most: U16 = 0
    noise_samples: U16 = 0
    noise_limit: U16 = 0
    recover_samples: U32
    settle_samples: U32 = 0
    guard_samples: U32 = 0
    noise_margin: U16 = 0
    missing_margin: U16 = 0


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How samples become runs and runs become results."""

    mode: StreamMode
    rate_mhz: U32 = 0
    hop: U32
    window: U32 = 0
    lead: U32 = 0
    first_run: U32 = 0
    stride: U32 = 0
    behind: U32 = 0
    exact: U32 = 0
    delay: U32
    state_offset: U32
    front_end: FrontEnd | None = None
    beats: Beats | None = None
    quality: Quality | None = None
