"""What one plan needs of the core fits 16 KB of flash on a Cortex-M4; the README says how much."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from edgesparse.convert import convert_model
from int8_models import model_path
from needs import require
from test_export import MODELS, ecg_stream
from test_house import ROOT, only_one, run

MOST = 16 * 1024


@pytest.fixture(scope="module")
def plans(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("plans")
    made = {name: convert_model(model_path(data_root, path), "cortex-m4").plan
            for name, path in MODELS.items()}
    made["ecg"] = ecg_stream("cortex-m4")
    for name, plan in made.items():
        plan.save(folder / f"{name}.esp")
    return {name: folder / f"{name}.esp" for name in made}


def sizes(plans: dict[str, Path], *more: str) -> dict[str, dict[str, int]]:
    require("arm")
    require("cmake")
    with only_one("size-plan"):
        printed = run(sys.executable, "firmware_sim/size.py", "--json", *more,
                      *(word for path in plans.values() for word in ("--plan", path)))
    found = json.loads(printed)
    return {name: found[f"{name} cortex-m4"] for name in plans}


def test_the_core_for_one_plan_fits_16_kilobytes(plans: dict[str, Path]) -> None:
    found = sizes(plans)
    assert {name: size["flash"] for name, size in found.items() if size["flash"] > MOST} == {}
    for size in found.values():
        parts = sum(n for name, n in size.items() if name not in ("text", "rodata", "flash", "ram"))
        assert size["ram"] == 0
        assert size["flash"] == pytest.approx(parts, abs=64)  # alignment between sections
    readme = (ROOT / "README.md").read_text()
    stated = re.search(r"what one plan needs of the core.*\| ([\d,; ]+) bytes of flash", readme)
    assert stated, "README.md: say what one plan needs of the core (firmware_sim/size.py --plan)"
    assert [int(n.replace(",", "")) for n in stated[1].split(";")] == [
        pytest.approx(found[name]["flash"], rel=0.02) for name in ("ad01", "kws", "ic", "ecg")]


def test_checks_are_what_a_core_that_trusts_its_plan_leaves_out(plans: dict[str, Path]) -> None:
    one = {"ad01": plans["ad01"]}
    trusting, checking = sizes(one)["ad01"], sizes(one, "--check-on-device")["ad01"]
    assert checking["checks"] - trusting["checks"] > 7000
    assert checking["flash"] > trusting["flash"] + 8000
