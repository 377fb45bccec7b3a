"""Lowering: a plan -> one program for the NPU, from the inputs in the arena to the outputs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput, DoesNotFit
from edgesparse.npu.assembler import Assembler
from edgesparse.npu.isa import Op
from edgesparse.npu.kernels import Kernel, NotOnNpu, Setting, kernel_for
from edgesparse.npu.kernels.base import Item, aligned
from edgesparse.npu.layout import Layout
from edgesparse.npu.loader import Blobs, Entry, Loader, NoRoom, load_item
from edgesparse.npu.scratchpad import (
    Fitted,
    Map,
    StepTooLarge,
    fit,
    regions_of,
    ring_places,
    space_grid,
)
from edgesparse.npu.steps import StepCode
from edgesparse.npu.storage import reads
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import Npu
from edgesparse.target import NpuConfig


RESIDENT_FROM = 1 << 20
"""Bytes of scratchpad from which weights are loaded once unless told otherwise: esn-lab."""


@dataclass(frozen=True)
class NpuOptions:
    """How to lower. What to lower for is the NpuConfig.

    resident       weights are loaded once, in the prologue; None: where the scratchpad is large
                   (RESIDENT_FROM) and they fit beside all tensors
    skip           activations at the zero point take no slot
    intermediates  "sram", or "dram": every tensor goes through the arena, for comparison
    keep           every tensor keeps its bytes to the end of a run, for tests
    """

    resident: bool | None = None
    skip: bool = True
    intermediates: str = "sram"
    keep: bool = False


@dataclass(frozen=True)
class Placement:
    """Where a step's result is after a run.

    step     that writes it; -1: the caller
    space    "scratchpad", "ring" or "arena"
    layout   in the scratchpad; of a ring tensor before the head moved on
    survives whether nothing is written over it in the same run
    """

    step: int
    tensor: int
    space: str
    layout: Layout | None
    survives: bool


@dataclass(frozen=True, eq=False)
class LoweredNpu:
    """The program and what there is to say about it.

    host     (step, why the CPU runs it)
    spilled  (tensor, its bytes) of what did not fit and goes through the arena
    """

    npu: Npu
    placements: tuple[Placement, ...]
    host: tuple[tuple[int, str], ...]
    spilled: tuple[tuple[int, int], ...]
    resident: bool
    report: tuple[str, ...]


def lower_npu(
    plan: pm.PlanModel, config: NpuConfig, options: NpuOptions | None = None
) -> LoweredNpu:
    """Raises DoesNotFit when a step needs more than the whole scratchpad."""
    options = options or NpuOptions()
    if options.intermediates not in ("sram", "dram"):
        raise BadInput(
            f"intermediates {options.intermediates!r}: 'sram' or 'dram' is allowed")
    large = config.scratchpad_bytes >= RESIDENT_FROM
    if options.resident is not None or not large:
        return _lowered(plan, config, options, bool(options.resident))
    try:
        return _lowered(plan, config, options, True)
    except DoesNotFit:
        return _lowered(plan, config, options, False)


def _lowered(
    plan: pm.PlanModel, config: NpuConfig, options: NpuOptions, resident: bool
) -> LoweredNpu:
    """Lower; steps that turn out too large go to the CPU, and crowded ones load late."""
    cpu: dict[int, str] = {}
    late: frozenset[int] = frozenset()
    while True:
        try:
            return _Lowering(plan, config, options, resident, cpu).run(late)
        except StepTooLarge as too_large:
            if resident:
                raise DoesNotFit(
                    "the weights leave too little of the scratchpad to the tensors: "
                    + too_large.reason) from too_large
            cpu[too_large.step] = too_large.reason
            late = frozenset()
        except NoRoom as crowded:
            assert crowded.step not in late, "a step's own items did not fit its reserve"
            late |= {crowded.step}


class _Lowering:
    def __init__(
        self, plan: pm.PlanModel, config: NpuConfig, options: NpuOptions, resident: bool,
        cpu: Mapping[int, str],
    ) -> None:
        self.plan, self.config, self.options, self.resident = plan, config, options, resident
        self.kernels, self.reasons = _kernels(plan, config, options, resident, cpu)
        rings = frozenset(
            plan.tensors[t].place.ring for s, k in self.kernels.items() for t in _touched(plan, s)
            if plan.tensors[t].place.ring >= 0)
        self.rings = ring_places(plan, config, rings)
        self.asm, self.blobs = Assembler(config), Blobs()
        self.map = Map(plan, self.kernels, config, keep=options.keep,
                       dram=options.intermediates == "dram")

    def run(self, late: frozenset[int]) -> LoweredNpu:
        low = max((r.address + r.size for r in self.rings.values()), default=0)
        high = self.config.scratchpad_bytes
        fixed = self._fixed(low)
        high = min(fixed.values(), default=high)
        fitted = fit(self.map, low, high, self.resident)
        self._prologue(fixed)
        prologue = len(self.asm.words)
        self.asm.start()
        loader = self._loader(fitted, (low, high), fixed, late)
        self._steps(fitted, loader)
        npu = Npu(
            config=self.plan.config, scratchpad_bytes=self.config.scratchpad_bytes,
            prologue=prologue, commands=np.frombuffer(self.asm.binary(), np.uint8).copy(),
            blobs=tuple(self.blobs.all))
        return self._lowered(npu, fitted, loader)

    # ---- before the first run

    def _fixed(self, low: int) -> dict[Item, int]:
        """Addresses of everything that is loaded in the prologue, from the top down."""
        fixed: dict[Item, int] = {}
        if not self.resident:
            return fixed
        at = self.config.scratchpad_bytes
        for kernel in self.kernels.values():
            for item in (*((kernel.params,) if kernel.params else ()), *kernel.chunks()):
                at = (at - item.size) & ~15
                fixed[item] = at
        if at < low:
            raise DoesNotFit(
                f"the weights take {self.config.scratchpad_bytes - at:,} bytes of a scratchpad of "
                f"{self.config.scratchpad_bytes:,}; convert without resident weights")
        return fixed

    def _prologue(self, fixed: Mapping[Item, int]) -> None:
        asm = self.asm
        for ring in self.rings.values():
            asm.emit(Op.RING, ring=ring.number, address=ring.address, size=ring.size)
            asm.emit(Op.FILL, address=ring.address, length=ring.size,
                     value=ring.zero_point & 0xFF)
        for i, (item, address) in enumerate(fixed.items()):
            load_item(asm, self.blobs, item, address, 0)
            if i % 8 == 7 or i == len(fixed) - 1:  # few enough may be pending
                asm.emit(Op.DWAIT, channel=0)
        asm.emit(Op.END)

    # ---- a run

    def _loader(
        self, fitted: Fitted, room: tuple[int, int], fixed: Mapping[Item, int],
        late: frozenset[int],
    ) -> Loader:
        entries: list[Entry] = []
        for step, work in fitted.works.items():
            if self.resident:
                break
            kernel = work.kernel
            if kernel.params:
                entries.append(Entry(kernel.params, 1))
            count = len(regions_of(kernel, work.tile, space_grid(self.map, work)))
            rounds, uses = (1, count) if work.hold else (count, 1)
            entries += [Entry(item, uses) for _ in range(rounds) for item in kernel.chunks()]
        homes = [(h.first, h.last, h.address, h.address + h.size)
                 for h in fitted.homes.values() if h.address is not None]
        for step, addresses in fitted.temps.items():
            for need, address in zip(fitted.works[step].staged, addresses, strict=True):
                homes.append((step, step, address, address + self._temp_size(fitted, step, need)))

        def busy(first: int, last: int) -> list[tuple[int, int]]:
            return [(a, b) for begin, end, a, b in homes if begin <= last and end >= first]

        self.busy_homes = homes
        return Loader(self.asm, self.blobs, entries, busy, room,
                      [s for s, _ in self.reasons], dict(fixed), late)

    def _temp_size(self, fitted: Fitted, step: int, need: object) -> int:
        from edgesparse.npu.scratchpad import _temp_bytes
        return aligned(_temp_bytes(self.map, fitted.works[step], need))  # type: ignore[arg-type]

    def _steps(self, fitted: Fitted, loader: Loader) -> None:
        reasons = dict(self.reasons)
        for step in range(len(self.plan.steps)):
            if step in reasons:
                loader.step = step
                loader.wait_stores()
                self.asm.emit(Op.HOST, step=step)
            else:
                StepCode(self.map, fitted, loader, self.asm, self.rings, step).emit()
            self.asm.emit(Op.MARK, step=step)
        loader.wait_stores()
        self.asm.emit(Op.END)

    # ---- what came out

    def _lowered(self, npu: Npu, fitted: Fitted, loader: Loader) -> LoweredNpu:
        taken = [(a, b, c, d) for a, b, c, d in self.busy_homes]
        taken += [(s, s, a, b) for s, a, b in loader.writes]
        placements = []
        for step, branch_output in self._results():
            placements.append(self._placement(fitted, step, branch_output, taken))
        spilled = tuple(
            (h.storage.tensors[0], h.storage.size) for h in fitted.homes.values()
            if not h.resident and h.last >= 0 and self.options.intermediates == "sram")
        return LoweredNpu(npu, tuple(placements), self.reasons, spilled, self.resident,
                          tuple(self._report(fitted, spilled)))

    def _results(self) -> list[tuple[int, int]]:
        return [(i, b.output) for i, s in enumerate(self.plan.steps) for b in s.branches
                if i in self.kernels]

    def _placement(
        self, fitted: Fitted, step: int, tensor: int, taken: list[tuple[int, int, int, int]]
    ) -> Placement:
        place = self.plan.tensors[tensor].place
        if place.ring >= 0:
            from edgesparse.npu.scratchpad import ring_layout
            return Placement(step, tensor, "ring", ring_layout(place, self.rings[place.ring]), True)
        home = self.map.home(step, tensor, writes=True)
        later = [a for a in home.storage.accesses if a.writes and a.step > step]
        if home.address is None:
            return Placement(step, tensor, "arena", None, not later)
        low, high = home.address, home.address + home.size
        over = any(first > home.last and a < high and b > low for first, _, a, b in taken)
        need = next(n for n in self.kernels[step].needs if n.writes)
        return Placement(step, tensor, "scratchpad", self.map.layout(step, need),
                         not later and not over)

    def _report(self, fitted: Fitted, spilled: tuple[tuple[int, int], ...]) -> list[str]:
        names = self.plan.names
        step_name = lambda s: names.steps[s] if names and s < len(names.steps) else f"step {s}"  # noqa: E731
        tensor_name = lambda t: names.tensors[t] if names and t < len(names.tensors) else f"tensor {t}"  # noqa: E731
        lines = [f"{step_name(s)}: on the CPU: {reason}" for s, reason in self.reasons]
        lines += [f"{tensor_name(t)}: {size:,} bytes go through the arena" for t, size in spilled]
        for step, work in fitted.works.items():
            if work.tile:
                count = len(regions_of(work.kernel, work.tile, space_grid(self.map, work)))
                kept = "" if work.hold or not work.kernel.chunks() else ", weights loaded for each"
                lines.append(f"{step_name(step)}: computed in {count} tiles{kept}")
        return lines


def _touched(plan: pm.PlanModel, step: int) -> tuple[int, ...]:
    s = plan.steps[step]
    return (*reads(s), *(b.output for b in s.branches))


def _kernels(
    plan: pm.PlanModel, config: NpuConfig, options: NpuOptions, whole: bool,
    cpu: Mapping[int, str],
) -> tuple[dict[int, Kernel], tuple[tuple[int, str], ...]]:
    """The kernel of every step that has one; for the others the reason why not."""
    kernels: dict[int, Kernel] = {}
    reasons: dict[int, str] = dict(cpu)
    for number in range(len(plan.steps)):
        if number in cpu:
            continue
        try:
            kernels[number] = kernel_for(
                Setting(plan, number, config, skip=options.skip, whole=whole))
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

