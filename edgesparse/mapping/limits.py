"""What one plan can hold (PLAN_FORMAT.md, I-7 and I-10): refused by the user's names."""

from __future__ import annotations

from edgesparse.errors import DoesNotFit
from edgesparse.plan import model as pm

MOST_IOS = 64
MOST_STEPS = 4_096
MOST_TENSORS = 65_535
MOST_COLUMNS = 2**24
MOST_CHANNELS = 65_535


def check_limits(model: pm.PlanModel) -> None:
    """Raises DoesNotFit naming the tensor or count, the limit, and what to do."""
    for what, count, most, cure in (
        ("inputs", len(model.inputs), MOST_IOS, "join them along a dimension"),
        ("outputs", len(model.outputs), MOST_IOS, "join them along a dimension"),
        ("steps", len(model.steps), MOST_STEPS, "split the model, or unroll fewer time steps"),
        ("tensors", len(model.tensors), MOST_TENSORS, "split the model"),
    ):
        if count > most:
            name = model.names.model if model.names else "the model"
            raise DoesNotFit(f"{name}: {count:,} {what}; a plan holds up to {most:,}: {cure}")
    names = model.names.tensors if model.names else ()
    for number, tensor in enumerate(model.tensors):
        place = tensor.place
        where = names[number] if number < len(names) else f"tensor {number}"
        if place.channels > MOST_CHANNELS:
            raise DoesNotFit(
                f"{where}: its last dimension is {place.channels:,}; a plan holds up to "
                f"{MOST_CHANNELS:,}: reshape it to more columns of fewer channels")
        if place.columns > MOST_COLUMNS:
            raise DoesNotFit(
                f"{where}: it has {place.columns:,} columns; a plan holds up to "
                f"{MOST_COLUMNS:,}: a shorter window")
