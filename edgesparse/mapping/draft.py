"""A step before it has addresses: what the fusion works on and the assembler turns into bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgesparse.plan import model as pm

WINDOWS = (pm.MaxPool, pm.AvgPool, pm.Mean, pm.Softmax)
"""Stages that read more than the one element they write."""


@dataclass(frozen=True)
class DraftStage:
    """A stage of the plan; `operand` names the second tensor it reads, if it reads one."""

    body: pm.StageBody
    operand: str | None = None


@dataclass(frozen=True)
class Draft:
    """One step, its tensors by name."""

    input: str
    source: pm.Source
    output: str
    stages: tuple[DraftStage, ...]
    origin: tuple[str, ...]
    reason: str = ""
    """Why its weights are encoded as they are; empty without weights."""
    sums: str | None = None
    """The tensor whose ring the first stage's Running has."""

    @property
    def operands(self) -> Iterator[str]:
        return (stage.operand for stage in self.stages if stage.operand is not None)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.input, *self.operands)

    @property
    def has_window(self) -> bool:
        return any(isinstance(stage.body, WINDOWS) for stage in self.stages)

    def append(self, stage: DraftStage, output: str, origin: tuple[str, ...]) -> Draft:
        """The same step with one stage more: its result is `output` now."""
        merged = tuple(dict.fromkeys((*self.origin, *origin)))
        return replace(self, stages=(*self.stages, stage), output=output, origin=merged)
