"""Lowering: a plan -> one program for the NPU, from inputs in the arena to outputs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.npu.assembler import Assembler
from edgesparse.npu.fit import Fitted, StepTooLarge, fit, regions_of, step_grid
from edgesparse.npu.homes import Map, ring_places
from edgesparse.npu.isa import Op
from edgesparse.npu.kernels import Kernel, NotOnNpu, Setting, kernel_for
from edgesparse.npu.kernels.base import Item, Piece
from edgesparse.npu.loader import Blobs, Entry, Loader, NoRoom, load_piece, side_by_side
from edgesparse.npu.options import NpuOptions, wants_resident
from edgesparse.npu.report import Placement, placements, report, spilled, taken_ranges
from edgesparse.npu.steps import Frame, StepCode
from edgesparse.npu.storage import reads
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import Npu
from edgesparse.target import NpuConfig

MOST_PENDING = 32
"""Transfers of the prologue that are under way at one time."""


@dataclass(frozen=True, eq=False)
class LoweredNpu:
    """The program and what there is to say about it.

    host      (step, why the CPU runs it)
    spilled   (tensor, its bytes) of what did not fit and goes through the arena
    resident  steps whose weights are loaded in the prologue
    """

    npu: Npu
    placements: tuple[Placement, ...]
    host: tuple[tuple[int, str], ...]
    spilled: tuple[tuple[int, int], ...]
    resident: frozenset[int]
    report: tuple[str, ...]


def lower_npu(
    plan: pm.PlanModel, config: NpuConfig, options: NpuOptions | None = None
) -> LoweredNpu:
    """Raises BadInput for an option that is not known."""
    options = options or NpuOptions()
    _check(options)
    job = _Job(plan, config, options)
    streamed = _lowered(job, frozenset())
    for steps in _resident_choices(job) if wants_resident(options, config) else ():
        try:
            lowered = _lowered(job, steps)
        except _TooMuchResident:
            continue
        # Weights that push tensors out cost more than they save: those move in both directions.
        if _spilled_bytes(lowered) <= _spilled_bytes(streamed):
            return lowered
    return streamed


def _spilled_bytes(lowered: LoweredNpu) -> int:
    return sum(size for _, size in lowered.spilled)


def _check(options: NpuOptions) -> None:
    """Raises BadInput."""
    for name, allowed in (("intermediates", ("sram", "dram")),
                          ("zero_stores", ("filled", "none", "all"))):
        if (value := getattr(options, name)) not in allowed:
            raise BadInput(f"{name} {value!r}: {' or '.join(map(repr, allowed))} is allowed")


@dataclass(frozen=True)
class _Job:
    plan: pm.PlanModel
    config: NpuConfig
    options: NpuOptions


class _TooMuchResident(Exception):
    """Resident weights leave too little room to the tensors."""


def _resident_choices(job: _Job) -> Iterator[frozenset[int]]:
    """Steps whose weights might stay: all, then as many bytes as may fit, the largest first."""
    kernels, _ = _kernels(job, {}, frozenset(range(len(job.plan.steps))))
    sizes = {s: sum(item.size for item in _items(k)) for s, k in kernels.items()}
    yield frozenset(sizes)
    room = job.config.scratchpad_bytes
    while room := room * 3 // 4 if room > 512 else 0:
        left, chosen = room, []
        for step in sorted(sizes, key=lambda s: (-sizes[s], s)):
            if sizes[step] <= left:
                chosen.append(step)
                left -= sizes[step]
        yield frozenset(chosen)


def _items(kernel: Kernel) -> tuple[Item, ...]:
    return (*((kernel.params,) if kernel.params else ()), *kernel.chunks())


def _lowered(job: _Job, resident: frozenset[int]) -> LoweredNpu:
    """Lower; steps that turn out too large go to the CPU, and crowded ones load late."""
    cpu: dict[int, str] = {}
    late: frozenset[int] = frozenset()
    while True:
        try:
            return _Lowering(job, resident, cpu).run(late)
        except StepTooLarge as too_large:
            if resident:
                raise _TooMuchResident from too_large
            cpu[too_large.step] = too_large.reason
            late = frozenset()
        except NoRoom as crowded:
            if crowded.step in late:  # its reserve holds what it needs: a fault of ours
                raise
            late |= {crowded.step}


class _Lowering:
    def __init__(self, job: _Job, resident: frozenset[int], cpu: Mapping[int, str]) -> None:
        """cpu: steps that have turned out too large, and why."""
        plan, config = job.plan, job.config
        self.plan, self.config, self.resident = plan, config, resident
        self.kernels, self.reasons = _kernels(job, cpu, resident)
        self.merged = _merge_appends(plan, self.kernels)
        rings = frozenset(
            plan.tensors[t].place.ring for s in (*self.kernels, *self.merged)
            for t in _touched(plan, s)
            if plan.tensors[t].place.ring >= 0)
        self.rings = ring_places(plan, config, rings)
        self.asm, self.blobs = Assembler(config), Blobs()
        self.map = Map(plan, self.kernels, config, self.merged, job.options)

    def run(self, late: frozenset[int]) -> LoweredNpu:
        low = max((r.address + r.size for r in self.rings.values()), default=0)
        if low > self.config.scratchpad_bytes or len(self.rings) > self.config.rings:
            self._leave_largest_ring(low)
        fixed = self._fixed(low)
        high = min(fixed.values(), default=self.config.scratchpad_bytes)
        fitted = fit(self.map, low, high, self.resident)
        self._prologue(fixed)
        prologue = len(self.asm.words)
        self.asm.start()
        loader = Loader(
            asm=self.asm, blobs=self.blobs, entries=self._entries(fitted), room=(low, high),
            barriers=[s for s, _ in self.reasons], fixed=fixed, late=late)
        frame = Frame(self.map, fitted, self.rings, loader, self.asm)
        loader.taken = taken_ranges(frame)
        self._steps(frame)
        npu = Npu(
            config=self.config.id, scratchpad_bytes=self.config.scratchpad_bytes,
            prologue=prologue, commands=np.frombuffer(self.asm.binary(), np.uint8).copy(),
            blobs=tuple(self.blobs.all))
        return LoweredNpu(
            npu, tuple(placements(frame)), self.reasons, spilled(frame), self.resident,
            (*self._resident_line(), *report(frame, self.reasons)))

    # ---- before the first run

    def _leave_largest_ring(self, needed: int) -> NoReturn:
        """Raises StepTooLarge for a step that uses it; those that share it follow."""
        largest = max(self.rings, key=lambda ring: self.rings[ring].size)
        step = next(s for s in (*self.kernels, *self.merged)
                    if largest in {self.plan.tensors[t].place.ring for t in _touched(self.plan, s)})
        raise StepTooLarge(
            step, f"its ring does not fit: all {len(self.rings)} rings take {needed:,} bytes of "
            f"scratchpad, of {self.config.rings} rings and {self.config.scratchpad_bytes:,} bytes")

    def _fixed(self, low: int) -> dict[Piece, int]:
        """Addresses of everything that is loaded in the prologue, at the end of the scratchpad."""
        pieces = [piece for step, kernel in self.kernels.items() if step in self.resident
                  for item in _items(kernel) for piece in item.pieces]
        offsets, size = side_by_side(pieces, self.config.lanes)
        at = self.config.scratchpad_bytes - size
        if at < low:
            raise _TooMuchResident
        return {piece: at + offset for piece, offset in offsets.items()}

    def _prologue(self, fixed: Mapping[Piece, int]) -> None:
        asm = self.asm
        for ring in self.rings.values():
            asm.emit(Op.RING, ring=ring.number, address=ring.address, size=ring.size)
            asm.emit(Op.FILL, address=ring.address, length=ring.size,
                     value=ring.zero_point & 0xFF)
        for i, (piece, address) in enumerate(fixed.items()):
            load_piece(asm, self.blobs, piece, (address, 0))
            if i % MOST_PENDING == MOST_PENDING - 1 or i == len(fixed) - 1:
                asm.emit(Op.DWAIT, channel=0)
        asm.emit(Op.END)

    def _resident_line(self) -> tuple[str, ...]:
        with_weights = [s for s, k in self.kernels.items() if _items(k)]
        kept = len(self.resident & set(with_weights))
        if not kept:
            return ()
        return (f"weights of {kept} of {len(with_weights)} steps are loaded once, at the reset",)

    # ---- a run

    def _entries(self, fitted: Fitted) -> list[Entry]:
        """Everything that is loaded during a run, in the order of use."""
        entries: list[Entry] = []
        for step, work in fitted.works.items():
            kernel = work.kernel
            if step in self.resident:
                continue
            if kernel.params:
                entries.append(Entry(kernel.params, 1))
            count = len(regions_of(kernel, work.tile, step_grid(self.map, work)))
            rounds, uses = (1, count) if work.hold else (count, 1)
            entries += [Entry(item, uses) for _ in range(rounds) for item in kernel.chunks()]
        return entries

    def _steps(self, frame: Frame) -> None:
        cpu = dict(self.reasons)
        for step in range(len(self.plan.steps)):
            if step in self.merged:
                continue
            if step in cpu:
                frame.loader.step = step
                frame.loader.wait_stores()
                self.asm.emit(Op.HOST, step=step)
            else:
                StepCode(frame, step).emit()
            self.asm.emit(Op.MARK, step=step)
        frame.loader.wait_stores()
        self.asm.emit(Op.END)


def _merge_appends(plan: pm.PlanModel, kernels: dict[int, Kernel]) -> frozenset[int]:
    """Steps that only append what the step before has computed: its kernel stores twice instead."""
    merged = set()
    for number in range(1, len(plan.steps)):
        step, before = plan.steps[number], kernels.get(number - 1)
        branch = step.branches[0]
        ring = plan.tensors[branch.output].place.ring
        if before is None or number not in kernels or ring < 0 or (
                branch.stages or not isinstance(step.source, pm.Load)):
            continue
        touched = {plan.tensors[n.tensor].place.ring for n in before.needs}
        same = before.output.tensor == step.input and before.output.grid != "free"
        if same and ring not in touched:
            before.append_to(branch.output)
            del kernels[number]
            merged.add(number)
    return frozenset(merged)


def _touched(plan: pm.PlanModel, step: int) -> tuple[int, ...]:
    s = plan.steps[step]
    return (*reads(s), *(b.output for b in s.branches))


def _kernels(
    job: _Job, cpu: Mapping[int, str], resident: frozenset[int]
) -> tuple[dict[int, Kernel], tuple[tuple[int, str], ...]]:
    """The kernel of every step that has one; for the others the reason why not."""
    plan = job.plan
    kernels: dict[int, Kernel] = {}
    reasons: dict[int, str] = dict(cpu)
    for number in range(len(plan.steps)):
        if number in cpu:
            continue
        try:
            kernels[number] = kernel_for(Setting(
                plan, number, job.config, skip=job.options.skip, whole=number in resident))
        except NotOnNpu as reason:
            reasons[number] = str(reason)
    # A ring stands in one place: where one step is on the CPU, so are all that touch its rings.
    changed = True
    while changed:
        off = {plan.tensors[t].place.ring for s in reasons for t in _touched(plan, s)} - {-1}
        moved = [s for s in kernels
                 if off & {plan.tensors[t].place.ring for t in _touched(plan, s)}]
        for step in moved:
            del kernels[step]
            reasons[step] = "its ring is used by a step on the CPU"
        changed = bool(moved)
    return kernels, tuple(sorted(reasons.items()))

