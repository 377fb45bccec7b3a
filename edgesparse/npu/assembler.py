"""Builds a program instruction by instruction: ranges checked, configuration set only on change.

A loop's body is a function. It is written once to see which configuration registers it sets: one
that takes a single value is set before the loop, the others in the body each time they are needed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgesparse.errors import DoesNotFit
from edgesparse.npu.isa import (
    DMA_CHANNELS,
    LOOP_BODY,
    LOOP_DEPTH,
    NPOS_MAX,
    STREAM_DIMS,
    TABLE,
    Config,
    Instruction,
    Kind,
    Op,
)
from edgesparse.target import NpuConfig

Dims = Sequence[tuple[int, int]]
"""(stride, count) of a stream, the fastest first."""
BY_OP: dict[Op, Instruction] = {row.op: row for row in TABLE}
PACKED = struct.Struct("<BBBBIII")
RUN_ON = 1 << 20
"""Count of a stream's dimension that has no end."""
DEFAULTS: dict[Config, int] = {
    **dict.fromkeys(Config, 0), Config.NPOS: 1, Config.COLS: 1, Config.ROWLEN: 1,
    Config.COLPITCH: 1, Config.DROWS: 1, Config.QMIN: -128, Config.QMAX: 127,
}


@dataclass(frozen=True)
class Word:
    """One instruction: its fields in the order of the encoding."""

    op: Op
    values: tuple[int, int, int, int, int, int]

    def packed(self) -> bytes:
        a, b, c, i0, i1, i2 = self.values
        mask = 0xFFFFFFFF
        return PACKED.pack(self.op, a, b, c, i0 & mask, i1 & mask, i2 & mask)


@dataclass
class Assembler:
    """The program so far, for one configuration.

    words   instructions in order
    """

    config: NpuConfig
    words: list[Word] = field(default_factory=list)
    _known: dict[Config, int] = field(default_factory=dict)
    _touched: list[dict[Config, list[int]]] = field(default_factory=list)
    """Per open trial of a loop body: what each register was asked to be, in order."""
    _depth: int = 0
    _next: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Streams that run on: (stride, address of the next use)."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A run begins here: configuration registers hold their defaults."""
        self._known = {**DEFAULTS, Config.VL: self.config.lanes}
        self._next = {}

    def binary(self) -> bytes:
        return b"".join(word.packed() for word in self.words)

    # ---- any instruction

    def emit(self, op: Op, **fields: int) -> None:
        """Append an instruction; fields by the names of the table. Raises DoesNotFit."""
        row = BY_OP[op]
        values = []
        for kind, name in zip(row.fields, row.names, strict=True):
            value = fields.pop(name, 0) if kind is not Kind.NONE else 0
            self._check(op, kind, name, value)
            values.append(value)
        assert not fields, f"{op.name} has no {', '.join(fields)}"
        self.words.append(Word(op, tuple(values)))  # type: ignore[arg-type]

    def _check(self, op: Op, kind: Kind, name: str, value: int) -> None:
        low, high = self._range(kind)
        if not low <= value <= high:
            raise DoesNotFit(
                f"{op.name} {name} = {value}: {low} to {high} is allowed")

    def _range(self, kind: Kind) -> tuple[int, int]:
        c, last = self.config, self._known.get(Config.NPOS, 1) - 1
        return {
            Kind.NONE: (0, 0),
            Kind.ACC: (0, c.accumulators - 1 - last),
            Kind.VEC: (0, c.vectors - 1 - last),
            Kind.ONE_VEC: (0, c.vectors - 1),
            Kind.MASK: (0, c.masks - last),
            Kind.STREAM: (0, c.streams - 1),
            Kind.RING: (0, c.rings - 1),
            Kind.RING_OR_NONE: (0, c.rings),
            Kind.CHANNEL: (0, DMA_CHANNELS - 1),
            Kind.CONFIG: (0, len(Config) - 1),
            Kind.U8: (0, 0xFF),
            Kind.U32: (0, 0xFFFFFFFF),
            Kind.I32: (-(2**31), 2**31 - 1),
        }[kind]

    # ---- configuration

    def cfg(self, register: Config, value: int) -> None:
        """Make `register` hold `value` for the instructions that follow."""
        if register is Config.NPOS and not 1 <= value <= NPOS_MAX:
            raise DoesNotFit(f"NPOS {value}: 1 to {NPOS_MAX} is allowed")
        for touched in self._touched:
            touched.setdefault(register, []).append(value)
        if self._known.get(register) != value:
            self.emit(Op.CFG, register=register, value=value)
            self._known[register] = value

    def configure(self, **values: int) -> None:
        """cfg() for several registers, by name."""
        for name, value in values.items():
            self.cfg(Config[name], value)

    # ---- streams

    def stream(self, register: int, base: int, dims: Dims = (), ring: int | None = None) -> None:
        """Set a stream; dimensions of one position are left away. Raises DoesNotFit."""
        used = merged(dims)
        if len(used) > STREAM_DIMS:
            raise DoesNotFit(
                f"stream {register}: {len(used)} dimensions; {STREAM_DIMS} are allowed")
        self._next.pop(register, None)
        self.emit(Op.SET, stream=register, ring=0 if ring is None else ring + 1, address=base)
        for stride, count in used:
            self.emit(Op.STRD, stream=register, stride=stride, count=count)

    def run_on(self, register: int, base: int, stride: int, uses: int) -> None:
        """A stream of `uses` addresses, `stride` apart; nothing to set where the last one ended.

        The uses must follow before the stream is set again.
        """
        if self._next.get(register) != (stride, base):
            self.stream(register, base, [(stride, RUN_ON)])
        self._next[register] = (stride, base + uses * stride)

    # ---- loops

    def loop(self, count: int, body: Callable[[], None]) -> None:
        """Run `body` `count` times; once: without a loop. Raises DoesNotFit for a long body."""
        if count == 0:
            return
        if count == 1:
            body()
            return
        if self._depth == LOOP_DEPTH:
            raise DoesNotFit(f"loops nest {LOOP_DEPTH} deep at most")
        varying = self._hoisted(body)
        for register in varying:
            self._known.pop(register, None)
        self.emit(Op.LOOP, count=count, body=0)
        at = len(self.words)
        self._depth += 1
        body()
        self._depth -= 1
        length = len(self.words) - at
        if length > LOOP_BODY:
            raise DoesNotFit(f"a loop of {length} instructions; {LOOP_BODY} are allowed")
        self.words[at - 1] = Word(Op.LOOP, (0, 0, 0, count, length, 0))

    def _hoisted(self, body: Callable[[], None]) -> list[Config]:
        """Set what the body sets to one value only; return the registers that it changes."""
        words, known = list(self.words), dict(self._known)
        touched: dict[Config, list[int]] = {}
        self._touched.append(touched)
        self._depth += 1
        body()
        self._depth -= 1
        self._touched.pop()
        self.words, self._known = words, known
        for register, values in touched.items():
            if len(set(values)) == 1:
                self.cfg(register, values[0])
        return [register for register, values in touched.items() if len(set(values)) > 1]


def merged(dims: Dims) -> list[tuple[int, int]]:
    """Without dimensions of one position; neighbours that run on become one."""
    out: list[tuple[int, int]] = []
    for stride, count in dims:
        if count == 1:
            continue
        if out and stride == out[-1][0] * out[-1][1]:
            out[-1] = (out[-1][0], out[-1][1] * count)
        else:
            out.append((stride, count))
    return out
