"""A plan's program as text for people: instructions, and the layers and vectors they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgesparse.npu.disassemble import Decoded, decode, disassemble
from edgesparse.npu.isa import Op, Space
from edgesparse.plan.npu_model import BlobPart, Npu, NpuBlob


def host_steps(npu: Npu) -> tuple[int, ...]:
    """Steps that the program leaves to the CPU, in order."""
    return tuple(dict.fromkeys(
        one.fields[3] for one in decode(npu.commands.tobytes()) if one.op == Op.HOST))


def listing(npu: Npu, layers: Sequence[str]) -> Iterator[str]:
    """One line an instruction, with headings: the prologue, then layer by layer.

    layers  name of each step
    """
    commands = npu.commands.tobytes()
    decoded = [*decode(commands)]
    owners = _owners(decoded)
    previous = [None, *owners]
    lines = disassemble(commands).splitlines()
    for number, (line, one, owner) in enumerate(zip(lines, decoded, owners)):
        if number == 0 and npu.prologue:
            yield "; at a reset"
        elif number == npu.prologue:
            yield "; a run"
        if number >= npu.prologue and owner is not None and (
                owner != previous[number] or number == npu.prologue):
            yield f"; {_layer(owner, layers)}"
        note = _note(one, npu, layers)
        yield f"{line}  ; {note}" if note else line


def _owners(decoded: Sequence[Decoded]) -> list[int | None]:
    """The step that each instruction belongs to: that of the next MARK."""
    owners: list[int | None] = []
    owner = None
    for one in reversed(decoded):
        if one.op == Op.MARK:
            owner = one.fields[3]
        elif one.op == Op.END:
            owner = None
        owners.append(owner)
    return owners[::-1]


def _layer(step: int, layers: Sequence[str]) -> str:
    return layers[step] if step < len(layers) else f"step {step}"


def _note(one: Decoded, npu: Npu, layers: Sequence[str]) -> str:
    """What a number of the instruction stands for."""
    _, space, blob, external, _, size = one.fields
    if one.op == Op.HOST:
        return _layer(external, layers)
    if one.op in (Op.DMA, Op.DMA2) and space & 0xF == Space.FLASH_READ:
        number = blob + 256 * (size >> 24)
        if number < len(npu.blobs):
            return _blob(npu.blobs[number], layers)
    return ""


def _blob(blob: NpuBlob, layers: Sequence[str]) -> str:
    if blob.part is BlobPart.TENSOR:
        return f"tensor {blob.index}"
    return f"{blob.part.name.lower()} of {_layer(blob.step, layers)}"
