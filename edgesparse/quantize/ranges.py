"""What a tensor held over the calibration samples, and the range its int8 form shall cover.

Memory is bounded: a tensor is a histogram of fixed size, whatever the number of samples, and
the result does not depend on their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array, Quant

BINS = 4096
HALF = BINS // 2
HALF_EXPONENT = HALF.bit_length() - 1
LEVELS = 255
"""Steps between the lowest and the highest int8 value."""
CANDIDATES = 256
"""Clip points tried on each side of zero by the MSE method."""
MIN_SCALE = float(np.finfo(np.float32).tiny)

Kind = Literal["minmax", "percentile", "mse"]


@dataclass(frozen=True)
class Method:
    """How a range is chosen from what was observed.

    minmax      from the smallest to the largest value: nothing seen in calibration is clipped
    percentile  from the (100 - percentile)th to the percentile-th percentile
    mse         the range with the least expected squared error of rounding and clipping
    """

    kind: Kind = "minmax"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise BadInput(f"calibration method '{self.kind}': allowed are minmax, "
                           "percentile:P and mse")
        if not 50.0 < self.percentile <= 100.0:
            raise BadInput(f"calibration percentile {self.percentile}: allowed is more than 50 "
                           "up to 100, for example percentile:99.99")

    @classmethod
    def parse(cls, text: str) -> Method:
        """'minmax', 'mse', 'percentile' or 'percentile:99.9' -> a Method, or BadInput."""
        kind, colon, number = text.partition(":")
        if colon and kind != "percentile":
            raise BadInput(f"calibration method '{text}': only percentile takes a number")
        if not colon:
            return cls(kind)  # type: ignore[arg-type]  # __post_init__ looks
        try:
            return cls("percentile", float(number))
        except ValueError:
            raise BadInput(f"calibration method '{text}': '{number}' is not a number; for "
                           "example percentile:99.99") from None

    def __str__(self) -> str:
        return f"percentile:{self.percentile:g}" if self.kind == "percentile" else self.kind


@dataclass(frozen=True, eq=False)
class Observed:
    """One tensor over all samples so far.

    low, high  smallest and largest value
    count      values seen
    zeros      how many of them are exactly 0
    bins       [BINS] int64; bin HALF + i counts values in [i, i + 1) * 2**exponent
    """

    low: float
    high: float
    count: int
    zeros: int
    exponent: int
    bins: Array


def observe(values: Array, before: Observed | None = None) -> Observed:
    """Add finite values of any shape to what was seen before.

    Bin widths are powers of two and zero is a bin edge, so widening merges pairs of bins
    exactly: the histogram is the one a single look at all values would give.
    """
    values = np.asarray(values, np.float64).reshape(-1)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if before is not None and before.count:
        low, high = min(low, before.low), max(high, before.high)
    # frexp: |x| < 2**e; float32 data have nothing below 2**-149
    exponent = int(np.frexp(max(-low, high, 2.0**-149))[1]) - HALF_EXPONENT
    index = np.floor(values * 2.0**-exponent).astype(np.int64) + HALF
    bins = np.bincount(index, minlength=BINS).astype(np.int64)
    count, zeros = values.size, int(np.count_nonzero(values == 0))
    if before is not None:
        bins = bins + _widened(before.bins, exponent - before.exponent)
        count, zeros = count + before.count, zeros + before.zeros
    return Observed(low, high, count, zeros, exponent, bins)


def _widened(bins: Array, doublings: int) -> Array:
    for _ in range(min(doublings, BINS.bit_length())):  # after that nothing changes any more
        merged = np.zeros_like(bins)
        merged[HALF // 2 : HALF // 2 + HALF] = bins.reshape(-1, 2).sum(axis=1)
        bins = merged
    return bins


def choose_range(seen: Observed, method: Method) -> tuple[float, float]:
    """The real range (low, high) to represent; it contains 0."""
    if method.kind == "minmax":
        low, high = seen.low, seen.high
    elif method.kind == "percentile":
        low, high = _percentiles(seen, method.percentile)
    else:
        low, high = _least_squared_error(seen)
    return min(low, 0.0), max(high, 0.0)


def _edges(seen: Observed) -> Array:
    """[BINS + 1]: where bins begin and end, no further out than the values."""
    edges = (np.arange(BINS + 1) - HALF) * 2.0**seen.exponent
    return np.clip(edges, min(seen.low, 0.0), max(seen.high, 0.0))


def _percentiles(seen: Observed, percentile: float) -> tuple[float, float]:
    """Ends of the bins in which the two percentiles lie."""
    edges = _edges(seen)
    kept = percentile / 100.0 * seen.count
    top = int(np.searchsorted(np.cumsum(seen.bins), kept))
    bottom = int(np.searchsorted(np.cumsum(seen.bins[::-1]), kept))
    return float(edges[BINS - min(bottom, BINS - 1) - 1]), float(edges[min(top, BINS - 1) + 1])


def _least_squared_error(seen: Observed) -> tuple[float, float]:
    """Minimise clipping + rounding error over pairs of clip points.

    A value inside costs step**2 / 12 (an exact 0 nothing); one outside the square of its
    distance. Bins stand for their middles.
    Source: Banner, Nahshan, Soudry, "Post training 4-bit quantization", 2019, section 2 (ACIQ),
    with the measured histogram in place of a fitted distribution.
    """
    highs, above = _clip_costs(seen.bins[HALF:], _edges(seen)[HALF:])
    depths, below = _clip_costs(seen.bins[:HALF][::-1], -_edges(seen)[: HALF + 1][::-1])
    step = (highs[None, :] + depths[:, None]) / LEVELS
    cost = step**2 / 12 * (seen.count - seen.zeros) + above[None, :] + below[:, None]
    best = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return -float(depths[best[0]]), float(highs[best[1]])


def _clip_costs(bins: Array, edges: Array) -> tuple[Array, Array]:
    """Candidate clip points >= 0 and the squared error of clipping the bins beyond each.

    bins   [n] counts outwards from zero
    edges  [n + 1] real, ascending from 0
    """
    last = int(np.flatnonzero(bins)[-1]) + 1 if bins.any() else 0
    middles = (edges[:-1] + edges[1:]) / 2
    points = np.unique(np.linspace(0, last, CANDIDATES).round().astype(np.int64))
    moments = [np.append(np.cumsum((bins * middles**k)[::-1])[::-1], 0.0) for k in range(3)]
    t = edges[points]
    cost = moments[2][points] - 2 * t * moments[1][points] + t**2 * moments[0][points]
    return t, np.maximum(cost, 0.0)


def affine(low: float, high: float, least_scale: float = MIN_SCALE) -> Quant:
    """The int8 parameters that cover [low, high] with 0 exactly representable.

    A range that starts at 0 gets zero point -128, one that ends there 127. An empty range
    (only zeros seen) gets scale 1: any scale is right for 0. No scale is below `least_scale`.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / LEVELS or 1.0
    scale = float(np.float32(max(step, least_scale, MIN_SCALE)))
    zero_point = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    return Quant((scale,), (zero_point,))
