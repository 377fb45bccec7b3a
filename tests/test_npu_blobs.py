"""The blobs of a program: what they name, and that both readers take the same bytes for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broken_npu import BROKEN
from edgesparse.errors import PlanInvalid, WrongMachine
from edgesparse.npu.blobs import blob_bytes
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart
from edgesparse.runtime.native import NativePlan
from edgesparse.runtime.npu_plan import program_of
from everything import everything
from npu_plans import plan_of
from plan_changes import CONV, DEPTHWISE, HORIZONTAL, LUT, RESIDUAL


def test_each_part_names_its_vector() -> None:
    model = everything()
    assert model.npu is not None
    conv, depthwise, horizontal = (model.steps[i].source for i in (CONV, DEPTHWISE, HORIZONTAL))
    assert isinstance(conv, pm.Mac)
    assert isinstance(depthwise, pm.Mac)
    assert isinstance(horizontal, pm.Mac)
    first = model.steps[HORIZONTAL].branches[0].stages[0]
    single = model.steps[DEPTHWISE].branches[0].stages[0]
    table = model.steps[LUT[0]].branches[0].stages[LUT[2]]
    assert isinstance(first, pm.Requant)
    assert isinstance(single, pm.Requant)
    assert isinstance(table, pm.Lut)
    expected = {
        BlobPart.VALUES: depthwise.weights.groups[0].values,
        BlobPart.INDEX: conv.weights.groups[2].index, BlobPart.BIAS: horizontal.bias,
        BlobPart.MULTIPLIER: first.multiplier, BlobPart.SHIFT: single.shift,
        BlobPart.TABLE: table.table, BlobPart.TENSOR: model.tensors[RESIDUAL].data}
    found = {blob.part: blob_bytes(model, blob) for blob in model.npu.blobs}
    assert found == {part: vector.tobytes() for part, vector in expected.items() if
                     vector is not None}


def test_the_core_finds_the_same_bytes() -> None:
    plan = plan_of(everything())
    npu = plan.model.npu
    assert npu is not None
    program = program_of(plan, NativePlan(plan.data))
    assert program.blobs == tuple(blob_bytes(plan.model, blob) for blob in npu.blobs)
    assert program.commands == npu.commands.tobytes()
    assert (program.prologue, program.config) == (npu.prologue, plan.model.config)
    assert (program.dram_bytes, program.state_bytes, program.steps) == (
        plan.ram_bytes, plan.model.state_bytes, len(plan.model.steps))


@pytest.mark.parametrize("name", [name for name in BROKEN[82] if name != "part"])
def test_a_blob_that_names_nothing_is_refused(name: str) -> None:
    model = BROKEN[82][name](everything())
    assert model.npu is not None
    with pytest.raises(PlanInvalid, match=r"^I-82: "):
        blob_bytes(model, model.npu.blobs[0])


def test_a_plan_without_a_program_says_what_to_do() -> None:
    plan = plan_of(replace(everything(), npu=None))
    with pytest.raises(WrongMachine, match=r"no program .* --target esn-lab or esn-m or esn-s"):
        program_of(plan, NativePlan(plan.data))
