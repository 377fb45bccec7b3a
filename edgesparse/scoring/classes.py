"""WFDB annotation symbols and the five classes of ANSI/AAMI EC57."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.signals.annotations import Annotations

CLASSES = ("N", "S", "V", "F", "Q")
"""Normal, supraventricular ectopic, ventricular ectopic, fusion of V and N, unknown or paced."""
N, S, V, F, Q = range(len(CLASSES))

SYMBOLS: Mapping[str, int] = MappingProxyType({
    **dict.fromkeys("NLRej", N),
    **dict.fromkeys("AaJS", S),
    **dict.fromkeys("VE", V),
    "F": F,
    **dict.fromkeys("/fQ", Q),
    # Beats that MIT-BIH does not use: block of unknown side, supraventricular escape, R on T,
    # and what an analyser called while it was learning.
    **dict.fromkeys("Bn", N),
    "r": V,
    "?": Q,
})
"""Symbol -> class. Any other symbol marks no beat."""

VF_START, VF_END = "[", "]"
ENDLESS = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Beats:
    """The beats among annotations.

    samples  [beats] int64, in order
    kinds    [beats] int64, index into CLASSES
    scores   [beats, 3] float32, probability of N, S, V, or None
    """

    samples: Array
    kinds: Array
    scores: Array | None

    def __len__(self) -> int:
        return len(self.samples)


def beats_of(annotations: Annotations, without: tuple[tuple[int, int], ...] = ()) -> Beats:
    """Its beats, except those inside the segments `without` (first and last sample of each)."""
    kept = [
        at for at, (sample, symbol) in enumerate(
            zip(annotations.samples.tolist(), annotations.symbols))
        if symbol in SYMBOLS and not any(first <= sample <= last for first, last in without)]
    scores = None if annotations.scores is None else annotations.scores[kept]
    kinds = np.array([SYMBOLS[annotations.symbols[at]] for at in kept], np.int64)
    return Beats(annotations.samples[kept], kinds, scores)


def vf_segments(annotations: Annotations) -> tuple[tuple[int, int], ...]:
    """First and last sample of each ventricular flutter or fibrillation, from [ to ].

    One without an end lasts for ever; a second [ inside, or an end without a start, means nothing
    (as for bxb).
    """
    found, start = [], None
    for sample, symbol in zip(annotations.samples.tolist(), annotations.symbols):
        if symbol == VF_START and start is None:
            start = sample
        elif symbol == VF_END and start is not None:
            found.append((start, sample))
            start = None
    if start is not None:
        found.append((start, int(ENDLESS)))
    return tuple(found)
