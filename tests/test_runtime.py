"""NativePlan, NativeSession and Session: what they accept, refuse and promise."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse._native as native
from edgesparse.errors import BadInput, NativeError, PlanInvalid
from edgesparse.graph.ir import Quant, Tensor
from edgesparse.ops.quantize import Dequantize, Quantize
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan, NativeSession, status_text
from edgesparse.runtime.session import Session, dequantize, quantize
from plan_builder import PlanBuilder, mac, random_weights, requant, stored, values

INCLUDE = Path(__file__).parents[1] / "native" / "include" / "edgesparse"


def small(float_io: bool = False, **more: object) -> Plan:
    """Two inputs [4, 3], an output each: their own requantization of 1x1 convolutions."""
    rng = np.random.default_rng(5)
    b = PlanBuilder()
    for _ in range(2):
        x = b.input(4, 3, zero_point=-5, scale=0.25)
        y = b.output(4, 2, zero_point=3, scale=0.5)
        w = random_weights(rng, 2, 3)
        b.tail(mac(stored(w), w, np.array([5, -5]), -5, in_w=4, out_w=4), x, y,
               requant(np.array([0.01]), 3))
    b.inputs = [replace(io, float_io=float_io) for io in b.inputs]
    b.outputs = [replace(io, float_io=float_io) for io in b.outputs]
    return Plan.from_bytes(write_plan(b.plan(names=pm.Names(inputs=("a", "b")), **more)))


def single() -> Plan:
    """One input [4, 3], one output [4, 3]: the input."""
    b = PlanBuilder()
    b.tail(pm.Load(), b.input(4, 3), b.output(4, 3))
    return Plan.from_bytes(write_plan(b.plan()))


def remembering() -> Plan:
    """Input [1, 2]; output [3, 2]: the last three inputs."""
    b = PlanBuilder()
    ring = b.ring(4, 2, zero_point=-7)
    x, y = b.input(1, 2), b.output(3, 2)
    b.tail(pm.Load(), x, b.append(ring, 1))
    b.tail(pm.Load(), b.view(ring, 3), y)
    return Plan.from_bytes(write_plan(b.plan()))


# ---- the core's words ---------------------------------------------------------------------------


def test_every_status_has_its_text() -> None:
    rows = re.findall(
        r'^ES_STATUS\((\w+), (-?\d+), "(.*)"\)', (INCLUDE / "status.inc").read_text(), re.M)
    assert len(rows) >= 8
    for name, value, text in rows:
        assert getattr(native.lib, name) == int(value)
        assert status_text(int(value)) == text
    assert status_text(1)
    assert status_text(-1000)


def test_the_header_is_covered() -> None:
    """Every function the header declares is in the binding."""
    header = re.sub(r"/\*.*?\*/", "", (INCLUDE / "edgesparse.h").read_text(), flags=re.S)
    declared = set(re.findall(r"\b(es_\w+)\(", header))
    assert declared
    assert not {name for name in declared if not hasattr(native.lib, name)}
    assert native.lib.ES_API_VERSION == 1
    assert native.lib.ES_PLAN_FORMAT == 1


def test_a_refused_plan_says_which_invariant() -> None:
    data = bytearray(single().data)
    data[40] ^= 1
    with pytest.raises(PlanInvalid, match=r"^I-3: "):
        NativePlan(bytes(data))
    with pytest.raises(PlanInvalid, match=r"^I-1: "):
        NativePlan(b"")
    model = single().model
    wrong = replace(model, steps=(replace(model.steps[0], input=9),))
    with pytest.raises(PlanInvalid, match=r"^I-20: .*step 0"):
        NativePlan(write_plan(wrong))


def test_info() -> None:
    plan = small(source_sha256=bytes(range(32)), config=7)
    info = NativePlan(plan.data).info()
    assert (info.ram_bytes, info.flash_bytes) == (plan.ram_bytes, plan.flash_bytes)
    assert (info.steps, info.inputs, info.outputs, info.config) == (2, 2, 2, 7)
    assert info.source_sha256 == bytes(range(32))
    assert NativePlan(single().data).info().source_sha256 is None


# ---- the arena ----------------------------------------------------------------------------------


def test_exactly_the_stated_arena_is_enough() -> None:
    plan = small()
    opened = NativePlan(plan.data)
    session = NativeSession(opened, guard=64)
    for x in session.inputs:
        x[:] = 3
    session.run()
    assert session.intact()
    with pytest.raises(NativeError, match="too small"):
        NativeSession(opened, arena_bytes=plan.ram_bytes - 1)
    with pytest.raises(BadInput, match="multiple of 16"):
        NativeSession(opened, guard=8)


def test_guard_bytes_notice() -> None:
    session = NativeSession(NativePlan(single().data), guard=16)
    session._memory[-1] ^= 1
    assert not session.intact()


# ---- runs ---------------------------------------------------------------------------------------


def test_one_input_one_output() -> None:
    x = values(np.random.default_rng(0), 4, 3)
    session = Session(single())
    for given in (x, [x], {"input 0": x}):
        np.testing.assert_array_equal(session.run(given), x)


def test_several_inputs_by_order_and_by_name() -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, 4, 3), values(rng, 4, 3)
    plan = small()
    session, expected = Session(plan), Interpreter(plan.data).run([a, b])
    for x in ([a, b], (a, b), {"b": b, "a": a}):
        found = session.run(x)
        assert isinstance(found, tuple)
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_batch_is_run_after_run() -> None:
    x = values(np.random.default_rng(0), 5, 1, 2)
    session = Session(remembering())
    batch = session.run(x)
    assert isinstance(batch, np.ndarray)
    assert batch.shape == (5, 3, 2)
    session.reset()
    for entry, got in zip(x, batch):
        np.testing.assert_array_equal(session.run(entry), got)
    np.testing.assert_array_equal(batch[0], [[-7, -7], [-7, -7], x[0, 0]])
    np.testing.assert_array_equal(batch[4], x[2:, 0])


def test_sessions_share_nothing() -> None:
    """Also in threads: the core runs without Python's lock."""
    plan = remembering()
    rng = np.random.default_rng(1)
    streams = [values(rng, 200, 1, 2) for _ in range(4)]
    alone = [Session(plan).run(x) for x in streams]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: Session(plan).run(x), streams))
    for want, got in zip(alone, together):
        np.testing.assert_array_equal(got, want)


