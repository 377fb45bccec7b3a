"""Which steps a kernel takes whole: what export foretells, the device does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import convert_model
from edgesparse.export.kernels import ways_of, whole_steps
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from int8_models import ECG, model_path
from random_plans import random_plan
from test_device_plans import array, ctest_on
from test_export import MODELS, ecg_stream
from test_house import ROOT, only_one

OTHERS = (
    ECG, "models/har/har_ashwinbyte_int8", "models/generated/conv1d_uns80_int8",
    "models/generated/dw_uns80_int8", "models/generated/conv2d_b1480_int8_SP",
    "models/generated/mlp_b11680_int8_SP", "models/arm/arm_kws_dscnn_s",
)
SEEDS = range(300)
HEADERS = ROOT / "build" / "device-ways"


def real_plans(data_root: Path, cpu: str) -> list[Plan]:
    paths = [model_path(data_root, name) for name in (*MODELS.values(), *OTHERS)]
    return [*(convert_model(path, cpu).plan for path in paths), ecg_stream(cpu)]


def random_plans() -> list[Plan]:
    """Small ones: all of them have to fit the board."""
    plans = (write_plan(random_plan(np.random.default_rng(seed))) for seed in SEEDS)
    return [Plan.from_bytes(data) for data in plans if len(data) < 16384]


def header(name: str, plans: list[Plan], cpu: str) -> str:
    """The header that native/tests/device/ways_on_device.c is built with."""
    return "\n".join((
        f'#define WAYS_NAME "ways_{name}"',
        f"enum {{ WAYS_RAM = {max(plan.ram_bytes for plan in plans)} }};",
        *_arrays(plans, cpu),
        "static const ways_plan ways_plans[] = {",
        *(f"{{bytes_{i}, sizeof bytes_{i}, whole_{i}}}," for i in range(len(plans))),
        "};",
        ""))


def _arrays(plans: list[Plan], cpu: str) -> Iterator[str]:
    for i, plan in enumerate(plans):
        yield from array("uint8_t", f"bytes_{i}", plan.data, " __attribute__((aligned(16)))")
        yield from array("uint8_t", f"whole_{i}", [*map(int, whole_steps(plan.model, cpu))])


@pytest.mark.parametrize("cpu", ["cortex-m4"])
def test_a_step_that_is_said_to_be_taken_whole_is(cpu: str, data_root: Path) -> None:
    HEADERS.mkdir(parents=True, exist_ok=True)
    with only_one("device-ways"):
        for name, plans in (("real", real_plans(data_root, cpu)), ("random", random_plans())):
            path, text = HEADERS / f"ways_{name}.h", header(name, plans, cpu)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
    printed = ctest_on(cpu, HEADERS, "ways", "^real_ways_")
    found = {
        name: tuple(map(int, numbers)) for name, *numbers in re.findall(
            r"ways_(\w+): (\d+) steps, (\d+) taken whole, (\d+) foretold, (\d+) wrong", printed)}
    assert found.keys() == {"real", "random"}
    for _, taken, foretold, wrong in found.values():
        assert wrong == 0
        assert foretold >= max(0.9 * taken, 10)


def test_a_core_without_kernels_for_whole_steps_has_all_ways(data_root: Path) -> None:
    plan = convert_model(model_path(data_root, MODELS["ad01"]), "cortex-m4").plan
    assert set(ways_of(plan.model, "cortex-m4")) == set()
    assert set(ways_of(plan.model, "host")) == {"TILES", "MAC_TILES", "ELEMENTWISE"}


def test_a_load_that_only_moves_columns_needs_no_tiles() -> None:
    plan = ecg_stream("cortex-m4")
    loads = [step for step in plan.model.steps if isinstance(step.source, pm.Load)]
    assert loads
    assert set(ways_of(plan.model, "cortex-m4")) == {"PAIRS", "TALL"}
