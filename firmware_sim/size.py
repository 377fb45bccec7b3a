"""Print what linking the whole core adds to a firmware image, at -Os.

    python firmware_sim/size.py [--cpu cortex-m4] [--json] [--store]

Builds firmware_sim/footprint.c with every public function as a root and --gc-sections, so the
figure is the core's code and tables and the compiler helpers they call: no plan, no startup.
--store measures the plan store (store.h) instead.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPUS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")


def build(cpu: str, image: str) -> Path:
    """Return the build folder, with the image and the core library in it."""
    folder = ROOT / "build" / f"size-{cpu}"
    toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
    configure = [
        *("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DES_CPU={cpu}"),
        *(f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel"),
    ]
    for command in (configure, ["cmake", "--build", folder, "--target", image]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    return folder


def measure(cpu: str, name: str) -> dict[str, int]:
    """Return bytes: text and rodata in flash, ram (.data and .bss), which the core has none of."""
    image = build(cpu, name) / "firmware_sim" / name
    listing = subprocess.check_output(["arm-none-eabi-size", "-A", "-d", image], text=True)
    sections = {
        name: int(size) for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", listing, re.M)
    }
    text = sections.get(".text", 0) + sections.get(".ARM.exidx", 0)
    rodata = sections.get(".rodata", 0)
    ram = sections.get(".data", 0) + sections.get(".bss", 0)
    return {"text": text, "rodata": rodata, "flash": text + rodata, "ram": ram}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", choices=CPUS, action="append", help="default: all four")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="the plan store, not the core")
    args = parser.parse_args()
    name = "footprint_store" if args.store else "footprint"
    sizes = {cpu: measure(cpu, name) for cpu in args.cpu or CPUS}
    if args.json:
        print(json.dumps(sizes))
        return
    for cpu, size in sizes.items():
        print(f"{cpu:<10}", *(f"{name} {count:>6}" for name, count in size.items()))


if __name__ == "__main__":
    main()
