"""Times that compare: every work once a round, each round beginning with another one.

What a busy computer does to one work it does to its neighbours of the same round, so ratios are
taken within a round, and only ratios are worth telling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from edgesparse.graph.ir import Array


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Array]:
    """name -> [rounds] float64, seconds; one more round before them is not counted."""
    names = list(works)
    seconds = {name: np.zeros(rounds) for name in names}
    for number in range(-1, rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            start = time.perf_counter()
            works[name]()
            if number >= 0:
                seconds[name][number] = time.perf_counter() - start
    return seconds


def ratio(times: Array, base: Array) -> tuple[float, float, float]:
    """Median and quartiles of times / base, round by round."""
    low, middle, high = np.percentile(times / base, (25, 50, 75))
    return float(middle), float(low), float(high)
