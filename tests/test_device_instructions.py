"""Instructions on emulated Cortex-M cores are counted exactly, and kernels keep them few."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgesparse.convert import convert_model
from int8_models import model_path
from needs import require
from test_house import ROOT, only_one

MOST = {
    ("ad01", "cortex-m4"): 0.47e6,
    ("ad01", "cortex-m55"): 0.07e6,
    ("ecg", "cortex-m4"): 0.0605e6,
    ("ecg", "cortex-m55"): 0.034e6,
}
"""What the kernels reach and a few percent: without them ad01 takes 2.9 M."""


def counted(data_root: Path, *arguments: str) -> list[dict[str, Any]]:
    for name in ("arm", "qemu", "cmake"):
        require(name)
    script = ROOT / "benchmarks" / "device_instructions.py"
    with only_one("measure"):
        done = subprocess.run(
            (sys.executable, script, "--data-root", data_root, "--json", *arguments),
            capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def lines(data_root: Path) -> list[dict[str, Any]]:
    """The script itself compares outputs with the portable core, and two runs with each other."""
    return counted(data_root, "--model", "ad01", "--model", "ecg")


def test_kernels_keep_the_instructions_few(lines: list[dict[str, Any]]) -> None:
    found = {(line["model"], line["cpu"]): line["last"] for line in lines}
    assert found.keys() == MOST.keys()
    assert {key: n for key, n in found.items() if not 0.5 * MOST[key] < n <= MOST[key]} == {}


def test_the_same_input_takes_the_same_instructions(
    lines: list[dict[str, Any]], data_root: Path
) -> None:
    again = counted(data_root, "--model", "ecg", "--cpu", "cortex-m4")
    assert again == [line for line in lines if line["model"] == "ecg"
                     and line["cpu"] == "cortex-m4"]


def test_a_target_gets_encodings_that_have_kernels_there(data_root: Path) -> None:
    """Some layers of ad01 have 15 % scattered zeros: a bitmask saves flash on the host, and is 20
    times as slow as dense rows where those have kernels."""
    path = model_path(data_root, "models/mlperf/mlperf_ad01_int8")

    def encodings(target: str) -> set[str]:
        steps = convert_model(path, target).plan.model.steps
        return {group.encoding.name for step in steps for group in step.source.weights.groups}

    assert encodings("host") == {"DENSE", "BITMASK"}
    assert encodings("cortex-m4") == encodings("cortex-m55") == {"DENSE"}
