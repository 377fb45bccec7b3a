"""The beat decoder: output columns (beat, classes...) -> beats, in integer arithmetic.

Definition of PLAN_FORMAT.md section "Streams"; native/src/stream/beats.c computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.stream_model import Beats
from edgesparse.streaming.events import Beat

ECG360_CLASSES = ("N", "S", "V")
P_BITS = 15
ECG360_POSITION_SHIFT = -288
"""Samples: -256, the 16 steps by which the net answers late, and -32, because the centre counts
from two steps before; the half steps of taps and step cancel (demos/ecg/MODEL_CARD.md)."""
ECG360_REFRACTORY = 72


def ecg_beats(scale: float, zero_point: int) -> Beats:
    """The decoder of the ECG nets; scale and zero point of their int8 logits.

    Tables are rounded from float64 once, here: a device only reads them.
    """
    one = float(1 << P_BITS)
    logit = float(scale) * (np.arange(-128, 128) - zero_point)
    return Beats(
        probability=_table(one / (1.0 + np.exp(-logit))),
        power=_table(one * np.exp(-float(scale) * np.arange(256))),
        p_bits=P_BITS, threshold=1 << P_BITS, position_shift=ECG360_POSITION_SHIFT,
        refractory=ECG360_REFRACTORY)


def _table(values: Array) -> Array:
    table: Array = np.floor(values + 0.5).astype(np.uint16)
    return table


class BeatDecoder:
    """The decoder of one stream. Step t is output column t; before the first one p = 0."""

    def __init__(self, beats: Beats, classes: int, samples_per_step: int, first_step: int) -> None:
        self.beats = beats
        self.per_step = samples_per_step
        self.first = first_step
        self.steps = 0
        self.pending: Beat | None = None
        self._p = [0] * 5  # of the last five steps, oldest first
        self._share = [[0] * classes] * 5

    @property
    def undecided(self) -> int:
        """No beat that is still to be found lies before this sample."""
        step = self.first + max(0, self.steps - 2)
        return self.per_step * step + self.beats.position_shift

    def push(self, column: Sequence[int]) -> list[Beat]:
        """One step, [1 + classes] int8; the beats that are final now."""
        self._p = [*self._p[1:], int(self.beats.probability[int(column[0]) + 128])]
        self._share = [*self._share[1:], self._shares([int(q) for q in column[1:]])]
        self.steps += 1
        found = self._candidate_at(self.first + self.steps - 3) if self.steps > 2 else None
        old, final = self.pending, []
        if found is not None:
            if old is not None and found.position - old.position >= self.beats.refractory:
                final.append(old)
                old = None
            if old is None or found.strength > old.strength:
                self.pending = found
        if self.pending and self.undecided - self.pending.position >= self.beats.refractory:
            final.append(self.pending)
            self.pending = None
        return final

    def _shares(self, logits: list[int]) -> list[int]:
        largest = max(logits)
        e = [int(self.beats.power[largest - q]) for q in logits]
        return [(value << self.beats.p_bits) // sum(e) for value in e]

    def _candidate_at(self, step: int) -> Beat | None:
        """The beat at `step`, two before the newest, if it is a maximum above the threshold."""
        p = self._p
        before, s, after = p[0] + p[1] + p[2], p[1] + p[2] + p[3], p[2] + p[3] + p[4]
        if step == self.first:
            before = -1
        if s <= self.beats.threshold or s <= before or s < after:
            return None
        lean = sum(k * value for k, value in enumerate(p))
        offset = self.per_step * lean // sum(p)
        position = self.per_step * step + self.beats.position_shift + offset
        return Beat(position, self._kind(), s)

    def _kind(self) -> int:
        """The class with most votes, the first of equal ones."""
        votes = [
            sum(p * shares[k] for p, shares in zip(self._p[1:4], self._share[1:4]))
            for k in range(len(self._share[0]))]
        return votes.index(max(votes))