def test_traced() -> None:
    plan = remembering()
    session, reference = Session(plan), Interpreter(plan.data)
    for x in values(np.random.default_rng(2), 6, 1, 2):
        found, expected = session.run_traced(x), reference.run_traced([x])
        assert found.keys() == expected.keys()
        for number in expected:
            np.testing.assert_array_equal(found[number], expected[number])
    with pytest.raises(BadInput, match="without a batch"):
        session.run_traced(np.zeros((2, 1, 2), np.int8))


# ---- real numbers -------------------------------------------------------------------------------


def test_real_numbers_in_and_out() -> None:
    """Floats are quantized for any model; outputs are real where the model's were."""
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-40, 40, (2, 4, 3))
    stored_plan, real_plan = small(), small(float_io=True)
    quantized = [quantize(v, io) for v, io in zip((a, b), stored_plan.inputs)]
    expected = Session(stored_plan).run(quantized)
    found = Session(stored_plan).run([a, b.astype(np.float32)])
    real = Session(real_plan).run([a, quantized[1]])
    for want, got, y, io in zip(expected, found, real, real_plan.outputs, strict=True):
        assert (want.dtype, got.dtype, y.dtype) == (np.int8, np.int8, np.float32)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(y, dequantize(want, io))


def test_uint8_in_and_out_is_stored_plus_128() -> None:
    b = PlanBuilder()
    b.tail(pm.Load(), b.input(2, 128, zero_point=-5), b.output(2, 128, zero_point=-5))
    b.inputs[0] = replace(b.inputs[0], uint8_io=True)
    as_stored = Session(Plan.from_bytes(write_plan(b.plan())))
    b.outputs[0] = replace(b.outputs[0], uint8_io=True)
    session = Session(Plan.from_bytes(write_plan(b.plan())))
    x = np.arange(256, dtype=np.uint8).reshape(2, 128)
    y, stored_y = session.run(x), as_stored.run(x)
    assert isinstance(y, np.ndarray)
    assert isinstance(stored_y, np.ndarray)
    assert (y.dtype, stored_y.dtype) == (np.uint8, np.int8)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(stored_y, x.astype(np.int16) - 128)
    np.testing.assert_array_equal(session.run(stored_y), x)  # int8 is taken as stored
    with pytest.raises(BadInput, match="uint8; int8"):
        Session(single()).run(np.zeros((4, 3), np.uint8))


