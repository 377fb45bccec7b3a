"""Two minutes of real ECG on emulated boards in their own time; benchmarks/device_ecg.py has hours
of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from device_ecg import (
    HOP,
    INTERRUPT,
    RATE_HZ,
    Streamed,
    faults_of,
    record,
    soaked,
    streamed,
)
from preloaded import Soak

from edgesparse.graph.ir import Array
from edgesparse.link.inference import Cause, Memory
from needs import require

for need in ("arm", "qemu", "cmake", "ecg"):
    require(need)

SECONDS = 120
two_cpus = pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])


@pytest.fixture(scope="module")
def samples(data_root: Path) -> Array:
    return record(data_root)[:SECONDS * RATE_HZ]


@two_cpus
def test_a_stream_through_the_link_is_the_hosts_and_never_late(cpu: str, samples: Array) -> None:
    """Half of it: the line takes its time."""
    pushed = samples[:len(samples) // 2]
    found = streamed(cpu, pushed)
    assert found.faults == []
    assert found.results > len(pushed) / HOP
    assert len(found.marks) == 2
    assert found.stats["rx"] > 2 * len(pushed)


@two_cpus
def test_a_preloaded_record_is_the_hosts_and_never_late(cpu: str, samples: Array) -> None:
    """Half of it, twice: it goes through the record again."""
    soak = Soak(hops=SECONDS * RATE_HZ // HOP, report=450)
    reports = list(soaked(cpu, samples[:len(samples) // 2], soak))
    assert faults_of(reports, soak) == []
    assert len(reports) == 6
    assert all(1000 < report.stack < 8000 for report, _ in reports)


def test_what_a_run_through_the_link_must_not_do_is_a_fault() -> None:
    mark = Memory(32_000, 2_600, 1_900_000, 7_456, 7_836, Cause.POWER, 0)
    stats = dict.fromkeys(("late", "overrun", "drop", "gap", "long", "enc", "crc"), 0)
    deeper = replace(mark, stack_most=mark.stack_most + INTERRUPT)
    good = Streamed(100, 0, 3, stats, (mark, deeper, deeper))
    assert good.faults == []
    for name in stats:
        assert replace(good, stats={**stats, name: 1}).faults == [f"{name} 1"]
    assert replace(good, differing=2).faults == ["2 results differ"]
    assert replace(good, marks=(mark, replace(mark, arena_used=7_472))).faults == ["memory grew"]
    grown = replace(mark, stack_most=deeper.stack_most + 4)
    assert replace(good, marks=(mark, deeper, grown)).faults == [
        "the stack grew: [2600, 2856, 2860]"]


def test_what_a_preloaded_run_must_not_do_is_a_fault(samples: Array) -> None:
    soak = Soak(hops=90, report=45)
    good = list(soaked("cortex-m4", samples, soak))
    (first, _), (last, _) = good
    assert faults_of(good, soak) == []
    period = last.due - first.due
    for changed in (
        replace(last, late=1), replace(last, overruns=1), replace(last, samples=last.samples - 1),
        replace(last, ticks=last.due - 1), replace(last, ticks=last.ticks + period // 45),
        replace(last, stack=last.stack + 4), replace(last, arena=last.arena + 1),
    ):
        assert len(faults_of([good[0], (changed, True)], soak)) == 1
    assert faults_of([good[0], (last, False)], soak) == [f"results differ by hop {last.hops}"]
    assert faults_of(good[:1], soak) == ["reports are missing"]


def test_a_core_that_is_too_slow_is_late(samples: Array) -> None:
    """1,024 ns an instruction: a hop takes 61 of its 44 ms."""
    soak = Soak(hops=40, report=40, icount=10)
    [(report, same)] = list(soaked("cortex-m4", samples, soak))
    assert same
    assert report.late > 30
    assert report.overruns > 30
