"""The house rules of CONTRIBUTING.md, as tests."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from needs import require

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
ISAS = "c|avx2|avx512vnni|dsp|mve"
LIBC_ALLOWED = {"memcpy", "memmove", "memset", "memcmp"}  # what a compiler may call by itself


def run(*command: str | Path) -> str:
    """Return what the command printed; fail the test with all of it when it fails."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if done.returncode:
        shown = " ".join(map(str, command))
        pytest.fail(f"{shown}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def own_files(*suffixes: str) -> list[Path]:
    """Files of the repository: tracked, or new and not ignored."""
    require("git")
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    paths = (ROOT / name for name in names)
    return [path for path in paths if path.is_file() and path.name.endswith(suffixes or "")]


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Two pytest workers never build in one folder."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_and_ctest(name: str, *options: str) -> None:
    """Configure, build and run the C tests in build/<name>, which stays for the next time."""
    require("cmake")
    folder = ROOT / "build" / name
    with only_one(name):
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DES_WERROR=ON", *options)
        run("cmake", "--build", folder)
        run("ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error")


def fuzz_driver(name: str) -> Path:
    """A driver of native/fuzz, built with sanitizers in build/test-fuzz."""
    require("cmake")
    folder = ROOT / "build" / "test-fuzz"
    with only_one("test-fuzz"):
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DES_WERROR=ON", "-DES_FUZZ=ON",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        run("cmake", "--build", folder, "--target", name)
    return folder / "native" / name


@pytest.fixture(scope="module")
def core_size() -> dict[str, int]:
    """Sizes of the core on Cortex-M4, by firmware_sim/size.py; leaves its library in build/."""
    require("arm")
    require("cmake")
    with only_one("size-cortex-m4"):
        printed = run(sys.executable, "firmware_sim/size.py", "--cpu", "cortex-m4", "--json")
    size: dict[str, int] = json.loads(printed)["cortex-m4"]
    return size


def test_c_tests_pass_on_the_host() -> None:
    build_and_ctest("test-host")


def test_c_tests_pass_under_sanitizers() -> None:
    build_and_ctest("test-sanitized", "-DES_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_c_tests_pass_in_qemu(cpu: str) -> None:
    require("arm")
    require("qemu")
    toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
    build_and_ctest(
        f"test-{cpu}", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DES_CPU={cpu}", "-DES_ASSERT=ON"
    )


def test_core_needs_no_library(core_size: dict[str, int]) -> None:
    library = ROOT / "build" / "size-cortex-m4" / "native" / "libedgesparse.a"

    def names(flag: str) -> set[str]:
        lines = run("arm-none-eabi-nm", flag, library).splitlines()
        return {line.split()[-1] for line in lines if line and not line.endswith(":")}

    outside = names("-u") - names("--defined-only") - LIBC_ALLOWED
    assert {name for name in outside if not name.startswith("__aeabi_")} == set()


def test_core_has_no_static_ram(core_size: dict[str, int]) -> None:
    assert core_size["ram"] == 0


def test_readme_states_the_core_size(core_size: dict[str, int]) -> None:
    readme = (ROOT / "README.md").read_text()
    stated = re.search(r"([\d,]+) bytes of flash on Cortex-M4", readme)
    assert stated, "README.md: say '<n> bytes of flash on Cortex-M4' (firmware_sim/size.py)"
    assert int(stated[1].replace(",", "")) == pytest.approx(core_size["flash"], rel=0.02)


def test_every_cdef_function_is_called() -> None:
    cdef = (NATIVE / "bindings" / "edgesparse.cdef").read_text()
    declared = set(re.findall(r"\b(es_\w+)\(", re.sub(r"/\*.*?\*/", "", cdef, flags=re.S)))
    python = [*(ROOT / "edgesparse").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    called = {name for path in python for name in re.findall(r"\b(es_\w+)\b", path.read_text())}
    assert declared - called == set()


def test_every_kernel_is_listed() -> None:
    """A kernel that no list names is tested by nothing."""
    kernel = rf"\b(es_\w+__(?:{ISAS}))\b"
    defined = {
        name
        for path in NATIVE.glob("src/**/*.c")
        for name in re.findall(
            rf"^(?!static\b)\w[\w *]*{kernel}\([^;]*?\)\s*{{", path.read_text(), re.M
        )
    }
    listed = {
        name
        for path in NATIVE.glob("src/**/*_kernels.inc")
        for name in re.findall(kernel, path.read_text())
    }
    assert defined == listed


def test_python_is_clean() -> None:
    require("ruff")
    run(sys.executable, "-m", "ruff", "check", ".")


def test_types_are_strict() -> None:
    require("mypy")
    run(sys.executable, "-m", "mypy")


def test_c_is_formatted() -> None:
    require("clang-format")
    run("clang-format", "--dry-run", "-Werror", *own_files(".c", ".h"))


def test_no_ignore_rule_hides_a_file_of_ours() -> None:
    """The wheel leaves out what git ignores."""
    require("git")
    assert run("git", "ls-files", "--cached", "--ignored", "--exclude-standard") == ""


# Brackets keep each pattern from matching itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.\-])/(?:home|root|work|opt|tmp|Users)/\w",
    "a package host": r"python[h]osted\.org|pypi\.[o]rg",
    "an unkept promise": r"\bTO[D]O\b|\bFIX[M]E\b",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains(what: str) -> None:
    found = []
    for path in own_files():
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # binary
        found += [
            f"{path.relative_to(ROOT)}:{number}"
            for number, line in enumerate(lines, 1)
            if re.search(FORBIDDEN[what], line)
        ]
    assert found == []
