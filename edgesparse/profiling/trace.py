"""A run on the emulated NPU as a trace in Chrome's format, which Perfetto opens.

Source: "Trace Event Format", complete events (ph X) and metadata (ph M). The format counts
microseconds; here one of them stands for one emulated cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgesparse.npu.isa import Engine
from edgesparse.profiling.profile import Profile
from edgesparse.runtime.npu import NO_STEP

LAYERS = "layers"
LANES: dict[Engine, str] = {
    Engine.DMA: "DMA", Engine.MAC: "MAC", Engine.REQ: "requant", Engine.LUT: "tables",
    Engine.VEC: "vector", Engine.STALL_DMA: "waiting for DMA",
    Engine.STALL_FETCH: "waiting for instructions"}
"""Threads of the trace; LAYERS stands above them. A cycle in none of them issues an instruction."""
PROCESS = 1
LAYER_THREAD = 0


def chrome_trace(found: Profile, names: Sequence[str]) -> dict[str, Any]:
    """The last run of a profile that was made with its trace; names: of the layers, to show."""
    return {
        "traceEvents": [*_metadata(found), *_layers(found, names), *_engines(found, names)],
        "displayTimeUnit": "ms",
        "otherData": {"unit": "1 us stands for 1 emulated cycle", "target": found.on},
    }


def _metadata(found: Profile) -> Iterator[dict[str, Any]]:
    yield _named("process_name", LAYER_THREAD, f"{found.on}, emulated cycles as us")
    yield _named("thread_name", LAYER_THREAD, LAYERS)
    for engine, lane in LANES.items():
        yield _named("thread_name", engine + 1, lane)


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _layers(found: Profile, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Steps end in their order, so what each of them took says where it stands."""
    now = 0
    for name, mark in zip(names, found.marks):
        if mark["launch_cyc"]:
            yield _complete("launch", "launch", LAYER_THREAD, (now, now + mark["launch_cyc"]))
            now += mark["launch_cyc"]
        end = now + mark["cycles"] - mark["launch_cyc"]
        if end > now:
            yield _complete(name, "layer", LAYER_THREAD, (now, end))
        now = end


def _engines(found: Profile, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for event in found.trace:
        engine, step = Engine(int(event["engine"])), int(event["step"])
        name = "after the last layer" if step == NO_STEP else names[step]
        yield _complete(
            name, LANES[engine], engine + 1, (int(event["start"]), int(event["end"])),
            int(event["instruction"]))


def _complete(
    name: str, category: str, thread: int, span: tuple[int, int], instruction: int | None = None
) -> dict[str, Any]:
    event = {"ph": "X", "name": name, "cat": category, "pid": PROCESS, "tid": thread,
             "ts": span[0], "dur": span[1] - span[0]}
    return event if instruction is None else event | {"args": {"instruction": instruction}}
