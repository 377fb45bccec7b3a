"""The power fails during an update of an emulated board; benchmarks/device_power_cuts.py cuts at
every KiB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from device_power_cuts import Bench, Cut, Known, check, check_self_test, known

from needs import require

for need in ("arm", "qemu", "cmake", "oracle"):
    require(need)

OLD, NEW = "models/mlperf/mlperf_strm_ww_old_int8", "models/arm/arm_kws_dscnn_s"


@pytest.fixture(scope="module")
def plans(data_root: Path) -> tuple[Known, Known]:
    return known(data_root, OLD), known(data_root, NEW)


@pytest.fixture
def bench(plans: tuple[Known, Known], tmp_path: Path) -> Iterator[Bench]:
    made = Bench("cortex-m4", tmp_path, *plans)
    yield made
    made.off()


def test_a_whole_plan_runs_wherever_the_power_fails(bench: Bench) -> None:
    """In this order; the last one leaves the new plan confirmed."""
    assert check(bench, Cut("upload", 1024)) == "old"
    assert check(bench, Cut("upload", 20_000, 0.001)) == "old"
    assert check(bench, Cut("finish", 1.0, 0.005)) == "old"
    assert check(bench, Cut("test", 2.0)) == "new"
    check(bench, Cut("reset", 1.0, 0.005))
    assert check(bench, Cut("confirm", 2.0)) == "new"
    assert check_self_test(bench) == "old"
    new, image = bench.running()
    assert new is bench.plans[1]
    assert image.confirmed


def test_what_must_not_run_is_noticed(bench: Bench, plans: tuple[Known, Known]) -> None:
    """A plan that gives other bytes, and one that nobody brought."""
    old, new = plans
    other = replace(old.run, outputs=[y ^ np.int8(1) for y in old.run.outputs])
    bench.plans = (Known(old.plan, other), new)
    with pytest.raises(AssertionError, match="differs from the oracle's"):
        bench.running()
    bench.plans = (new, new)
    with pytest.raises(ValueError, match="not enough values"):
        bench.running()
