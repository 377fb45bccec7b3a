"""What one plan needs of the core, and which part weighs what: for size.py --plan."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from size_of_image import ROOT, command, configured, measure

from edgesparse.export import export_plan
from edgesparse.plan.plan import Plan


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
    configured(cpu, folder, folder / "build", "edgesparse")
    image, map_file = folder / "build" / "footprint", folder / "build" / "footprint.map"
    command(
        "arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard", "-Os",
        "-ffunction-sections", ROOT / "firmware_sim" / "footprint.c",
        folder / "build" / "edgesparse" / "native" / "libedgesparse.a", "--specs=nano.specs",
        "-nostartfiles", "-Wl,-e,main", "-Wl,--gc-sections", f"-Wl,-Map={map_file}",
        *(f"-Wl,-u,{function}" for function in sorted(called)), "-o", image)
    return {**measure(image), **parts_of(map_file.read_text())}
