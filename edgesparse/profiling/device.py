"""What a plan costs on a device, by layer: QEMU instructions on an emulated board, ticks on a real
one.

A board is emulated for this alone, whose clock counts instructions (firmware_sim/firmware/clock.c):
the same in every repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn

import numpy as np

from edgesparse.device import instructions
from edgesparse.device.qemu import ICOUNT
from edgesparse.device.rig import EmulatedRig
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.link import inference
from edgesparse.link.client import Link
from edgesparse.link.info import device_info
from edgesparse.link.remote import check_runs
from edgesparse.link.stream import DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Inputs, stored_inputs
from edgesparse.stimuli import pulses, sample_span
from edgesparse.streaming.samples import input_of
from edgesparse.target import load_target, target_names

QEMU = "qemu:"
IN_ALL = "in all"
INSTRUCTIONS, TICKS = "QEMU instructions", "ticks"
CLOCK_HZ = 64_000_000
"""Of a core, where milliseconds are asked for and no clock is named."""
RUNS, HOPS = 3, 100
"""So many without inputs from the user: samples and inputs go over a serial line."""
WRAP = 1 << 32


@dataclass(frozen=True)
class DeviceLayer:
    """One step: mean cost of a run, and the most in one; None: runs were not counted singly."""

    step: int
    name: str
    runs: int
    cost: float
    most: int | None


@dataclass(frozen=True)
class DeviceProfile:
    """A plan on a device.

    on      "qemu:cortex-m4", or the port
    unit    of cost: INSTRUCTIONS or TICKS
    layers  one entry a step, in order
    total   of a run or pushed hop, with the front end and what is between layers
    hz      of a tick, or the clock that milliseconds of instructions are for
    cycles_per_instruction
            assumed; None: milliseconds need no assumption (ticks), or nobody has made one
    """

    on: str
    unit: str
    layers: tuple[DeviceLayer, ...]
    total: DeviceLayer
    stream: bool
    hz: int
    cycles_per_instruction: float | None = None

    @property
    def runs(self) -> int:
        return self.total.runs

    @property
    def rest(self) -> float:
        """Of a run: what belongs to no layer."""
        return self.total.cost - sum(layer.cost * layer.runs for layer in self.layers) / self.runs

    @property
    def longest(self) -> int:
        """Of a run or hop."""
        assert self.total.most is not None
        return self.total.most

    def share(self, layer: DeviceLayer) -> float:
        """Of all runs."""
        return layer.cost * layer.runs / (self.total.cost * self.runs)

    def milliseconds(self, cost: float) -> float | None:
        """Of ticks measured; of instructions by the assumption, None without one."""
        cycles = 1.0 if self.unit == TICKS else self.cycles_per_instruction
        return None if cycles is None else 1000 * cost * cycles / self.hz


def with_clock(found: DeviceProfile, clock_hz: int) -> DeviceProfile:
    """A profile of instructions with milliseconds at a clock, by the assumption for the core."""
    return replace(found, hz=clock_hz, cycles_per_instruction=assumed_cycles(found.on))


def assumed_cycles(on: str) -> float | None:
    """Cycles of an instruction, assumed, on qemu:CPU; None: nobody has assumed any."""
    cpu = on.removeprefix(QEMU)
    return load_target(cpu).cycles_per_instruction or None if cpu in target_names() else None


def profile_emulated(
    plan: Plan, x: Inputs | None, on: str, seed: int = 0, clock_hz: int = CLOCK_HZ
) -> DeviceProfile:
    """Start a board of its own and count. on: qemu:cortex-m4 and so on; clock_hz: of the core that
    milliseconds are for.

    Raises BadInput for an unknown core or inputs that do not fit, ToolMissing, BuildFailed,
    DeviceFailed, LinkError.
    """
    rig = EmulatedRig(on.removeprefix(QEMU), ICOUNT)
    try:
        return with_clock(measured(rig.bring(plan), plan, x, on, seed), clock_hz)
    finally:
        rig.close()


def profile_port(link: Link, plan: Plan, x: Inputs | None, on: str, seed: int = 0) -> DeviceProfile:
    """Measure on the device at the other end, which has to run the plan.

    Raises BadInput when it runs another one or inputs do not fit, LinkError.
    """
    check_runs(link, plan)
    return measured(link, plan, x, on, seed)


# ---- measuring


@dataclass(frozen=True)
class _Count:
    """The device's counters: ticks and runs of each step, runs and ticks in all."""

    ticks: Array
    runs: Array
    times: int
    total: int

    @classmethod
    def read(cls, link: Link) -> _Count:
        steps, times = inference.profile(link), inference.latency(link)
        return cls(np.array([s.ticks for s in steps], np.int64),
                   np.array([s.runs for s in steps], np.int64), times.count, times.ticks)

    def since(self, before: _Count) -> _Count:
        return _Count(self.ticks - before.ticks, self.runs - before.runs,
                      self.times - before.times, (self.total - before.total) % WRAP)


