"""What the blobs of a program are: vectors of the plan it stands in."""

from __future__ import annotations

from edgesparse.errors import PlanInvalid
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart, NpuBlob


def blob_bytes(plan: pm.PlanModel, blob: NpuBlob) -> bytes:
    """The vector that `blob` names, as it stands in the plan.

    Raises PlanInvalid (I-82) when there is no such vector.
    """
    vector = _vector(plan, blob)
    if vector is None or not vector.size or not _rest_is_zero(blob):
        raise PlanInvalid(f"I-82: {blob} names no vector of the plan")
    return bytes(vector.tobytes())


def _vector(plan: pm.PlanModel, blob: NpuBlob) -> Array | None:
    if blob.part is BlobPart.TENSOR:
        return plan.tensors[blob.index].data if blob.index < len(plan.tensors) else None
    if blob.step >= len(plan.steps):
        return None
    step = plan.steps[blob.step]
    if blob.part in (BlobPart.VALUES, BlobPart.INDEX, BlobPart.BIAS):
        return _of_mac(step.source, blob)
    if blob.branch >= len(step.branches):
        return None
    stages = step.branches[blob.branch].stages
    stage = stages[blob.index] if blob.index < len(stages) else None
    if blob.part is BlobPart.TABLE:
        return stage.table if isinstance(stage, pm.Lut) else None
    if not isinstance(stage, pm.Requant):
        return None
    return stage.multiplier if blob.part is BlobPart.MULTIPLIER else stage.shift


def _of_mac(source: pm.Source, blob: NpuBlob) -> Array | None:
    if not isinstance(source, pm.Mac):
        return None
    if blob.part is BlobPart.BIAS:
        return source.bias
    groups = source.weights.groups
    if blob.index >= len(groups):
        return None
    group = groups[blob.index]
    return group.values if blob.part is BlobPart.VALUES else group.index


def _rest_is_zero(blob: NpuBlob) -> bool:
    """Whether the fields that the part does not use are 0."""
    uses_index = blob.part not in (BlobPart.BIAS, BlobPart.MULTIPLIER, BlobPart.SHIFT)
    uses_branch = blob.part in (BlobPart.MULTIPLIER, BlobPart.SHIFT, BlobPart.TABLE)
    return not (
        blob.reserved
        or (blob.index and not uses_index)
        or (blob.branch and not uses_branch)
        or (blob.step and blob.part is BlobPart.TENSOR))
