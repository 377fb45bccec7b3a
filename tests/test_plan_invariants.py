"""Each invariant of docs/PLAN_FORMAT.md section 12 about a plan's content: plans that break one
thing are refused by its number. Invariants of the file and its structure: test_plan_open.py."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import broken_content
import broken_memory
import broken_npu
import broken_running
import broken_stream
from edgesparse.errors import PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan
from edgesparse.sparsity.formats import decode_weights
from everything import everything
from plan_changes import CONV, DEPTHWISE, HORIZONTAL, Break, changed, source

LIST = Path(pm.__file__).parents[2] / "docs" / "PLAN_FORMAT.md"
PARTS = (broken_memory, broken_content, broken_running, broken_stream, broken_npu)


@cache
def valid() -> pm.PlanModel:
    return everything()


CASES = [
    pytest.param(number, change, id=f"I-{number} {name}")
    for part in PARTS for number, some in part.BROKEN.items() for name, change in some.items()
]


def test_the_plan_all_cases_start_from_is_accepted() -> None:
    for plan in (valid(), *broken_running.accepted(), *broken_stream.accepted()):
        NativePlan(write_plan(plan))


@pytest.mark.parametrize(("number", "change"), CASES)
def test_a_plan_that_breaks_one_invariant_is_refused_by_its_number(
    number: int, change: Break
) -> None:
    with pytest.raises(PlanInvalid, match=rf"^I-{number}:"):
        NativePlan(write_plan(change(valid())))


def test_the_sum_of_every_row_in_every_encoding_is_exact() -> None:
    """One more in a bias of the largest value allowed is refused: I-43."""
    for i in (CONV, DEPTHWISE, HORIZONTAL):
        mac = valid().steps[i].source
        assert isinstance(mac, pm.Mac)
        rows = np.abs(decode_weights(mac.weights).astype(np.int64)).sum(axis=1)
        factor = 128 if mac.bias_form is pm.BiasForm.FOLDED else 255
        single = i == HORIZONTAL  # its channels 6 to 9 end in AddSingleRequant
        room = np.where(single & (np.arange(len(rows)) >= 6), 1, 257)
        most = (1 << 31) - room - factor * rows
        for channel, bias in enumerate(most):
            for sign in (1, -1):
                fits = source(i, bias=changed(mac.bias, channel, sign * bias))(valid())
                NativePlan(write_plan(fits))
                over = source(i, bias=changed(mac.bias, channel, sign * (bias + 1)))(valid())
                with pytest.raises(PlanInvalid, match=rf"^I-43.*step {i}"):
                    NativePlan(write_plan(over))


def test_every_invariant_has_a_case() -> None:
    listed = {int(n) for n in re.findall(r"^- I-(\d+) ", LIST.read_text(), re.M)}
    broken = {number for part in PARTS for number in part.BROKEN}
    assert listed == broken | {1, 2, 3, 4, 5}  # these five: test_plan_open.py
