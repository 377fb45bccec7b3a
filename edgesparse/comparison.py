"""What verify compares and what comes out: of plans of windows and of streams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.convert import Options
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan

OUTPUT = "output"
"""What stands for the layer of a plan's output as users get it."""


@dataclass(frozen=True)
class VerifyOptions:
    """How to compare.

    inputs       how many runs: both ends of the range, then noise and smooth signals in turn; a
                 model that keeps state makes them one stream. Of a stream plan: how many windows
    calibration  of a model that edgesparse quantized: what it was quantized with, tensor name ->
                 [samples, ...]; without it only the executors of the plan are compared
    progress     called after each run; of a stream plan after each window
    """

    inputs: int = 32
    seed: int = 0
    backend: str = "portable"
    calibration: Mapping[str, Array] | None = None
    progress: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Difference:
    """One element: ours is what the plan gave, theirs what the judge did."""

    run: int
    index: tuple[int, ...]
    ours: float
    theirs: float


@dataclass(frozen=True)
class Compared:
    """One tensor over all runs.

    tensor     the model's name of it
    layer      the step of the plan that wrote it
    elements   compared in all
    differing  how many of them differ in any bit
    """

    tensor: str
    layer: str
    elements: int
    differing: int
    first: Difference | None


@dataclass(frozen=True)
class Report:
    """What was compared and what came out.

    judge         who the plan was compared with
    notes         why not the oracle itself, where it is not; and what else limits the result
    tensors       intermediate results, in the order of the steps, then the outputs
    not_compared  results of the plan that the model does not have
    not_seen      results that the backend does not leave in the arena, so that only what follows
                  from them is compared
    sqnr_db       output name -> SQNR against float over the calibration samples; models that
                  edgesparse quantized only
    """

    model: str
    judge: str
    notes: tuple[str, ...]
    inputs: int
    backend: str
    tensors: tuple[Compared, ...]
    not_compared: tuple[str, ...]
    not_seen: tuple[str, ...]
    sqnr_db: Mapping[str, float]

    @property
    def differing(self) -> int:
        return sum(compared.differing for compared in self.tensors)

    @property
    def passed(self) -> bool:
        return self.differing == 0

    @property
    def first(self) -> Compared | None:
        """The first tensor that differs, in the order of the steps."""
        return next((compared for compared in self.tensors if compared.differing), None)


@dataclass(frozen=True)
class StreamReport:
    """What was compared of a stream plan and what came out.

    judge      who computed windows of the model anew
    notes      what limits the result
    samples    pushed, in `chunks` pieces
    runs       of the plan, and beats that were reported
    windows    of the model that were computed
    parts      runs, beats and states against the plain reference of streams, then each output
               against the judge
    self_test  whether the plan's own passes; None: it has none
    """

    model: str
    judge: str
    notes: tuple[str, ...]
    backend: str
    samples: int
    chunks: int
    runs: int
    beats: int
    windows: int
    parts: tuple[Compared, ...]
    self_test: bool | None

    @property
    def differing(self) -> int:
        return sum(part.differing for part in self.parts)

    @property
    def passed(self) -> bool:
        return self.differing == 0 and self.self_test is not False

    @property
    def first(self) -> Compared | None:
        """The first part that differs."""
        return next((part for part in self.parts if part.differing), None)


class Tally:
    """Running sums of one tensor."""

    def __init__(self, tensor: str, layer: str) -> None:
        self.tensor, self.layer = tensor, layer
        self.elements = self.differing = 0
        self.first: Difference | None = None

    def add(self, run: int, ours: Array, theirs: Array) -> None:
        """Both of one shape and type; floats are compared by their bits."""
        self.elements += ours.size
        raw = f"u{ours.dtype.itemsize}"
        different = np.argwhere(np.ascontiguousarray(ours).view(raw)
                                != np.ascontiguousarray(theirs).view(raw))
        self.differing += len(different)
        if len(different) and self.first is None:
            index = tuple(int(i) for i in different[0])
            self.first = Difference(run, index, float(ours[index]), float(theirs[index]))

    def result(self) -> Compared:
        return Compared(self.tensor, self.layer, self.elements, self.differing, self.first)



def source_note(plan: Plan, data: bytes, name: str) -> tuple[str, ...]:
    source = plan.model.source_sha256
    if source and source != hashlib.sha256(data).digest():
        return (f"the plan was made from another file than {name} (its SHA-256 differs)",)
    return ()


def conversion_options(plan: Plan, calibration: Mapping[str, Array]) -> Options:
    """What the plan says it was quantized with, and the data it cannot carry."""
    try:
        stored = json.loads(plan.model.options)
        return Options(calibration=calibration, method=str(stored["method"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput("the plan does not say how it was quantized; convert it again") from error
