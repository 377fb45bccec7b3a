"""Plans of real models on emulated devices: the oracle's bytes on Cortex-M4 and M55."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.oracle import judge_of
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.read import flatbuffer_of
from edgesparse.plan.write import seal
from edgesparse.runtime.session import quantize
from edgesparse.stimuli import stimuli
from int8_models import ECG, converted, model_path
from needs import require
from test_house import only_one, run

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "build" / "device-plans"

PLANS = {
    "ecg": ECG,
    "kws": "models/mlperf/mlperf_kws_dscnn_int8",
    "ad01": "models/mlperf/mlperf_ad01_int8",
    "resnet8": "models/mlperf/mlperf_ic_resnet8_int8",
    "strm_ww": "models/mlperf/mlperf_strm_ww_old_int8",
    "conv1d_uns80": "models/generated/conv1d_uns80_int8",
    "har": "models/har/har_ashwinbyte_int8",
    "micro_speech": "models/tflm/tflm_micro_speech",
    "vww": "models/mlperf/mlperf_vww_int8",
    "lstm_s": "models/arm/arm_kws_lstm_s",
    "mnist_lstm": "models/tflm/tflm_mnist_lstm_int8",
    "legacy_lstm": "models/generated/legacy_lstm_int8",
    "conv2d_2450": "models/generated/conv2d_2450_int8",
}
SMALLEST = "models/tflm/tflm_hello_int8"

BUILDS = {
    "host": ("-DES_SANITIZE=ON",),
    "cortex-m4": ("-DES_ASSERT=ON",),
    "cortex-m55": ("-DES_ASSERT=ON",),
}


def run_of(path: Path, plan: Plan) -> tuple[Array, Array]:
    """(inputs, outputs) of one run as the oracle has it, int8: all of them in one row each."""
    data = path.read_bytes()
    graph = import_tflite(data, path.name)
    *_, feeds = stimuli(plan.inputs, 4, np.random.default_rng(11))
    values = judge_of(data, path.name).judge.run({
        name: x.reshape(graph.tensors[name].shape) for name, x in zip(graph.inputs, feeds)})
    inputs = [quantize(x, io) if io.float_io else x for x, io in zip(feeds, plan.inputs)]
    outputs = [quantize(values[t], io) if io.float_io else values[t]
               for t, io in zip(graph.outputs, plan.outputs)]
    return (np.concatenate([x.ravel() for x in inputs]),
            np.concatenate([y.ravel() for y in outputs]))


def header(name: str, plan: Plan, given: Array, expected: Array) -> str:
    """The header that native/tests/device/plan_on_device.c is built with."""
    model = plan.model
    assert model.source_sha256 is not None
    return "\n".join((
        "#include <stdint.h>",
        f'#define PLAN_NAME "plan_{name}"',
        f"enum {{ PLAN_RAM = {plan.ram_bytes}, PLAN_STATE = {model.state_bytes}, "
        f"PLAN_STEPS = {len(model.steps)}, PLAN_INPUTS = {len(model.inputs)}, "
        f"PLAN_OUTPUTS = {len(model.outputs)} }};",
        *array("uint8_t", "plan_bytes", plan.data, " __attribute__((aligned(16)))"),
        *array("uint8_t", "plan_source_sha256", model.source_sha256),
        *array("int8_t", "plan_input", given.tolist()),
        *array("int8_t", "plan_expected", expected.tolist()),
        ""))


def array(kind: str, name: str, values: bytes | list[int], more: str = "") -> Iterator[str]:
    yield f"static const {kind} {name}[]{more} = {{"
    for start in range(0, len(values), 24):
        yield ",".join(map(str, values[start : start + 24])) + ","
    yield "};"


def wrong_headers(path: Path) -> Iterator[tuple[str, str]]:
    """What the test on the device must notice: a wrong result; weights that are not the golden's;
    a plan of another model."""
    plan = converted(path).plan
    given, expected = run_of(path, plan)
    other = expected.copy()
    other[-1] ^= 1
    yield "wrong_output", header("wrong_output", plan, given, other)

    source = plan.model.steps[-1].source
    assert isinstance(source, pm.Mac)
    damaged = bytearray(flatbuffer_of(plan.data))
    damaged[damaged.index(source.weights.groups[0].values.tobytes())] ^= 0x40
    yield "wrong_weights", header(
        "wrong_weights", Plan.from_bytes(seal(bytes(damaged))), given, expected)

    text = header("wrong_size", plan, given, expected)
    yield "wrong_size", text.replace(
        f"PLAN_RAM = {plan.ram_bytes}", f"PLAN_RAM = {plan.ram_bytes + 16}")


@pytest.fixture(scope="module")
def headers(data_root: Path) -> Path:
    """The folder of headers; one that is there and right is not touched, so nothing is rebuilt."""
    require("oracle")
    texts = dict(wrong_headers(model_path(data_root, SMALLEST)))
    for name, model in PLANS.items():
        path = model_path(data_root, model)
        plan = converted(path).plan
        texts[name] = header(name, plan, *run_of(path, plan))
    HEADERS.mkdir(parents=True, exist_ok=True)
    with only_one("device-plans"):
        for path in HEADERS.glob("plan_*.h"):
            if path.stem.removeprefix("plan_") not in texts:
                path.unlink()
        for name, text in texts.items():
            path = HEADERS / f"plan_{name}.h"
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
    return HEADERS


def ctest_on(machine: str, headers: Path, name: str, tests: str) -> str:
    """Build the plans of `headers` for a machine, run the C tests that match; what they print."""
    require("cmake")
    options = [*BUILDS[machine], f"-DES_TEST_PLANS={headers}", "-DES_WERROR=ON"]
    if machine != "host":
        require("arm")
        require("qemu")
        toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
        options += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DES_CPU={machine}"]
    folder = ROOT / "build" / f"{name}-{machine}"
    with only_one(folder.name):
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *options)
        run("cmake", "--build", folder, "--target", "plans")
        return run("ctest", "--test-dir", folder, "-R", tests, "-V", "--no-tests=error")


@pytest.mark.parametrize("machine", BUILDS)
def test_real_plans_give_the_bytes_of_the_oracle(
    machine: str, headers: Path, data_root: Path
) -> None:
    printed = ctest_on(machine, headers, "plans", "^real_plan_")
    for name, model in PLANS.items():
        plan = converted(model_path(data_root, model)).plan
        outputs = sum(math.prod(io.shape) for io in plan.outputs)
        assert (f"plan_{name}: {len(plan.data)} plan bytes, {plan.ram_bytes} RAM, "
                f"{outputs} output bytes, 0 differing") in printed
    failures = dict(re.findall(r"FAILED (plan_\w+): (.*)", printed))
    assert failures == {
        "plan_wrong_output": "the outputs are not the oracle's",
        "plan_wrong_weights": "the self test gave other bytes than the golden vector",
        "plan_wrong_size": "es_plan_info differs from what the converter said",
    }
    assert "1 bytes differ" in printed
