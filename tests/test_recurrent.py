"""Layers that carry their own state: LSTM and SVDF, run after run, against the oracle.

Each stream is one oracle kept alive, a session of the C core beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import edgesparse.ops as ops
from edgesparse.convert import Conversion, convert_model
from edgesparse.convert import check as check_model
from edgesparse.graph.ir import Array, Quant, Tensor
from edgesparse.importers.tflite_build import Build
from edgesparse.importers.tflite_schema import RawModel, read_model
from edgesparse.ops import Stateful
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.runtime.session import Session
from edgesparse.verify import VerifyOptions
from edgesparse.verify import verify as verify_plan
from needs import require
from op_cases import CASES, Case
from op_cases.parts import tensor
from oracle import tflite_oracle
from test_import_recurrent import changed
from test_import_tflite import read
from test_stateful import stimulus
from tflite_builder import Call, build
from tflite_builder import Options as CallOptions

STEPS = 300
LSTMS = {"tflm/tflm_dtln_lstm": (STEPS, -60), "tflm/tflm_mnist_lstm_int8": (40, -100),
         "generated/legacy_lstm_int8": (40, 0)}
"""Model -> runs and quiet level of a stimulus that moves its output."""
KEYWORD = "tflm/tflm_keyword_scrambled"
SVDF_LAYERS = ((1, 1), (3, 3), (5, 5), (7, 7), (9, 9), (10, 10), (11, 11), (9, 11))
"""Operators of it, first and last. As a whole it ends in int16, and its scrambled weights make it
constant from the first FULLY_CONNECTED on."""

lstms = pytest.mark.parametrize("name", LSTMS)


@cache
def conversion(path: Path) -> Conversion:
    return convert_model(path)


def inputs_of(name: str, shape: tuple[int, ...]) -> Array:
    """[runs, *shape] int8 that change from run to run."""
    runs, quiet = LSTMS[name]
    return stimulus(shape, runs, seed=2, quiet=quiet)


# ---- LSTM models --------------------------------------------------------------------------------


@lstms
def test_a_stream_equals_the_oracle(name: str, models_dir: Path) -> None:
    """In the output and every tensor a step writes; and the output is not the same all the time."""
    data = read(models_dir.parent, name)
    done = conversion(models_dir / f"{name}.tflite")
    oracle, session, stepwise = tflite_oracle(data), Session(done.plan), Session(done.plan)
    names = done.plan.model.names
    assert names is not None
    feed = oracle.raw.tensors[oracle.raw.inputs[0]].name
    compared, differing, outputs = 0, 0, set()
    for x in inputs_of(name, done.plan.inputs[0].shape):
        expected = oracle.run({feed: x})
        y = session.run(x)
        assert isinstance(y, np.ndarray)
        outputs.add(y.tobytes())
        differing += int((y != expected[done.plan.outputs[0].name]).sum())
        for number, values in stepwise.run_traced(x).items():
            known = expected.get(names.tensors[number])
            if known is not None:
                compared += values.size
                differing += int((known.ravel() != values.ravel()).sum())
    assert differing == 0
    assert compared > 5 * sum(len(o) for o in outputs) / len(outputs)
    assert len(outputs) > LSTMS[name][0] * 0.7, "the stimulus leaves the output alone"


@lstms
def test_reset_restores_the_start(name: str, models_dir: Path) -> None:
    session = Session(conversion(models_dir / f"{name}.tflite").plan)
    x = inputs_of(name, session.plan.inputs[0].shape)
    first = session.run(x)
    on = session.run_traced(x[0])
    session.reset()
    np.testing.assert_array_equal(first, session.run(x))
    session.reset()
    start = session.run_traced(x[0])
    assert any((on[n] != start[n]).any() for n in on), "what came before makes no difference"


@lstms
def test_verify_makes_one_stream_of_an_lstm(name: str, models_dir: Path) -> None:
    path = models_dir / f"{name}.tflite"
    report = verify_plan(conversion(path).plan, path, VerifyOptions(inputs=20))
    assert report.differing == 0
    assert report.notes == report.not_compared == ()
    assert "BUILTIN_REF" in report.judge


@lstms
def test_core_and_interpreter_agree(name: str, models_dir: Path) -> None:
    plan = conversion(models_dir / f"{name}.tflite").plan
    session, interpreter = Session(plan), Interpreter(plan.data)
    for x in inputs_of(name, plan.inputs[0].shape)[:20]:
        np.testing.assert_array_equal(session.run(x), interpreter.run([x])[0])
    assert session.self_test()


def test_the_state_of_an_lstm_is_two_rings(models_dir: Path) -> None:
    """h is int8, c int16: 3 bytes a unit, as told to the user."""
    plan = conversion(models_dir / "tflm/tflm_dtln_lstm.tflite").plan
    assert [(r.columns, r.channels) for r in plan.model.rings] == [(1, 128), (1, 256)] * 2
    assert plan.model.state_bytes == 4 * 4 + 2 * 3 * 128
    assert [layer.kind for layer in plan.layers] == ["lstm", "lstm", "fully_connected"]
    assert plan.layers[0].macs == 4 * 128 * (257 + 128)


# ---- random models: import, passes, plan, interpreter and core ----------------------------------


def same_stream(case: Case, rng: np.random.Generator, runs: int = 12) -> tuple[int, set[int]]:
    """(differing bytes, output values seen) of a model of one operator, run after run.

    The NumPy definition, the interpreter and the C core beside one oracle.
    """
    model = case.tflite()
    oracle, plan = tflite_oracle(model), convert_model(model).plan
    session, interpreter = Session(plan), Interpreter(plan.data)
    assert isinstance(case.op, Stateful)
    state = case.op.start(case.ins, case.outs)
    differing, seen = 0, set()
    for _ in range(runs):
        x = rng.integers(-128, 128, case.ins[0].shape).astype(np.int8)
        expected = oracle.run({"x": x})[case.outs[0].name]
        (y,), state = case.op.advance((x, *case.args[1:]), case.ins, case.outs, state)
        for found in (y, session.run(x), interpreter.run([x])[0]):
            differing += int((np.asarray(found) != expected).sum())
        seen |= set(expected.ravel().tolist())
    return differing, seen


@pytest.mark.parametrize("name", ["Lstm", "Svdf"])
def test_random_models_are_the_oracles_run_after_run(name: str) -> None:
    require("oracle")
    rng = np.random.default_rng(21)
    seen: set[int] = set()
    for _ in range(60):
        case = CASES[name](rng)
        differing, values = same_stream(case, rng)
        assert differing == 0, case
        seen |= values
    assert len(seen) > 250


def test_sums_of_an_svdf_wrap_as_the_oracles_do() -> None:
    """Loud weights and a loud past: the sums leave int32 in both directions."""
    require("oracle")
    x, y = tensor("x", (1, 4), Quant((0.05,), (0,))), tensor("y", (1, 6), Quant((1.0,), (-3,)))
    w = Tensor("w", (6, 4), "int8", Quant((0.01,), (0,)), np.full((6, 4), 127, np.int8))
    time = np.full((6, 9), 32767, np.int16)
    time[3:] = -32767
    state = float(np.float32(5e-5))
    t = Tensor("t", time.shape, "int16", Quant((3e-5,), (0,)), time)
    b = Tensor("b", (6,), "int32", Quant((1e-9,), (0,)), np.zeros(6, np.int32))
    kept = tensor("s", (1, 54), Quant((state,), (0,)), "int16")
    options = CallOptions("SVDF", {"Rank": 1, "FusedActivationFunction": 1})
    y = replace(y, quant=Quant((float(np.float32(state * 3e-5 * 2**24)),), (-3,)))
    data = np.full((1, 4), 127, np.int8)
    assert w.data is not None
    assert b.data is not None
    case = Case(ops.Svdf(state), (x, w, t, b), (y,), (data, w.data, time, b.data), "SVDF", options,
                extra=(kept,), order=("x", "w", "t", "b", "s"), state=("s",))
    oracle, session = tflite_oracle(case.tflite()), Session(convert_model(case.tflite()).plan)
    signs = []
    for _ in range(12):
        expected = oracle.run({"x": data})["y"]
        np.testing.assert_array_equal(session.run(data), expected)
        signs.append(int(np.sign(expected[0, 0] + 3)))
    assert {-1, 1} <= set(signs), "a sum of positive products never turned negative"


def test_an_lstm_in_range_is_near_the_real_one() -> None:
    rng = np.random.default_rng(22)
    worst = 0.0
    for _ in range(30):
        case = CASES["Lstm"](rng)
        x, w, r, b = case.ins
        y = replace(case.outs[0], quant=Quant((1 / 128,), (0,)))
        factor = float(np.float32(1e-3))
        narrow = Quant((factor,) * w.shape[0], (0,) * w.shape[0], 0)
        x = replace(x, quant=Quant((0.02,), (3,)))
        ins = (x, replace(w, quant=narrow), replace(r, quant=narrow), b)
        bias = rng.integers(-20000, 20000, b.size).astype(np.int32)
        op = ops.Lstm(cell_bits=4)
        (found,) = op.int8_ref((*case.args[:3], bias), ins, (y,))
        real = ((case.args[0] - np.float64(3)) * 0.02, case.args[1] * factor,
                case.args[2] * factor, bias * 0.02 * factor)
        (expected,) = op.float_ref(real)
        worst = max(worst, float(np.abs(found / 128 - expected).max()))
    assert 1 / 256 < worst < 2 / 128


# ---- SVDF: the int8 part of a keyword model -----------------------------------------------------


def cut(raw: RawModel, first: int, last: int) -> bytes:
    """Operators first .. last of a model, all SVDF, as a model of their own."""
    assert {op.name for op in raw.operators[first : last + 1]} == {"SVDF"}
    build_of, calls, kept, state = Build(raw), [], {}, []
    for op in raw.operators[first : last + 1]:
        for i in (*op.inputs, *op.outputs):
            t = raw.tensors[i]
            kept[i] = build_of.constant(t) if build_of.is_constant(t) else build_of.tensor(
                t, t.shape)
            if t.is_variable:
                state.append(t.name)
        *ins, out = (raw.tensors[i].name for i in (*op.inputs, *op.outputs))
        calls.append(Call(op.name, tuple(ins), (out,), CallOptions("SVDF", dict(op.options))))
    return build(list(kept.values()), calls, [calls[0].inputs[0]], [calls[-1].outputs[0]],
                 variables=state)


@pytest.mark.parametrize("layers", SVDF_LAYERS)
def test_the_svdf_layers_of_a_keyword_model_equal_the_oracle(
    layers: tuple[int, int], models_dir: Path
) -> None:
    """Each by itself, and the three that follow each other; 300 runs, reset in the end."""
    require("oracle")
    model = cut(read_model(read(models_dir.parent, KEYWORD), KEYWORD), *layers)
    plan, oracle = convert_model(model).plan, tflite_oracle(model)
    assert {layer.kind for layer in plan.layers} == {"svdf"}
    session = Session(plan)
    feed, output = (oracle.raw.tensors[i].name
                    for i in (*oracle.raw.inputs, *oracle.raw.outputs))
    xs = stimulus(plan.inputs[0].shape, STEPS, seed=6, quiet=-20)
    expected = np.array([oracle.run({feed: x})[output] for x in xs])
    np.testing.assert_array_equal(session.run(xs), expected)
    assert len({y.tobytes() for y in expected}) > 200
    session.reset()
    np.testing.assert_array_equal(session.run(xs), expected)


def test_the_keyword_model_is_refused_by_its_int16_layers(models_dir: Path) -> None:
    issues = check_model(models_dir / f"{KEYWORD}.tflite")
    assert issues
    assert all("int16" in issue for issue in issues)
    assert not any("SVDF" in issue for issue in issues)


# ---- sparse gates -------------------------------------------------------------------------------


def test_pruned_gates_are_stored_sparse() -> None:
    """The same encodings as any other weights, in both matrices, and exact."""
    require("oracle")
    rng = np.random.default_rng(23)
    while True:
        case = CASES["Lstm"](rng)
        if case.ins[0].channels >= 16 and case.outs[0].channels >= 16:
            break
    keep = {t.name: rng.random(t.shape) < 0.1 for t in case.extra if t.name[0] in "wr"}
    pruned = {t.name: np.asarray(t.data * keep[t.name], np.int8)
              for t in case.extra if t.name in keep and t.data is not None}
    for name, data in pruned.items():
        case = changed(case, name, data=data)
    stacked = {part: np.concatenate([pruned[f"{part}{gate}"] for gate in "ifgo"]) for part in "wr"}
    for part, data in stacked.items():
        case = changed(case, part, data=data)
    case = replace(case, args=(case.args[0], stacked["w"], stacked["r"], case.args[3]))
    plan = convert_model(case.tflite()).plan
    (step,) = plan.model.steps
    for mac in pm.macs_of(step.source):
        assert {g.encoding for g in mac.weights.groups} != {pm.Encoding.DENSE}
    assert plan.layers[0].zeros > 0.85
    assert same_stream(case, rng)[0] == 0
