"""Time as a ratio: contenders take turns in one run, so that what slows one slows all.

It is the thread's time on a processor, which is wall time but for what other programs take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

BLOCK_NS = 2_000_000
"""A turn lasts about as long: far more than reading the clock, far less than a load that comes
and goes."""


@dataclass(frozen=True)
class Paired:
    """One contender.

    ns      of a call, the median over all turns
    times   how many times faster than the first contender: the median over the rounds of its
            time / our time in the same round
    spread  25th and 75th percentile of those
    """

    ns: float
    times: float
    spread: tuple[float, float]


def paired(contenders: Mapping[str, Callable[[], object]], rounds: int = 41) -> dict[str, Paired]:
    """Time calls against the first contender.

    Each round gives every contender one turn, starting one further each time; a turn calls it as
    often as fits in BLOCK_NS.
    """
    names = list(contenders)
    calls = {name: _calls(contenders[name]) for name in names}
    taken = {name: np.zeros(rounds) for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken[name][turn] = _turn(contenders[name], calls[name])
    found = {}
    for name in names:
        ratios = taken[names[0]] / taken[name]
        low, middle, high = np.percentile(ratios, (25, 50, 75))
        found[name] = Paired(float(np.median(taken[name])), float(middle),
                             (float(low), float(high)))
    return found


def _calls(call: Callable[[], object]) -> int:
    """How many fit into a turn; the first call is not counted, it warms up."""
    call()
    return max(1, round(BLOCK_NS / _turn(call, 3)))


def _turn(call: Callable[[], object], calls: int) -> float:
    """ns of a call."""
    start = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - start) / calls
