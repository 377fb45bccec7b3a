"""What a stream reports, sample numbers counting from 0 at its start or reset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from edgesparse.graph.ir import Array


class SignalState(IntEnum):
    """A higher one wins over a lower one. FLAT: no signal, the lead is off."""

    GOOD = 0
    NOISY = 1
    FLAT = 2
    SATURATED = 3
    MISSING = 4


@dataclass(frozen=True)
class Beat:
    """position  of the R peak, samples; kind: number of the class; strength: sum of three
    probabilities with p_bits fraction bits."""

    position: int
    kind: int
    strength: int


@dataclass(frozen=True, eq=False)
class Run:
    """The outputs of one run. sample: the newest it has seen; column: number of its first output
    column, or of the window; skip: so many columns come first and do not count."""

    sample: int
    column: int
    skip: int
    outputs: tuple[Array, ...]


@dataclass(frozen=True)
class StateChange:
    """sample: the first one of the new state."""

    sample: int
    state: SignalState


Event: TypeAlias = Run | Beat | StateChange
