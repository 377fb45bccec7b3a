"""Samples written as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.signals.signal import MISSING

_WHOLE = re.compile(r"[+-]?\d{1,18}")
"""Eighteen digits fit int64."""
GAPS = frozenset(("", "-", "nan"))
"""What stands for a missing sample, in lower case."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Samples found in text.

    values  [n] int64 with MISSING in gaps, or float64 with NaN in gaps
    bad     index of the first text that is no such number (then `values` is empty); else None
    """

    values: Array
    bad: int | None = None


def all_whole(texts: Sequence[str]) -> bool:
    """Whether every number is written as a whole one, and there is any."""
    there = [text for text in texts if text.lower() not in GAPS]
    return bool(there) and all(map(_WHOLE.fullmatch, there))


def numbers(texts: Sequence[str], whole: bool) -> Numbers:
    """One sample per text: whole numbers only, or any finite ones."""
    values: list[float] = []
    for at, text in enumerate(texts):
        if text.lower() in GAPS:
            values.append(MISSING if whole else math.nan)
        elif whole and _WHOLE.fullmatch(text):
            values.append(int(text))
        elif not whole and (value := _finite(text)) is not None:
            values.append(value)
        else:
            return Numbers(np.zeros(0), at)
    return Numbers(np.array(values, np.int64 if whole else np.float64))


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
