"""demos/c: a program of the user's own, built as its CMakeLists says, gives Python's bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import convert
from edgesparse.runtime.session import Session

ROOT = Path(__file__).resolve().parent.parent
ECG = ROOT / "edgesparse" / "demo" / "ecg_c48_4x1_75.tflite"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cmake") is None:
        pytest.fail("cmake is needed to build edgesparse at all")
    build = tmp_path_factory.mktemp("run_plan")
    subprocess.run(["cmake", "-B", build, ROOT / "demos" / "c"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    return build / "run_plan"


def test_the_c_example_gives_the_bytes_of_python(program: Path, tmp_path: Path) -> None:
    plan = convert(ECG)
    plan.save(tmp_path / "ecg.esp")
    x = np.random.default_rng(0).integers(-128, 128, (1, 1440, 1)).astype(np.int8)
    x.tofile(tmp_path / "x.bin")
    ran = subprocess.run(
        [program, tmp_path / "ecg.esp", tmp_path / "x.bin"], check=True, capture_output=True)
    want = Session(plan).run(x)
    assert isinstance(want, np.ndarray)
    assert ran.stdout == want.tobytes()


def test_the_c_example_says_why_a_plan_is_refused(program: Path, tmp_path: Path) -> None:
    data = bytearray(convert(ECG).data)
    data[1000] ^= 1
    (tmp_path / "bad.esp").write_bytes(data)
    (tmp_path / "x.bin").write_bytes(bytes(1440))
    ran = subprocess.run(
        [program, tmp_path / "bad.esp", tmp_path / "x.bin"], check=False, capture_output=True)
    assert ran.returncode == 2
    assert b"I-3" in ran.stderr
