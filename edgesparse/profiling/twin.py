"""The same plan with other weights: dense for comparison, pruned for advice. Only what depends on
where zeros are is of use, cycles and bytes; its results are not the model's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.mapping.weights import npu_cost
from edgesparse.npu.blobs import blob_bytes
from edgesparse.npu.listing import host_steps
from edgesparse.npu.lower import lower_npu
from edgesparse.npu.options import NpuOptions, wants_resident
from edgesparse.plan import model as pm
from edgesparse.runtime.npu import NpuKnobs, NpuProgram, NpuRun, cycle_bound
from edgesparse.sparsity.choose_lanes import choose_lanes, dense_lanes
from edgesparse.sparsity.formats import decode_weights
from edgesparse.sparsity.measure import measure
from edgesparse.target import NpuConfig

Reweigh = Callable[[pm.Mac], pm.Weights]
"""The weights of a layer -> those it has in the twin."""


def options_of(plan: pm.PlanModel) -> NpuOptions:
    """How the program was lowered; the defaults where the plan does not say it."""
    try:
        said = json.loads(plan.options)["npu"]
        return NpuOptions(**{f.name: said[f.name] for f in fields(NpuOptions)})
    except (ValueError, KeyError, TypeError):
        return NpuOptions()


def dense_run(plan: pm.PlanModel, config: NpuConfig, knobs: NpuKnobs) -> NpuRun:
    """What the plan counts with every weight stored and no activation skipped; no inputs matter."""

    def dense(mac: pm.Mac) -> pm.Weights:
        w = decode_weights(mac.weights)
        decision = dense_lanes(measure(w), w, config.lanes)
        return pm.Weights(rows=w.shape[0], cols=w.shape[1], groups=decision.groups)

    return _bound(_reweighed(plan, dense), config, replace(options_of(plan), skip=False), knobs)


def pruned_run(
    plan: pm.PlanModel, config: NpuConfig, share: float, options: NpuOptions
) -> NpuRun:
    """The bound with `share` of the weights of every layer zero at least, in blocks of one column
    of a slice, the smallest first; layers that have more zeros keep them, grouped ones are left.
    """

    cost, even = npu_cost(config, wants_resident(options, config))

    def pruned(mac: pm.Mac) -> pm.Weights:
        if mac.geometry.groups > 1:
            return mac.weights
        w = pruned_in_blocks(decode_weights(mac.weights), config.lanes, share)
        columns = mac.geometry.out_h * mac.geometry.out_w
        decision = choose_lanes(measure(w), w, config.lanes, cost(columns), even)
        return pm.Weights(rows=w.shape[0], cols=w.shape[1], groups=decision.groups,
                          row_order=decision.row_order)

    return _bound(_reweighed(plan, pruned), config, options, NpuKnobs())


def pruned_in_blocks(w: Array, rows: int, share: float) -> Array:
    """w [M, K] int8 with at least `share` of its blocks of `rows` x 1 zero, by sum of |w|."""
    slices = -(-w.shape[0] // rows)
    padded = np.zeros((slices * rows, w.shape[1]), np.int8)
    padded[: w.shape[0]] = w
    blocks = padded.reshape(slices, rows, w.shape[1])
    order = np.abs(blocks.astype(np.int64)).sum(axis=1).ravel().argsort(kind="stable")
    slice_of, column = np.divmod(order[: round(share * order.size)], w.shape[1])
    blocks[slice_of, :, column] = 0
    return padded[: w.shape[0]]


def _reweighed(plan: pm.PlanModel, reweigh: Reweigh) -> pm.PlanModel:
    """What the CPU runs stays as it is, and there."""
    on_cpu = host_steps(plan.npu) if plan.npu is not None else ()
    steps = tuple(
        replace(step, source=replace(step.source, weights=reweigh(step.source)))
        if isinstance(step.source, pm.Mac) and number not in on_cpu else step
        for number, step in enumerate(plan.steps))
    return replace(plan, steps=steps)


def _bound(
    plan: pm.PlanModel, config: NpuConfig, options: NpuOptions, knobs: NpuKnobs
) -> NpuRun:
    npu = lower_npu(plan, config, options).npu
    return cycle_bound(config, NpuProgram(
        commands=npu.commands.tobytes(), prologue=npu.prologue, config=npu.config,
        blobs=tuple(blob_bytes(plan, blob) for blob in npu.blobs), dram_bytes=plan.arena_bytes,
        state_bytes=plan.state_bytes, steps=len(plan.steps)), knobs)