def measured(link: Link, plan: Plan, x: Inputs | None, on: str, seed: int) -> DeviceProfile:
    """Of the plan that runs at the other end; on qemu:CPU the board has to be started with ICOUNT.

    Raises as profile_port().
    """
    tick_hz = device_info(link).tick_hz
    if tick_hz is None:
        raise BadInput(f"{on}: the device does not say how fast its clock is, so its ticks mean "
                       "nothing; its firmware has to set ticks_per_second")
    turns = _turns(link, plan, x, np.random.default_rng(seed))
    if on.startswith(QEMU):
        return _instructions(plan, _one_by_one(link, turns), on, tick_hz)
    return _ticks(plan, *_summed_up(link, turns), on, tick_hz)


def _one_by_one(link: Link, turns: Iterator[None]) -> list[_Count]:
    """Of each turn with a run, all counters: an emulated line is fast."""
    read = [_Count.read(link), *(_Count.read(link) for _ in turns)]
    counts = [now.since(before) for before, now in pairwise(read)]
    return [count for count in counts if _has_run(count)] or _too_few()


def _summed_up(link: Link, turns: Iterator[None]) -> tuple[_Count, int]:
    """Of all turns, and the ticks of the longest."""
    first = _Count.read(link)
    times = [first.total, *(inference.latency(link).ticks for _ in turns)]
    count = _Count.read(link).since(first)
    most = max(((now - before) % WRAP for before, now in pairwise(times)), default=0)
    return (count, most) if _has_run(count) else _too_few()


def _has_run(count: _Count) -> bool:
    return bool(count.runs.any())


def _too_few() -> NoReturn:
    raise BadInput("the samples are too few for a run; give more")


def _turns(
    link: Link, plan: Plan, x: Inputs | None, rng: np.random.Generator
) -> Iterator[None]:
    """Runs the plan, or pushes a hop, each time it is asked."""
    if plan.model.stream is None:
        inputs = inputs_of(plan, x, rng)
        inference.reset_state(link)
        for run in range(len(inputs[0])):
            inference.run(link, [values[run] for values in inputs])
            yield
        return
    frames = frames_of(plan, x, rng)
    stream = DeviceStream(link)
    hop = device_info(link).hop
    for at in range(0, len(frames) - hop + 1, hop):
        stream.push(frames[at:at + hop])
        yield
    stream.close()


def inputs_of(plan: Plan, x: Inputs | None, rng: np.random.Generator) -> list[Array]:
    """Each input as [runs, *shape] int8; without x RUNS of them, uniform. Raises BadInput."""
    given = x if x is not None else [
        rng.integers(-128, 128, (RUNS, *io.shape)).astype(np.int8) for io in plan.inputs]
    return stored_inputs(plan.inputs, given)[0]


def frames_of(plan: Plan, x: Inputs | None, rng: np.random.Generator) -> Array:
    """Samples of a stream as [n, channels] int16; without x bumps as of a heart for HOPS runs.

    Raises BadInput.
    """
    table = plan.model.stream
    assert table is not None
    channels = plan.inputs[0].shape[-1]
    if x is None:
        span, each = sample_span(plan)
        return pulses((HOPS * table.hop * each, channels), span, rng)
    if not isinstance(x, np.ndarray) or x.size % channels or x.ndim > 2:
        raise BadInput(f"samples of a stream are an array [n] or [n, {channels}]")
    return input_of(plan).pushed(x.reshape(-1, channels))


def _instructions(
    plan: Plan, counts: Sequence[_Count], on: str, tick_hz: int
) -> DeviceProfile:
    def whole(ticks: int) -> int:
        return round(instructions(ticks, tick_hz, ICOUNT))

    def layer(step: int, name: str, runs: list[int], costs: list[int]) -> DeviceLayer:
        return DeviceLayer(step, name, sum(runs), sum(costs) / max(sum(runs), 1), max(costs))

    layers = tuple(
        layer(step, info.name, [int(count.runs[step]) for count in counts],
              [whole(int(count.ticks[step])) for count in counts])
        for step, info in enumerate(plan.layers))
    total = layer(-1, IN_ALL, [1] * len(counts), [whole(count.total) for count in counts])
    return DeviceProfile(on, INSTRUCTIONS, layers, total, plan.model.stream is not None, tick_hz)


def _ticks(plan: Plan, count: _Count, most: int, on: str, tick_hz: int) -> DeviceProfile:
    layers = tuple(
        DeviceLayer(step, info.name, int(runs), int(ticks) / max(int(runs), 1), None)
        for step, (info, ticks, runs) in enumerate(zip(plan.layers, count.ticks, count.runs)))
    total = DeviceLayer(-1, IN_ALL, count.times, count.total / max(count.times, 1), most)
    return DeviceProfile(on, TICKS, layers, total, plan.model.stream is not None, tick_hz)
