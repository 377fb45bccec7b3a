"""int8 models on emulated boards give the oracle's bytes; benchmarks/device_models.py has all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from device_models import PATIENCE, Row, by_link, compare, expected, plan_for, why_not
from preloaded import differing

from edgesparse.device import BOARDS, Device, nvm
from edgesparse.link import images, open_link
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from int8_models import ECG, model_path
from needs import require
from stream_plans import full_stream_plan

for need in ("arm", "qemu", "cmake", "oracle"):
    require(need)

MODELS = (
    "models/tflm/tflm_micro_speech",
    "models/generated/legacy_lstm_int8",  # keeps state
    "cases/tflite/sfc_csr",  # its judge is a copy
    ECG,
)
SMALLEST = "models/tflm/tflm_hello_int8"
ARENA = 1_900_000
"""Bytes that every board has."""


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_oracles_bytes(name: str, cpu: str, data_root: Path) -> None:
    row = compare(data_root, name, cpu, ARENA, inputs=4)
    assert row == Row(name, cpu, 2, 4, row.size, 0, "")
    assert row.size > 0


@pytest.mark.parametrize("cpu", BOARDS)
def test_a_board_starts_says_what_it_runs_and_infers(cpu: str, data_root: Path) -> None:
    plan, _ = plan_for(cpu, model_path(data_root, SMALLEST))
    source = plan.model.source_sha256
    assert source is not None
    with Device.start(cpu, plan=plan) as device, open_link(device.port, patience=PATIENCE) as link:
        info = link.info()
        assert (info["run"], info["plan"], info["lay"]) == (
            True, source[:8], len(plan.model.steps))
        [image] = images.images(link)
        assert image.confirmed
    assert by_link(cpu, plan, expected(data_root, SMALLEST, plan, 3)) == 0


def test_a_byte_that_differs_is_counted(data_root: Path) -> None:
    """By both ways: else neither would be a test."""
    plan, _ = plan_for("cortex-m4", model_path(data_root, SMALLEST))
    runs = expected(data_root, SMALLEST, plan, 3)
    runs[1] = replace(runs[1], outputs=[y ^ np.int8(1) for y in runs[1].outputs])
    assert differing("cortex-m4", plan, [run.as_bytes() for run in runs]) == [0, 1, 0]
    assert by_link("cortex-m4", plan, runs) == 1


def test_a_plan_that_does_not_fit_is_named_with_its_reason() -> None:
    model = full_stream_plan()
    plan = Plan.from_bytes(write_plan(model))
    assert why_not(plan, plan.ram_bytes + 16 * len(model.steps)) == ""
    assert "RAM of" in why_not(plan, plan.ram_bytes + 16 * len(model.steps) - 1)
    large = replace(plan, data=bytes(nvm.SLOT + 1))
    assert "a slot has 1,048,576" in why_not(large, ARENA)
