"""Running a plan on a signal without end: samples in, results out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from edgesparse.errors import BadInput, NativeError
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import BEAT, ENDED, RUN, NativePlan, NativeResult, NativeSession
from edgesparse.runtime.npu_backend import check_backend, npu_backend
from edgesparse.streaming.events import Beat, Event, Run, SignalState, StateChange
from edgesparse.streaming.samples import input_of


class Stream:
    """A plan made by `convert --stream`, and how far its signal has come.

    push() takes any number of samples at a time; results do not depend on how they are cut.
    """

    def __init__(self, plan: Plan, backend: str = "portable", rate: float | None = None) -> None:
        """rate: of the samples that will be pushed, Hz; None: not checked.

        Raises BadInput for a plan that is no stream, another rate than the plan's or an unknown
        backend, PlanInvalid when the core refuses the plan, WrongMachine and NpuRefused as a
        Session.
        """
        check_backend(backend)
        if plan.model.stream is None:
            raise BadInput(
                "the plan takes windows, not samples; convert the model with --stream hop=N")
        self.plan = plan
        self._input = input_of(plan)
        opened = NativePlan(plan.data)
        self.native = NativeSession(opened)
        self.npu = npu_backend(plan, opened, self.native, backend)
        self._shapes = [out.shape for out in plan.outputs]
        self._events: list[Event] = []
        info = self.native.stream_info()
        self.channels = info.channels
        self.delay = info.delay
        """Samples from a beat (without beats: from a sample) to its result at most."""
        self.hop = info.hop
        """Samples per run."""
        self.classes = info.classes
        """Of beats, which are reported beside the runs; 0: the plan finds none."""
        self.rate = info.rate_mhz / 1000
        """Of the samples, Hz; 0 is unknown."""
        if rate is not None and self.rate and round(rate * 1000) != info.rate_mhz:
            raise BadInput(
                f"the plan is for {self.rate:g} Hz, the signal has {rate:g} Hz; resample it, or "
                "convert the model for its rate")

    def push(self, samples: Array) -> list[Event]:
        """Push samples; what they gave, in order.

        samples  [n] or [n, channels]. Integers are what the plan takes, -32768 stands for a
                 missing sample: ADC units with a front end, stored input values (-128 .. 127)
                 without. Float is real, NaN is missing: with a front end mV (the unit of the
                 model's input), as an ADC of the plan's units per mV would give them; without one
                 quantized as Session.run() does
        Raises BadInput for a shape or number that does not fit, NativeError after a flush.
        """
        return self.push_raw(self._input.pushed(self._frames(np.asarray(samples))))

    def push_raw(self, frames: Array) -> list[Event]:
        """As push() of int16, and without a front end values beyond int8 are clamped, as the core
        does by itself (docs/PLAN_FORMAT.md section 10)."""
        frames = self._frames(frames)
        if frames.dtype != np.int16:
            raise BadInput(f"frames are {frames.dtype}; int16 is allowed")
        with _after_the_end():
            self.native.push(np.ascontiguousarray(frames), self._take)
        return self._taken()

    def flush(self) -> list[Event]:
        """The record ends here: the beats that were not final yet."""
        self.native.flush(self._take)
        return self._taken()

    def reset(self) -> None:
        """Forget the signal; the next sample is number 0."""
        self.native.reset()
        if self.npu is not None:
            self.npu.reset()

    def budget(self, seconds: float) -> None:
        """Count runs that take longer, from the next one on."""
        if seconds < 0:
            raise BadInput(f"budget of {seconds} s: 0 or more is allowed")
        self.native.budget(seconds)

    @property
    def overruns(self) -> int:
        """Runs that took longer than the budget."""
        return self.native.stream_info().overruns

    @property
    def worst_seconds(self) -> float:
        """The longest run since there is a budget."""
        return self.native.stream_info().worst_seconds

    @property
    def samples(self) -> int:
        return self.native.stream_info().samples

    @property
    def runs(self) -> int:
        return self.native.stream_info().runs

    @property
    def missing(self) -> int:
        """How many of the samples were missing."""
        return self.native.stream_info().missing

    @property
    def signal(self) -> SignalState:
        return SignalState(self.native.stream_info().signal)

    def _frames(self, samples: Array) -> Array:
        """[n, channels] of the type they came in."""
        if samples.ndim == 1 and self.channels == 1:
            samples = samples[:, None]
        if samples.ndim != 2 or samples.shape[1] != self.channels:
            shape = "[n] or [n, 1]" if self.channels == 1 else f"[n, {self.channels}]"
            raise BadInput(f"samples of shape {list(samples.shape)}; {shape} is allowed")
        return samples

    def _take(self, result: NativeResult) -> None:
        if result.kind == RUN:
            outputs = tuple(
                out.reshape(shape).copy() for out, shape in zip(self.native.outputs, self._shapes))
            self._events.append(Run(result.sample, result.column, result.skip, outputs))
        elif result.kind == BEAT:
            self._events.append(Beat(result.sample, result.value, result.strength))
        else:
            self._events.append(StateChange(result.sample, SignalState(result.value)))

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events


@contextmanager
def _after_the_end() -> Iterator[None]:
    """The core's refusal of samples after a flush in the words of this class."""
    try:
        yield
    except NativeError as refused:
        if refused.status != ENDED:
            raise
        raise NativeError(
            "Stream.push", ENDED, "flush() has ended the record; reset() starts the next") from None
