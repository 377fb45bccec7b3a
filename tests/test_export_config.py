"""A core built for one plan executes what that needs, and refuses whatever needs more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgesparse.export.features import FEATURES, WAYS, config_header, features_of
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from everything import everything
from needs import require
from npu_plans import golden
from random_plans import random_plan
from running_plans import running_plan
from stream_plans import full_stream_plan
from test_house import NATIVE, ROOT, only_one, run

REFUSED = re.compile(rb"I-0, step -?\d+: es_plan_open: the plan needs a part that this build")
SEEDS = range(60)
SANITIZED = "-fsanitize=address,undefined -fno-sanitize-recover=all -O1"


def plan_of(model: pm.PlanModel) -> Plan:
    return Plan.from_bytes(write_plan(model))


def others() -> list[Plan]:
    """Plans that need more than a few of the features: together all of them."""
    models = [random_plan(np.random.default_rng(seed)) for seed in SEEDS]
    return [plan_of(m) for m in (*models, everything(), running_plan(), full_stream_plan())]


def core_for(plan: Plan, name: str, *, trusted: bool) -> Path:
    """demos/c around a core that has what the plan needs, with sanitizers."""
    require("cmake")
    folder = ROOT / "build" / f"config-{name}"
    text = config_header(plan, "cortex-m4", trusted=trusted)
    with only_one(folder.name):
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "es_config.h"
        if not config.exists() or config.read_text() != text:
            config.write_text(text)
        run("cmake", "-S", ROOT / "demos" / "c", "-B", folder, "-G", "Ninja",
            f"-DES_CONFIG={config}", f"-DCMAKE_C_FLAGS={SANITIZED}",
            "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON")
        run("cmake", "--build", folder)
    return folder / "run_plan"


def opened(program: Path, plan: Plan, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return opened_bytes(program, plan.data, b"".join(x.tobytes() for x in given(plan)), folder)


def opened_bytes(
    program: Path, data: bytes, inputs: bytes, folder: Path
) -> subprocess.CompletedProcess[bytes]:
    (folder / "plan.esp").write_bytes(data)
    (folder / "x.bin").write_bytes(inputs)
    return subprocess.run(
        [program, folder / "plan.esp", folder / "x.bin"], check=False, capture_output=True,
        env={"ASAN_OPTIONS": "detect_leaks=0"})  # the example leaves its memory to the system


def given(plan: Plan) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(-128, 128, io.shape).astype(np.int8) for io in plan.inputs]


def outputs_of(plan: Plan) -> bytes:
    session, inputs = Session(plan), given(plan)
    session.run(inputs[0] if len(inputs) == 1 else inputs)
    return b"".join(y.tobytes() for y in session.native.outputs)


def test_the_features_are_those_of_the_core() -> None:
    built = (NATIVE / "src" / "plan" / "built.h").read_text()
    assert tuple(re.findall(r"^#define ES_HAS_(\w+) +1$", built, re.M)) == FEATURES


def test_every_feature_is_needed_by_some_plan_here() -> None:
    assert frozenset().union(*(features_of(p.model) for p in others())) == set(FEATURES) - WAYS


@pytest.mark.parametrize("seed", [82, 261])
def test_a_core_for_one_plan_runs_what_it_has_and_refuses_the_rest(
    seed: int, tmp_path: Path
) -> None:
    own = plan_of(golden(random_plan(np.random.default_rng(seed))))
    program = core_for(own, f"random-{seed}", trusted=False)
    built = features_of(own.model)
    ran = refused = 0
    for plan in (own, *others()):
        found = opened(program, plan, tmp_path)
        if features_of(plan.model) <= built:
            assert (found.returncode, found.stdout) == (0, outputs_of(plan)), found.stderr
            ran += 1
        else:
            assert found.returncode == 2, found.stderr
            assert REFUSED.match(found.stderr)
            refused += 1
    assert ran >= 9
    assert refused >= 30


def test_a_core_that_trusts_one_plan_refuses_all_others(tmp_path: Path) -> None:
    own = plan_of(golden(random_plan(np.random.default_rng(82))))
    program = core_for(own, "trusted", trusted=True)
    found = opened(program, own, tmp_path)
    assert (found.returncode, found.stdout) == (0, outputs_of(own)), found.stderr
    for plan in others():
        assert REFUSED.match(opened(program, plan, tmp_path).stderr)
    damaged = bytearray(own.data)
    damaged[100] ^= 1
    ran = opened_bytes(program, bytes(damaged), b"", tmp_path)
    assert (ran.returncode, ran.stderr[:4]) == (2, b"I-3,")
