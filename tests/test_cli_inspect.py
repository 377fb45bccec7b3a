"""edgesparse inspect, and the sums it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, Ran
from edgesparse.cli.names import short_names
from edgesparse.footprint import flash_of, memory_map, model_cost
from edgesparse.importers.tflite import import_tflite
from edgesparse.npu.isa import Op, Space
from edgesparse.plan.npu_model import BlobPart, NpuBlob
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from everything import everything
from npu_plans import plan_of, with_program
from npu_program import ins
from random_plans import random_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "ecg.esp"
    es.convert(ECG).save(path)
    return path


def test_the_tables_fit_80_columns(plan: Path) -> None:
    ran = Ran("inspect", plan)
    assert ran.code == 0
    assert max(len(line.rstrip()) for line in ran.out.splitlines() if ".esp" not in line) <= 80
    for word in ("weights", "golden", "structure", "scratch of step 2", "caller .. step 0",
                 "step 9 .. caller", "self test: yes"):
        assert word in ran.out


def test_steps_shows_full_names_and_stages(plan: Path) -> None:
    ran = Ran("inspect", plan, "--steps")
    for layer in es.load(plan).layers:
        assert layer.name in ran.out
    assert "then requant, add" in ran.out


def test_json_has_the_sums(plan: Path) -> None:
    found = Ran("inspect", plan, "--json").json
    assert sum(found["flash"].values()) == found["flash_bytes"] == plan.stat().st_size
    assert found["ram_bytes"] == es.load(plan).ram_bytes
    assert len(found["layers"]) == 10
    assert found["self_test"] is True
    assert len(found["source_sha256"]) == 64
    assert found["inputs"][0]["shape"] == [1, 1440, 1]


def test_flash_parts_are_what_the_plan_holds(plan: Path) -> None:
    loaded = es.load(plan)
    flash = flash_of(loaded)
    assert flash.weights == sum(layer.weight_bytes for layer in loaded.layers)
    assert flash.golden == 180 * 4
    assert flash.trailer == 64
    biases = sum(layer.outputs[0][-1] for layer in loaded.layers)
    assert flash.parameters >= 4 * biases
    assert 0 < flash.structure < 0.3 * loaded.flash_bytes


def test_the_memory_map_ends_at_the_arena_and_never_holds_two_things_at_once(plan: Path) -> None:
    """But for an operand and the in-place result that takes its bytes in the same step."""
    loaded = es.load(plan)
    regions = memory_map(loaded)
    assert max(r.offset + r.bytes for r in regions) == loaded.ram_bytes
    assert [r.kind for r in regions].count("input") == 1
    assert [r.kind for r in regions].count("output") == 1
    for step in range(-1, len(loaded.layers) + 1):
        used = np.zeros(loaded.ram_bytes, np.int64)
        for r in regions:
            if r.first <= step <= r.last:
                used[r.offset : r.offset + r.bytes] += 1
        assert used.max() <= 1


def test_a_sound_checksum_does_not_make_a_plan(plan: Path, tmp_path: Path) -> None:
    """The C core looks at everything before anything is shown."""
    model = es.load(plan).model
    step = replace(model.steps[0], input=len(model.tensors))
    broken = tmp_path / "broken.esp"
    broken.write_bytes(write_plan(replace(model, steps=(step, *model.steps[1:]))))
    ran = Ran("inspect", broken)
    assert ran.code == 2
    assert "I-20" in ran.err


@pytest.mark.parametrize("seed", range(20))
def test_every_plan_can_be_inspected(seed: int, tmp_path: Path) -> None:
    """Rings, several branches, row groups, layouts, constants, no names."""
    model = everything() if seed == 0 else random_plan(np.random.default_rng(seed))
    path = tmp_path / "plan.esp"
    path.write_bytes(write_plan(model))
    for arguments in ((), ("--steps",), *([("--asm",)] if model.npu else [])):
        assert Ran("inspect", path, *arguments).code == 0
    found = Ran("inspect", path, "--json").json
    assert sum(found["flash"].values()) == found["flash_bytes"] == path.stat().st_size
    assert max(r["offset"] + r["bytes"] for r in found["memory_map"]) <= found["ram_bytes"]
    assert len(found["layers"]) == len(model.steps)


@pytest.fixture(scope="module")
def program(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ECG plan with a program: step 0 and 9 marked, in between one on the CPU, a table read."""
    body = (
        ins(Op.LOOP, count=2, body=1), ins(Op.NOP), ins(Op.MARK, step=0),
        ins(Op.DMA, channel=1, space=Space.FLASH_READ, address=16, bytes=4),
        ins(Op.DWAIT, channel=1), ins(Op.HOST, step=3), ins(Op.MARK, step=9),
        ins(Op.MARK, step=77))
    blobs = (NpuBlob(part=BlobPart.BIAS, step=9),)
    path = tmp_path_factory.mktemp("npu") / "npu.esp"
    plan_of(with_program(es.load(plan).model, *body, blobs=blobs)).save(path)
    return path


