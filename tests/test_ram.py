"""RAM, to the byte: what the command line prints is what a session needs, uses and is held to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import Ran
from edgesparse._native import lib
from edgesparse.errors import NativeError
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.session import quantize
from edgesparse.stimuli import stimuli
from int8_models import JUDGED, converted, model_path

GUARD = 64
WORD = 4
"""Bytes the memory planner aligns to: the last of them may be padding, the last WORD are not."""
PATTERNS = (0x5A, -0x5B)
"""Bytes the arena is filled with; each bit differs, so that no result looks like both."""


@pytest.fixture
def plan(request: pytest.FixtureRequest, data_root: Path, tmp_path: Path) -> Plan:
    """The plan of a model as `edgesparse convert` wrote it, its RAM as printed on stdout."""
    path = tmp_path / "model.esp"
    ran = Ran("convert", model_path(data_root, request.param), "-o", path)
    assert ran.code == 0, ran.err
    plan = Plan.load(path)
    printed = re.search(r"^RAM +([\d,]+) bytes", ran.out, re.MULTILINE)
    assert printed is not None
    assert int(printed[1].replace(",", "")) == plan.ram_bytes
    return plan


def write_inputs(session: NativeSession, plan: Plan, seed: int) -> None:
    rng = np.random.default_rng(seed)
    feeds = next(iter(stimuli(plan.inputs, 3, rng)))
    for buffer, feed, io in zip(session.inputs, feeds, plan.inputs):
        buffer[:] = (quantize(feed, io) if io.float_io else feed).ravel()


def steps_at_the_end(native: NativePlan, plan: Plan) -> set[int]:
    """The steps that change one of the last WORD bytes of the arena.

    What the caller writes there does not count. Each run starts with one byte value all over the
    arena; a step that writes just this value is seen in the other run.
    """
    found: set[int] = set()
    for pattern in PATTERNS:
        session = NativeSession(native)
        session.arena[4 * len(plan.model.rings) :] = pattern
        write_inputs(session, plan, seed=1)
        before = session.arena[-WORD:].copy()
        for step in range(len(plan.model.steps)):
            session.run_step(step)
            if (session.arena[-WORD:] != before).any():
                found.add(step)
            before = session.arena[-WORD:].copy()
    return found


def assert_ram_is_exact(plan: Plan) -> None:
    """The stated size suffices, one byte less is refused, and steps use it to its end."""
    native = NativePlan(plan.data)
    assert native.info().ram_bytes == plan.ram_bytes == plan.model.arena_bytes

    session = NativeSession(native, plan.ram_bytes, GUARD)
    for seed in range(2):
        write_inputs(session, plan, seed)
        session.run()
    assert session.intact()
    assert session.self_test()
    assert session.intact()

    with pytest.raises(NativeError, match="arena is too small") as refused:
        NativeSession(native, plan.ram_bytes - 1)
    assert refused.value.status == lib.ES_ERR_ARENA

    assert steps_at_the_end(native, plan) != set()


@pytest.mark.parametrize("plan", JUDGED, indirect=True)
def test_ram_is_exact(plan: Plan) -> None:
    assert_ram_is_exact(plan)


def test_an_end_that_no_step_uses_is_noticed(data_root: Path) -> None:
    model = converted(model_path(data_root, "models/tflm/tflm_hello_int8")).plan.model
    wasteful = Plan.from_bytes(write_plan(replace(model, arena_bytes=model.arena_bytes + WORD)))
    assert steps_at_the_end(NativePlan(wasteful.data), wasteful) == set()
