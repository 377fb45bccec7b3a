"""Plans broken at random, with a right trailer, under sanitizers: native/fuzz/mutate_plan.c.

For a longer run, after this one:
    build/test-fuzz/native/mutate_plan -n 20000 build/test-fuzz/plans/*.esp
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgesparse.plan.write import write_plan
from everything import everything
from random_plans import random_plan
from running_plans import random_running_plan, running_plan
from stream_plans import SMALL_QUALITY, full_stream_plan, incremental_plan
from test_house import fuzz_driver, run

ROOT = Path(__file__).resolve().parents[1]
PLANS, MUTANTS = 12, 3000
"""Files, and mutants of each."""


@pytest.fixture(scope="module")
def driver() -> Path:
    return fuzz_driver("mutate_plan")


@pytest.fixture(scope="module")
def plans(driver: Path) -> list[Path]:
    """One of everything, streams, and random ones."""
    rng = np.random.default_rng(11)
    folder = driver.parents[1] / "plans"
    folder.mkdir(exist_ok=True)
    models = [
        everything(), full_stream_plan(), incremental_plan(rng),
        incremental_plan(rng, channels=1, quality=SMALL_QUALITY),
        running_plan(), random_running_plan(rng), *(random_plan(rng) for _ in range(PLANS - 6))]
    paths = [folder / f"{i}.esp" for i in range(PLANS)]
    for path, model in zip(paths, models):
        path.write_bytes(write_plan(model))
    return paths


def test_mutants_are_refused_or_run_without_a_finding(driver: Path, plans: list[Path]) -> None:
    done = subprocess.run(
        [driver, "-n", str(MUTANTS), *plans], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    count = {
        name: int(n) for name, n in re.findall(
            r"(mutants|accepted|ran|streamed|flushed) (\d+)", done.stdout)}
    assert count["mutants"] == PLANS * MUTANTS
    assert count["ran"] > count["mutants"] / 20
    assert count["streamed"] > MUTANTS / 4
    assert count["flushed"] > MUTANTS / 8
    assert count["accepted"] < count["mutants"] / 2
    refused = {int(n) for n in re.findall(r"^I-(\d+) ", done.stdout, re.M)}
    assert {
        4, 5, 10, 11, 12, 16, 17, 20, 21, 22, 31, 35, 36, 40, 43, 46, 47, 50, 51, 57, 58, 70, 71,
        72, 73, 80, 81, 82,
    } <= refused


def test_the_same_seed_gives_the_same_mutants(driver: Path, plans: list[Path]) -> None:
    first, again, other = (
        run(driver, "-s", seed, "-n", "300", plans[0]) for seed in ("5", "5", "6"))
    assert first == again != other


def test_a_plan_that_is_refused_itself_is_an_error(driver: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.esp"
    broken.write_bytes(write_plan(everything())[:-1])
    done = subprocess.run([driver, broken], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "refused by I-1" in done.stderr
