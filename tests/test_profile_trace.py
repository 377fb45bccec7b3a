"""profile --trace: Chrome's format, and the same numbers as the counters."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from npu_models import path_of

import edgesparse as es
from command_line import Ran
from edgesparse.cli.names import short_names
from edgesparse.npu.isa import Engine
from edgesparse.profiling.profile import Profile
from edgesparse.profiling.trace import LANES, LAYER_THREAD, LAYERS, chrome_trace
from profiled import AD, KWS, STREAM, plan_for

COUNTER = {
    Engine.DMA: "dma_busy", Engine.MAC: "mac_cyc", Engine.REQ: "req_cyc", Engine.LUT: "lut_cyc",
    Engine.VEC: "vec_cyc", Engine.STALL_DMA: "stall_dma", Engine.STALL_FETCH: "stall_fetch"}


def traced(name: str, data_root: Path) -> tuple[Profile, dict[str, Any]]:
    plan = plan_for(path_of(data_root, name))
    found = es.profile(plan, options=es.ProfileOptions(trace=True))
    assert isinstance(found, Profile)
    return found, chrome_trace(found, short_names([layer.name for layer in plan.layers]))


def threads(trace: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Complete events by thread, in the order of the file."""
    lanes = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            lanes[event["tid"]].append(event)
    return lanes


@pytest.mark.parametrize("name", [KWS, AD, STREAM])
def test_events_are_of_the_format_and_do_not_overlap(name: str, data_root: Path) -> None:
    _, trace = traced(name, data_root)
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M"}
    for lane in threads(json.loads(json.dumps(trace))).values():
        end = 0
        for event in lane:
            assert {"name", "cat", "pid", "tid", "ts", "dur"} <= event.keys()
            assert isinstance(event["name"], str)
            assert type(event["ts"]) is type(event["dur"]) is int
            assert event["ts"] >= end
            assert event["dur"] > 0
            end = event["ts"] + event["dur"]


@pytest.mark.parametrize("name", [KWS, AD, STREAM])
def test_sums_of_each_lane_are_the_counters_of_the_run(name: str, data_root: Path) -> None:
    """In all, and for each layer."""
    found, trace = traced(name, data_root)
    lanes = threads(trace)
    layers = short_names([layer.name for layer in found.layers])
    for engine, counter in COUNTER.items():
        sums = dict.fromkeys(layers, 0)
        for event in lanes[engine + 1]:
            sums[event["name"]] = sums.get(event["name"], 0) + event["dur"]
        rest = sums.pop("after the last layer", 0)
        assert sums == {
            layer: mark[counter] for layer, mark in zip(layers, found.marks, strict=True)}
        if counter != "stall_dma" and counter != "stall_fetch":
            assert rest == 0
    spans = sum(event["dur"] for event in lanes[LAYER_THREAD])
    assert spans == sum(mark["cycles"] for mark in found.marks)


@pytest.mark.parametrize("name", [KWS, STREAM])
def test_everything_but_loads_lies_within_its_layer(name: str, data_root: Path) -> None:
    _, trace = traced(name, data_root)
    lanes = threads(trace)
    spans = {event["name"]: (event["ts"], event["ts"] + event["dur"])
             for event in lanes[LAYER_THREAD]}
    for engine in LANES:
        for event in lanes[engine + 1] if engine != Engine.DMA else ():
            start, end = spans.get(event["name"], (0, 1 << 40))
            assert start <= event["ts"]
            assert event["ts"] + event["dur"] <= end


def test_threads_have_names(data_root: Path) -> None:
    _, trace = traced(AD, data_root)
    named = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"]
             if event["ph"] == "M" and event["name"] == "thread_name"}
    assert named == {LAYER_THREAD: LAYERS, **{engine + 1: lane for engine, lane in LANES.items()}}
    assert set(LANES) == set(Engine)
    assert "emulated cycle" in trace["otherData"]["unit"]


def test_the_command_writes_it(tmp_path: Path) -> None:
    plan = plan_for(path_of(Path(), STREAM))
    plan.save(tmp_path / "ecg.esp")
    ran = Ran("profile", tmp_path / "ecg.esp", "--on", "esn-s", "--trace", tmp_path / "t.json")
    assert ran.code == 0
    found = json.loads((tmp_path / "t.json").read_text())
    names = {event["name"] for event in found["traceEvents"]}
    assert {"launch", "stem2_1", "block6_1 +1"} <= names
    refused = Ran("profile", tmp_path / "ecg.esp", "--on", "host", "--trace", tmp_path / "u.json")
    assert refused.code == 2
    assert "no emulated cycles" in refused.err
    assert not (tmp_path / "u.json").exists()
    assert Ran("profile", tmp_path / "ecg.esp", "--on", "esn-s", "--trace",
               tmp_path / "ecg.esp").code == 2
