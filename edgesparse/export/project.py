"""The files of the project, and the directory they go to: whole or not at all."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgesparse.errors import BadInput, WrongMachine
from edgesparse.export.c_source import plan_c, plan_h
from edgesparse.export.features import built_for, config_header
from edgesparse.export.kernels import KERNELS_OF
from edgesparse.plan.plan import Plan
from edgesparse.sources import source_root

CPUS = tuple(KERNELS_OF)
CORE = ("exec", "plan", "stream", "weights")
"""Folders of native/src; the others are the emulated NPU, and what a link and a store need."""
TOOLCHAIN = "firmware_sim/arm-none-eabi.cmake"
MARK = "es_config.h"
"""A folder that has this file is one that export made."""

TRUSTED = """\
The core opens this plan and no other, told by its CRC-32: it was checked
completely when it was exported. To check it again on the device, or to open
plans that came over a line, export with --check-on-device."""
CHECKED = """\
The core checks whatever plan it opens, completely, before it runs it."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    files     paths in the folder, in order
    features  of the core, those that are in it: edgesparse.export.features
    """

    folder: Path
    cpu: str
    files: tuple[str, ...]
    features: tuple[str, ...]


def export_plan(
    plan: Plan, folder: Path, cpu: str | None = None, *, trusted: bool = True, force: bool = False
) -> Exported:
    """Write a C project around a plan that the core has checked (Session and NativePlan do).

    cpu      of CPUS; None: that of the plan's target
    trusted  the core opens this plan only and does not check it again: es_config.h
    force    replace the files of an earlier export; what else is in its folder stays
    Raises BadInput when there is no such CPU or the folder cannot be written, WrongMachine for a
    plan with a program for an NPU, SourcesMissing when the package has no C sources.
    """
    if plan.model.npu is not None:
        raise WrongMachine(
            f"a plan for {plan.model.target} carries a program that no Cortex-M runs: convert the "
            "model with --target cortex-m4 or cortex-m55")
    cpu = cpu or ("cortex-m55" if plan.model.target == "cortex-m55" else "cortex-m4")
    if cpu not in CPUS:
        raise BadInput(f"--cpu {cpu}: no such CPU; there are {', '.join(CPUS)}")
    folder = folder.resolve()
    _check_folder(folder, force)
    content = dict(_files(plan, cpu, trusted))
    try:
        _write(folder, content)
    except OSError as error:
        raise BadInput(
            f"-o {folder}: {error.strerror or error}; nothing was written") from error
    built = built_for(plan, cpu, trusted=trusted)
    return Exported(folder, cpu, tuple(content), tuple(sorted(built)))


def _files(plan: Plan, cpu: str, trusted: bool) -> Iterator[tuple[str, bytes]]:
    """Every file of the project: its path, its content."""
    root = source_root()
    machine = _machine(root, cpu)
    own = files("edgesparse.export") / "template"
    main = "main_run.c" if plan.model.stream is None else "main_stream.c"
    readme = (own / "README.txt").read_text(encoding="utf-8")
    for mark, text in (
        ("@CPU@", cpu), ("@MACHINE@", machine), ("@TRUST@", TRUSTED if trusted else CHECKED)):
        readme = readme.replace(mark, text)
    yield "README.txt", readme.encode()
    yield "CMakeLists.txt", (own / "CMakeLists.txt").read_bytes()
    yield "main.c", (own / main).read_bytes()
    yield "plan.h", plan_h(plan).encode()
    yield "plan.c", plan_c(plan).encode()
    yield MARK, config_header(plan, cpu, trusted=trusted).encode()
    for path in _core(root, machine):
        yield f"edgesparse/{path.relative_to(root).as_posix()}", path.read_bytes()


def _core(root: Path, machine: str) -> list[Path]:
    native, board = root / "native", root / "firmware_sim"
    include = native / "include" / "edgesparse"
    paths = [
        root / "LICENSE", native / "CMakeLists.txt", include / "edgesparse.h",
        include / "status.inc", *(native / "src").glob("*.h"), root / TOOLCHAIN,
        board / "startup.c", board / "sections.ld", board / f"{machine}.ld"]
    for part in CORE:
        paths += [path for path in (native / "src" / part).rglob("*") if path.is_file()]
    return sorted(paths)


def _machine(root: Path, cpu: str) -> str:
    """What QEMU calls the board of a CPU, as the toolchain file has it."""
    found = re.search(rf"set\(machine_{cpu} ([\w-]+)\)", (root / TOOLCHAIN).read_text())
    if found is None:
        raise BadInput(f"--cpu {cpu}: {TOOLCHAIN} knows no board with it")
    return found[1]


def _check_folder(folder: Path, force: bool) -> None:
    """Raises BadInput where something would be lost, or nothing can be written."""
    if not folder.parent.is_dir():
        raise BadInput(f"-o {folder}: there is no directory {folder.parent}; make it first")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"-o {folder}: this is a file; give the name of a new directory")
    if not any(folder.iterdir()):
        return
    if not (folder / MARK).is_file():
        raise BadInput(
            f"-o {folder}: this directory is not empty, and not from an earlier export; give the "
            "name of a new one")
    if not force:
        raise BadInput(
            f"-o {folder}: there is an export already; --force replaces its files, main.c among "
            "them")


def _write(folder: Path, content: dict[str, bytes]) -> None:
    """Make the folder beside its place, then move it there; OSError leaves the old one."""
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        new, old = made / "new", made / "old"
        if folder.exists():
            shutil.copytree(folder, new, symlinks=True, ignore=_core_of(folder))
        for name, data in content.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _core_of(folder: Path) -> Callable[[str, list[str]], set[str]]:
    """For copytree: an earlier export's core stays behind, files of it may be gone by now."""

    def ignored(parent: str, names: list[str]) -> set[str]:
        return {"edgesparse", "build"} & set(names) if Path(parent) == folder else set()

    return ignored
