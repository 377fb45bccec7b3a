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
MAX_SCALE = float(np.finfo(np.float32).max)
"""Scales are normal float32 numbers."""

KEPT_PEAKS = 64
"""Samples with the largest maxima that are remembered for the headroom method."""
PEAK_SHARE = 10
"""One in so many samples counts as a peak."""
CLIP_WEIGHT = 3.0
"""Squared error of clipping an unseen large value, in units of the same error from rounding.

Clipping hits the few values that later layers decide by. On the inputs of
tests/quantize_inputs.py (seeds 0 to 2, 14 models, one of each pair of twins, every second picture)
1, 3, 10, 30 and 100 gave a mean SQNR of 33.3, 33.5, 33.2, 32.8 and 32.6 dB, minmax 32.0;
`python tests/quantize_table.py --data-root ../shared --seeds 3` compares the methods.
"""

Kind = Literal["headroom", "minmax", "percentile", "mse"]


@dataclass(frozen=True)
class Method:
    """How a range is chosen from what was observed.

    headroom    minmax, widened by what pays for values larger than any seen
    minmax      from the smallest to the largest value: nothing seen in calibration is clipped
    percentile  from the (100 - percentile)th to the percentile-th percentile
    mse         the range with the least expected squared error of rounding and clipping
    """

    kind: Kind = "headroom"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise BadInput(f"calibration method '{self.kind}': allowed are headroom, "
                           "minmax, percentile:P and mse")
        if not 50.0 < self.percentile <= 100.0:
            raise BadInput(f"calibration percentile {self.percentile}: allowed is more than 50 "
                           "up to 100, for example percentile:99.99")

    @classmethod
    def parse(cls, text: str) -> Method:
        """'headroom', 'minmax', 'mse', 'percentile', 'percentile:99.9' -> a Method, or BadInput."""
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
    samples    how many inputs they come from
    peaks      [<= KEPT_PEAKS] the largest of the samples' maxima, descending
    dips       the same of the negated minima
    bins       [BINS] int64; bin HALF + i counts values in [i, i + 1) * 2**exponent
    """

    low: float
    high: float
    count: int
    zeros: int
    samples: int
    peaks: Array
    dips: Array
    exponent: int
    bins: Array


def observe(values: Array, before: Observed | None = None) -> Observed:
    """Add what a tensor held for one more sample: finite values of any shape, at least one.

    Bin widths are powers of two and zero is a bin edge, so widening merges pairs of bins
    exactly: the histogram is the one a single look at all values would give.
    """
    values = np.asarray(values, np.float64).reshape(-1)
    top, bottom = float(values.max()), float(values.min())
    low, high, peaks, dips = bottom, top, np.array([top]), np.array([-bottom])
    if before is not None:
        low, high = min(low, before.low), max(high, before.high)
        peaks, dips = _largest(before.peaks, top), _largest(before.dips, -bottom)
    # frexp: |x| < 2**e; float32 data have nothing below 2**-149
    exponent = int(np.frexp(max(-low, high, 2.0**-149))[1]) - HALF_EXPONENT
    index = np.floor(values * 2.0**-exponent).astype(np.int64) + HALF
    bins = np.bincount(index, minlength=BINS).astype(np.int64)
    count, zeros, samples = values.size, int(np.count_nonzero(values == 0)), 1
    if before is not None:
        bins = bins + _widened(before.bins, exponent - before.exponent)
        count, zeros = count + before.count, zeros + before.zeros
        samples = samples + before.samples
    return Observed(low, high, count, zeros, samples, peaks, dips, exponent, bins)


def _largest(before: Array, new: float) -> Array:
    return np.sort(np.append(before, new))[::-1][:KEPT_PEAKS]


def _widened(bins: Array, doublings: int) -> Array:
    for _ in range(min(doublings, BINS.bit_length())):  # after that nothing changes any more
        merged = np.zeros_like(bins)
        merged[HALF // 2 : HALF // 2 + HALF] = bins.reshape(-1, 2).sum(axis=1)
        bins = merged
    return bins


def choose_range(seen: Observed, method: Method) -> tuple[float, float]:
    """The real range (low, high) to represent; it contains 0."""
    if method.kind == "headroom":
        low, high = seen.low - _headroom(seen, seen.dips), seen.high + _headroom(seen, seen.peaks)
    elif method.kind == "minmax":
        low, high = seen.low, seen.high
    elif method.kind == "percentile":
        low, high = _percentiles(seen, method.percentile)
    else:
        low, high = _least_squared_error(seen)
    return min(low, 0.0), max(high, 0.0)


def _headroom(seen: Observed, peaks: Array) -> float:
    """How far beyond the largest value seen the range shall reach.

    The samples' maxima over a threshold fall off exponentially with their mean excess, so the
    probability that a further input exceeds h more, and by how much, is known. h weighs that
    against the rounding error that a wider range gives every value: much for a few logits,
    little for a large feature map, nothing for values that all stop at one bound (pixels at 255).
    Source: Coles, "An Introduction to Statistical Modeling of Extreme Values", 2001, chapter 4
    (peaks over threshold, shape 0).
    """
    peaks = np.maximum(peaks, 0.0)
    count = min(-(-seen.samples // PEAK_SHARE), len(peaks) - 1)
    excess = float(peaks[:count].mean() - peaks[count]) if count else 0.0
    if excess <= 0.0:
        return 0.0  # one bound, or a single sample, which tells nothing about others
    more = np.linspace(0.0, 6.0 * excess, 601)
    step = (max(seen.high, 0.0) - min(seen.low, 0.0) + more) / LEVELS
    rounding = seen.count / seen.samples * step**2 / 12
    exceeded = count / seen.samples * np.exp(-(peaks[0] - peaks[count] + more) / excess)
    return float(more[np.argmin(rounding + CLIP_WEIGHT * exceeded * 2 * excess**2)])


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
    scale = float(np.float32(min(max(step, least_scale, MIN_SCALE), MAX_SCALE)))
    zero_point = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    return Quant((scale,), (zero_point,))
