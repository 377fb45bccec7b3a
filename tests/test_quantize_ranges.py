"""Histograms, ranges and int8 parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.quantize.ranges import (
    BINS,
    HALF,
    KEPT_PEAKS,
    LEVELS,
    Method,
    Observed,
    affine,
    choose_range,
    observe,
)

real = st.floats(-(2.0**100), 2.0**100, width=32)


def seen(samples: Array) -> Observed:
    """What is known after each row was one sample."""
    found: Observed | None = None
    for sample in samples:
        found = observe(sample, found)
    assert found is not None
    return found


def test_the_order_of_samples_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(100, 50)) * 10.0 ** rng.integers(-6, 7, (100, 1))
    one, other = seen(samples), seen(samples[rng.permutation(100)])
    np.testing.assert_array_equal(one.bins, other.bins)
    np.testing.assert_array_equal(one.peaks, other.peaks)
    for method in ("headroom", "minmax", "percentile:99", "mse"):
        assert choose_range(one, Method.parse(method)) == choose_range(other, Method.parse(method))


@given(st.lists(real, min_size=2, max_size=30), st.integers(1, 29))
def test_widening_the_histogram_loses_no_count_and_moves_none(
    values: list[float], cut: int
) -> None:
    first, second = values[:cut], values[cut:] or values[:1]
    split = observe(np.array(second), observe(np.array(first)))
    whole = observe(np.array(first + second))
    np.testing.assert_array_equal(split.bins, whole.bins)
    assert (split.low, split.high, split.exponent) == (whole.low, whole.high, whole.exponent)


def test_bins_count_the_values_between_their_edges() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=10_000)
    found = observe(values)
    edges = (np.arange(BINS + 1) - HALF) * 2.0**found.exponent
    np.testing.assert_array_equal(found.bins, np.histogram(values, edges)[0])
    assert np.flatnonzero(found.bins)[-1] >= HALF + BINS // 4  # no coarser than it must be


def test_memory_does_not_grow_with_the_samples() -> None:
    found = seen(np.random.default_rng(2).normal(size=(1000, 3)))
    assert found.bins.size == BINS
    assert found.peaks.size == found.dips.size == KEPT_PEAKS
    assert found.samples == 1000
    assert found.count == 3000


def test_minmax_is_the_extremes_and_contains_zero() -> None:
    assert choose_range(seen(np.array([[1.5, 3.0]])), Method("minmax")) == (0.0, 3.0)
    assert choose_range(seen(np.array([[-2.5], [-1.0]])), Method("minmax")) == (-2.5, 0.0)


@pytest.mark.parametrize("percentile", [99.9, 99.0, 90.0])
def test_a_percentile_keeps_its_share(percentile: float) -> None:
    values = np.random.default_rng(3).normal(size=100_000)
    low, high = choose_range(observe(values), Method("percentile", percentile))
    assert 100 * np.mean(values <= high) == pytest.approx(percentile, abs=0.1)
    assert 100 * np.mean(values >= low) == pytest.approx(percentile, abs=0.1)


def test_all_values_are_the_hundredth_percentile() -> None:
    values = np.random.default_rng(4).normal(size=1000)
    assert choose_range(observe(values), Method("percentile", 100)) == (values.min(), values.max())


def squared_error(values: Array, low: float, high: float) -> float:
    """Of the values quantized in that range, without a fixed zero point."""
    step = (high - low) / LEVELS
    stored = np.rint((np.clip(values, low, high) - low) / step)
    return float(np.sum((stored * step + low - values) ** 2))


@pytest.mark.parametrize("shape", ["normal", "laplace", "relu", "outlier"])
def test_mse_is_as_good_as_the_best_range_found_by_trying(shape: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.laplace(size=50_000) if shape == "laplace" else rng.normal(size=50_000)
    if shape == "relu":
        values = np.maximum(values, 0)
    if shape == "outlier":
        values[0] = 100.0
    low, high = choose_range(observe(values), Method("mse"))
    tries = [squared_error(values, a * values.min(), b * values.max())
             for a in np.linspace(0.02, 1, 30) for b in np.linspace(0.02, 1, 50)]
    assert squared_error(values, low, high) < 1.03 * min(tries)
    if shape == "outlier":
        assert high < 96.0  # one value is cut a little for the sake of 50,000
    if shape == "relu":
        assert low == 0.0


def headroom(samples: Array) -> float:
    """How much further than the largest value the range goes."""
    return choose_range(seen(samples), Method("headroom"))[1] - float(samples.max())


def test_values_that_stop_at_a_bound_get_no_headroom() -> None:
    samples = np.random.default_rng(6).uniform(0, 255, (50, 40))
    samples[:, 0] = 255.0
    assert headroom(samples) == 0.0
    assert choose_range(seen(samples), Method("headroom"))[0] == 0.0


def test_one_sample_tells_nothing_about_others() -> None:
    assert headroom(np.random.default_rng(7).normal(size=(1, 1000))) == 0.0


def test_a_few_logits_get_more_headroom_than_a_feature_map() -> None:
    """Where few values share the rounding error, room for a larger one is cheap."""
    rng = np.random.default_rng(8)
    peaks = rng.exponential(size=(100, 1)) + 3
    few = np.concatenate([peaks, rng.uniform(0, 1, (100, 4))], axis=1)
    many = np.concatenate([peaks, rng.uniform(0, 1, (100, 20_000))], axis=1)
    assert headroom(few) > headroom(many) + 0.5
    assert headroom(many) >= 0.0


def test_headroom_pays_on_samples_not_seen() -> None:
    """Half of exponential maxima calibrates, half is then quantized."""
    rng = np.random.default_rng(9)
    error = dict.fromkeys(("headroom", "minmax"), 0.0)
    for _ in range(40):
        values = rng.exponential(size=(200, 5))
        for kind in error:
            error[kind] += squared_error(
                values[100:], *choose_range(seen(values[:100]), Method.parse(kind)))
    assert error["headroom"] < 0.8 * error["minmax"]


@given(real, real)
def test_parameters_cover_the_range_and_zero_is_exact(a: float, b: float) -> None:
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    quant = affine(low, high)
    scale, zero_point = quant.scale[0], quant.zero_point[0]
    assert scale == np.float32(scale) > 0
    assert -128 <= zero_point <= 127
    if low < high:
        for end in (low, high):
            stored = np.clip(np.rint(end / scale) + zero_point, -128, 127)
            assert abs((stored - zero_point) * scale - end) <= 1.001 * scale


def test_one_sided_ranges_use_all_values() -> None:
    assert affine(0.0, 6.0).zero_point == (-128,)
    assert affine(-3.0, 0.0).zero_point == (127,)
    assert affine(0.0, 0.0).scale == (1.0,)
    assert affine(0.0, 1.0, least_scale=2.0).scale == (2.0,)


@pytest.mark.parametrize("text", ["", "max", "percentile:", "percentile:x", "percentile:50",
                                  "percentile:101", "mse:3", "percentile:nan"])
def test_other_methods_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(BadInput, match=r"allowed|example|takes a number"):
        Method.parse(text)


@pytest.mark.parametrize("text", ["headroom", "minmax", "mse", "percentile:99.9"])
def test_a_method_is_written_as_it_is_read(text: str) -> None:
    assert str(Method.parse(text)) == text
