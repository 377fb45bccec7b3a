"""What native/tests/test_stream.c, on the host and in QEMU, expects: written here, from the plain
Python reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Event, Run, StateChange
from edgesparse.streaming.reference import ReferenceStream
from stream_plans import full_stream_plan, packed, random_signal

HEADER = Path(__file__).resolve().parents[1] / "native" / "tests" / "plan_stream.h"
SAMPLES = 4000


def fnv(events: Iterable[Event]) -> int:
    """FNV-1a, 32 bits, of all records."""
    value = 0x811C9DC5
    for byte in b"".join(map(packed, events)):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def header() -> str:
    data = write_plan(full_stream_plan())
    signal = random_signal(np.random.default_rng(21), SAMPLES)
    reference = ReferenceStream(data)
    pushed = reference.push(signal[:, None].tolist())
    flushed = reference.flush()
    events = [*pushed, *flushed]
    beats, changes, runs = (
        sum(isinstance(e, kind) for e in events) for kind in (Beat, StateChange, Run))
    assert beats > 20
    assert changes > 8
    return "\n".join((
        "/* The plan of full_stream_plan() in tests/stream_plans.py, a signal, and what",
        " * the plain reference made of it. Written by",
        " * pytest tests/test_stream_device.py --update-golden */",
        "#include <stdint.h>",
        "",
        "/* clang-format off */",
        f"enum {{ STREAM_RUNS = {runs}, STREAM_BEATS = {beats}, STREAM_CHANGES = {changes},",
        f"       STREAM_MISSING = {reference.missing} }};",
        f"static const uint32_t stream_pushed = 0x{fnv(pushed):08x}u;",
        f"static const uint32_t stream_flushed = 0x{fnv(events):08x}u;",
        *rows("uint8_t", "plan_stream", list(data), " __attribute__((aligned(16)))"),
        *rows("int16_t", "stream_signal", signal.tolist()),
        ""))


def rows(kind: str, name: str, values: list[int], more: str = "") -> Iterable[str]:
    yield f"static const {kind} {name}[{len(values)}]{more} = {{"
    for start in range(0, len(values), 16):
        yield "    " + ",".join(map(str, values[start : start + 16])) + ","
    yield "};"


def test_the_header_is_what_the_reference_says(update_golden: bool) -> None:
    if update_golden:
        HEADER.write_text(header())
    assert HEADER.read_text() == header(), "pytest tests/test_stream_device.py --update-golden"


def test_the_records_of_the_core_are_those_of_the_header() -> None:
    """The same sum here, through the extension."""
    signal = random_signal(np.random.default_rng(21), SAMPLES)
    stream = Stream(Plan.from_bytes(write_plan(full_stream_plan())))
    events = [*stream.push(signal), *stream.flush()]
    assert f"stream_flushed = 0x{fnv(events):08x}u" in HEADER.read_text()
