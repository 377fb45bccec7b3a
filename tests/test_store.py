"""Power cuts in the plan store, by native/fuzz/cut_store.c; docs/STORE.md is the law.

A longer run by hand, after one of this file (about 440,000 cuts):

    build/test-store/native/cut_store -n 60000 -s 1
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from needs import require
from test_house import only_one, run

ROOT = Path(__file__).resolve().parents[1]
RULES = range(1, 11)
SEQUENCES = 2000
ACTS = ["begin", "write", "finish", "test", "confirm", "revert", "erase", "minimum", "boot"]


@pytest.fixture(scope="module")
def folder() -> Path:
    """Build folder with the simulator and its mutants."""
    require("cmake")
    build = ROOT / "build" / "test-store"
    with only_one("test-store"):
        run(
            "cmake",
            "-S",
            ROOT,
            "-B",
            build,
            "-G",
            "Ninja",
            "-DES_WERROR=ON",
            "-DES_FUZZ=ON",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        )
        mutants = [f"cut_store_without_r{rule}" for rule in RULES]
        run("cmake", "--build", build, "--target", "cut_store", *mutants)
    return build / "native"


def counts(printed: str) -> dict[str, int]:
    return {name: int(n) for name, n in re.findall(r"^([a-z ]+) (\d+)$", printed, re.M)}


def test_every_flash_operation_of_five_installs_may_be_the_last(folder: Path) -> None:
    count = counts(run(folder / "cut_store", "-x"))
    assert count["cuts"] > 30000
    assert count["cuts in recovery"] > 500


def test_random_cuts_and_cuts_in_recovery(folder: Path) -> None:
    count = counts(run(folder / "cut_store", "-n", str(SEQUENCES)))
    assert count["cuts"] > 7 * SEQUENCES
    assert count["cuts in recovery"] > 2 * SEQUENCES
    for act in ACTS:
        assert count[act] > 0, act


def test_the_same_seed_gives_the_same_run(folder: Path) -> None:
    first, again, other = (
        run(folder / "cut_store", "-n", "50", "-s", seed) for seed in ("5", "5", "6")
    )
    assert first == again != other


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_can_be_left_out(folder: Path, rule: int) -> None:
    mutant = folder / f"cut_store_without_r{rule}"
    done = subprocess.run([mutant, "-n", "20000"], capture_output=True, text=True)
    assert done.returncode == 2, "the simulator does not notice"
    assert re.search(r": (I\d|a )", done.stderr), done.stderr


def test_a_product_cannot_leave_a_rule_out() -> None:
    """The switch of the mutants is an error in any other build."""
    require("cmake")
    done = subprocess.run(
        [
            "cc",
            "-fsyntax-only",
            "-DES_STORE_WITHOUT=5",
            "-I",
            ROOT / "native" / "include",
            "-I",
            ROOT / "native" / "src",
            ROOT / "native" / "src" / "store" / "log.c",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "for the simulator of the store alone" in done.stderr
