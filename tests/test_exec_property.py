"""The C core equals the interpreter, byte for byte, on plans made at random."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.plan.interpret import POISON, Interpreter
from edgesparse.plan.model import Golden, PlanModel
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from random_plans import random_plan
from running_plans import noise, random_running_plan

RUNS = 3
HEADER = Path(__file__).parents[1] / "native" / "tests" / "plans_random.h"
FOR_C = (1691, 648, 1731, 1623, 1126, 1375, 2404, 1974)
"""Seeds of small plans that together have every combination of source and encoding, every packing
of lanes, every stage in both roundings, every layout in and out."""


def inputs_of(plan: Plan, rng: np.random.Generator) -> list[np.ndarray]:
    return [noise(rng, *io.shape) for io in plan.inputs]


def check(seed: int, model: PlanModel, rng: np.random.Generator, runs: int = RUNS) -> None:
    """All steps' results of a few runs, and at the end every byte of the arena but scratch:
    halos hold zero points, and nothing is written where nothing should be."""
    data = write_plan(model)
    plan = Plan.from_bytes(data)
    session, reference = Session(plan), Interpreter(data)
    scratch = min(
        (s.scratch_offset for s in model.steps if s.scratch_bytes), default=model.arena_bytes)
    for _ in range(runs):
        x = inputs_of(plan, rng)
        session.native.arena[model.state_bytes :] = POISON
        expected, found = reference.run_traced(x), session.run_traced(x)
        assert expected.keys() == found.keys()
        for number, want in expected.items():
            np.testing.assert_array_equal(found[number], want, f"seed {seed}, tensor {number}")
        np.testing.assert_array_equal(
            session.native.arena[:scratch], reference._arena[:scratch], f"seed {seed}, arena")


@pytest.mark.parametrize("block", range(8))
def test_core_equals_interpreter(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        rng = np.random.default_rng(seed)
        check(seed, random_plan(rng), rng)


@pytest.mark.parametrize("block", range(4))
def test_sums_that_are_kept_equal_the_interpreters(block: int) -> None:
    """Long enough that most windows are full and columns leave them."""
    for seed in range(block * 25, block * 25 + 25):
        rng = np.random.default_rng(seed)
        check(seed, random_running_plan(rng), rng, 20)


def golden_plan(seed: int) -> bytes:
    model = random_plan(np.random.default_rng(seed))
    crc, outputs = Interpreter(write_plan(model)).self_test_values(seed + 1)
    return write_plan(
        replace(model, golden=Golden(seed=seed + 1, trace_crc=crc, outputs=outputs)))


def header(plans: list[bytes]) -> str:
    """The plans for native/tests/test_exec_random.c, which has no files in QEMU."""
    lines = [
        "/* Plans of tests/random_plans.py, written by",
        " * pytest tests/test_exec_property.py --update-golden */",
        "#include <stdint.h>",
        "",
        "/* clang-format off */",
    ]
    for i, plan in enumerate(plans):
        lines.append(f"static const uint8_t plan_{i}[] __attribute__((aligned(16))) = {{")
        for row in range(0, len(plan), 20):
            lines.append("    " + ",".join(str(byte) for byte in plan[row : row + 20]) + ",")
        lines.append("};")
    lines += ["static const struct { const uint8_t *bytes; uint32_t size; } plans_random[] = {"]
    lines += [f"    {{plan_{i}, sizeof plan_{i}}}," for i in range(len(plans))]
    return "\n".join([*lines, "};", ""])


def test_the_c_tests_have_plans_of_the_interpreter(update_golden: bool) -> None:
    """What the header says is right; that it can be made again is not asked, because NumPy may
    change its random numbers."""
    if update_golden:
        HEADER.write_text(header([golden_plan(seed) for seed in FOR_C]))
    arrays = re.findall(r"= \{\n([\d,\s]+)\};", HEADER.read_text())
    assert len(arrays) == len(FOR_C)
    for text in arrays:
        data = bytes(int(n) for n in text.replace("\n", "").split(",") if n.strip())
        golden = Plan.from_bytes(data).model.golden
        assert golden is not None
        crc, outputs = Interpreter(data).self_test_values(golden.seed)
        assert crc == golden.trace_crc
        np.testing.assert_array_equal(outputs, golden.outputs)


def test_self_test_sees_a_wrong_trace_and_a_wrong_output() -> None:
    good = Plan.from_bytes(golden_plan(FOR_C[0]))
    assert Session(good).self_test()
    golden = good.model.golden
    assert golden is not None
    trace = replace(golden, trace_crc=golden.trace_crc ^ 1)
    output = replace(golden, outputs=golden.outputs ^ np.int8(1))
    for wrong in (trace, output):
        data = write_plan(replace(good.model, golden=wrong))
        assert not Session(Plan.from_bytes(data)).self_test()
