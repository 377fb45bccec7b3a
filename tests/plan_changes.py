"""Changes to one part of a plan model; tests break the plan of everything.py with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from edgesparse.plan import model as pm

Break = Callable[[Any], pm.PlanModel]
"""Takes a plan (Any: it looks inside unions), gives another one."""

# Tensors and steps of everything(), by name.
X, FRESH, APPENDED, VIEWED, PLANAR, C4, HALVES, RESIDUAL, LEFT, RIGHT, SPREAD, CONSTANT = range(12)
INPLACE, Y, Z, H, U, V = range(12, 18)
TO_RING, CONV, DEPTHWISE, HORIZONTAL, LOAD, IN_PLACE, MEAN, COPY, LSTM, SVDF = range(10)
HIDDEN_RING, CELL_RING, PAST_RING = 2, 3, 4
ASR = (HORIZONTAL, 1, 0)
ADD, MUL, LUT, AVG = ((LOAD, 0, s) for s in range(4))
POOL = (DEPTHWISE, 0, 1)
BIG = 1 << 20


def item(values: tuple[Any, ...], i: int, new: Any) -> tuple[Any, ...]:
    i %= len(values)
    return (*values[:i], new, *values[i + 1 :])


def whole(**new: Any) -> Break:
    return lambda p: replace(p, **new)


def tensor(i: int, **new: Any) -> Break:
    """New fields of a tensor, or of its place."""

    def change(p: pm.PlanModel) -> pm.PlanModel:
        old = p.tensors[i]
        place = {k: v for k, v in new.items() if k in {f.name for f in fields(pm.Place)}}
        rest = {k: v for k, v in new.items() if k not in place}
        return replace(p, tensors=item(
            p.tensors, i, replace(old, place=replace(old.place, **place), **rest)))

    return change


def ring(i: int, **new: Any) -> Break:
    return lambda p: replace(p, rings=item(p.rings, i, replace(p.rings[i], **new)))


def step(i: int, **new: Any) -> Break:
    return lambda p: replace(p, steps=item(p.steps, i, replace(p.steps[i], **new)))


def source(i: int, **new: Any) -> Break:
    return lambda p: step(i, source=replace(p.steps[i].source, **new))(p)


def geometry(i: int, **new: Any) -> Break:
    return lambda p: source(i, geometry=replace(p.steps[i].source.geometry, **new))(p)


def inner(i: int, name: str, **new: Any) -> Break:
    """New fields of a table or struct of a source: a Mac of an Lstm, a Scaled."""
    return lambda p: source(
        i, **{name: replace(getattr(p.steps[i].source, name), **new)})(p)


def inner_geometry(i: int, name: str, **new: Any) -> Break:
    return lambda p: inner(
        i, name, geometry=replace(getattr(p.steps[i].source, name).geometry, **new))(p)


def weights(i: int, **new: Any) -> Break:
    return lambda p: source(i, weights=replace(p.steps[i].source.weights, **new))(p)


def group(i: int, g: int, **new: Any) -> Break:
    def change(p: Any) -> pm.PlanModel:
        groups = p.steps[i].source.weights.groups
        return weights(i, groups=item(groups, g, replace(groups[g], **new)))(p)

    return change


def branch(i: int, b: int, **new: Any) -> Break:
    return lambda p: step(
        i, branches=item(p.steps[i].branches, b, replace(p.steps[i].branches[b], **new)))(p)


def stage(i: int, b: int, s: int, **new: Any) -> Break:
    def change(p: Any) -> pm.PlanModel:
        stages = p.steps[i].branches[b].stages
        return branch(i, b, stages=item(stages, s, replace(stages[s], **new)))(p)

    return change


def part(i: int, b: int, s: int, name: str, **new: Any) -> Break:
    """New fields of a struct in a stage: a Window or a Scaled."""
    return lambda p: stage(
        i, b, s, **{name: replace(getattr(p.steps[i].branches[b].stages[s], name), **new)})(p)


def stages(i: int, b: int, *new: pm.StageBody) -> Break:
    return branch(i, b, stages=new)


def both(*changes: Break) -> Break:
    def change(p: pm.PlanModel) -> pm.PlanModel:
        for one in changes:
            p = one(p)
        return p

    return change


def array(*values: int, dtype: Any = np.int32) -> Any:
    return np.array(values, dtype)


def changed(values: Any, i: int, new: int) -> Any:
    values = values.copy()
    values[i] = new
    return values


def io(name: str, i: int, **new: Any) -> Break:
    return lambda p: replace(p, **{name: item(getattr(p, name), i, replace(
        getattr(p, name)[i], **new))})


def repacked(i: int, g: int, form: Any, change: Callable[[Any], Any], **new: Any) -> Break:
    """Row group g in another encoding, then with changed values or index."""

    def apply(p: Any) -> pm.PlanModel:
        w = p.steps[i].source.weights
        old = w.groups[g]
        rng = np.random.default_rng(3)
        dense = rng.integers(1, 100, (old.row_count, w.cols)).astype(np.int8)
        if getattr(form, "m", 0):
            dense[:, np.arange(w.cols) % form.m >= form.n] = 0
        made = change(form.row_group(dense, old.first_row))
        return weights(i, groups=item(w.groups, g, replace(made, **new)))(p)

    return apply


def same(g: pm.RowGroup) -> pm.RowGroup:
    return g


def values_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda g: replace(g, values=f(g.values))


def index_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda g: replace(g, index=f(g.index))


def longer(a: Any) -> Any:
    return np.append(a, np.array([1], a.dtype))


def shorter(a: Any) -> Any:
    return a[:-1]
