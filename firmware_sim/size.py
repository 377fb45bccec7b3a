"""Print what linking the whole core adds to a firmware image, at -Os; or what one plan needs of it.

    python firmware_sim/size.py [--cpu cortex-m4] [--json] [--store]
    python firmware_sim/size.py --plan ecg.esp [--plan ...] [--cpu cortex-m4] [--check-on-device]

Builds firmware_sim/footprint.c with every public function as a root and --gc-sections, so the
figure is the core's code and tables and the compiler helpers they call: no plan, no startup.
--store measures the plan store (store.h) instead. --plan builds the core that `edgesparse export`
writes for that plan, with the functions its main.c calls as roots, and says which part weighs what.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from edgesparse.export import export_plan
from edgesparse.plan.plan import Plan

ROOT = Path(__file__).resolve().parent.parent
CPUS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")


def command(*arguments: str | Path) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def build(cpu: str, source: Path, folder: Path, target: str) -> Path:
    """Configure and build a target; returns the folder."""
    toolchain = ROOT / "firmware_sim" / "arm-none-eabi.cmake"
    command("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DES_CPU={cpu}",
            f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel")
    command("cmake", "--build", folder, "--target", target)
    return folder


def measure(cpu: str, name: str) -> dict[str, int]:
    """Return bytes: text and rodata in flash, ram (.data and .bss), which the core has none of."""
    return sizes_of(
        build(cpu, ROOT, ROOT / "build" / f"size-{cpu}", name) / "firmware_sim" / name)


def sizes_of(image: Path) -> dict[str, int]:
    listing = subprocess.check_output(["arm-none-eabi-size", "-A", "-d", image], text=True)
    sections = {
        name: int(size) for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", listing, re.M)
    }
    text = sections.get(".text", 0) + sections.get(".ARM.exidx", 0)
    rodata = sections.get(".rodata", 0)
    ram = sections.get(".data", 0) + sections.get(".bss", 0)
    return {"text": text, "rodata": rodata, "flash": text + rodata, "ram": ram}


# ---- one plan ------------------------------------------------------------------------------------


def part_of(member: str) -> str:
    """What an object of the linker's map belongs to: x/libedgesparse.a(check_file.c.obj)."""
    if "libedgesparse.a" not in member:
        return "libraries"
    name = member[member.index("(") + 1 : -1].removesuffix(".obj").removesuffix(".c")
    if name.endswith(("_dsp", "_mve")):
        return "kernels"
    (path,) = [p for folder in CORE for p in (ROOT / "native/src" / folder).glob(f"{name}.c")]
    checks = name.startswith("check_") or name in ("extent", "schema")
    return "checks" if checks else PARTS[path.parent.name]


CORE = ("exec", "plan", "stream", "weights")
PARTS = {"exec": "executor", "plan": "plan", "stream": "stream", "weights": "encodings"}


def parts_of(text: str) -> dict[str, int]:
    """Bytes of flash by part, of the sections that the linker kept."""
    kept = text[text.index("Linker script and memory map"):]
    found: dict[str, int] = {}
    section = r"^ \.(?:text|rodata|ARM\.exidx)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$"
    for size, member in re.findall(section, kept, re.M):
        if int(size, 16) and "footprint" not in member:
            part = part_of(member)
            found[part] = found.get(part, 0) + int(size, 16)
    return dict(sorted(found.items()))


def measure_plan(cpu: str, path: Path, *, trusted: bool) -> dict[str, int]:
    """Bytes as measure() has them, and by part, of the core that is exported with a plan."""
    name = f"size-plan-{path.stem}-{cpu}" + ("" if trusted else "-checked")
    with tempfile.TemporaryDirectory() as made:
        project = Path(made) / "project"
        export_plan(Plan.load(path), project, cpu, trusted=trusted)
        folder = ROOT / "build" / name
        shutil.copytree(project, folder, dirs_exist_ok=True)
    main = (folder / "main.c").read_text()
    # Its texts are not counted: a device answers with numbers.
    called = set(re.findall(r"\b(es_\w+)\(", main)) - {"es_status_text"}
    build(cpu, folder, folder / "build", "edgesparse")
    image, map_file = folder / "build" / "footprint", folder / "build" / "footprint.map"
    command(
        "arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard", "-Os",
        "-ffunction-sections", ROOT / "firmware_sim" / "footprint.c",
        folder / "build" / "edgesparse" / "native" / "libedgesparse.a", "--specs=nano.specs",
        "-nostartfiles", "-Wl,-e,main", "-Wl,--gc-sections", f"-Wl,-Map={map_file}",
        *(f"-Wl,-u,{function}" for function in sorted(called)), "-o", image)
    return {**sizes_of(image), **parts_of(map_file.read_text())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", choices=CPUS, action="append", help="default: all four")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="the plan store, not the core")
    parser.add_argument("--plan", type=Path, action="append", help="what this plan needs")
    parser.add_argument("--check-on-device", action="store_true", help="with --plan: see export")
    args = parser.parse_args()
    if args.plan:
        show({f"{path.stem} {cpu}": measure_plan(cpu, path, trusted=not args.check_on_device)
              for path in args.plan for cpu in args.cpu or CPUS[:1]}, as_json=args.json)
        return
    name = "footprint_store" if args.store else "footprint"
    show({cpu: measure(cpu, name) for cpu in args.cpu or CPUS}, as_json=args.json)


def show(sizes: dict[str, dict[str, int]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(sizes))
        return
    for name, size in sizes.items():
        print(f"{name:<10}", *(f"{what} {count:>6}" for what, count in size.items()))


if __name__ == "__main__":
    main()
