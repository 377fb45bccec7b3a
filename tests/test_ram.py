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
from edgesparse.graph.ir import Array
from edgesparse.plan.model import RingUse
from edgesparse.plan.plan import Plan
from edgesparse.plan.stream_state import ALIGN, stream_state_bytes
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.session import quantize
from edgesparse.stimuli import stimuli
from edgesparse.streaming.frontend import MISSING
from int8_models import ECG, JUDGED, converted, model_path

GUARD = 64
WORD = 4
"""Bytes the memory planner aligns to: the last of them may be padding, the last WORD are not."""
PATTERNS = (0x5A, -0x5B)
"""Bytes the arena is filled with; each bit differs, so that no result looks like both."""


@pytest.fixture
def plan(request: pytest.FixtureRequest, data_root: Path, tmp_path: Path) -> Plan:
    """The plan of a model as `edgesparse convert` wrote it, its RAM and state as printed."""
    model, *stream = request.param
    path = tmp_path / "model.esp"
    options = ("--stream", *stream) if stream else ()
    ran = Ran("convert", model_path(data_root, model), "-o", path, *options)
    assert ran.code == 0, ran.err
    plan = Plan.load(path)
    printed = re.search(
        r"^RAM +([\d,]+) bytes(?:, ([\d,]+) of them kept from run to run)?", ran.out, re.MULTILINE)
    assert printed is not None
    assert [int((number or "0").replace(",", "")) for number in printed.groups()] == [
        plan.ram_bytes, plan.model.state_bytes]
    return plan


def write_inputs(session: NativeSession, plan: Plan, seed: int) -> None:
    rng = np.random.default_rng(seed)
    feeds = next(iter(stimuli(plan.inputs, 3, rng)))
    for buffer, feed, io in zip(session.inputs, feeds, plan.inputs):
        buffer[:] = (quantize(feed, io) if io.float_io else feed).ravel()


def steps_at_the_end(native: NativePlan, plan: Plan) -> set[int]:
    """The steps that change one of the last WORD bytes of the arena.

    What the caller writes there does not count. Each run starts with one byte value all behind the
    state; a step that writes just this value is seen in the other run.
    """
    found: set[int] = set()
    for pattern in PATTERNS:
        session = NativeSession(native)
        session.arena[plan.model.state_bytes :] = pattern
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


@pytest.mark.parametrize("plan", [(name,) for name in JUDGED], indirect=True, ids=JUDGED)
def test_ram_is_exact(plan: Plan) -> None:
    assert_ram_is_exact(plan)


STREAMED = (
    (ECG, "hop=8,mode=continuous"), (ECG, "hop=8,frontend=ecg360,beats=yes"),
    (ECG, "hop=8,mode=incremental"), (ECG, "hop=12"),
    ("models/mlperf/mlperf_strm_ww_old_int8", "hop=1"),
    ("models/generated/conv1d_uns80_int8", "auto"))


@pytest.mark.parametrize("plan", STREAMED, indirect=True, ids=[option for _, option in STREAMED])
def test_ram_of_a_stream_is_exact(plan: Plan) -> None:
    assert_ram_is_exact(plan)
    assert_state_is_used(plan)


def assert_state_is_used(plan: Plan) -> None:
    """Pushing samples writes every byte of every ring, and the last ALIGN of the state; what is
    behind them, up to one alignment, is of no part. (Of sums over a window the totals are not
    looked at: their high bytes change too seldom.)"""
    rings, stream = plan.model.rings, plan.model.stream
    assert stream is not None
    ends = [r.offset + r.columns * r.channels for r in rings]
    starts = [r.offset + 4 * r.channels * (r.use is RingUse.SUMS) for r in rings]
    assert 0 <= stream.state_offset - max(ends) < ALIGN
    end = stream.state_offset + stream_state_bytes(
        stream, plan.inputs[0].shape[-1], plan.outputs[0].shape[-1] - 1)
    assert plan.model.state_bytes == end
    kept = []
    for pattern in PATTERNS:
        session = NativeSession(NativePlan(plan.data), plan.ram_bytes, GUARD)
        for start, past in zip(starts, ends):
            session.arena[start:past] = pattern
        before = session.arena[: plan.model.state_bytes].copy()
        session.push(noise_with_gaps(plan), lambda _: None)
        assert session.intact()
        kept.append(session.arena[: plan.model.state_bytes] == before)
    assert not kept[0][end - ALIGN : end].all()
    untouched = kept[0] & kept[1]
    assert [untouched[start:past].sum() for start, past in zip(starts, ends)] == [0] * len(rings)


def noise_with_gaps(plan: Plan) -> Array:
    """[n, channels] int16 that fill every ring, with missing samples."""
    stream = plan.model.stream
    assert stream is not None
    # Rings hold a window at most; without windows, columns of layers of stride 8 at most.
    columns = 2 * stream.window or 8 * max(r.columns for r in plan.model.rings)
    decimation = stream.front_end.decimation if stream.front_end else 1
    shape = (columns * decimation, plan.inputs[0].shape[-1])
    rng = np.random.default_rng(2)
    samples = rng.integers(-128, 128, shape).astype(np.int16)
    samples[rng.random(len(samples)) < 0.05] = MISSING
    return samples


def test_an_end_that_no_step_uses_is_noticed(data_root: Path) -> None:
    model = converted(model_path(data_root, "models/tflm/tflm_hello_int8")).plan.model
    wasteful = Plan.from_bytes(write_plan(replace(model, arena_bytes=model.arena_bytes + WORD)))
    assert steps_at_the_end(NativePlan(wasteful.data), wasteful) == set()
