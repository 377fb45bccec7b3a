"""Images for a Cortex-M and what they weigh: for size.py."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def command(*arguments: str | Path) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def configured(
    cpu: str, source: Path, folder: Path, target: str, without: Sequence[str] = ()
) -> Path:
    """Configure and build a target; without: parts of the link that are left out. Returns the
    folder."""
    toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
    command("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DES_CPU={cpu}",
            f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel",
            *(f"-DES_LINK_{part.upper()}=OFF" for part in without))
    command("cmake", "--build", folder, "--target", target)
    return folder


def image_of(cpu: str, without: Sequence[str], image: str) -> Path:
    """An image of firmware_sim/CMakeLists.txt."""
    folder = ROOT / "build" / "-".join(("size", cpu, *without))
    return configured(cpu, ROOT, folder, image, without) / "firmware_sim" / image


def measure(image: Path) -> dict[str, int]:
    """Return bytes: text and rodata in flash, ram (.data and .bss), which the core has none of."""
    listing = subprocess.check_output(["arm-none-eabi-size", "-A", "-d", image], text=True)
    sections = {
        name: int(size) for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", listing, re.M)
    }
    text = sections.get(".text", 0) + sections.get(".ARM.exidx", 0)
    rodata = sections.get(".rodata", 0)
    ram = sections.get(".data", 0) + sections.get(".bss", 0)
    return {"text": text, "rodata": rodata, "flash": text + rodata, "ram": ram}


def symbols(image: Path) -> dict[str, int]:
    """Return the bytes of every function and table in flash."""
    listing = subprocess.check_output(["arm-none-eabi-nm", "-S", image], text=True)
    found = re.findall(r"^\S+ (\S+) [tTrRW] (\S+)$", listing, re.M)
    return {name: int(size, 16) for size, name in found}


def added(cpu: str, without: Sequence[str], image: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return what an image has beyond the core's: sizes, and its functions and tables."""
    core, whole = image_of(cpu, without, "footprint"), image_of(cpu, without, image)
    before, after = measure(core), measure(whole)
    known = symbols(core)
    return ({name: after[name] - before[name] for name in after},
            {name: size for name, size in symbols(whole).items() if name not in known})