@pytest.mark.parametrize("scale", [0.25, 0.1, 1e-8, 3e7])
def test_quantizing_is_that_of_the_operator(scale: float) -> None:
    scale = float(np.float32(scale))
    rng = np.random.default_rng(4)
    x = np.concatenate([
        rng.uniform(-200, 200, 500), np.arange(-300, 300) * 0.5, [np.inf, -np.inf, 1e30, -1e30]
    ]).astype(np.float32) * np.float32(scale)
    io = IoInfo("x", x.shape, scale, -3, True)
    real = Tensor("r", x.shape, "float32", None)
    whole = Tensor("q", x.shape, "int8", Quant((scale,), (-3,)))
    q = quantize(x, io)
    np.testing.assert_array_equal(q, Quantize().int8_ref([x], [real], [whole])[0])
    np.testing.assert_array_equal(
        dequantize(q, io), Dequantize().int8_ref([q], [whole], [real])[0])


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 4), np.int8), r"shape \[3, 4\]; \[4, 3\] is allowed"),
        (np.zeros((2, 2, 4, 3), np.int8), r"shape \[2, 2, 4, 3\]"),
        (np.zeros((0, 4, 3), np.int8), r"shape \[0, 4, 3\]"),
        (np.zeros((4, 3), np.uint8), r"uint8; int8 \(stored\) or float \(real\) is allowed"),
        (np.zeros((4, 3), np.int64), "int64"),
        (np.full((4, 3), np.nan), "NaN"),
        ([np.zeros((4, 3), np.int8)] * 2, "2 inputs; the plan has 1"),
        ({"x": np.zeros((4, 3), np.int8)}, r"\['x'\]; exactly \['input 0'\]"),
    ],
)
def test_inputs_that_do_not_fit(x: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Session(single()).run(x)  # type: ignore[arg-type]


def test_batches_do_not_mix() -> None:
    one, three = np.zeros((4, 3), np.int8), np.zeros((3, 4, 3), np.int8)
    for x in ([one, three], [three, three[:2]]):
        with pytest.raises(BadInput, match="do not mix"):
            Session(small()).run(x)


def test_an_unknown_backend() -> None:
    with pytest.raises(BadInput, match="portable, esn-lab, esn-m, esn-s is allowed"):
        Session(single(), backend="gpu")


def test_no_such_step_and_no_golden() -> None:
    session = NativeSession(NativePlan(single().data))
    with pytest.raises(NativeError, match="es_run_step"):
        session.run_step(1)
    with pytest.raises(NativeError, match="no golden"):
        session.self_test()


# ---- time ---------------------------------------------------------------------------------------


def test_profile() -> None:
    session = Session(small())
    x = [np.zeros((10, 4, 3), np.int8)] * 2
    session.profile()
    session.run(x)
    times = session.times()
    assert [t.runs for t in times] == [10, 10]
    assert all(0 < t.seconds < 1 for t in times)
    session.profile(on=False)
    session.run(x)
    assert [t.runs for t in session.times()] == [0, 0]


@pytest.mark.parametrize("x", [None, 3, np.int8(3), "x"])
def test_inputs_that_are_no_arrays_are_refused(x: object) -> None:
    with pytest.raises(BadInput, match="an array"):
        Session(small()).run(x)  # type: ignore[arg-type]


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(BadInput, match="a Plan"):
        Session(small().data)  # type: ignore[arg-type]


def test_threads_that_share_a_session_take_turns() -> None:
    plan = small()
    session = Session(plan)
    rng = np.random.default_rng(2)
    feeds = [[values(rng, 300, 4, 3), values(rng, 300, 4, 3)] for _ in range(8)]
    alone = [Session(plan).run(feed) for feed in feeds]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(session.run, feeds))
    for one, other in zip(alone, together):
        for a, c in zip(one, other):
            np.testing.assert_array_equal(a, c)


def test_a_plan_shows_itself_in_one_line() -> None:
    text = repr(small())
    assert text.startswith("Plan(")
    assert len(text) < 120
