"""Print what linking the whole core adds to a firmware image, at -Os.

    python firmware_sim/size.py [--cpu cortex-m4] [--json]
    python firmware_sim/size.py --store | --link [--without streams] [--without console]

Builds firmware_sim/footprint.c with every public function as a root and --gc-sections, so the
figure is the core's code and tables and the compiler helpers they call: no plan, no startup.
--store and --link are what the plan store (store.h), or link and plan store with SHA-256 (link.h,
store.h), add to that image, everything counted once; RAM is then es_link and es_store, buffers of
1,024 bytes and a ring of 512. --functions lists the largest functions and tables added.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPUS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")


def build(cpu: str, without: Sequence[str], image: str) -> Path:
    """Return the image; without: parts of the link that are left out."""
    folder = ROOT / "build" / "-".join(("size", cpu, *without))
    toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
    configure = [
        *("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DES_CPU={cpu}"),
        *(f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel"),
        *(f"-DES_LINK_{part.upper()}=OFF" for part in without),
    ]
    for command in (configure, ["cmake", "--build", folder, "--target", image]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    return folder / "firmware_sim" / image


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
    core, whole = build(cpu, without, "footprint"), build(cpu, without, image)
    before, after = measure(core), measure(whole)
    known = symbols(core)
    return ({name: after[name] - before[name] for name in after},
            {name: size for name, size in symbols(whole).items() if name not in known})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", choices=CPUS, action="append", help="default: all four")
    parser.add_argument("--json", action="store_true")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--store", action="store_true", help="what the plan store adds")
    part.add_argument("--link", action="store_true", help="what link and plan store add")
    parser.add_argument("--without", choices=("console", "streams"), action="append", default=[])
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    args = parser.parse_args()
    image = "footprint_store" if args.store else "footprint_device" if args.link else "footprint"
    sizes: dict[str, dict[str, int]] = {}
    for cpu in args.cpu or CPUS:
        if args.store or args.link:
            sizes[cpu], names = added(cpu, sorted(args.without), image)
        else:
            whole = build(cpu, (), image)
            sizes[cpu], names = measure(whole), symbols(whole)
        largest = sorted(names.items(), key=lambda item: -item[1])[: args.functions]
        if not args.json:
            print(f"{cpu:<10}", *(f"{name} {count:>6}" for name, count in sizes[cpu].items()))
            print("".join(f"{size:>8} {name}\n" for name, size in largest), end="")
    if args.json:
        print(json.dumps(sizes))


if __name__ == "__main__":
    main()
