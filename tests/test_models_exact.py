"""The models of docs/MODELS.md: every byte that the plan computes is the oracle's."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgesparse.plan.interpret import Interpreter
from edgesparse.runtime.session import Session
from edgesparse.runtime.session import quantize as stored
from edgesparse.stimuli import stimuli
from edgesparse.verify import OUTPUT
from int8_models import (
    ECG,
    FEW_INPUTS,
    JUDGED,
    MODELS,
    STAND_INS,
    Row,
    converted,
    judge,
    line,
    model_path,
    table,
)
from needs import require

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "MODELS.md"
HOW = "python tests/int8_models.py --data-root ../shared > docs/MODELS.md"

OURS_ALONE = {
    # A QUANTIZE of the model moved in front of a SPLIT: the model quantizes the three parts.
    "models/generated/gru_unroll_uns0_int8": 1,
}
"""How many results of a plan are no tensor of its model."""

models = pytest.mark.parametrize("name", JUDGED)


@pytest.fixture
def row(name: str, data_root: Path) -> Row:
    require("oracle")
    require("tflm")
    return judge(data_root, name)


def test_the_list_is_complete() -> None:
    assert len(MODELS) == len(set(MODELS)) == 46
    assert {*FEW_INPUTS, *STAND_INS, *OURS_ALONE} <= set(MODELS)


@models
def test_no_byte_differs_from_the_oracle(name: str, row: Row, data_root: Path) -> None:
    plan = converted(model_path(data_root, name)).plan
    assert row.report.inputs == FEW_INPUTS.get(name, 32)
    assert [(t.tensor, t.first) for t in row.report.tensors if t.differing] == []
    assert row.differing == 0
    # Every result of a step and every output was looked at, in every run.
    results = {branch.output for step in plan.model.steps for branch in step.branches}
    inner = [t for t in row.report.tensors if t.layer != OUTPUT]
    ends = [t for t in row.report.tensors if t.layer == OUTPUT]
    assert len(row.report.not_compared) == OURS_ALONE.get(name, 0)
    assert len(inner) == len(results) - len(row.report.not_compared)
    assert len(ends) == len(plan.outputs)
    elements = [t.place.columns * t.place.channels for t in plan.model.tensors]
    assert sum(t.elements for t in ends) == row.report.inputs * sum(
        elements[io.tensor] for io in plan.model.outputs)
    if name not in OURS_ALONE:
        assert sum(t.elements for t in inner) == row.report.inputs * sum(
            elements[n] for n in results)
    assert line(row) in TABLE.read_text().splitlines(), f"other figures; to renew them: {HOW}"


@pytest.mark.parametrize("name", STAND_INS)
def test_a_model_the_oracle_cannot_judge_equals_its_dense_twin(name: str, row: Row) -> None:
    """The oracle ran the weights decoded by us above; here it runs those the exporter stored."""
    assert row.twin is not None
    assert row.twin.differing == 0
    assert any(t.layer == OUTPUT and t.elements for t in row.twin.tensors)
    assert any("cannot judge" in note for note in row.report.notes)


def test_the_table_has_no_other_lines(data_root: Path) -> None:
    rows = [text for text in TABLE.read_text().splitlines() if text.startswith("| ")]
    assert [text.split(" | ")[0] for text in rows[2:]] == [
        f"| {name.split('/', 1)[1]}" for name in JUDGED], HOW
    frame = [text for text in table([]) if not text.startswith("0 models")]
    assert set(frame) <= set(TABLE.read_text().splitlines()), HOW
    assert f"{len(JUDGED)} models, 0 differing bytes." in TABLE.read_text().splitlines()


@models
def test_core_and_interpreter_agree_in_every_step(name: str, data_root: Path) -> None:
    """Two implementations of docs/PLAN_FORMAT.md that share no code."""
    plan = converted(model_path(data_root, name)).plan
    session, interpreter = Session(plan), Interpreter(plan.data)
    for feeds in list(stimuli(plan.inputs, 4, np.random.default_rng(7)))[2:]:
        x = [stored(f, io) if io.float_io else f for f, io in zip(feeds, plan.inputs)]
        ours, theirs = session.run_traced(x), interpreter.run_traced(x)
        assert ours.keys() == theirs.keys()
        for number, values in ours.items():
            np.testing.assert_array_equal(values, theirs[number], err_msg=str(number))


@models
def test_the_memory_planner_reaches_the_lower_bound(name: str, data_root: Path) -> None:
    assert converted(model_path(data_root, name)).memory.ratio == 1.0


def test_the_core_accepts_its_own_self_test(data_root: Path) -> None:
    for name in JUDGED:
        assert Session(converted(model_path(data_root, name)).plan).self_test(), name


SCRIPT = """
import hashlib, json, sys
from edgesparse.convert import convert
print(json.dumps([hashlib.sha256(convert(path).data).hexdigest() for path in sys.argv[1:]]))
"""


def test_the_same_model_gives_the_same_plan_bytes(data_root: Path) -> None:
    """In another process, where every set and hash has another order."""
    paths = [model_path(data_root, name) for name in JUDGED]
    mine = [hashlib.sha256(converted(path).plan.data).hexdigest() for path in paths]
    done = subprocess.run(
        (sys.executable, "-c", SCRIPT, *paths), capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"})
    again = json.loads(done.stdout)
    assert [p.name for p, a, b in zip(paths, mine, again, strict=True) if a != b] == []


def test_the_demo_is_among_them() -> None:
    assert model_path(Path(), ECG).is_file()
