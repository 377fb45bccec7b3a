"""Which way the steps of a plan go through the executor of a CPU: native/src/exec/step.c.

A core for one plan leaves out the ways that no step takes. What is here errs to one side: a step
is said to be taken whole only where es_regular_view and the kernel do take it (regular.c,
regular_dsp.c). Were it wrong, the core would say ES_ERR_BUILD at the self test and at every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding

DSP = ("cortex-m4", "cortex-m7", "cortex-m33")
"""CPUs with es_regular__dsp as their kernel of whole steps."""
KERNELS_OF = {
    **dict.fromkeys(DSP, "defined(ES_BUILD_DSP) && !defined(ES_BUILD_MVE)"),
    "cortex-m55": "defined(ES_BUILD_MVE)",
}
"""CPU -> whether a build has its kernels, for the preprocessor."""
LEAST_SHARE = 0.1
"""Of the products, in dense rows of four columns at once, for which their loops pay: 2 KB of flash,
and half as many instructions a product as column by column."""
WHOLE_COLUMNS = (pm.MaxPool, pm.AvgPool, pm.Mean, pm.Softmax)
MOST_TAPS = 32
ADD_LEFT, ADD_MOST_RIGHT = 20, 20


def whole_steps(model: pm.PlanModel, cpu: str) -> list[bool]:
    """Of each step, whether the kernel of whole Mac steps takes it."""
    return [takes_whole(step, model.tensors, cpu) for step in model.steps]


def ways_of(model: pm.PlanModel, cpu: str) -> Iterator[str]:
    """The features of the executor, of built.h, that its steps need on a CPU."""
    for step in model.steps:
        whole = takes_whole(step, model.tensors, cpu)
        if not whole and not moves_columns(step, model.tensors):
            yield "TILES"
            stages = [stage for branch in step.branches for stage in branch.stages]
            if not all(isinstance(stage, WHOLE_COLUMNS) for stage in stages):
                yield "ELEMENTWISE"
        macs = pm.macs_of(step.source)
        if macs and not whole:
            yield "MAC_TILES"
        for mac in macs:
            yield from _blocks(mac)
    if _share_of_fours(model) > LEAST_SHARE:
        yield "FOURS"


def _blocks(mac: pm.Mac) -> Iterator[str]:
    columns = mac.geometry.out_h * mac.geometry.out_w
    for group in mac.weights.groups:
        if group.encoding is pm.Encoding.BSR and group.block_cols == 4:
            yield "WIDE"
            if columns > 2:
                yield "FOURS"
        elif group.encoding is pm.Encoding.BSR:
            yield "TALL"
            if columns > 1:
                yield "PAIRS"


def _share_of_fours(model: pm.PlanModel) -> float:
    """Of the products of a run, those of dense rows that would be computed four columns at once."""
    fours = everything = 0
    for step in model.steps:
        for mac in pm.macs_of(step.source):
            g = mac.geometry
            columns = g.out_h * g.out_w
            for group in mac.weights.groups:
                everything += group.nnz * columns
                if group.encoding is pm.Encoding.DENSE and g.groups == 1 and columns > 2:
                    fours += group.nnz * columns
    return fours / max(everything, 1)


def moves_columns(step: pm.Step, tensors: Sequence[pm.Tensor]) -> bool:
    """Copy and Lstm go their own ways; a Load without stages between equal tensors is a move."""
    if isinstance(step.source, (pm.Copy, pm.Lstm)):
        return True
    if not isinstance(step.source, pm.Load) or len(step.branches) != 1 or step.branches[0].stages:
        return False
    a, b = tensors[step.input].place, tensors[step.branches[0].output].place
    return (a.layout is b.layout is pm.Layout.NWC
            and (a.columns, a.channels) == (b.columns, b.channels))


def takes_whole(step: pm.Step, tensors: Sequence[pm.Tensor], cpu: str) -> bool:
    """Whether the kernel of whole Mac steps takes it."""
    if cpu not in DSP or not isinstance(step.source, pm.Mac) or len(step.branches) != 1:
        return False
    mac = step.source
    output = tensors[step.branches[0].output].place
    places = (tensors[step.input].place, output)
    if (any(place.layout is not pm.Layout.NWC for place in places)
            or mac.bias_form is not pm.BiasForm.FOLDED or mac.weights.row_order is not None
            or len(mac.weights.groups) != 1):
        return False
    return _finishes(step.branches[0].stages, tensors, output) and (
        _depthwise(step, mac) if mac.geometry.groups > 1 else _multiplies(step, mac))


def _finishes(
    stages: Sequence[pm.StageBody], tensors: Sequence[pm.Tensor], output: pm.Place
) -> bool:
    """A Requant, and nothing or an Add."""
    if not stages or not isinstance(stages[0], pm.Requant):
        return False
    if stages[0].rounding is not Rounding.DOUBLE or len(stages) > 2:
        return False
    if len(stages) == 1:
        return True
    add = stages[1]
    if not isinstance(add, pm.Add) or (stages[0].qmin, stages[0].qmax) != (-128, 127):
        return False
    place = tensors[add.operand].place
    return (add.rounding is Rounding.DOUBLE and add.left_shift == ADD_LEFT
            and not add.negate_value and not add.negate_other
            and scales(add.out) and any(
                halves(a) and scales(b)
                for a, b in ((add.value, add.other), (add.other, add.value)))
            and place.layout is pm.Layout.NWC
            and (place.columns, place.channels) == (output.columns, output.channels))


def halves(by: pm.Scaled) -> bool:
    return by.shift == 0 and by.multiplier == 1 << 30


def scales(by: pm.Scaled) -> bool:
    return -ADD_MOST_RIGHT <= by.shift < 0


def _depthwise(step: pm.Step, mac: pm.Mac) -> bool:
    g, taps = mac.geometry, mac.geometry.kernel_h * mac.geometry.kernel_w
    return (mac.weights.groups[0].encoding is pm.Encoding.DENSE and g.in_c % 4 == 0
            and g.groups == g.in_c == g.rows and taps <= MOST_TAPS
            and step.scratch_bytes >= (2 * taps + 1) * g.in_c)


def _multiplies(step: pm.Step, mac: pm.Mac) -> bool:
    g, group = mac.geometry, mac.weights.groups[0]
    if group.encoding is pm.Encoding.DENSE:
        return True
    if group.encoding is not pm.Encoding.BSR or group.index_bits != 8:
        return False
    patch = g.kernel_h * g.kernel_w * g.in_c
    if group.block_cols == 1:
        return group.block_rows == 4 and group.row_count % 4 == 0
    words = 4 * ((patch + 3) // 4)
    room = 4 * (2 * words + (words // 4 if g.in_c % 4 else 0))
    if g.out_h * g.out_w > 2 and step.scratch_bytes >= room:
        return group.block_cols == 4 and group.block_rows in (1, 2, 4)
    return (group.block_cols == group.block_rows == 4 and patch % 4 == 0
            and group.row_count % 4 == 0)
