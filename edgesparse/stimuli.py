"""Inputs that drive a model into every corner, for comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.signals.signal import MISSING

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


SHARES = (0.35, 0.15, 0.1, 0.05, 0.1, 0.05, 0.2)
"""Of a stream signal: pulses, waves, noise, missing samples, one value, the ends of the range,
pulses again."""
PULSE, WIDTH = 300, 4
"""Samples from pulse to pulse and half the width of one: a heart at 360 Hz, 72 a minute."""


def stream_stimulus(shape: tuple[int, int], span: float, rng: np.random.Generator) -> Array:
    """[count, channels] int16 to push, for every state a signal can be in.

    span  of an ordinary signal: half the range of the model's input, in samples
    """
    count, channels = shape
    ends = np.rint(np.cumsum(SHARES) * count).astype(int)
    sizes = np.diff(ends, prepend=0)
    parts = [
        _pulses(sizes[0], span, rng), _waves(sizes[1], span, rng),
        rng.normal(0, span / 2, sizes[2]), np.full(sizes[3], MISSING),
        np.full(sizes[4], span / 3), np.where(np.arange(sizes[5]) // 90 % 2, -MISSING - 1,
                                              MISSING + 1),
        _pulses(sizes[6], span, rng)]
    one = np.concatenate(parts)
    signal = np.stack([np.roll(one, 7 * channel) for channel in range(channels)], axis=1)
    stored: Array = np.clip(np.rint(signal), MISSING, -MISSING - 1).astype(np.int16)
    return stored


def sample_span(plan: Plan) -> tuple[float, int]:
    """(span of an ordinary signal in samples of a stream plan, samples an input column takes)."""
    assert plan.model.stream is not None
    front = plan.model.stream.front_end
    if front is None:
        return 127.0, 1
    # Of the front end's output; its filters leave the middle of the band as it is.
    return 127.0 * 2.0 ** (front.shift - front.fraction_bits) / front.multiplier, front.decimation


def pulses(shape: tuple[int, int], span: float, rng: np.random.Generator) -> Array:
    """[count, channels] int16 to push: bumps as of a heart in a little noise, nothing else."""
    count, channels = shape
    signal = np.stack([_pulses(count, span, rng) for _ in range(channels)], axis=1)
    stored: Array = np.clip(np.rint(signal), MISSING + 1, -MISSING - 1).astype(np.int16)
    return stored


def _pulses(count: int, span: float, rng: np.random.Generator) -> Array:
    """[count] float: a narrow and a wide bump every PULSE samples, in a little noise."""
    time = np.arange(count) - np.arange(count) // PULSE * PULSE
    narrow = np.exp(-0.5 * ((time - PULSE / 3) / WIDTH) ** 2)
    wide = np.exp(-0.5 * ((time - 2 * PULSE / 3) / (5 * WIDTH)) ** 2)
    found: Array = span * (0.4 * narrow + 0.1 * wide) + rng.normal(0, span / 200, count)
    return found


def _waves(count: int, span: float, rng: np.random.Generator) -> Array:
    """[count] float: a slow and a faster wave that fill the range."""
    time = np.arange(count)
    slow, fast = rng.uniform(200, 600), rng.uniform(10, 40)
    found: Array = span * (0.7 * np.sin(2 * np.pi * time / slow)
                           + 0.5 * np.sin(2 * np.pi * time / fast))
    return found


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
