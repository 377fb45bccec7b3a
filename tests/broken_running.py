"""Plans whose sums over a moving window break I-47, or what they make of I-14, I-15 and I-43."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from edgesparse.plan import model as pm
from plan_builder import PlanBuilder
from plan_changes import Break, both, branch, part, ring, stage, tensor
from running_plans import mean, pool, running_plan, wide_plan

MEAN, POOL, APPENDED = (0, 0, 0), (1, 0, 0), 3
BIG = 1 << 24


@cache
def base() -> pm.PlanModel:
    return running_plan()


def accepted() -> tuple[pm.PlanModel, ...]:
    """What the cases below start from."""
    return base(), wide_plan(), _pools(8_388_608)


def _from_base(change: Break) -> Break:
    """A change of base(), whatever plan is given."""
    return lambda _: change(base())


def _running(at: tuple[int, int, int], **new: Any) -> Break:
    return _from_base(part(*at, "running", **new))


def _above(*stages: pm.StageBody) -> Break:
    """Stages behind the Mean."""
    def change(p: Any) -> pm.PlanModel:
        return branch(0, 0, stages=(*p.steps[0].branches[0].stages, *stages))(p)

    return _from_base(change)


def _pools(columns: int) -> pm.PlanModel:
    """An AvgPool over so many columns, 32768 of them in a run."""
    b = PlanBuilder()
    b.tail(pm.Load(), b.input(1, 32768, 1), b.output(1, 1),
           pool(32768, b.running(1, 32768, columns)))
    return b.plan()


def _shared(p: pm.PlanModel) -> pm.PlanModel:
    """Both stages the same sums: as wide, and in the same way."""
    first = p.steps[0].branches[0].stages[0]
    assert isinstance(first, pm.Mean)
    return stage(*POOL, running=first.running)(p)


def _one_column_twice(p: Any) -> pm.PlanModel:
    """A pool above asks twice for the mean."""
    window = pm.Window(out_w=2, kernel_w=2, pad_left=1)
    above = replace(pool(1, None), window=window)
    mean_stage = p.steps[0].branches[0].stages[0]
    output = p.steps[0].branches[0].output
    return both(
        branch(0, 0, stages=(mean_stage, above)),
        tensor(output, shape=(1, 2, 3), columns=2))(p)


BROKEN: dict[int, dict[str, Break]] = {
    14: {"a tensor in a ring of sums": _from_base(tensor(APPENDED, ring=0))},
    15: {"unknown use": _from_base(ring(0, use=2))},
    43: {
        # 8 columns come in, for which this would do; 22 are counted.
        "mean": _from_base(part(*MEAN, "scaled", shift=20)),
        "average": lambda _: _pools(8_388_609),
    },
    47: {
        "no fresh column": _running(MEAN, fresh=0),
        "more fresh columns than come in": _running(MEAN, fresh=9),
        "more fresh columns than count": _running(MEAN, columns=5),
        "too many columns": _running(POOL, columns=BIG + 1),
        "no such ring": _running(POOL, ring=3),
        "a ring of columns": _running(POOL, ring=2),
        "rings out of order": _from_base(both(
            part(*MEAN, "running", ring=1), part(*POOL, "running", ring=0))),
        "sums of another stage": _from_base(_shared),
        "the ring does not hold the window": _from_base(ring(0, columns=17)),
        "the ring is longer than the window": _running(MEAN, columns=18),
        "entries of another width": _running(MEAN, each=True),
        "channels": _from_base(both(ring(1, channels=4, columns=21))),
        "the ring starts with something": _from_base(ring(0, zero_point=1)),
        "two windows": _from_base(both(
            part(*POOL, "window", kernel_w=7, out_w=2),
            tensor(2, shape=(1, 2, 3), columns=2))),
        "a window that skips": _from_base(part(*POOL, "window", kernel_w=7)),
        "a window that starts outside": _from_base(
            part(*POOL, "window", kernel_w=9, pad_left=1)),
        "another mean behind": _above(mean(None, 1)),
        "a softmax behind": _above(pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-99)),
        "a pool behind that asks twice": _from_base(_one_column_twice),
    },
}
