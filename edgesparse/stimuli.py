"""Inputs that drive a model into every corner, for comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.plan import IoInfo

OFF_GRID = 0.49
"""How far a float input may lie from a stored value, in steps, and still become it."""


def stimuli(
    ios: tuple[IoInfo, ...], count: int, rng: np.random.Generator
) -> Iterator[list[Array]]:
    """Inputs that reach every corner: the two ends of the range, then in turn noise over all of
    it and smooth signals.

    Yields one array per input, int8 or, where the user's model has float32, float32 values
    between the grid points.
    """
    for run in range(count):
        feeds = []
        for io in ios:
            if run < 2:
                stored = np.full(io.shape, (-128, 127)[run], np.int8)
            elif run % 2 == 0:
                stored = rng.integers(-128, 128, io.shape).astype(np.int8)
            else:
                stored = _smooth(io.shape, rng)
            feeds.append(_real(stored, io, rng) if io.float_io else stored)
        yield feeds


def _smooth(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A slow and a faster wave along all dimensions but the last, a phase of its own for each
    channel."""
    channels = shape[-1] if shape else 1
    columns = math.prod(shape) // channels
    time = np.linspace(0.0, 1.0, columns, endpoint=False)[:, None]
    cycles = rng.uniform(0.5, 3.0), rng.uniform(4.0, 20.0)
    phase = rng.uniform(0.0, 2 * np.pi, (2, channels))
    wave = 80 * np.sin(2 * np.pi * cycles[0] * time + phase[0])
    wave += 45 * np.sin(2 * np.pi * cycles[1] * time + phase[1])
    stored: Array = np.clip(np.rint(wave), -128, 127).astype(np.int8).reshape(shape)
    return stored


def _real(stored: Array, io: IoInfo, rng: np.random.Generator) -> Array:
    """Real numbers that become `stored` when they are quantized."""
    away = rng.uniform(-OFF_GRID, OFF_GRID, stored.shape)
    real: Array = ((stored.astype(np.float64) - io.zero_point + away) * io.scale).astype(np.float32)
    return real
