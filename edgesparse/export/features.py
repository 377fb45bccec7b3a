"""What one plan needs of the C core: the ES_HAS_ macros of native/src/plan/built.h."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from edgesparse.export.kernels import KERNELS_OF, ways_of
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import TRAILER

FEATURES = (
    "MAC", "LOAD", "COPY", "LSTM", "SVDF",
    "REQUANT", "CLAMP", "LUT", "ADD", "MUL", "ADD_SINGLE_REQUANT", "MAX_POOL", "AVG_POOL", "MEAN",
    "SOFTMAX",
    "DENSE", "BITMASK", "BSR", "NM", "DELTA_CSR", "LANES",
    "LAYOUTS", "RINGS", "HALO", "BRANCHES", "PATCHES", "GROUPS",
    "TILES", "MAC_TILES", "ELEMENTWISE", "PAIRS", "FOURS", "TALL", "WIDE",
    "RUNNING",
    "STREAM", "FRONT_END", "BEATS", "QUALITY", "NPU",
)
"""All of them, as built.h names and explains them."""
WAYS = frozenset({"TILES", "MAC_TILES", "ELEMENTWISE", "PAIRS", "FOURS", "TALL", "WIDE"})
"""Of the executor: which of them a plan needs depends on the CPU."""


def features_of(model: pm.PlanModel) -> frozenset[str]:
    """Those that the plan needs, of FEATURES without WAYS: es_plan_open checks them."""
    return frozenset(_features(model))


def _features(model: pm.PlanModel) -> Iterator[str]:
    for step in model.steps:
        yield from _of_step(step)
    for tensor in model.tensors:
        if tensor.place.layout is not pm.Layout.NWC:
            yield "LAYOUTS"
        if tensor.place.halo:
            yield "HALO"
    if model.rings:
        yield "RINGS"
    if model.npu is not None:
        yield "NPU"
    stream = model.stream
    if stream is not None:
        yield "STREAM"
        parts = {
            "FRONT_END": stream.front_end, "BEATS": stream.beats, "QUALITY": stream.quality}
        yield from (name for name, part in parts.items() if part is not None)


def _of_step(step: pm.Step) -> Iterator[str]:
    yield _macro(step.source)
    for mac in pm.macs_of(step.source):
        if mac.geometry.groups > 1:
            yield "GROUPS"
        yield from (group.encoding.name for group in mac.weights.groups)
    if isinstance(step.source, pm.Mac) and step.scratch_bytes:  # I-16: patches stand there
        yield "PATCHES"
    if len(step.branches) > 1:
        yield "BRANCHES"
    for branch in step.branches:
        for stage in branch.stages:
            yield _macro(stage)
            if isinstance(stage, (pm.AvgPool, pm.Mean)) and stage.running is not None:
                yield "RUNNING"


def _macro(table: object) -> str:
    """AddSingleRequant -> ADD_SINGLE_REQUANT"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(table).__name__).upper()


def built_for(plan: Plan, cpu: str, *, trusted: bool) -> frozenset[str]:
    """The features of a core for a plan: with all ways where it may open other plans."""
    return features_of(plan.model) | (frozenset(ways_of(plan.model, cpu)) if trusted else WAYS)


def config_header(plan: Plan, cpu: str, *, trusted: bool) -> str:
    """The text of es_config.h: what a core for this plan has.

    trusted  it opens this plan only, told by its CRC-32, and does not check it again
    """
    needed = features_of(plan.model)
    _, _, size, crc, _ = TRAILER.unpack(plan.data[-TRAILER.size:])
    return "\n".join((
        f"/* Made by edgesparse export: what one plan needs of the core on {cpu}. A plan that",
        " * needs more is refused with ES_ERR_BUILD; edgesparse/native/src/plan/built.h says",
        " * what each line means. */",
        *_defines((name for name in FEATURES if name not in WAYS), needed),
        f"#if {KERNELS_OF[cpu]}",
        *_defines(sorted(WAYS), built_for(plan, cpu, trusted=trusted)),
        "#else /* other kernels, other ways */",
        *_defines(sorted(WAYS), WAYS),
        "#endif",
        f"#define ES_TRUST_PLAN {int(trusted)}",
        f"#define ES_TRUSTED_BYTES {size}u",
        f"#define ES_TRUSTED_FILE {len(plan.data)}u",
        f"#define ES_TRUSTED_CRC 0x{crc:08x}u",
        ""))


def _defines(names: Iterable[str], built: Container[str]) -> Iterator[str]:
    return (f"#define ES_HAS_{name} {int(name in built)}" for name in names)
