"""The C core equals the interpreter, byte for byte, on plans made at random."""

from __future__ import annotations

import numpy as np
import pytest

from edgesparse.plan.interpret import POISON, Interpreter
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from plan_builder import values
from random_plans import random_plan

RUNS = 3


def inputs_of(plan: Plan, rng: np.random.Generator) -> list[np.ndarray]:
    return [values(rng, *io.shape) for io in plan.inputs]


def check(seed: int) -> None:
    """All steps' results of a few runs, and at the end every byte of the arena but scratch:
    halos hold zero points, and nothing is written where nothing should be."""
    rng = np.random.default_rng(seed)
    model = random_plan(rng)
    data = write_plan(model)
    plan = Plan.from_bytes(data)
    session, reference = Session(plan), Interpreter(data)
    scratch = min(
        (s.scratch_offset for s in model.steps if s.scratch_bytes), default=model.arena_bytes)
    for _ in range(RUNS):
        x = inputs_of(plan, rng)
        session.native.arena[model.state_bytes :] = POISON
        expected, found = reference.run_traced(x), session.run_traced(x)
        assert expected.keys() == found.keys()
        for number, want in expected.items():
            np.testing.assert_array_equal(found[number], want, f"seed {seed}, tensor {number}")
        np.testing.assert_array_equal(
            session.native.arena[:scratch], reference._arena[:scratch], f"seed {seed}, arena")


@pytest.mark.parametrize("block", range(8))
def test_core_equals_interpreter(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        check(seed)
