"""Weights of a layer as a plan stores them and the bias that goes with them, as the target wants
both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from edgesparse.cortex.estimate import format_cost
from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array, Node, Tensor
from edgesparse.mapping.bounds import SCALES
from edgesparse.ops import Conv
from edgesparse.plan import model as pm
from edgesparse.sparsity.choose import MIN_SAVING, Decision, choose
from edgesparse.sparsity.choose_instructions import choose_instructions
from edgesparse.sparsity.choose_lanes import (
    Cost,
    choose_lanes,
    code_and_steps,
    dense_lanes,
    flash_or_steps,
)
from edgesparse.sparsity.measure import WeightStats, measure
from edgesparse.target import NpuConfig, Target

Chooser = Callable[[Node, WeightStats, Array, int], Decision]
"""Decides for the weights [rows, K] of a layer that has so many output columns."""


@dataclass(frozen=True)
class WeightPolicy:
    """bias_form  FOLDED: kernels multiply stored inputs; PLAIN: inputs less their zero point, so
    that a zero adds nothing and may be skipped
    widens     kernels widen inputs to int16 before they multiply, and want scratch for that"""

    choose: Chooser
    bias_form: pm.BiasForm
    widens: bool = False


def by_bytes(
    node: Node, stats: WeightStats, w: Array, columns: int, only: tuple[str, ...] = ()
) -> Decision:
    """The encodings of CPUs; `only`: names of those that may be taken, empty: any."""
    del columns
    if not _is_grouped(node):
        return choose(stats, w, only)
    decision = choose(stats, w, only=("dense",))
    if stats.zero_fraction < MIN_SAVING:
        return decision
    return Decision(decision.groups, f"{decision.reason}; weights of groups stay dense",
                    decision.candidates)


PORTABLE = WeightPolicy(by_bytes, pm.BiasForm.FOLDED)


def by_instructions(
    node: Node, stats: WeightStats, w: Array, columns: int, target: Target
) -> Decision:
    """The encoding that takes the fewest instructions on a Cortex-M target."""
    if _is_grouped(node):
        return by_bytes(node, stats, w, columns)
    assert target.instructions is not None
    cost = format_cost(target.instructions, columns)
    return choose_instructions(stats, w, cost, target.encodings)


def in_lanes(lanes: int, cost: Callable[[int], Cost], even: bool = False) -> WeightPolicy:
    """The packing of an NPU with so many lanes; `cost` of a layer's output columns decides among
    its kinds. even: slices may be filled up to as many steps each."""

    def decide(node: Node, stats: WeightStats, w: Array, columns: int) -> Decision:
        if _is_grouped(node):
            return dense_lanes(stats, w, lanes)
        return choose_lanes(stats, w, lanes, cost(columns), even)

    return WeightPolicy(decide, pm.BiasForm.PLAIN)


def policy_of(target: Target, resident: bool = False) -> WeightPolicy:
    """Of a Cortex-M target: the cost is instructions. Of one with an NPU: what comes from flash, or
    the steps if they are more; with resident weights the code that comes from flash, and the steps.
    """
    if target.npu is None:
        if target.instructions is not None:
            return WeightPolicy(
                partial(by_instructions, target=target), pm.BiasForm.FOLDED, target.widens)
        if not target.encodings:
            return replace(PORTABLE, widens=target.widens)
        return WeightPolicy(
            partial(by_bytes, only=target.encodings), pm.BiasForm.FOLDED, target.widens)
    cost, even = npu_cost(target.npu, resident)
    return in_lanes(target.npu.lanes, cost, even)


def npu_cost(config: NpuConfig, resident: bool) -> tuple[Callable[[int], Cost], bool]:
    """The cost by output columns, and whether slices may be filled up to as many steps each."""
    flash = config.flash_cycles / config.flash_bytes
    if resident:
        return lambda columns: code_and_steps(flash, columns), True
    return lambda columns: flash_or_steps(flash), False


def stored(
    node: Node, w: Tensor, policy: WeightPolicy, columns: int = 1
) -> tuple[pm.Weights, str]:
    """A constant [rows, ...] of `node` in the encoding chosen for it, and why; columns: of the
    output."""
    assert w.data is not None
    matrix = w.data.reshape(w.shape[0], -1)
    decision = policy.choose(node, measure(matrix), matrix, columns)
    rows, cols = matrix.shape
    return pm.Weights(
        rows=rows, cols=cols, groups=decision.groups, row_order=decision.row_order,
    ), decision.reason


def mac_bias(
    node: Node, w: Tensor, bias: Array, zero_point: int, form: pm.BiasForm
) -> tuple[Array, Array]:
    """(bias of the plan, sum of |w|), each [rows]; zero_point: of what is multiplied.

    FOLDED: bias - zero point * sum(w), as kernels multiply stored inputs; PLAIN: bias.
    Raises Unsupported when it leaves int32.
    """
    assert w.data is not None
    matrix = w.data.reshape(w.shape[0], -1).astype(np.int64)
    wide = bias.astype(np.int64)
    if form is pm.BiasForm.FOLDED:
        wide = wide - zero_point * matrix.sum(axis=1)
    if (np.abs(wide) >= 2**31).any():
        row = int(np.abs(wide).argmax())
        reach = abs(int(wide[row]))
        raise Unsupported(
            node.name, type(node.op).__name__,
            f"the sum of output channel {row} may reach {reach:,}, past int32", SCALES)
    return np.asarray(wide, np.int32), np.abs(matrix).sum(axis=1)


def _is_grouped(node: Node) -> bool:
    return isinstance(node.op, Conv) and node.op.groups > 1
