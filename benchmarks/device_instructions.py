"""QEMU instructions of one run of a plan on emulated Cortex-M cores, exactly.

    python benchmarks/device_instructions.py --data-root ../shared [--cpu cortex-m4] [--functions]

A plugin of QEMU (firmware_sim/count/) counts between marks around `es_run`, or for a stream around
the `es_push` of one hop. They are instructions, not cycles: what a core needs for one differs. The
outputs of every run are compared with the same plan in the portable core on this machine.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from records import markdown

from edgesparse.convert import Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Session
from edgesparse.streaming.plan import StreamOptions

ROOT = Path(__file__).resolve().parent.parent
SIM = ROOT / "firmware_sim"
ECG = ROOT / "edgesparse" / "demo" / "ecg_c48_4x1_75.tflite"
HOP = 16
"""Samples at 360 Hz: 44 ms, and half as many columns at 180 Hz."""
RUNS = 2

MODELS = {
    "ad01": "models/mlperf/mlperf_ad01_int8",
    "kws": "models/mlperf/mlperf_kws_dscnn_int8",
    "ic": "models/mlperf/mlperf_ic_resnet8_int8",
}


@dataclass(frozen=True)
class Board:
    """What QEMU calls the board of a core, and where its memory for blobs is (measure.c)."""

    machine: str
    blob: int


BOARDS = {
    "cortex-m4": Board("mps2-an386", 0x21000000),
    "cortex-m7": Board("mps2-an500", 0x60000000),
    "cortex-m33": Board("mps2-an505", 0x80000000),
    "cortex-m55": Board("mps3-an547", 0x70000000),
}


@dataclass(frozen=True)
class Counted:
    """regions: instructions of each run or push; functions: those of the last one, by name; steps:
    of each step without the call, if asked for."""

    regions: tuple[int, ...]
    functions: dict[str, int]
    outputs: str
    steps: tuple[int, ...] = ()


def command(*arguments: str | Path) -> str:
    """What it printed; SystemExit with that when it fails."""
    done = subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


@cache
def plugin() -> Path:
    to = ROOT / "build" / "count.so"
    to.parent.mkdir(exist_ok=True)
    command(shutil.which("cc") or "gcc", "-O2", "-shared", "-fPIC", "-o", to,
            SIM / "count" / "plugin.c")
    return to


@cache
def firmware(cpu: str) -> Path:
    """The image, as it ships: core at -Os, kernels at -O2."""
    folder = ROOT / "build" / f"measure-{cpu}"
    command("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DES_CPU={cpu}",
            f"-DCMAKE_TOOLCHAIN_FILE={SIM / 'arm-none-eabi.cmake'}", "-DES_WERROR=ON")
    command("cmake", "--build", folder, "--target", "measure")
    return folder / "firmware_sim" / "measure"


def blob(plan: Plan, given: bytes, chunk: int, steps: bool = False) -> bytes:
    """As firmware_sim/count/measure.c reads it."""
    padding = bytes(-len(plan.data) % 16)
    number = len(plan.model.steps) if steps else 0
    runs = 1 if steps else RUNS
    head = struct.pack("<8I", len(plan.data), len(given), chunk, runs, number, 0, 0, 0)
    return head + plan.data + padding + given


def count(
    cpu: str, plan: Plan, given: bytes, chunk: int = 0, *, functions: bool = False
) -> Counted:
    """Instructions of two runs on the same int8 inputs; with a chunk, of every push of so many of
    the given int16 samples."""
    return measured(cpu, blob(plan, given, chunk), functions)


def count_steps(cpu: str, plan: Plan, given: bytes, chunk: int = 0) -> Counted:
    """Of one run, or of every push, and then of each step by itself."""
    found = measured(cpu, blob(plan, given, chunk, steps=True))
    runs = len(found.regions) - 1 - len(plan.model.steps)
    call, *alone = found.regions[runs:]
    return replace(found, regions=found.regions[:runs], steps=tuple(n - call for n in alone))


def measured(cpu: str, given: bytes, functions: bool = False) -> Counted:
    """What firmware_sim/count/measure.c makes of a blob."""
    board = BOARDS[cpu]
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "blob", Path(folder) / "counts"
        data.write_bytes(given)
        printed = command(
            "qemu-system-arm", "-M", board.machine, "-display", "none", "-monitor", "none",
            "-serial", "none", "-semihosting-config", "enable=on,target=native",
            "-device", f"loader,file={data},addr={board.blob:#x},force-raw=on",
            "-plugin", f"{plugin()},out={out},functions={'on' if functions else 'off'}",
            "-kernel", firmware(cpu))
        text = out.read_text()
    found = re.search(r"outputs ([0-9a-f]{8})", printed)
    if found is None:
        raise SystemExit(f"{cpu}: {printed}")
    regions = tuple(int(n) for n in re.findall(r"^region (\d+)", text, re.M))
    last = text[text.rindex("region"):]
    return Counted(
        regions, {name: int(n) for n, name in re.findall(r"^function (\d+) (\S+)", last, re.M)},
        found[1])


def fnv(data: bytes) -> str:
    """FNV-1a of 32 bits, as hexadecimal digits."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def inputs_of(plan: Plan) -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.integers(-128, 128, io.shape, np.int8) for io in plan.inputs]


