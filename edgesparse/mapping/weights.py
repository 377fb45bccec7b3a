"""How a target wants the weights of a Mac: stored in which way, with which form of bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgesparse.graph.ir import Array, Node
from edgesparse.ops import Conv
from edgesparse.plan.model import BiasForm
from edgesparse.sparsity.choose import MIN_SAVING, Decision, choose
from edgesparse.sparsity.choose_lanes import Cost, choose_lanes, dense_lanes, flash_or_steps
from edgesparse.sparsity.measure import WeightStats
from edgesparse.target import Target

Chooser = Callable[[Node, WeightStats, Array], Decision]
"""Decides for the weights [rows, K] of a Conv or FullyConnected."""


@dataclass(frozen=True)
class WeightPolicy:
    """bias_form  FOLDED: kernels multiply stored inputs; PLAIN: inputs less their zero point, so
    that a zero adds nothing and may be skipped"""

    choose: Chooser
    bias_form: BiasForm


def by_bytes(node: Node, stats: WeightStats, w: Array) -> Decision:
    """The encodings of CPUs."""
    if not _is_grouped(node):
        return choose(stats, w)
    decision = choose(stats, w, only=("dense",))
    if stats.zero_fraction < MIN_SAVING:
        return decision
    return Decision(decision.groups, f"{decision.reason}; weights of groups stay dense",
                    decision.candidates)


PORTABLE = WeightPolicy(by_bytes, BiasForm.FOLDED)


def in_lanes(lanes: int, cost: Cost) -> WeightPolicy:
    """The packing of an NPU with so many lanes; `cost` decides among its kinds."""

    def decide(node: Node, stats: WeightStats, w: Array) -> Decision:
        if _is_grouped(node):
            return dense_lanes(stats, w, lanes)
        return choose_lanes(stats, w, lanes, cost)

    return WeightPolicy(decide, BiasForm.PLAIN)


def policy_of(target: Target) -> WeightPolicy:
    """Of a target with an NPU: the cost is what comes from flash, or the steps if they are more."""
    if target.npu is None:
        return PORTABLE
    flash = target.npu.flash_cycles / target.npu.flash_bytes
    return in_lanes(target.npu.lanes, flash_or_steps(flash))


def _is_grouped(node: Node) -> bool:
    return isinstance(node.op, Conv) and node.op.groups > 1
