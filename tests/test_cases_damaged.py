"""The cases that break other tools, ../shared/cases/README.md: A11, damaged files.

One by one, with more kinds of damage: test_import_mutants.py and test_plan_open.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Ran
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from int8_models import converted
from plan_changes import changed
from test_import_mutants import DAMAGE

LISTED = (
    "8 bytes", "empty", "truncated at 60 %", "truncated by 16 bytes", "wrong magic",
    "buffer index 9999", "tensor index 77", "weight shape larger than its buffer",
    "7 scales for 16 channels",
)


def assert_refused(ran: Ran, place: str) -> None:
    """Exit code 2, one line that names file and place, no traceback, nothing on stdout."""
    assert ran.code == 2
    assert ran.out == ""
    assert re.match(rf"error: .*({place})", ran.err), ran.err
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("case", LISTED)
def test_a11_a_damaged_model(case: str, cases_dir: Path, tmp_path: Path) -> None:
    damage, place = DAMAGE[case]
    path = tmp_path / "damaged.tflite"
    path.write_bytes(damage((cases_dir / "tflite" / "cr.tflite").read_bytes()))
    for more in (("-o", tmp_path / "out.esp"), ("--check",), ("-o", tmp_path / "o.esp", "--json")):
        assert_refused(Ran("convert", path, *more), place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged.tflite"]


def with_step(plan: Plan, change: Callable[[pm.Step], pm.Step]) -> bytes:
    """The plan with another first step, its trailer right."""
    first, *rest = plan.model.steps
    return write_plan(replace(plan.model, steps=(change(first), *rest)))


def with_source(plan: Plan, change: Callable[[Any], pm.Mac]) -> bytes:
    return with_step(plan, lambda step: replace(step, source=change(step.source)))


def seven_multipliers(step: pm.Step) -> pm.Step:
    (branch,) = step.branches
    requant = branch.stages[0]
    assert isinstance(requant, pm.Requant)
    assert requant.multiplier.size == 16
    short = replace(requant, multiplier=requant.multiplier[:7])
    return replace(step, branches=(replace(branch, stages=(short, *branch.stages[1:])),))


def wider(source: pm.Mac) -> pm.Mac:
    """Weights of a larger shape than the bytes that are stored."""
    return replace(source, weights=replace(source.weights, cols=source.weights.cols + 1))


def more_stored(source: pm.Mac) -> pm.Mac:
    group, *rest = source.weights.groups
    short = replace(group, values=group.values[:-1])
    return replace(source, weights=replace(source.weights, groups=(short, *rest)))


PLAN_DAMAGE: dict[str, tuple[Callable[[Plan], bytes], str]] = {
    "8 bytes": (lambda p: p.data[:8], "I-1:"),
    "empty": (lambda p: b"", "I-1:"),
    "truncated at 60 %": (lambda p: p.data[: len(p.data) * 6 // 10], "I-1:"),
    "truncated by 16 bytes": (lambda p: p.data[:-16], "I-1:"),
    "wrong magic": (lambda p: p.data[:-64] + b"ESPX" + p.data[-60:], "I-1:"),
    "wrong identifier": (lambda p: p.data[:4] + b"ESPX" + p.data[8:], "I-3:"),
    "one bit of a weight": (lambda p: bytes(changed(
        np.frombuffer(p.data, np.uint8), len(p.data) // 2, 1 ^ p.data[len(p.data) // 2])), "I-3:"),
    "tensor index 77": (
        lambda p: with_step(p, lambda step: replace(step, input=77)), r"I-20: .*\(step 0"),
    "weight shape larger than stored": (lambda p: with_source(p, wider), r"I-50: .*\(step 0"),
    "a weight missing": (lambda p: with_source(p, more_stored), r"I-53: .*\(step 0"),
    "7 multipliers for 16 channels": (
        lambda p: with_step(p, seven_multipliers), r"I-40: .*\(step 0"),
}


@pytest.mark.parametrize("case", PLAN_DAMAGE)
def test_a11_a_damaged_plan(case: str, cases_dir: Path, tmp_path: Path) -> None:
    damage, place = PLAN_DAMAGE[case]
    model = cases_dir / "tflite" / "cr.tflite"
    plan = converted(model).plan
    NativePlan(plan.data)
    path = tmp_path / "damaged.esp"
    path.write_bytes(damage(plan))
    np.save(tmp_path / "x.npy", np.zeros((1, *plan.inputs[0].shape), np.int8))
    assert_refused(Ran("inspect", path), place)
    assert_refused(Ran("inspect", path, "--json"), place)
    assert_refused(Ran("verify", path, "--against", model), place)
    assert_refused(
        Ran("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"), place)
    assert not (tmp_path / "y.npy").exists()
