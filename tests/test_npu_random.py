"""Random plans on the NPU: every kernel, next to every step that has none, in any scratchpad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgesparse.npu.kernels import NotOnNpu, Setting, kernel_for
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from npu_run import bitmask, columns, config, dense, in_lanes, lower_and_check, n_of_m
from random_plans import Grower, random_plan

FORMS = (dense, columns(16), bitmask, columns(4), columns(1), n_of_m(1, 2))
SIZES = (65536, 8192, 2048)


class Fitting(Grower):
    """Mostly what the NPU has code for: one output a step, NWC, few exotic stages."""

    def new_tensor(self, columns: int, channels: int) -> int:
        pitch = channels + self.pick([0, 0, 0, self.whole(1, 5)])
        return self.b.tensor(
            *self.split(columns), channels, zero_point=self.zero_point(), pitch=pitch)

    def branches(self, columns: int, channels: int, gain: float | None) -> list[pm.Branch]:
        return [self.branch(columns, (0, channels), gain)]

    def first_stage(self, columns: int, channels: int, gain: float) -> pm.StageBody:
        for _ in range(3):
            stage = super().first_stage(columns, channels, gain)
            if isinstance(stage, pm.Requant):
                break
        return stage

    def window(self, columns: int) -> pm.Window:
        if self.chance(0.5):
            return super().window(columns)
        h, w = self.split(columns)
        kernel_h, kernel_w = self.whole(1, min(3, h)), self.whole(1, min(3, w))
        return pm.Window(
            in_h=h, in_w=w, kernel_h=kernel_h, kernel_w=kernel_w, stride_h=kernel_h,
            stride_w=kernel_w, out_h=h // kernel_h, out_w=w // kernel_w)


def options_of(seed: int) -> NpuOptions:
    return NpuOptions(
        resident=bool(seed // 4 % 2), intermediates=("sram", "sram", "dram")[seed % 3],
        keep=bool(seed // 8 % 2), skip=bool(seed // 16 % 2))


@pytest.mark.parametrize("seed", range(120))
def test_random_plans_give_the_interpreters_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = Fitting(rng).grow(int(rng.integers(1, 7)))
    plan = in_lanes(plan, form=FORMS[seed % len(FORMS)])
    lower_and_check(plan, config(scratchpad_bytes=SIZES[seed % len(SIZES)]), options_of(seed), 3)


@pytest.mark.parametrize("seed", range(40))
def test_any_plan_runs_with_the_rest_on_the_cpu(seed: int) -> None:
    """Layouts, halos, encodings and branches without code among the steps."""
    plan = in_lanes(random_plan(np.random.default_rng(seed)))
    lower_and_check(plan, options=options_of(seed))


def test_the_random_plans_reach_every_kernel() -> None:
    kinds: set[str] = set()
    npu = config()
    for seed in range(120):
        rng = np.random.default_rng(seed)
        plan = in_lanes(Fitting(rng).grow(int(rng.integers(1, 7))), form=FORMS[seed % 6])
        kinds |= set(_kernels(plan, npu))
    assert {"MacKernel", "PoolKernel", "ElementwiseKernel", "CopyKernel"} <= kinds
    assert "a second operand before a pool has no code" in kinds


def _kernels(plan: pm.PlanModel, npu: object) -> Sequence[str]:
    found = []
    for number in range(len(plan.steps)):
        try:
            found.append(type(kernel_for(Setting(plan, number, npu))).__name__)  # type: ignore[arg-type]
        except NotOnNpu as reason:
            found.append(str(reason))
    return found
