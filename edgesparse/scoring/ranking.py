"""How well scores rank beats, without a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.scoring.classes import S, V

RANKED = (S, V)
"""Classes whose ranking is of interest: the rare ones."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Matched beats of classes N, S, V with the probabilities the test gave them.

    kinds   [beats] int64, class of the reference: 0, 1 or 2
    scores  [beats, 3] float32, probability of N, S, V
    """

    kinds: Array
    scores: Array

    def average_precision(self, kind: int) -> float | None:
        """Of one class against the other two; None without a beat of it."""
        return average_precision(self.kinds == kind, self.scores[:, kind])


def pooled(rankings: Sequence[Ranking]) -> Ranking:
    """All beats together."""
    return Ranking(np.concatenate([one.kinds for one in rankings]),
                   np.concatenate([one.scores for one in rankings]))


def average_precision(positive: Array, scores: Array) -> float | None:
    """Sum over thresholds, from high to low, of (gain in recall) * precision.

    positive  [n] bool
    scores    [n] float, higher is more likely positive; equal ones share a threshold
    returns   0 .. 1, None when nothing is positive

    No interpolation between thresholds.
    """
    positives = int(positive.sum())
    if positives == 0:
        return None
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(positive[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # of each run of equal scores
    taken, hits = np.flatnonzero(last) + 1, hits[last]
    gain = np.diff(hits, prepend=0) / positives
    return float(gain @ (hits / taken))
