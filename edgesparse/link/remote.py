"""A stream plan that runs on a device, with the face of one that runs here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from math import prod

from edgesparse.errors import BadInput, LinkLost, LinkRefused, LinkTimeout
from edgesparse.graph.ir import Array
from edgesparse.link.client import Link
from edgesparse.link.images import images
from edgesparse.link.info import device_info
from edgesparse.link.smp import Group, Map
from edgesparse.link.stream import DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Event, SignalState, StateChange

TOO_LONG, NO_STREAM = 7, 1
"""SMP's own code, and one of our group."""
STALE_S = 1.0
"""Counters of the device are not asked for more often."""


def check_runs(link: Link, plan: Plan) -> None:
    """Raises BadInput unless the device runs exactly these bytes."""
    digest = hashlib.sha256(plan.data).digest()
    now = next((image for image in images(link) if image.active), None)
    if now is None or now.hash != digest:
        runs = "no plan" if now is None else f"plan {now.hash.hex()[:12]}"
        raise BadInput(
            f"the device runs {runs}, this is plan {digest.hex()[:12]}; bring it there with "
            "edgesparse deploy")


class RemoteStream:
    """Samples go to the device, events come back; no sample is looked at here.

    The counters are the device's, at most STALE_S old.
    """

    def __init__(self, link: Link, plan: Plan, runs: bool) -> None:
        """runs: also report each run with its outputs.

        Raises BadInput for a plan that is no stream or not the one that runs there, LinkRefused,
        LinkTimeout, LinkLost.
        """
        here = Stream(plan)  # checks the plan and says what it is
        self.plan = plan
        self.hop, self.classes = here.hop, here.classes
        check_runs(link, plan)
        self.tick_hz = device_info(link).tick_hz
        self.device = _opened(link, plan, runs)
        self.samples = 0
        self.signal = SignalState.GOOD
        self._stats: Map = {}
        self._asked: float | None = None

    def budget(self, seconds: float) -> None:
        """The firmware keeps its own, the signal time of a run's samples."""

    def push(self, samples: Array) -> list[Event]:
        """[n] int16, or [n, channels]; what the device has found by now.

        Raises LinkRefused, LinkTimeout, LinkLost.
        """
        events = self._taken(lambda: self.device.push(samples))
        self.samples += len(samples)
        return events

    def flush(self) -> list[Event]:
        """The record ends here; what was not final yet."""
        events = self._taken(self.device.finish)
        self._asked = None
        return events

    def _taken(self, call: Callable[[], list[Event]]) -> list[Event]:
        try:
            events = call()
        except LinkRefused as refused:
            if (refused.group, refused.code) != (Group.EDGESPARSE, NO_STREAM):
                raise
            raise LinkLost(
                f"the device was reset, or another client has opened its stream; {self._far()}"
            ) from refused
        except (LinkTimeout, LinkLost) as error:
            raise type(error)(f"{error}; {self._far()}") from error
        states = [event.state for event in events if isinstance(event, StateChange)]
        self.signal = states[-1] if states else self.signal
        return events

    def _far(self) -> str:
        return f"{self.samples:,} samples had been taken, the results up to there are complete"

    def _counters(self) -> Map:
        if self._asked is None or time.monotonic() - self._asked > STALE_S:
            self._stats = self.device.link.stats()
            self._asked = time.monotonic()
        return self._stats

    @property
    def runs(self) -> int:
        return int(self._counters()["runs"])

    @property
    def missing(self) -> int:
        """How many of the samples were missing."""
        return int(self._counters()["miss"])

    @property
    def overruns(self) -> int:
        """Runs over the budget of the firmware."""
        return int(self._counters()["late"])

    @property
    def worst_seconds(self) -> float:
        """The longest run, by the device's clock; 0 where it does not say how fast that is."""
        return int(self._counters()["worst"]) / self.tick_hz if self.tick_hz else 0.0


def _opened(link: Link, plan: Plan, runs: bool) -> DeviceStream:
    try:
        return DeviceStream(link, runs, [out.shape for out in plan.outputs])
    except LinkRefused as refused:
        if refused.group is not None or refused.code != TOO_LONG:
            raise
        size = sum(prod(out.shape) for out in plan.outputs)
        raise BadInput(
            f"the outputs of a run have {size:,} bytes, and the device has no room for two of "
            "them; give it a larger ring, or convert with beats=yes") from refused
