"""The cases that break other tools, ../shared/cases/README.md: A1 to A5.

A7 and A8 are in test_cases_zeros.py, A11 in test_cases_damaged.py; A1 and A5 as graphs in
test_passes_models.py and test_passes_layout.py, A3's `cr` and `mu` in test_models_exact.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Ran
from edgesparse.convert import Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Session
from edgesparse.sparsity.formats import decode_weights
from edgesparse.verify import OUTPUT, verify
from int8_models import converted
from needs import require
from test_ram import assert_ram_is_exact
from tflite_chain import Net


def assert_exact(plan: Plan, model: Path | bytes, inputs: int = 32) -> int:
    """0 differing bytes from the oracle; every result of a step and every output was compared."""
    require("oracle")
    report = verify(plan, model)
    assert report.inputs == inputs
    assert report.judge.startswith("tflite-runtime")
    assert [(t.tensor, t.first) for t in report.tensors if t.differing] == []
    assert report.not_compared == ()
    assert [t.layer for t in report.tensors].count(OUTPUT) == len(plan.outputs)
    return len(report.tensors)


def copies(plan: Plan) -> list[str]:
    return [layer.name for layer in plan.layers if layer.kind == "copy"]


def source_of(plan: Plan, step: int) -> pm.Mac:
    source = plan.model.steps[step].source
    assert isinstance(source, pm.Mac)
    return source


# ---- A1: SPACE_TO_BATCH -> CONV -> BATCH_TO_SPACE, zero point -100 -----------------------------


def test_a1_the_plan_has_one_dilated_conv(cases_dir: Path) -> None:
    path = cases_dir / "tflite" / "s2b.tflite"
    plan = converted(path).plan
    assert [layer.kind for layer in plan.layers] == ["conv1d"]
    geometry = source_of(plan, 0).geometry
    assert (geometry.kernel_w, geometry.dilation_w, geometry.pad_left) == (3, 2, 4)
    assert plan.inputs[0].zero_point == -100
    assert_exact(plan, path)


# ---- A2: sparse FULLY_CONNECTED ----------------------------------------------------------------


def assert_is_its_dense_twin(sparse: Plan, dense: Plan, inputs: Array) -> None:
    """The same weights in the plan, stored sparse, and the same outputs."""
    for plan in (sparse, dense):
        (layer,) = plan.layers
        assert "dense" not in {group.encoding for group in layer.encodings}
        assert layer.weight_bytes < 0.4 * layer.dense_bytes
    one, other = (decode_weights(source_of(plan, 0).weights) for plan in (sparse, dense))
    assert one.shape == (64, 128)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(Session(sparse).run(inputs), Session(dense).run(inputs))


@pytest.mark.parametrize(
    ("name", "twin"), [("sfc_csr", "sfc_dense"), ("sfc_b4", "sfcb_dense"), ("b16", "b16d")])
def test_a2_int8(name: str, twin: str, cases_dir: Path) -> None:
    sparse, dense = (
        converted(cases_dir / "tflite" / f"{n}.tflite").plan for n in (name, twin))
    rng = np.random.default_rng(0)
    inputs = rng.integers(-128, 128, (32, *sparse.inputs[0].shape)).astype(np.int8)
    assert_is_its_dense_twin(sparse, dense, inputs)
    assert_exact(sparse, cases_dir / "tflite" / f"{twin}.tflite")


@pytest.mark.parametrize(("name", "twin"), [("f_csr", "f_dense"), ("f_b4", "f_b4d")])
def test_a2_float(name: str, twin: str, cases_dir: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(32, 1, 128)).astype(np.float32)
    plans = []
    for path in (cases_dir / "tflite" / f"{n}.tflite" for n in (name, twin)):
        (given,) = import_tflite(path.read_bytes(), path.name).inputs
        plans.append(convert_model(path, options=Options({given: inputs})).plan)
    assert_is_its_dense_twin(plans[0], plans[1], inputs)


# ---- A3: random chains -------------------------------------------------------------------------


def random_chain(rng: np.random.Generator) -> bytes:
    """Four to eight random layers on one signal or picture, then a classifier."""
    net = Net(rng)
    height = int(rng.choice([1, 1, 9]))
    x = net.input(1, height, int(rng.integers(12, 40)), int(rng.integers(1, 9)))
    for _ in range(int(rng.integers(4, 9))):
        x = LAYERS[int(rng.integers(len(LAYERS)))](net, x)
    x = net.dense(net.flat(x), int(rng.integers(2, 17)), "relu", zeros=float(rng.choice([0, 0.8])))
    return net.build(net.softmax(net.dense(x, 5)))


def some_kernel(net: Net, x: str) -> dict[str, Any]:
    """A kernel that fits, and how it slides; no stride where it is dilated."""
    rng, size = net.rng, net.shape(x)[1:3]
    kernel = tuple(min(int(rng.integers(1, 6)), n) for n in size)
    dilation = tuple(int(rng.integers(1, 4)) if (n > 3 * k) else 1 for n, k in zip(size, kernel))
    stride = (1, 1)
    if dilation == (1, 1):
        stride = tuple(int(rng.integers(1, 3)) if n >= 8 else 1 for n in size)  # type: ignore[assignment]
    return {"kernel": kernel, "stride": stride, "dilation": dilation,
            "padding": str(rng.choice(["same", "valid"])),
            "activation": str(rng.choice(["none", "relu", "relu6"])),
            "zeros": float(rng.choice([0.0, 0.5, 0.9]))}


def conv(net: Net, x: str) -> str:
    how = some_kernel(net, x)
    return net.conv(x, int(net.rng.integers(1, 25)), how.pop("kernel"), **how)


def depthwise(net: Net, x: str) -> str:
    how = some_kernel(net, x)
    stride = max(how["stride"])  # the oracle's depthwise takes one stride for both directions
    how["stride"] = (stride, stride)
    return net.depthwise(x, how.pop("kernel"), **how)


def pool(net: Net, x: str) -> str:
    kernel = tuple(min(int(net.rng.integers(1, 4)), n) for n in net.shape(x)[1:3])
    kind = str(net.rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    stride = kernel if min(net.shape(x)[1:3]) > 6 else (1, 1)
    padding = str(net.rng.choice(["same", "valid"]))
    return net.pool(kind, x, kernel, stride=stride, padding=padding)  # type: ignore[arg-type]


def add(net: Net, x: str) -> str:
    other = net.conv(x, net.shape(x)[-1], (1, 3))
    pair = (x, other) if net.rng.integers(2) else (other, x)
    return net.binary("ADD", *pair, activation=str(net.rng.choice(["none", "relu"])))


def mul(net: Net, x: str) -> str:
    if net.rng.integers(2):
        return net.binary("MUL", x, net.vector(net.shape(x)[-1]))
    channels = net.shape(x)[-1]
    gate = net.weights(channels, 1, 1, channels) / (50 * net.tensors[x].scale)  # results about 1
    return net.binary("MUL", x, net.conv(x, channels, (1, 1), weights=gate), activation="relu")


LAYERS: tuple[Callable[[Net, str], str], ...] = (conv, conv, depthwise, pool, add, mul)


@pytest.mark.parametrize("seed", range(20))
def test_a3_a_random_chain_equals_the_oracle(seed: int) -> None:
    model = random_chain(np.random.default_rng([3, seed]))
    plan = convert_model(model).plan
    assert assert_exact(plan, model) >= 5
    assert Session(plan).self_test()


def test_a3_the_chains_have_every_layer() -> None:
    kinds = {layer.kind for seed in range(20) for layer in convert_model(
        random_chain(np.random.default_rng([3, seed])), options=Options(golden=False)).plan.layers}
    assert {"conv1d", "conv2d", "depthwise", "fully_connected", "max_pool", "avg_pool",
            "softmax"} <= kinds


# ---- A4: ECG-TCN -------------------------------------------------------------------------------

SAMPLES, CHANNELS, KERNEL, CLASSES = 140, 8, 7, 5


def ecg_tcn(form: str, real: bool = False, batch_norm: bool = False) -> bytes:
    """A temporal convolution network: dilations 1, 2, 4, two convolutions and a residual add each.

    form        "dilated": CONV_2D with a dilation behind a PAD; "batches": SPACE_TO_BATCH, CONV_2D,
                BATCH_TO_SPACE, as TensorFlow writes a dilated Conv1D
    batch_norm  MUL and ADD behind each convolution (an exporter of int8 folds them itself)
    """
    net = Net(np.random.default_rng(4), real)

    def causal(x: str, weights: Array, dilation: int) -> str:
        """Conv1D of [1, T, C], looking back only."""
        past = (KERNEL - 1) * dilation
        rows, kernel = weights.shape[0], (1, KERNEL)
        how: dict[str, Any] = {"weights": weights, "padding": "valid"}
        if form == "dilated" or dilation == 1:
            x = net.expand(net.pad(x, (0, 0), (past, 0), (0, 0)), 1)
            return net.squeeze(net.conv(x, rows, kernel, dilation=(1, dilation), **how), 1)
        more = -(past + SAMPLES) % dilation
        x = net.expand(net.space_to_batch(x, dilation, (past, more)), 1)
        x = net.squeeze(net.conv(x, rows, kernel, **how), 1)
        return net.batch_to_space(x, dilation, (0, more))

    def layer(x: str, weights: Array, dilation: int) -> str:
        x = causal(x, weights, dilation)
        if batch_norm:
            x = net.binary("MUL", x, net.vector(CHANNELS, 0.5, 1.5))
            return net.binary("ADD", x, net.vector(CHANNELS), activation="relu")
        return net.relu(x)

    x = net.input(1, SAMPLES, 1)
    x = layer(x, net.weights(CHANNELS, 1, KERNEL, 1), 1)
    for dilation in (1, 2, 4):
        y = layer(x, net.weights(CHANNELS, 1, KERNEL, CHANNELS), dilation)
        y = causal(y, net.weights(CHANNELS, 1, KERNEL, CHANNELS), dilation)
        x = net.binary("ADD", x, y, activation="relu")
    return net.build(net.dense(net.flat(x), CLASSES))


def convolutions(plan: Plan) -> list[tuple[int, ...]]:
    """(kernel, dilation, padding in front) of every convolution."""
    found: list[tuple[int, ...]] = []
    for step in plan.model.steps:
        if isinstance(step.source, pm.Mac) and step.source.geometry.kernel_w > 1:
            g = step.source.geometry
            found.append((g.kernel_w, g.dilation_w, g.pad_left))
    return found


EXPECTED = [(7, 1, 6)] * 3 + [(7, 2, 12)] * 2 + [(7, 4, 24)] * 2


def assert_is_a_tcn(plan: Plan) -> None:
    """Seven causal convolutions with their dilations, the residual adds in their tails, the FC."""
    assert [layer.kind for layer in plan.layers] == ["conv1d"] * 7 + ["fully_connected"]
    assert convolutions(plan) == EXPECTED
    assert sum("add" in layer.stages for layer in plan.layers) == 3
    assert plan.outputs[0].shape == (1, CLASSES)


def printed_ram(model: bytes, folder: Path, *more: object) -> Plan:
    """Convert on the command line; the RAM it prints is what the plan needs, exactly."""
    (folder / "tcn.tflite").write_bytes(model)
    ran = Ran("convert", folder / "tcn.tflite", "-o", folder / "tcn.esp", *more)
    assert ran.code == 0, ran.err
    plan = Plan.load(folder / "tcn.esp")
    assert f"RAM    {plan.ram_bytes:,} bytes; 1.00 x the lower bound" in ran.out
    assert_ram_is_exact(plan)
    return plan


@pytest.mark.parametrize("form", ["dilated", "batches"])
def test_a4_int8(form: str, tmp_path: Path) -> None:
    model = ecg_tcn(form)
    plan = printed_ram(model, tmp_path)
    assert_is_a_tcn(plan)
    assert copies(plan) == []
    assert_exact(plan, model)


def test_a4_both_ways_to_write_a_dilation_give_one_plan() -> None:
    one, other = (convert_model(ecg_tcn(form)).plan for form in ("dilated", "batches"))
    assert one.ram_bytes == other.ram_bytes
    x = np.random.default_rng(0).integers(-128, 128, (16, 1, SAMPLES, 1)).astype(np.int8)
    np.testing.assert_array_equal(Session(one).run(x), Session(other).run(x))


@pytest.mark.parametrize("form", ["dilated", "batches"])
def test_a4_float_with_batch_normalisation(form: str, tmp_path: Path) -> None:
    """MUL and ADD behind a convolution go into its weights; the int8 plan is as small."""
    model = ecg_tcn(form, real=True, batch_norm=True)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "typical.npy", rng.normal(size=(8, 1, SAMPLES, 1)).astype(np.float32))
    plan = printed_ram(model, tmp_path, "--calibrate", tmp_path / "typical.npy")
    assert_is_a_tcn(plan)
    assert not any("mul" in layer.stages for layer in plan.layers)
    assert plan.ram_bytes == convert_model(ecg_tcn(form)).plan.ram_bytes


# ---- A5: EXPAND_DIMS -> CONV_2D (H = 1) -> RESHAPE -> MAX_POOL -> FULLY_CONNECTED ---------------


def test_a5_the_plan_copies_nothing() -> None:
    net = Net(np.random.default_rng(5))
    x = net.expand(net.input(1, 64, 3), 1)
    x = net.reshape(net.conv(x, 12, (1, 5), activation="relu"), 1, 64, 12)
    x = net.pool("MAX_POOL_2D", net.expand(x, 1), (1, 2))
    model = net.build(net.dense(net.flat(x), 6))
    plan = convert_model(model).plan
    assert copies(plan) == []
    assert [layer.kind for layer in plan.layers] == ["conv1d", "max_pool", "fully_connected"]
    assert_exact(plan, model)