def test_the_program_is_summed_up(program: Path, plan: Path) -> None:
    found = Ran("inspect", program, "--json").json
    assert "BADVALUE (77)" in found["npu"].pop("no_bound")
    names = [layer.name for layer in es.load(plan).layers]
    assert found["npu"] == {
        "config": 1, "scratchpad_bytes": 64, "instructions": 10, "prologue": 1, "blobs": 1,
        "host_steps": [names[3]], "bound_emulated_cycles": None}
    assert found["flash"]["program"] == 10 * 16 + 8
    assert "asm" not in found
    text = Ran("inspect", program).out
    assert "NPU: configuration 1 (host), 10 instructions (1 of them at a reset)" in text
    assert f"on the CPU: {short_names(names)[3]}" in text
    assert "NPU:" not in Ran("inspect", plan).out
    assert Ran("inspect", plan, "--json").json["npu"] is None


def test_asm_says_which_layer_and_which_vector(program: Path, plan: Path) -> None:
    names = short_names([layer.name for layer in es.load(plan).layers])
    assert Ran("inspect", program, "--asm").out.splitlines() == [
        "; at a reset",
        "    0 END",
        "; a run",
        f"; {names[0]}",
        "    1 LOOP count=2 body=1",
        "    2   NOP",
        "    3 MARK step=0",
        f"; {names[9]}",
        "    4 DMA channel=ch1 space=FLASH_READ blob=0 external=0 address=16 bytes=4  "
        f"; bias of {names[9]}",
        "    5 DWAIT channel=ch1",
        f"    6 HOST step=3  ; {names[3]}",
        "    7 MARK step=9",
        "; step 77",
        "    8 MARK step=77",
        "    9 END",
    ]
    lines = Ran("inspect", program, "--asm", "--json").json["asm"]
    assert lines[:2] == ["; at a reset", "    0 END"]


def test_asm_of_a_plan_without_a_program_is_refused(plan: Path) -> None:
    ran = Ran("inspect", plan, "--asm")
    assert ran.code == 2
    assert "--target esn-s" in ran.err


def test_the_cost_of_a_model_is_that_before_folding(models_dir: Path) -> None:
    path = models_dir / "mlperf" / "mlperf_vww_int8.tflite"
    macs, weights = model_cost(import_tflite(path.read_bytes(), path.name))
    assert macs == 7_489_664
    assert weights > 200_000


def test_a_plan_without_names_shows_numbers(plan: Path, tmp_path: Path) -> None:
    model = replace(es.load(plan).model, names=None)
    path = tmp_path / "bare.esp"
    path.write_bytes(Plan.from_bytes(write_plan(model)).data)
    ran = Ran("inspect", path)
    assert "step 3" in ran.out
    assert "tensor 1" in ran.out
