"""Stages in registers: what happens to int8 vectors between their source and the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgesparse.npu.assembler import Assembler
from edgesparse.npu.isa import PER_TENSOR, SINGLE_ROUNDING, Config, Op
from edgesparse.npu.kernels.base import (
    APPEND,
    MULTIPLIER,
    OPERAND,
    OUT,
    SHIFT,
    Code,
    Grid,
    Item,
    Need,
    NotOnNpu,
    Piece,
    Region,
    Setting,
)
from edgesparse.npu.layout import Layout
from edgesparse.plan import model as pm
from edgesparse.plan.npu_model import BlobPart, NpuBlob
from edgesparse.quantize.fixedpoint import Rounding

ELEMENTWISE = (pm.Clamp, pm.Lut, pm.Add, pm.Mul)
BINARY = (pm.Add, pm.Mul)


@dataclass(frozen=True)
class TailStage:
    """A stage and its number in the branch, by which its table is found."""

    index: int
    body: pm.StageBody


def stages_of(step: pm.Step) -> tuple[TailStage, ...]:
    return tuple(TailStage(i, s) for i, s in enumerate(step.branches[0].stages))


def check_elementwise(setting: Setting, stages: Sequence[TailStage], channels: int) -> None:
    """Raises NotOnNpu for a stage or operand without code."""
    for stage in stages:
        if not isinstance(stage.body, ELEMENTWISE):
            raise NotOnNpu(f"{type(stage.body).__name__} has no code")
        if isinstance(stage.body, BINARY):
            place = setting.place(stage.body.operand)
            if place.channels != channels:
                raise NotOnNpu("an operand with one value a column has no code")


def operand_needs(
    setting: Setting, stages: Sequence[TailStage], rows: int, cols: int, grid: Grid
) -> tuple[Need, ...]:
    """The second operands; one that is repeated along columns stands on a grid of 1."""
    found: dict[int, Need] = {}
    for stage in stages:
        if isinstance(stage.body, BINARY):
            tensor = stage.body.operand
            once = setting.place(tensor).columns == 1 and rows * cols > 1
            found[tensor] = Need(
                tensor, 1 if once else rows, 1 if once else cols, "operand",
                grid="fixed" if once else grid)
    return tuple(found.values())


def param_item(setting: Setting, stages: Sequence[TailStage], *first: Piece) -> Item | None:
    """Tables and constant tensors of a step, after `first`."""
    pieces = list(first)
    for stage in stages:
        if isinstance(stage.body, pm.Lut):
            blob = NpuBlob(step=setting.number, index=stage.index, part=BlobPart.TABLE)
            pieces.append(Piece(blob, 0, 256))
    for tensor in dict.fromkeys(
            (setting.step.input, *(s.body.operand for s in stages if isinstance(s.body, BINARY)))):
        data = setting.plan.tensors[tensor].data
        if data is not None:
            pieces.append(Piece(NpuBlob(index=tensor, part=BlobPart.TENSOR), 0, len(data)))
    return Item(setting.number, tuple(pieces)) if pieces else None


@dataclass(frozen=True)
class Requants:
    """REQ of a Requant stage: from streams of the channels, or by the configuration."""

    body: pm.Requant

    @property
    def per_tensor(self) -> bool:
        return len(self.body.multiplier) == 1

    def emit(self, asm: Assembler, vector: int, mask: int = 0) -> None:
        mode = SINGLE_ROUNDING if self.body.rounding is Rounding.SINGLE else 0
        asm.configure(OUTZP=self.body.zero_point, QMIN=self.body.qmin, QMAX=self.body.qmax)
        if self.per_tensor:
            asm.configure(QMULT=int(self.body.multiplier[0]), QSHIFT=int(self.body.shift[0]),
                          REQMODE=mode | PER_TENSOR)
            asm.emit(Op.REQ, v=vector, acc=0, mask=mask)
        else:
            asm.cfg(Config.REQMODE, mode)
            asm.emit(Op.REQ, v=vector, acc=0, mask=mask, multiplier=MULTIPLIER, shift=SHIFT)


@dataclass(frozen=True)
class Tail:
    """Elementwise stages after a source. Operand streams follow each other from OPERAND on."""

    stages: tuple[TailStage, ...]

    @property
    def binary(self) -> tuple[TailStage, ...]:
        return tuple(s for s in self.stages if isinstance(s.body, BINARY))

    def streams(
        self, code: Code, region: Region, slices: tuple[int, int, int]
    ) -> None:
        """Set the operand streams: position by position, then slice by slice.

        slices  (first channel, channels from one to the next, number of slices)
        """
        first, step, count = slices
        for i, stage in enumerate(self.binary):
            assert isinstance(stage.body, BINARY)
            view = code.views[stage.body.operand, "operand"]
            if view.rows * view.cols == 1:  # repeated along the columns, or there is but one
                dims = [(0, region.rows * region.cols)]
                base = view.at(0, 0, first)
            else:
                dims = [(view.col_pitch, region.cols), (view.row_pitch, region.rows)]
                base = view.at(region.y0, region.x0, first)
            code.asm.stream(OPERAND + i, base, [*dims, (step, count)], view.ring)

    def emit(self, code: Code, vector: int, spare: int) -> None:
        """On the vectors from `vector` on; operands are loaded into those from `spare` on."""
        asm, operand = code.asm, OPERAND
        for stage in self.stages:
            body = stage.body
            if isinstance(body, pm.Clamp):
                asm.configure(QMIN=body.qmin, QMAX=body.qmax)
                asm.emit(Op.VCLAMP, v=vector, x=vector)
            elif isinstance(body, pm.Lut):
                table = code.params[BlobPart.TABLE, stage.index]
                asm.emit(Op.LUT, v=vector, table=table, **{"from": vector})
            else:
                assert isinstance(body, BINARY)
                asm.emit(Op.VLD, v=spare, stream=operand)
                operand += 1
                _binary(asm, body, vector, spare)


def _binary(asm: Assembler, body: pm.Add | pm.Mul, vector: int, spare: int) -> None:
    single = body.rounding is Rounding.SINGLE
    asm.configure(
        QMIN=body.qmin, QMAX=body.qmax, O_ZP=body.out.zero_point, O_MULT=body.out.multiplier,
        O_SHIFT=body.out.shift, REQMODE=SINGLE_ROUNDING if single else 0)
    if isinstance(body, pm.Mul):
        asm.configure(A_ZP=body.value_zero_point, B_ZP=body.other_zero_point)
        asm.emit(Op.VMULQ, v=vector, x=vector, y=spare)
        return
    a, b = body.value, body.other
    asm.configure(
        LSHIFT=body.left_shift,
        A_ZP=a.zero_point, A_SHIFT=a.shift,
        A_MULT=-a.multiplier if body.negate_value else a.multiplier,
        B_ZP=b.zero_point, B_SHIFT=b.shift,
        B_MULT=-b.multiplier if body.negate_other else b.multiplier)
    asm.emit(Op.VADDQ, v=vector, x=vector, y=spare)


def store_streams(
    code: Code, view: Layout, region: Region, slices: tuple[int, int, int]
) -> None:
    """Set the stream of the output, and that of the ring it is appended to."""
    first, step, count = slices
    for stream, to in ((OUT, view), (APPEND, code.append)):
        if to is not None:
            code.asm.stream(stream, to.at(region.y0, region.x0, first), [
                (to.col_pitch, region.cols), (to.row_pitch, region.rows), (step, count)], to.ring)


def store(code: Code, vector: int, mask: int = 0) -> None:
    """Store the vectors of all positions."""
    code.asm.emit(Op.VST, v=vector, stream=OUT, mask=mask)
    if code.append is not None:
        code.asm.emit(Op.VST, v=vector, stream=APPEND)
