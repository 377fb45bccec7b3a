"""The benchmark scripts run and say what they count; what they time is not judged here."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def lines_of(script: str, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        (sys.executable, BENCHMARKS / script, *arguments), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_streaming_says_what_each_mode_saves() -> None:
    lines = lines_of("streaming.py", "--net", "strided", "--json")
    found = {(line["padding"], line["mode"]): line for line in lines}
    assert len(found) == len(lines) == 3 + 3 + 2
    assert found["valid", "incremental"]["macs"] == pytest.approx(44.0, abs=0.05)
    assert found["causal", "continuous"]["macs"] == pytest.approx(45.0, abs=0.05)
    for (_, mode), line in found.items():
        assert (line["state"] == 0) == (mode == "window")
        assert line["time"]["ns"] > 0
        if mode == "window":
            assert (line["macs"], line["time"]["times"]) == (1.0, 1.0)


def test_contenders_take_turns() -> None:
    """Each round starts with another one, so that none always comes after the same."""
    turns: list[str] = []

    def contender(name: str) -> None:
        if not turns or turns[-1] != name:
            turns.append(name)

    paired = runpy.run_path(str(BENCHMARKS / "paired.py"))["paired"]
    names = ("a", "b", "c")
    found = paired({name: lambda name=name: contender(name) for name in names}, rounds=3)
    assert "".join(turns) == "abc" + "abc" + "bca" + "cab"  # before the rounds: how long calls are
    assert found["a"].times == 1.0
    assert found["a"].spread == (1.0, 1.0)
