"""Build the firmware of a board with arm-none-eabi-gcc, and keep what was built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgesparse.device.boards import board_of
from edgesparse.errors import BuildFailed, ToolMissing
from edgesparse.sources import source_root

COMPILER = "arm-none-eabi-gcc"
_SOURCES = ("CMakeLists.txt", "native/CMakeLists.txt", "native/include", "native/src",
            "firmware_sim")
_SUFFIXES = {".c", ".h", ".inc", ".txt", ".cmake", ".ld"}
_TAIL = 2000
"""Characters of a failed build that are shown."""


def cache_folder() -> Path:
    """Where firmware is kept: XDG_CACHE_HOME/edgesparse/firmware."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "edgesparse" / "firmware"


def build_firmware(cpu: str, image: str = "firmware") -> Path:
    """The ELF file of a board's firmware; built unless the same sources were built before.

    image  target in firmware_sim/firmware/CMakeLists.txt; all but the first are for tests
    Raises BadInput for an unknown cpu, ToolMissing, SourcesMissing, BuildFailed.
    """
    board = board_of(cpu)
    root = source_root()
    compiler = need(COMPILER, "gcc-arm-none-eabi libnewlib-arm-none-eabi", "build its firmware")
    cmake = need("cmake", "cmake", "build its firmware")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    elf = cache / f"{cpu}-{image}-{_digest(root, compiler)}.elf"
    if elf.exists():
        return elf
    place = hashlib.sha256(bytes(root)).hexdigest()[:8]
    folder = cache / f"build-{cpu}-{place}"
    with _locked(folder.with_suffix(".lock")):
        if not elf.exists():
            toolchain = root / "firmware_sim" / "arm-none-eabi.cmake"
            generator = ("-G", "Ninja") if shutil.which("ninja") else ()
            _run(cmake, "-S", root, "-B", folder, *generator, f"-DES_CPU={board.cpu}",
                 f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel")
            _run(cmake, "--build", folder, "--target", image)
            unfinished = elf.with_suffix(".new")
            shutil.copyfile(folder / "firmware_sim" / "firmware" / f"{image}.elf", unfinished)
            unfinished.replace(elf)
    return elf


def need(program: str, package: str, purpose: str) -> str:
    """The program's path. Raises ToolMissing, which says what to install."""
    path = shutil.which(program)
    if path is None:
        raise ToolMissing(
            f"{program} is not on the PATH: a device needs it to {purpose}; apt install {package}, "
            "or its counterpart elsewhere")
    return path


def _digest(root: Path, compiler: str) -> str:
    """Of everything the image is made from."""
    sha = hashlib.sha256()
    done = subprocess.run((compiler, "--version"), capture_output=True, check=False)
    sha.update(done.stdout)
    for name in _SOURCES:
        top = root / name
        files = [top] if top.is_file() else sorted(top.rglob("*"))
        for file in files:
            if file.suffix in _SUFFIXES and file.is_file():
                data = file.read_bytes()
                sha.update(f"{file.relative_to(root)} {len(data)}\n".encode() + data)
    return sha.hexdigest()[:16]


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildFailed(
            f"the firmware does not build ({' '.join(map(str, command))}):\n"
            f"{(done.stdout + done.stderr)[-_TAIL:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time builds in a folder."""
    import fcntl  # there is none on Windows, where the rest of the package works

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
