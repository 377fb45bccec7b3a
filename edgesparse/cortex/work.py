"""The work of a plan on a core, step by step: how much of what, not what it costs.

It follows native/src/exec. What a step does depends on shapes, encodings and where tensors stand,
hardly on values: a softmax, a decoder of beats and their divisions take a few instructions more or
less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from edgesparse.cortex.dsp import dsp_work
from edgesparse.cortex.mve import mve_work
from edgesparse.cortex.regular import Whole, pieces, stands, whole_of
from edgesparse.cortex.rows import (
    TILE,
    Rows,
    Sweep,
    Work,
    calls_of,
    columns_of,
    grouped_work,
    rows_of,
    rows_work,
    sweep_of,
)
from edgesparse.cortex.sweeps import LEVELS, POOLS, Level, pass_of
from edgesparse.plan import model as pm
from edgesparse.plan.plan import KINDS
from edgesparse.plan.stream_model import Stream, StreamMode

CHANNELS = 16
"""Of a tile: ES_TILE_CHANNELS."""
OPERANDS = (pm.Add, pm.Mul, pm.AddSingleRequant)
KERNELS: dict[str, Callable[[Whole], Work | None]] = {"dsp": dsp_work, "mve": mve_work}
"""What whole steps do, by the instruction set of the kernels that take them."""


@dataclass(frozen=True)
class _Step:
    """A step with what its parts ask about it; `channels` those of the source."""

    plan: pm.PlanModel
    step: pm.Step
    columns: int
    channels: int

    def place(self, tensor: int) -> pm.Place:
        return self.plan.tensors[tensor].place

    @property
    def input(self) -> pm.Place:
        return self.place(self.step.input)


def work_of(plan: pm.PlanModel, kernels: str) -> tuple[Work, ...]:
    """Of each step in one run; kernels: a key of KERNELS."""
    return tuple(step_work(plan, step, kernels) for step in plan.steps)


def step_work(plan: pm.PlanModel, step: pm.Step, kernels: str) -> Work:
    """Of a step in one run."""
    s = _Step(plan, step, *_source_shape(plan, step))
    work: Work = Counter({"steps": 1, "branches": len(step.branches)})
    whole = whole_of(plan, step)
    taken = None if whole is None else KERNELS[kernels](whole)
    if taken is not None:
        work += taken
    elif isinstance(step.source, pm.Copy):
        work += _copy_work(s, step.source)
    elif isinstance(step.source, pm.Lstm):
        work += _lstm_work(s, step.source)
    elif _only_moves(s):
        work["moved columns"] += s.columns
        work["moved bytes"] += s.columns * s.channels
    else:
        work += _tiles_work(s)
    for branch in step.branches:
        place = s.place(branch.output)
        work["halo values"] += 2 * place.halo * place.phases * place.channels
        work["rings"] += place.ring >= 0
    work["rings"] += len(pm.rings_of(step.source)) + (s.input.ring >= 0)
    return Counter({name: n for name, n in work.items() if n})


def _source_shape(plan: pm.PlanModel, step: pm.Step) -> tuple[int, int]:
    """(columns, channels) of what the source gives: es_step_shape()."""
    source, output = step.source, plan.tensors[step.branches[0].output].place
    if isinstance(source, pm.Mac):
        return source.geometry.out_h * source.geometry.out_w, source.geometry.rows
    if isinstance(source, pm.Svdf):
        return 1, len(source.bias)
    if isinstance(source, (pm.Copy, pm.Lstm)):
        return output.columns, output.channels
    given = plan.tensors[step.input].place
    pools = any(isinstance(stage, LEVELS) and not isinstance(stage, pm.Softmax)
                for branch in step.branches for stage in branch.stages)
    columns = output.columns if given.columns == 1 and not pools else given.columns
    channels = given.channels
    return columns, sum(b.channels for b in step.branches) if channels == 1 else channels


# ---- sources


def _only_moves(s: _Step) -> bool:
    """A Load without stages: whole columns."""
    (branch, *others), given = s.step.branches, s.input
    out = s.place(branch.output)
    return (isinstance(s.step.source, pm.Load) and not others and not branch.stages
            and {given.layout, out.layout} == {pm.Layout.NWC}
            and (given.columns, given.channels) == (out.columns, out.channels))


def _takes_input(s: _Step, branch: pm.Branch) -> bool:
    """Whether a pool that a Load begins with takes columns of the input as they stand."""
    first = branch.stages[0]
    if not isinstance(s.step.source, pm.Load) or not isinstance(first, POOLS):
        return False
    return (len(s.step.branches) == 1 and s.input.layout is pm.Layout.NWC
            and branch.channels == s.input.channels and s.input.columns > 1)


def _tiles_work(s: _Step) -> Work:
    """The branches without levels in one pass, every other in one of its own."""
    work: Work = Counter()
    branches = s.step.branches
    plain = [b for b in branches if not any(isinstance(stage, LEVELS) for stage in b.stages)]
    if isinstance(s.step.source, pm.Svdf):
        work += _svdf_work(s.step.source)
    if plain:
        sweep = sweep_of(s.columns)
        work += _source_work(s, sweep, sum(b.channels for b in plain))
        if _finishes(s):
            work["finished values"] += columns_of(sweep) * s.channels
            work["finished tiles"] += calls_of(sweep) * _tiles(s.channels)
        else:
            for branch in plain:
                work += _emitted(branch, sweep)
    for branch in branches:
        if branch in plain:
            continue
        found = pass_of(branch, s.columns, s.place(branch.output).columns)
        if _takes_input(s, branch):
            work += _input_work(branch, found.sweep)
            work += _levels_work(branch, Counter(), found.levels)
        else:
            work += _source_work(s, found.sweep, branch.channels)
            work += _levels_work(branch, found.sweep, found.levels)
    return work


def _input_work(branch: pm.Branch, sweep: Sweep) -> Work:
    """Columns of the input that go into a pool as they stand."""
    kind = KINDS[type(branch.stages[0])]
    work: Work = Counter()
    for size, times in sweep.items():
        at_once = "four" if size == TILE else "few"
        work[f"{kind} {at_once} columns"] += size * times
        work[f"{kind} {at_once} calls"] += times
        work[f"{kind} {at_once} values"] += size * times * branch.channels
        work[f"{kind} {at_once} sums"] += times * branch.channels
    return work


def _tiles(channels: int) -> int:
    return -(-channels // CHANNELS)


def _source_work(s: _Step, sweep: Sweep, taken: int) -> Work:
    """taken: channels that are computed."""
    source = s.step.source
    if isinstance(source, pm.Mac):
        return _mac_work(s, source, sweep, taken)
    work: Work = Counter()
    if isinstance(source, pm.Load):
        work["loaded values"] += columns_of(sweep) * taken
        work["loaded rows"] += calls_of(sweep) * taken
        work["loads"] += calls_of(sweep)
    return work


def _mac_work(s: _Step, mac: pm.Mac, sweep: Sweep, taken: int) -> Work:
    g = mac.geometry
    columns, taps = columns_of(sweep), g.kernel_h * g.kernel_w
    work: Work = Counter({"mac calls": calls_of(sweep), "mac columns": columns})
    if isinstance(s.step.source, pm.Mac) and not stands(s.input, g):
        work["gathered bytes"] += columns * taps * g.in_c
        work["gathered columns"] += columns
        work["gathered pieces"] += round(columns * pieces(g, s.input))
    rows = _rows_of_mac(mac, sweep)
    share = taken / s.channels if isinstance(s.step.source, pm.Mac) else 1.0
    for name, amount in rows.items():
        work[name] += amount if share == 1 else round(amount * share)
    work["mac rows"] += calls_of(sweep) * taken
    return work


def tiles_work(g: pm.Geometry, rows: Rows, sweep: Sweep) -> Work:
    """Of a layer whose patches are gathered side by side, tile by tile, scaling included."""
    columns, calls = columns_of(sweep), calls_of(sweep)
    patch = g.kernel_h * g.kernel_w * g.in_c
    return rows_work(rows, sweep) + Counter({
        "mac calls": calls, "mac columns": columns, "gathered bytes": columns * patch,
        "gathered columns": columns, "gathered pieces": columns, "row groups": calls,
        "mac rows": calls * g.rows, "finished values": columns * g.rows,
        "finished tiles": calls * _tiles(g.rows)})


def _rows_of_mac(mac: pm.Mac, sweep: Sweep) -> Work:
    g = mac.geometry
    work: Work = Counter()
    for group in mac.weights.groups:
        rows = rows_of(group, mac.weights.cols)
        work["row groups"] += calls_of(sweep)
        work += (rows_work(rows, sweep) if g.groups == 1 else
                 grouped_work(rows, g.kernel_h * g.kernel_w, sweep))
    return work


def _lstm_work(s: _Step, lstm: pm.Lstm) -> Work:
    work: Work = Counter()
    one = {1: lstm.input.geometry.out_w}
    for mac in (lstm.input, lstm.recurrent):
        work += _mac_work(s, mac, one, mac.geometry.rows)
        work["collected values"] += one[1] * mac.geometry.rows
    work["lstm cells"] += one[1] * lstm.recurrent.geometry.rows // 4
    return work


def _svdf_work(svdf: pm.Svdf) -> Work:
    work = _rows_of_mac(svdf.feature, {1: 1})
    work["collected values"] += svdf.feature.geometry.rows
    work["filtered values"] += svdf.time.size
    work["filtered rows"] += svdf.feature.geometry.rows
    return work


def _copy_work(s: _Step, copy: pm.Copy) -> Work:
    work: Work = Counter()
    to = s.place(s.step.branches[0].output)
    row, rows = copy.dims[-1], 1
    for dim in copy.dims[:-1]:
        rows *= dim
    if copy.fill:
        work["filled values"] += to.columns * to.channels
    work["copied rows"] += rows
    flat = all(p.layout is pm.Layout.NWC for p in (s.input, to))
    if copy.in_strides[-1] == copy.out_strides[-1] == 1 and flat:
        # Pieces end where a column of either tensor does.
        work["copied pieces"] += rows * max(1, row // min(s.input.channels, to.channels))
        work["copied bytes"] += rows * row
    else:
        work["copied values"] += rows * row
    return work


# ---- what follows a source


def _finishes(s: _Step) -> bool:
    """Whether sums go straight to where they belong: es_finish_begin()."""
    if not isinstance(s.step.source, pm.Mac) or len(s.step.branches) != 1:
        return False
    (branch,) = s.step.branches
    return (len(branch.stages) == 1 and isinstance(branch.stages[0], pm.Requant)
            and s.place(branch.output).layout is pm.Layout.NWC)


def _emitted(branch: pm.Branch, sweep: Sweep) -> Work:
    """Stages of a branch without levels, and the store."""
    work = _stages_work(branch.stages, branch.channels, sweep)
    work["stored values"] += columns_of(sweep) * branch.channels
    work["stored tiles"] += calls_of(sweep) * _tiles(branch.channels)
    return work


def _stages_work(stages: tuple[pm.StageBody, ...], channels: int, sweep: Sweep) -> Work:
    """Elementwise stages on tiles."""
    work: Work = Counter()
    tiles, values = calls_of(sweep) * _tiles(channels), columns_of(sweep) * channels
    for stage in stages:
        kind = KINDS[type(stage)]
        work[f"{kind} values"] += values
        work["stage tiles"] += tiles
        if isinstance(stage, OPERANDS):
            work[f"{kind} tiles"] += tiles
    return work


def _levels_work(branch: pm.Branch, sweep: Sweep, levels: tuple[Level, ...]) -> Work:
    """Stages before, between and after the levels of a branch, the levels, and the store."""
    work: Work = Counter()
    begin = 0
    for level in levels:
        stage = branch.stages[level.stage]
        work += _stages_work(branch.stages[begin : level.stage], branch.channels, sweep)
        kind = KINDS[type(stage)]
        if sweep:  # otherwise the input was added as it stands
            work[f"{kind} taps"] += level.taps * branch.channels
        work[f"{kind} tiles"] += calls_of(sweep) * _tiles(branch.channels)
        work[f"{kind} columns"] += level.columns
        work[f"{kind} values"] += level.columns * branch.channels
        work["running values"] += level.pushes * branch.channels
        begin, sweep = level.stage + 1, {1: level.columns}
    work += _stages_work(branch.stages[begin:], branch.channels, sweep)
    work["stored values"] += columns_of(sweep) * branch.channels
    work["stored tiles"] += calls_of(sweep) * _tiles(branch.channels)
    return work


# ---- streams


def hop_work(plan: pm.PlanModel, stream: Stream) -> Work:
    """What a hop does besides the steps of its run: es_push() of its samples."""
    channels = plan.tensors[plan.inputs[0].tensor].place.channels
    front = stream.front_end
    samples = stream.hop * (front.decimation if front is not None else 1)
    work: Work = Counter({"pushes": 1, "pushed samples": samples,
                          "pushed values": samples * channels})
    if front is not None:
        work["filtered samples"] += samples
        work["front end columns"] += stream.hop
        work["front end taps"] += stream.hop * len(front.taps)
    if stream.quality is not None:
        work["judged samples"] += samples
    if stream.beats is not None and stream.mode is StreamMode.CONTINUOUS:
        output = plan.tensors[plan.outputs[0].tensor].place
        columns = stream.hop // stream.stride
        work["decoded columns"] += columns
        work["decoded values"] += columns * output.channels
    return work
