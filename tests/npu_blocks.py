"""Blocks of a convolution, fused with a pool or not, whose NPU programs are measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.plan import model as pm
from npu_run import in_lanes
from plan_builder import PlanBuilder, mac, random_weights, requant, stored


@dataclass(frozen=True)
class Block:
    """A convolution over so many columns."""

    columns: int
    channels: int
    rows: int
    kernel: int

    def __str__(self) -> str:
        return f"{self.columns} columns, {self.channels} to {self.rows}, kernel {self.kernel}"


BLOCKS = (Block(1432, 1, 16, 7), Block(180, 16, 32, 5), Block(44, 32, 32, 5), Block(8, 16, 32, 5))
"""Those of which a pool of 2 follows."""


def block(of: Block, fused: bool | None, lanes: int = 16) -> pm.PlanModel:
    """A convolution with ReLU; fused: the pool in its kernel, in one of its own; None: no pool."""
    rng = np.random.default_rng(0)
    b = PlanBuilder()
    x = b.input(1, of.columns, of.channels, zero_point=-128)
    w = random_weights(rng, of.rows, of.kernel * of.channels)
    source = mac(
        stored(w), w, rng.integers(-500, 500, of.rows), -128, in_w=of.columns, in_c=of.channels,
        out_w=of.columns, kernel_w=of.kernel, pad_left=of.kernel // 2)
    scale = requant(np.full(of.rows, 0.01 / np.sqrt(of.kernel * of.channels)), -128)
    half = pm.Window(in_w=of.columns, kernel_w=2, stride_w=2, out_w=of.columns // 2)
    pool = pm.MaxPool(window=half, qmin=-128, qmax=127)
    if fused is None:
        b.tail(source, x, b.output(1, of.columns, of.rows, zero_point=-128), scale)
    elif fused:
        y = b.output(1, of.columns // 2, of.rows, zero_point=-128)
        b.tail(source, x, y, scale, pool)
    else:
        between = b.tensor(1, of.columns, of.rows, zero_point=-128)
        b.tail(source, x, between, scale)
        y = b.output(1, of.columns // 2, of.rows, zero_point=-128)
        b.tail(pm.Load(), between, y, pool)
    return in_lanes(b.plan(), lanes)
