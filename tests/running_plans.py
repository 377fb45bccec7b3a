"""Plans with a Mean or AvgPool that remembers: one by hand, and random ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding
from plan_builder import WHOLE, PlanBuilder, mac, scaled, values
from random_plans import NEEDS_COLUMNS, Grower, Rng


def mean(running: pm.Running | None, columns: int) -> pm.Mean:
    return pm.Mean(
        in_zero_point=-5, scaled=scaled(3, 1.5 / columns), rounding=Rounding.DOUBLE,
        running=running, **WHOLE)


def pool(columns: int, running: pm.Running | None) -> pm.AvgPool:
    return pm.AvgPool(window=pm.Window(in_w=columns, kernel_w=columns), running=running, **WHOLE)


def running_plan() -> pm.PlanModel:
    """8 columns of 3 channels come in. Step 0: a Mean of the last 20 of the first 6, and of the
    other 2. Step 1: an AvgPool of the last 24. Step 2 appends to ring 2, of columns."""
    b = PlanBuilder()
    x = b.input(1, 8, 3)
    b.tail(pm.Load(), x, b.output(1, 3), mean(b.running(3, 6, 20), 22))
    b.tail(pm.Load(), x, b.output(1, 3), pool(8, b.running(3, 8, 24, each=True)))
    b.tail(pm.Load(), x, b.append(b.ring(9, 3), 8))
    return b.plan()


def random_running_plan(rng: Rng) -> pm.PlanModel:
    """One step over a Load or a Mac, up to three branches, each with sums of its own."""
    g = Grower(rng)
    g.b, g.rings = PlanBuilder(), []
    columns, channels = g.whole(1, 12), g.whole(1, 20)
    x = g.b.input(1, columns, channels, zero_point=g.zero_point())
    source: pm.Source = pm.Load()
    gain = None
    if g.chance(0.4):
        w, weights = g.weights(g.whole(1, 20), channels)
        source = mac(
            weights, w, rng.integers(-500, 500, len(w)), g.place(x).zero_point, in_w=columns,
            out_w=columns)
        channels, gain = len(w), 0.01
    cuts = sorted({0, channels, *(g.whole(0, channels) for _ in range(g.whole(0, 2)))})
    branches = [branch(g, columns, block, gain) for block in pairwise(cuts)]
    g.finish(source, x, branches)
    for made in branches:
        g.output(made.output)
    return g.b.plan()


def branch(g: Grower, columns: int, block: tuple[int, int], gain: float | None) -> pm.Branch:
    channels = block[1] - block[0]
    stages = [] if gain is None else [g.first_stage(columns, channels, gain)]
    stages += elementwise(g, columns, channels)
    fresh = g.whole(1, columns)
    kept = g.pick([fresh * g.whole(1, 5), g.whole(fresh, 5 * fresh), g.whole(fresh, 600)])
    running = g.b.running(channels, fresh, kept, each=g.chance(0.3))
    if g.chance(0.5):
        stages.append(pm.Mean(
            in_zero_point=g.zero_point(), rounding=g.rounding(), running=running,
            scaled=scaled(g.zero_point(), g.rng.uniform(0.5, 2) / kept), **g.limits()))
    else:
        stages.append(pool(columns, running))
    stages += elementwise(g, 1, channels)
    return pm.Branch(
        first_channel=block[0], channels=channels, output=g.new_tensor(1, channels),
        stages=tuple(stages))


def elementwise(g: Grower, columns: int, channels: int) -> list[pm.StageBody]:
    drawn = [g.stage(columns, channels)[0] for _ in range(g.whole(0, 2))]
    return [stage for stage in drawn if not isinstance(stage, NEEDS_COLUMNS)]


def wide_plan() -> pm.PlanModel:
    """Blocks whose sums need 32 bits: 300 columns of one channel a run, 700 in the window."""
    b = PlanBuilder()
    x = b.input(1, 300, 1)
    b.tail(pm.Load(), x, b.output(1, 1), mean(b.running(1, 300, 700), 700))
    return b.plan()


def noise(rng: Rng, *shape: int) -> Array:
    """Often all at one end of int8, so that sums become as large as they can."""
    if rng.random() < 0.3:
        return np.full(shape, rng.choice([-128, 127]), np.int8)
    return values(rng, *shape)
