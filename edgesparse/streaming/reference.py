"""A whole stream in plain Python: samples -> front end -> runs -> results.

The definition the C core's es_push is tested against, on the interpreter of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.stream_model import StreamMode
from edgesparse.streaming.beats import BeatDecoder
from edgesparse.streaming.events import Beat, Event, Run, StateChange
from edgesparse.streaming.frontend import MISSING, FrontEndState
from edgesparse.streaming.quality import SignalQuality

REFERENCE = "the plain reference of streams"


class ReferenceStream:
    """One stream of the plan in `data`, which has a Stream table."""

    def __init__(self, data: bytes, watch: Callable[[Array], None] = lambda _: None) -> None:
        """watch: is given the input of every run."""
        self._watch = watch
        self._interpreter = Interpreter(data)
        model = self._interpreter.model
        assert model.stream is not None
        self.spec = model.stream
        self._input = model.tensors[model.inputs[0].tensor]
        outputs = [model.tensors[io.tensor] for io in model.outputs]
        zero_point, channels = self._input.place.zero_point, self._input.place.channels
        front_end, beats, quality = self.spec.front_end, self.spec.beats, self.spec.quality
        self._decimation = front_end.decimation if front_end else 1
        self._front_end = FrontEndState(front_end, zero_point) if front_end else None
        self._quality = SignalQuality(quality, self.spec.delay) if quality else None
        self._decoder = BeatDecoder(
            beats, outputs[0].place.channels - 1, self.spec.stride * self._decimation,
            self.spec.exact) if beats else None
        self._columns: list[list[int]] = [[zero_point] * channels] * self.spec.lead
        self._held = [0] * channels
        self._settled = False
        self.samples = self.runs = self.missing = 0
        self._end: int | None = None

    def push(self, frames: Iterable[Iterable[int]]) -> list[Event]:
        """Samples [n][channels]; what they gave, in order."""
        assert self._end is None
        return [event for frame in frames for event in self._push(list(frame))]

    def flush(self) -> list[Event]:
        """The record ends here: its last sample stands until every beat before is decided."""
        events: list[Event] = []
        if self._end is None and self.samples:
            self._end = self.samples
            while self._undecided():
                events += self._push(self._held)
        return events

    def _undecided(self) -> bool:
        if self._decoder is None or self._end is None:
            return False
        pending = self._decoder.pending
        return self._decoder.undecided < self._end or (
            pending is not None and pending.position < self._end)

    def _push(self, frame: list[int]) -> list[Event]:
        events: list[Event] = []
        missing = MISSING in frame
        self._held = [h if x == MISSING else x for x, h in zip(frame, self._held, strict=True)]
        self.missing += missing
        settle = not missing and not self._settled
        self._settled |= not missing
        if self._quality and self._end is None:
            change = self._quality.push(self._held[0], missing)
            settle |= change.settle
            if change.state is not None:
                events.append(StateChange(self.samples, change.state))
        if self._front_end:
            if settle:
                self._front_end.settle(self._held[0])
            value = self._front_end.push(self._held[0])
            column = None if value is None else [value]
        else:
            column = [max(-128, min(127, x)) for x in self._held]
        if column is not None:
            self._columns.append(column)
            if len(self._columns) == self.spec.hop:
                events += self._run()
        self.samples += 1
        return events

    def _run(self) -> list[Event]:
        x = np.array(self._columns, np.int8).reshape(self._input.shape)
        self._columns = []
        self._watch(x)
        outputs = self._interpreter.run([x])
        self.runs += 1
        spec = self.spec
        events: list[Event] = []
        if spec.mode is StreamMode.INCREMENTAL:
            column, skip = self.runs - 1 - spec.first_run, 0
        else:
            columns = spec.hop // spec.stride
            column = (self.runs - 1) * columns - spec.behind
            skip = min(columns, max(0, spec.exact - column))
        if self.runs > spec.first_run:
            events.append(Run(self.samples, column, skip, outputs))
        if self._decoder:
            logits = outputs[0].reshape(-1, outputs[0].shape[-1])
            for step in logits[skip:]:
                events += [beat for beat in self._decoder.push(step) if self._counts(beat)]
        return events

    def _counts(self, beat: Beat) -> bool:
        """Inside the record and a good signal."""
        return (beat.position >= 0
                and (self._end is None or beat.position < self._end)
                and not (self._quality and self._quality.mutes(beat.position)))
