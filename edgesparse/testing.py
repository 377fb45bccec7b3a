"""On-device tests: whether a plan keeps its budget on a device, and gives the same bytes there.

pytest's fixture `edgesparse_device` is a DeviceUnderTest; open_device() makes one without pytest.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np

from edgesparse.cli.names import short_names
from edgesparse.device.qemu import ICOUNT
from edgesparse.device.rig import EmulatedRig, PortRig, Rig
from edgesparse.graph.ir import Array
from edgesparse.link import inference
from edgesparse.link.client import Link
from edgesparse.link.remote import RemoteStream
from edgesparse.plan.plan import Plan
from edgesparse.profiling.budget import parse_clock
from edgesparse.profiling.device import (
    CLOCK_HZ,
    TICKS,
    DeviceProfile,
    frames_of,
    inputs_of,
    measured,
    with_clock,
)
from edgesparse.profiling.device_budget import DeviceBudget, parse_device_budget
from edgesparse.runtime.session import Inputs, Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Event, Run

SHOWN = 3
"""Layers that a failure names."""


class DeviceUnderTest:
    """A device that plans are brought to, one after the other. A context manager.

    on  "qemu:cortex-m4" and so on, or the port
    """

    def __init__(self, rig: Rig, clock_hz: int = CLOCK_HZ) -> None:
        """clock_hz: of an emulated core, for budgets in time that name none."""
        self.rig = rig
        self.clock_hz = clock_hz

    def __enter__(self) -> DeviceUnderTest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rig.close()

    @property
    def on(self) -> str:
        return self.rig.on

    def link(self, plan: Plan) -> Link:
        """To the device while it runs `plan`. Raises as Rig.bring()."""
        return self.rig.bring(plan)

    def profile(self, plan: Plan, x: Inputs | None = None, seed: int = 0) -> DeviceProfile:
        """What it costs there, by layer; x as es.profile() takes it."""
        found = measured(self.link(plan), plan, x, self.on, seed)
        return found if found.unit == TICKS else with_clock(found, self.clock_hz)

    def assert_latency(
        self, plan: Plan, budget: str, x: Inputs | None = None, seed: int = 0
    ) -> DeviceProfile:
        """Fail unless every run, or hop of a stream, takes at most `budget`.

        budget  "44ms"; "44ms@64MHz" and "300000 instructions" on an emulated board, "1500000 ticks"
                on a real one
        Returns what was measured. Raises AssertionError, and BadInput for a budget in a unit the
        device does not have.
        """
        __tracebackhide__ = True
        allowed = parse_device_budget(budget)
        found = self.profile(plan, x, seed)
        if allowed.clock_hz is not None:
            found = with_clock(found, allowed.clock_hz)
        if found.longest > allowed.cost(found):
            raise AssertionError(_too_slow(plan, allowed, found))
        return found

    def assert_exact(self, plan: Plan, x: Inputs | None = None, seed: int = 0) -> None:
        """Fail unless the device gives the bytes that the portable core gives here.

        x  as es.profile() takes it; of a stream, all that it reports is compared
        Raises AssertionError.
        """
        __tracebackhide__ = True
        link, rng = self.link(plan), np.random.default_rng(seed)
        if plan.model.stream is None:
            wrong = _differing_output(link, plan, inputs_of(plan, x, rng))
        else:
            wrong = _differing_event(link, plan, frames_of(plan, x, rng))
        if wrong:
            raise AssertionError(f"{_name(plan)} on {self.on}: {wrong}")


def open_device(
    port: str | None = None, baud: int = 115200, cpu: str = "cortex-m4", clock: str = "64MHz"
) -> DeviceUnderTest:
    """port: of a device; None: a board with `cpu` is emulated.

    Raises BadInput, ToolMissing, BuildFailed, LinkLost, LinkTimeout.
    """
    clock_hz = parse_clock(clock)
    return DeviceUnderTest(
        EmulatedRig(cpu, ICOUNT) if port is None else PortRig(port, baud), clock_hz)


def _name(plan: Plan) -> str:
    return plan.model.names.model if plan.model.names and plan.model.names.model else "the plan"


def _too_slow(plan: Plan, allowed: DeviceBudget, found: DeviceProfile) -> str:
    names = short_names([layer.name for layer in found.layers])
    costly = sorted(zip(names, found.layers), key=lambda row: -row[1].cost * row[1].runs)[:SHOWN]
    slowest = ", ".join(
        f"{name} {layer.cost:,.0f} ({100 * found.share(layer):.0f} %)" for name, layer in costly)
    run = "hop" if found.stream else "run"
    ms = found.milliseconds(found.longest)
    time = "" if ms is None else f", {ms:.4g} ms"
    return (f"{_name(plan)} on {found.on}: {found.longest:,} {found.unit} for a {run}{time}; the "
            f"budget {allowed.text} is {allowed.cost(found):,.0f} {found.unit}"
            f"{_assumption(allowed, found)}. The slowest layers: {slowest}")


def _assumption(allowed: DeviceBudget, found: DeviceProfile) -> str:
    if allowed.seconds is None or found.unit == TICKS:
        return ""
    return (f" (assumed: {found.cycles_per_instruction:g} cycles per instruction, at "
            f"{found.hz / 1e6:g} MHz)")


def _differing_output(link: Link, plan: Plan, inputs: Sequence[Array]) -> str:
    """The first output that is another one there; "" when there is none."""
    here = Session(plan).native
    inference.reset_state(link)
    for run in range(len(inputs[0])):
        given = [values[run] for values in inputs]
        for buffer, values in zip(here.inputs, given):
            buffer[:] = values.reshape(-1)
        here.run()
        for io, there, mine in zip(plan.outputs, inference.run(link, given), here.outputs):
            differ = np.flatnonzero(there != mine)
            if differ.size:
                at = int(differ[0])
                return (f"output {io.name} of run {run} has {differ.size} of {mine.size} bytes "
                        f"other than here, first byte {at}: {there[at]} there, {mine[at]} here")
    return ""


def _differing_event(link: Link, plan: Plan, frames: Array) -> str:
    stream = Stream(plan)
    mine = [*stream.push_raw(frames), *stream.flush()]
    remote = RemoteStream(link, plan, runs=True)
    try:
        there = [*remote.push(frames), *remote.flush()]
    finally:
        remote.device.close()
    for number, (a, b) in enumerate(zip(there, mine)):
        if _plain(a) != _plain(b):
            return f"result {number} is {a} there, {b} here"
    if len(there) != len(mine):
        return f"{len(there)} results there, {len(mine)} here"
    return ""


def _plain(event: Event) -> object:
    """Comparable: a Run holds arrays."""
    if not isinstance(event, Run):
        return event
    return (event.sample, event.column, event.skip, [out.tobytes() for out in event.outputs])
