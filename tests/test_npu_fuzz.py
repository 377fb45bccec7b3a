"""Random programs for the NPU under the sanitizers, by native/fuzz/mutate_npu.c.

A longer run by hand, after one of this file:

    build/test-fuzz/native/mutate_npu -n 2000000 -s 1
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesparse.npu.isa import Op, Trap
from test_house import fuzz_driver, run

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = 20000


@pytest.fixture(scope="module")
def driver() -> Path:
    return fuzz_driver("mutate_npu")


def test_random_programs_are_refused_or_run_without_a_finding(driver: Path) -> None:
    printed = run(driver, "-n", str(PROGRAMS))
    count = {name: int(n) for name, n in re.findall(r"^([a-z ]+\d*) (\d+)", printed, re.M)}
    assert count["programs"] == PROGRAMS
    assert count["ran"] == count["accepted"] > PROGRAMS / 5
    assert count["with products"] > PROGRAMS / 10
    assert count["with skips"] > PROGRAMS / 50
    assert count["stopped"] < count["ran"] / 2
    for op in Op:
        assert count[f"op {op.value}"] > PROGRAMS / 100, op
    for trap in set(Trap) - {Trap.LIMIT, Trap.END, Trap.FMT}:
        assert count[f"trap {trap.value}"] > 0, trap


def test_the_same_seed_gives_the_same_programs(driver: Path) -> None:
    first, again, other = (run(driver, "-s", seed, "-n", "300") for seed in ("5", "5", "6"))
    assert first == again != other