def checked(cpu: str, plan: Plan, *, functions: bool = False, steps: bool = False) -> Counted:
    """Two runs, or one and its steps; SystemExit when their outputs are not those of the portable
    core here."""
    inputs = inputs_of(plan)
    given = b"".join(x.tobytes() for x in inputs)
    found = (count_steps(cpu, plan, given) if steps else
             count(cpu, plan, given, functions=functions))
    if len(set(found.regions)) != 1 and not plan.model.state_bytes:
        raise SystemExit(f"{cpu}: equal runs, but {found.regions} instructions")
    session = Session(plan)
    outputs = []
    for _ in found.regions:
        session.run(inputs[0] if len(inputs) == 1 else inputs)
        outputs += [y.tobytes() for y in session.native.outputs]
    if found.outputs != fnv(b"".join(outputs)):
        raise SystemExit(f"{cpu}: the outputs differ from those of the portable core")
    return found


def samples() -> Array:
    """8 s of a made heart: a spike a second on a slow wave."""
    t = np.arange(8 * 360)
    wave = 40 * np.sin(t / 97) + 250 * np.exp(-(((t % 360) - 150) / 8) ** 2)
    made: Array = wave.astype(np.int16)
    return made


def target_of(cpu: str) -> str:
    return "cortex-m55" if cpu == "cortex-m55" else "cortex-m4"


def stream_plan(cpu: str, hop: int = HOP) -> Plan:
    """hop: samples."""
    options = StreamOptions(hop=hop // 2, frontend="ecg360", beats=True)
    return convert_model(ECG, target_of(cpu), Options(stream=options)).plan


def stream_hop(cpu: str, *, functions: bool = False) -> Counted:
    """The second half of the pushes of one hop: the stream is full by then."""
    found = count(cpu, stream_plan(cpu), samples().tobytes(), chunk=HOP, functions=functions)
    return Counted(found.regions[len(found.regions) // 2:], found.functions, found.outputs)


def show_functions(name: str, found: Counted) -> None:
    total = found.regions[-1]
    for function, n in sorted(found.functions.items(), key=lambda item: -item[1])[:25]:
        print(f"{name:6} {100 * n / total:5.1f} % {n:10,} {function}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--cpu", choices=BOARDS, action="append", help="default: M4 and M55")
    parser.add_argument("--model", choices=[*MODELS, "ecg"], action="append", help="default: all")
    parser.add_argument("--functions", action="store_true", help="where they go, to stderr")
    parser.add_argument("--json", action="store_true", help="a line for each model and core")
    args = parser.parse_args()
    rows = []
    for name in args.model or [*MODELS, "ecg"]:
        for cpu in args.cpu or ("cortex-m4", "cortex-m55"):
            if name == "ecg":
                found = stream_hop(cpu, functions=args.functions)
            else:
                plan = convert_model(
                    args.data_root / f"{MODELS[name]}.tflite", target_of(cpu)).plan
                found = checked(cpu, plan, functions=args.functions)
            rows.append((name, cpu, found.regions[-1], max(found.regions)))
            if args.functions:
                show_functions(name, found)
    if args.json:
        for row in rows:
            print(json.dumps(dict(zip(("model", "cpu", "last", "most"), row))))
        return
    print(markdown(
        ("model", "core", "last run or hop", "most"),
        [(name, cpu, f"{last:,}", f"{most:,}") for name, cpu, last, most in rows]))


if __name__ == "__main__":
    main()
