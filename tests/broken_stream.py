"""Plans whose Stream breaks one invariant each: I-70 to I-73."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from edgesparse.plan import model as pm
from edgesparse.plan.stream_model import Stream
from plan_changes import Break, changed
from stream_plans import continuous_plan, full_stream_plan, incremental_plan

BIG = (1 << 24) + 1


@cache
def full() -> pm.PlanModel:
    return full_stream_plan()


@cache
def windows() -> pm.PlanModel:
    return incremental_plan(np.random.default_rng(1))


@cache
def bare() -> pm.PlanModel:
    return continuous_plan(np.random.default_rng(1))


def accepted() -> tuple[pm.PlanModel, ...]:
    """What the cases below start from."""
    return full(), windows(), bare()


def _stream(base: Any, **new: Any) -> Break:
    """A change of `base()`, whatever plan is given."""

    def change(_: pm.PlanModel) -> pm.PlanModel:
        model: pm.PlanModel = base()
        return replace(model, stream=replace(_spec(model), **new))

    return change


def _part(name: str, **new: Any) -> Break:
    def change(plan: pm.PlanModel) -> pm.PlanModel:
        part = getattr(_spec(full()), name)
        return _stream(full, **{name: replace(part, **new)})(plan)

    return change


def _table(name: str, i: int, value: int) -> Break:
    beats = _spec(full()).beats
    return _part("beats", **{name: changed(getattr(beats, name), i, value)})


def _on_windows(name: str) -> Break:
    """A part of a one-channel continuous stream in one of two-channel windows."""
    return _stream(windows, **{name: getattr(_spec(full()), name)})


def _two_inputs(_: pm.PlanModel) -> pm.PlanModel:
    model = bare()
    first = model.tensors[model.inputs[0].tensor]
    second = replace(first, place=replace(first.place, offset=model.arena_bytes))
    return replace(
        model, tensors=(*model.tensors, second),
        inputs=(*model.inputs, pm.Io(tensor=len(model.tensors))),
        arena_bytes=model.arena_bytes + first.place.columns)


def _delay(by: int) -> Break:
    return lambda p: _stream(full, delay=_spec(full()).delay + by)(p)


def _spec(model: pm.PlanModel) -> Stream:
    assert model.stream is not None
    return model.stream


def _first_run(base: Any) -> Break:
    return lambda p: _stream(base, first_run=_spec(base()).first_run + 1)(p)


BROKEN: dict[int, dict[str, Break]] = {
    70: {
        "mode": _stream(bare, mode=2),
        "hop": _stream(bare, hop=4),
        "two inputs": _two_inputs,
        "stride": _stream(bare, stride=3),
        "no stride": _stream(bare, stride=0),
        "output columns": _stream(bare, stride=8),
        "window of a continuous one": _stream(bare, window=8),
        "lead of a continuous one": _stream(bare, lead=1),
        "behind": _stream(bare, behind=BIG, first_run=BIG // 2),
        "exact": _stream(bare, exact=BIG, first_run=BIG // 2),
        "first_run": _first_run(full),
        "delay high": _delay(1),
        "delay low": _delay(-1),
        "delay without beats": _stream(bare, delay=8),
        "state off alignment": lambda p: _stream(
            bare, state_offset=_spec(bare()).state_offset + 4)(p),
        "state in a ring": _stream(bare, state_offset=8),
        "state past its end": lambda p: _stream(
            full, state_offset=_spec(full()).state_offset + 16)(p),
        "window below hop": _stream(windows, window=4, lead=1, first_run=0),
        "window high": _stream(windows, window=BIG - 1 + 5, lead=0, first_run=(BIG + 4) // 5 - 1),
        "lead": _stream(windows, lead=2),
        "first_run of windows": _first_run(windows),
        "delay of windows": _stream(windows, delay=5),
        "stride of windows": _stream(windows, stride=1),
        "behind of windows": _stream(windows, behind=1),
        "exact of windows": _stream(windows, exact=1),
    },
    71: {
        "channels": _on_windows("front_end"),
        "no taps": _part("front_end", taps=np.zeros(0, np.int16)),
        "too many taps": _part("front_end", taps=np.zeros(1025, np.int16)),
        "tap_bits": _part("front_end", tap_bits=31),
        "fraction_bits": _part("front_end", fraction_bits=16),
        "decimation": _part("front_end", decimation=0),
        "dc_shift": _part("front_end", dc_shift=17),
        "mean": _part("front_end", dc_shift=12),
        "multiplier": _part("front_end", multiplier=-1),
        "shift low": _part("front_end", shift=0),
        "shift high": _part("front_end", shift=63),
        "sum": _part("front_end", taps=np.array([32767, 32767, 2], np.int16), dc_shift=0),
        "negative sum": _part("front_end", taps=np.array([-32768, -32768], np.int16), dc_shift=0),
        "no room for a difference": _part(
            "front_end", taps=np.array([32767, 2], np.int16), tap_bits=0, fraction_bits=0,
            dc_shift=0),
    },
    72: {
        "windows": lambda p: _stream(
            lambda: incremental_plan(np.random.default_rng(1), channels=1),
            beats=_spec(full()).beats)(p),
        "one channel": lambda p: _stream(
            lambda: continuous_plan(np.random.default_rng(1), classes=0),
            beats=_spec(full()).beats)(p),
        "too many channels": lambda p: _stream(
            lambda: continuous_plan(np.random.default_rng(1), classes=17),
            beats=_spec(full()).beats)(p),
        "p_bits low": _part("beats", p_bits=0, probability=np.zeros(256, np.uint16),
                            power=np.ones(256, np.uint16)),
        "p_bits high": _part("beats", p_bits=16),
        "short table": _part("beats", probability=np.zeros(255, np.uint16)),
        "long table": _part("beats", power=np.ones(257, np.uint16)),
        "probability": _table("probability", 0, (1 << 15) + 1),
        "power": _table("power", 255, (1 << 15) + 1),
        "no power": _table("power", 0, 0),
        "position_shift low": _part("beats", position_shift=-BIG),
        "position_shift high": _part("beats", position_shift=1),
        "refractory": _part("beats", refractory=BIG),
        "samples per step": _part("front_end", decimation=2049),
    },
    73: {
        "channels": _on_windows("quality"),
        "no recovery": _part("quality", recover_samples=0),
        "odd window": _part("quality", missing_window=36),
        "window": _part("quality", missing_window=4104),
        "noise": _part("quality", noise_samples=(1 << 14) + 1),
        "noise below nothing": _part("quality", noise_limit=9, noise_margin=10),
        "missing below nothing": _part("quality", missing_most=9, missing_margin=10),
        **{name: _part("quality", **{name: BIG}) for name in (
            "flat_samples", "saturated_samples", "missing_run", "recover_samples",
            "settle_samples", "guard_samples")},
    },
}
