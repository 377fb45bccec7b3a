"""The ECG stream on emulated devices: the results of the plain Python reference on Cortex-M4 and
M55, byte for byte."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ecg_stream import ecg_plan, record
from edgesparse.graph.ir import Array
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.model import Golden, RingUse
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Event
from edgesparse.streaming.frontend import MISSING
from edgesparse.streaming.plan import StreamOptions, streamed
from edgesparse.streaming.reference import ReferenceStream
from needs import require
from streaming_nets import build
from test_device_plans import BUILDS, array, ctest_on
from test_house import only_one
from test_stream_device import fnv

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "build" / "device-streams"
HOPS = (8, 32)
WINDOWS = "windows"
"""A window with borders that pads, its mean over time from sums that are kept."""


def signal_of(data_root: Path) -> Array:
    """15 s of record 208 with a lead that falls off, a gap and single missing samples."""
    signal = record(data_root, 208, 422_820, 15 * 360)
    signal[2000:2600] = 300
    signal[3400:3500] = MISSING
    signal[np.random.default_rng(1).random(len(signal)) < 0.005] = MISSING
    return signal


def windows_plan() -> Plan:
    made = streamed(build("strided", "same", 320), StreamOptions(16))
    low = replace(lower(made.graph), stream=made.table)
    model = assemble(low, "host", "test", "").model
    assert {ring.use for ring in model.rings} == set(RingUse)
    crc, outputs = Interpreter(write_plan(model)).self_test_values(5)
    golden = Golden(seed=5, trace_crc=crc, outputs=outputs)
    return Plan.from_bytes(write_plan(replace(model, golden=golden)))


def reference(plan: Plan, signal: Array) -> list[Event]:
    stream = ReferenceStream(plan.data)
    return [*stream.push(signal[:, None].tolist()), *stream.flush()]


def header(name: str, plan: Plan, signal: Array, events: list[Event]) -> str:
    """The header that native/tests/device/stream_on_device.c is built with."""
    return "\n".join((
        "#include <stdint.h>",
        f'#define STREAM_NAME "stream_{name}"',
        f"enum {{ STREAM_RAM = {plan.ram_bytes}, "
        f"STREAM_BEATS = {sum(isinstance(e, Beat) for e in events)}, STREAM_CHUNK = 29 }};",
        f"static const uint32_t stream_hash = {fnv(events)}u;",
        *array("uint8_t", "plan_bytes", plan.data, " __attribute__((aligned(16)))"),
        *array("int16_t", "stream_signal", signal.tolist()),
        ""))


@pytest.fixture(scope="module")
def headers(data_root: Path) -> Path:
    """The folder of headers; one that is there and right is not touched, so nothing is rebuilt."""
    require("ecg")
    signal = signal_of(data_root)
    texts = {}
    for hop in HOPS:
        events = reference(ecg_plan(hop), signal)
        texts[f"hop{hop}"] = header(f"hop{hop}", ecg_plan(hop), signal, events)
    short = np.clip(signal[:1000] // 4, -128, 127)
    texts[WINDOWS] = header(WINDOWS, windows_plan(), short, reference(windows_plan(), short))
    other = signal.copy()
    other[4000] += 9
    texts["wrong_signal"] = header("wrong_signal", ecg_plan(32), other, events)
    HEADERS.mkdir(parents=True, exist_ok=True)
    with only_one("device-streams"):
        for name, text in texts.items():
            path = HEADERS / f"stream_{name}.h"
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
    return HEADERS


def test_the_reference_is_the_extension_here(data_root: Path) -> None:
    require("ecg")
    signal = signal_of(data_root)
    stream = Stream(ecg_plan(32))
    assert fnv([*stream.push(signal), *stream.flush()]) == fnv(reference(ecg_plan(32), signal))


@pytest.mark.parametrize("machine", BUILDS)
def test_the_ecg_stream_gives_the_results_of_the_reference(machine: str, headers: Path) -> None:
    printed = ctest_on(machine, headers, "streams", "^real_stream_")
    for hop in HOPS:
        found = re.search(rf"stream_hop{hop}: 5400 samples, (\d+) beats, 0 differing", printed)
        assert found is not None
        assert int(found[1]) > 10
    assert f"stream_{WINDOWS}: 1000 samples, 0 beats, 0 differing" in printed
    assert re.findall(r"FAILED (stream_\w+): \d+ beats, the results", printed) == [
        "stream_wrong_signal"]
