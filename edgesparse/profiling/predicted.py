"""What a plan costs on a Cortex-M core, by layer, foretold without one."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.cortex.estimate import estimate
from edgesparse.errors import BadInput, WrongMachine
from edgesparse.plan.plan import Plan
from edgesparse.target import load_target, target_names


@dataclass(frozen=True)
class PredictedLayer:
    """Instructions of a step in a run."""

    step: int
    name: str
    instructions: int


@dataclass(frozen=True)
class Predicted:
    """QEMU instructions of a run or a hop, predicted.

    on      the target
    rest    besides the layers; of a stream its front end and decoder
    stream  whether a run is a hop
    cycles_per_instruction
            assumed, for whoever wants a time
    """

    on: str
    layers: tuple[PredictedLayer, ...]
    rest: int
    stream: bool
    cycles_per_instruction: float

    @property
    def instructions(self) -> int:
        return sum(layer.instructions for layer in self.layers) + self.rest


def cores() -> tuple[str, ...]:
    """Targets whose instructions are foretold."""
    return tuple(name for name in target_names() if load_target(name).instructions is not None)


def predict(plan: Plan, on: str) -> Predicted:
    """Raises BadInput when `on` is no Cortex-M target, WrongMachine when the plan was made for
    another kind of machine: its weights may be stored as no kernel there reads them."""
    if on not in cores():
        raise BadInput(f"on {on!r}: {', '.join(cores())} is allowed")
    if plan.model.target not in cores():
        raise WrongMachine(
            f"the plan was made for {plan.model.target}, and its weights are stored for that; "
            f"convert the model with --target {on}")
    target = load_target(on)
    assert target.instructions is not None
    found = estimate(plan.model, target.instructions)
    return Predicted(
        on, tuple(PredictedLayer(step, layer.name, amount)
                  for step, (layer, amount) in enumerate(zip(plan.layers, found.steps))),
        found.rest, plan.model.stream is not None, target.cycles_per_instruction)
