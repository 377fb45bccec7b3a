"""Small plans with a Stream table, signals to push into them, and what makes events comparable."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.stream_model import Beats, FrontEnd, Quality, Stream, StreamMode
from edgesparse.plan.stream_state import stream_state_bytes
from edgesparse.plan.wire import round_up
from edgesparse.streaming.beats import ecg_beats
from edgesparse.streaming.events import Beat, Event, Run
from edgesparse.streaming.frontend import MISSING, AdcInput, ecg360
from plan_builder import PlanBuilder, mac, random_weights, requant, stored, values

ZERO_POINT = -16
SMALL_QUALITY = Quality(
    flat_range=3, flat_samples=20, saturation=30000, saturated_samples=5, missing_run=4,
    missing_window=32, missing_most=10, noise_samples=16, noise_limit=40000, recover_samples=9,
    settle_samples=25, guard_samples=7, noise_margin=9000,
    missing_margin=4)


def with_stream(plan: pm.PlanModel, stream: Stream) -> pm.PlanModel:
    """The plan with a stream, its state behind the rings; everything else moves up."""
    end = max((r.offset + r.columns * r.channels for r in plan.rings), default=0)
    at = round_up(end, 8)
    x, y = (plan.tensors[ios[0].tensor].place for ios in (plan.inputs, plan.outputs))
    state = round_up(at + stream_state_bytes(stream, x.channels, y.channels - 1), 16)
    by = state - plan.state_bytes
    tensors = tuple(
        t if t.data is not None or t.place.ring_role is not pm.RingRole.NONE
        else replace(t, place=replace(t.place, offset=t.place.offset + by))
        for t in plan.tensors)
    steps = tuple(
        replace(s, scratch_offset=s.scratch_offset + by) if s.scratch_bytes else s
        for s in plan.steps)
    return replace(
        plan, tensors=tensors, steps=steps, state_bytes=state, arena_bytes=plan.arena_bytes + by,
        stream=replace(stream, state_offset=at))


def continuous_plan(
    rng: np.random.Generator, hop: int = 8, stride: int = 4, exact: int = 0, behind: int = 0,
    front_end: FrontEnd | None = None, beats: Beats | None = None,
    quality: Quality | None = None, classes: int = 3,
) -> pm.PlanModel:
    """A convolution of kernel 2 * stride over a ring: 1 + classes channels of lively logits."""
    b = PlanBuilder()
    n, kernel = hop // stride, 2 * stride
    columns = hop + stride
    ring = b.ring(columns + 3, 1, zero_point=ZERO_POINT)
    x = b.input(1, hop, 1, zero_point=ZERO_POINT, scale=0.02)
    b.tail(pm.Load(), x, b.append(ring, hop))
    w = random_weights(rng, 1 + classes, kernel)
    y = b.output(1, n, 1 + classes, zero_point=5, scale=0.1)
    b.tail(
        mac(stored(w), w, values(rng, 1 + classes).astype(np.int64), ZERO_POINT, in_w=columns,
            in_c=1, out_w=n, kernel_w=kernel, stride_w=stride),
        b.view(ring, columns), y, requant(np.array([0.01]), 5))
    decimation = front_end.decimation if front_end is not None else 1
    step, wait = stride * decimation, (hop - stride) * decimation
    delay = hop * decimation - 1
    if beats is not None:
        delay = (step * (3 + behind) + wait + beats.refractory - 1 - decimation
                 - beats.position_shift)
    return with_stream(b.plan(), Stream(
        mode=StreamMode.CONTINUOUS, rate_mhz=360_000, hop=hop, stride=stride, behind=behind,
        exact=exact, first_run=(behind + exact) // n, delay=delay, state_offset=0,
        front_end=front_end, beats=beats, quality=quality))


def incremental_plan(
    rng: np.random.Generator, hop: int = 5, window: int = 12, channels: int = 2,
    quality: Quality | None = None,
) -> pm.PlanModel:
    """A fully connected look at the last `window` columns."""
    b = PlanBuilder()
    ring = b.ring(window, channels, zero_point=ZERO_POINT)
    x = b.input(1, hop, channels, zero_point=ZERO_POINT)
    b.tail(pm.Load(), x, b.append(ring, hop))
    w = random_weights(rng, 3, window * channels)
    b.tail(
        mac(stored(w), w, values(rng, 3).astype(np.int64), ZERO_POINT, in_w=window,
            in_c=channels, kernel_w=window),
        b.view(ring, window), b.output(1, 3), requant(np.array([0.003]), 0))
    lead = -window % hop
    return with_stream(b.plan(), Stream(
        mode=StreamMode.INCREMENTAL, hop=hop, window=window, lead=lead,
        first_run=(window + lead) // hop - 1, delay=hop - 1, state_offset=0, quality=quality))


def full_stream_plan() -> pm.PlanModel:
    """Everything a stream can have, always the same."""
    rng = np.random.default_rng(5)
    return continuous_plan(
        rng, front_end=ecg360(AdcInput(0.02, ZERO_POINT)),
        beats=replace(ecg_beats(0.1, 5), position_shift=-40, refractory=20),
        quality=SMALL_QUALITY, exact=1, behind=1)


def random_front_end(rng: np.random.Generator) -> FrontEnd:
    """Sums of the largest taps and samples just fit int32."""
    taps = rng.integers(-32768, 32768, int(rng.integers(1, 40)))
    taps = np.trunc(taps * min(1.0, 65535 / np.abs(taps).sum()))
    bits = int(rng.integers(16, 31))
    fraction = int(rng.integers(0, bits - 15))
    return FrontEnd(
        taps=taps.astype(np.int16), tap_bits=bits, fraction_bits=fraction,
        decimation=int(rng.integers(1, 6)), dc_shift=int(rng.integers(0, 13)),
        multiplier=int(rng.integers(1 << 30, 1 << 31)),
        shift=54 - bits + fraction - int(rng.integers(0, 5)))


def random_signal(rng: np.random.Generator, count: int) -> Array:
    """[count] int16: stretches of noise, extremes, constants, missing samples."""
    parts: list[Array] = []
    while sum(map(len, parts)) < count:
        n = int(rng.integers(1, 90))
        level = int(rng.integers(-3000, 3000))
        kind = int(rng.integers(0, 6))
        if kind == 0:
            part = rng.integers(-32767, 32768, n)
        elif kind == 1:
            part = rng.choice([-32767, 32767, MISSING], n)
        elif kind == 2:
            part = level + rng.integers(-2, 3, n)
        elif kind == 3:
            part = np.full(n, MISSING)
        else:
            part = level + (1500 * np.sin(np.arange(8 * n) * rng.random())).astype(int)
            part[rng.random(8 * n) < 0.05] = MISSING
        parts.append(part)
    return np.concatenate(parts)[:count].astype(np.int16)


def comparable(events: Iterable[Event]) -> list[Any]:
    """Events as values that compare: a run with the bytes of its outputs."""
    return [
        (e.sample, e.column, e.skip, *(y.tobytes() for y in e.outputs)) if isinstance(e, Run)
        else e for e in events]


def packed(event: Event) -> bytes:
    """es_result without padding, then for a run its outputs."""
    if isinstance(event, Run):
        fields = (0, 0, 0, event.skip, event.sample, event.column)
        outputs = b"".join(y.tobytes() for y in event.outputs)
    elif isinstance(event, Beat):
        fields, outputs = (1, event.kind, event.strength, 0, event.position, 0), b""
    else:
        fields, outputs = (2, int(event.state), 0, 0, event.sample, 0), b""
    return struct.pack("<IIIIqq", *fields) + outputs


def chunked(signal: Array, sizes: Sequence[int]) -> Iterator[Array]:
    """The signal in pieces of these sizes, over and over."""
    at, k = 0, 0
    while at < len(signal):
        size = sizes[k % len(sizes)]
        yield signal[at : at + size]
        at, k = at + size, k + 1
