"""Transfers: weights and small vectors ahead of their use, tensors to and from the arena.

Items are loaded in the order in which they are used, as early as there is room and a channel; so
the weights of the next chunk, or of the next step, arrive while the present one computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgesparse.npu.assembler import Assembler
from edgesparse.npu.isa import Op, Space
from edgesparse.npu.kernels.base import Item, Loads, Piece, aligned
from edgesparse.plan.npu_model import BlobPart, NpuBlob

CHANNELS = range(6)
LOAD, STORE = 6, 7
"""Channels of weights; of tensors from the arena; of tensors to the arena."""


@dataclass
class Entry:
    """An item in the order of use; `uses` counts the regions that still need it."""

    item: Item
    uses: int
    address: int = -1
    channel: int = -1
    """Its transfer's, until it has been waited for."""
    issued: bool = False
    acquired: bool = False


class Blobs:
    """Numbers for the vectors of the plan that are transferred, in order of first use."""

    def __init__(self) -> None:
        self.all: list[NpuBlob] = []
        self._numbers: dict[NpuBlob, int] = {}

    def number(self, blob: NpuBlob) -> int:
        if blob not in self._numbers:
            self._numbers[blob] = len(self.all)
            self.all.append(blob)
        return self._numbers[blob]


def load_item(asm: Assembler, blobs: Blobs, item: Item, address: int, channel: int) -> None:
    """Issue the transfers of an item."""
    for piece, at in addresses_in(item, address).items():
        load_piece(asm, blobs, piece, (at, channel))


def load_piece(asm: Assembler, blobs: Blobs, piece: Piece, to: tuple[int, int]) -> None:
    """to: (address, channel)."""
    number, (address, channel) = blobs.number(piece.blob), to
    asm.emit(Op.DMA, channel=channel, space=Space.FLASH_READ, blob=number & 0xFF,
             external=piece.offset, address=address, bytes=piece.size | (number >> 8) << 24)


def side_by_side(pieces: Sequence[Piece], lanes: int) -> tuple[dict[Piece, int], int]:
    """(offset of each piece, bytes in all): the vectors of a kind one after the other.

    Slice follows slice across the steps, so that one stream may run on through many of them.
    """
    units = {BlobPart.BIAS: 4 * lanes, BlobPart.MULTIPLIER: 4 * lanes, BlobPart.SHIFT: lanes,
             BlobPart.VALUES: lanes, BlobPart.INDEX: 2}
    offsets: dict[Piece, int] = {}
    at = 0
    for part in (*units, *(p for p in BlobPart if p not in units)):
        at = aligned(at)
        for piece in dict.fromkeys(p for p in pieces if p.blob.part is part):
            offsets[piece] = at
            unit = units.get(part, 1)
            at += -(-piece.size // unit) * unit
    return offsets, aligned(at)


def addresses_in(item: Item, address: int) -> dict[Piece, int]:
    found = {}
    for piece in item.pieces:
        found[piece] = address
        address += aligned(piece.size)
    return found


class NoRoom(Exception):
    """What was loaded ahead has cut up the room that a step's own items need."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step}")
        self.step = step


@dataclass
class Loader(Loads):
    """Issues the items of `entries` ahead of their use.

    taken     (first step, last step, low, high) of what tensors and buffers take
    room      [low, high) of the scratchpad
    barriers  steps of the CPU: nothing may be under way there
    fixed     pieces that are in the scratchpad for good -> address
    late      steps whose items are not loaded before the step
    """

    asm: Assembler
    blobs: Blobs
    entries: Sequence[Entry]
    room: tuple[int, int]
    barriers: Sequence[int]
    fixed: Mapping[Piece, int] = field(default_factory=dict)
    late: frozenset[int] = frozenset()
    taken: Sequence[tuple[int, int, int, int]] = ()
    step: int = 0
    writes: list[tuple[int, int, int]] = field(default_factory=list)
    """(step, low, high) of every load, for whoever asks what survives."""
    _next: int = 0
    _held: dict[Item, Entry] = field(default_factory=dict)
    _pending: set[int] = field(default_factory=set)

    def begin(self, step: int) -> None:
        self.step = step
        self.pump()

    def acquire(self, item: Item) -> Mapping[Piece, int]:
        if self._is_fixed(item):
            return {piece: self.fixed[piece] for piece in item.pieces}
        if item not in self._held:
            entry = next(e for e in self.entries if not e.acquired)
            assert entry.item is item, "items are used in another order than announced"
            entry.acquired = True
            self._held[item] = entry
        entry = self._held[item]
        self.pump()
        if not entry.issued:
            raise NoRoom(item.step)
        if entry.channel >= 0:
            self._wait(entry.channel)
        return addresses_in(item, entry.address)

    def release(self, item: Item) -> None:
        if self._is_fixed(item):
            return
        entry = self._held[item]
        entry.uses -= 1
        if not entry.uses:
            del self._held[item]
            entry.address = -1

    def _is_fixed(self, item: Item) -> bool:
        return all(piece in self.fixed for piece in item.pieces)

    def pump(self) -> None:
        """Issue what comes next, while there is room and a free channel."""
        barrier = min((b for b in self.barriers if b >= self.step), default=1 << 30)
        while self._next < len(self.entries):
            entry = self.entries[self._next]
            channel = next((c for c in CHANNELS if c not in self._pending), None)
            if channel is None or entry.item.step > barrier or (
                    entry.item.step in self.late and entry.item.step > self.step):
                return
            address = self._free(entry.item)
            if address is None:
                return
            entry.address, entry.channel, entry.issued = address, channel, True
            self._pending.add(channel)
            load_item(self.asm, self.blobs, entry.item, address, channel)
            self.writes.append((self.step, address, address + entry.item.size))
            self._next += 1

    def _free(self, item: Item) -> int | None:
        """The highest free address for an item until its step; None: there is none."""
        low, high = self.room
        taken = [(a, b) for first, last, a, b in self.taken
                 if first <= item.step and last >= self.step]
        taken += [(e.address, e.address + e.item.size)
                  for e in self.entries if e.address >= 0]
        top = high
        for first, end in sorted([*taken, (low, low)], key=lambda r: -r[1]):
            at = (top - item.size) & ~15
            if at >= max(end, low):
                return at
            top = min(top, first)
        return None

    def _wait(self, channel: int) -> None:
        self.asm.emit(Op.DWAIT, channel=channel)
        self._pending.discard(channel)
        for entry in self.entries:
            if entry.channel == channel:
                entry.channel = -1

    # ---- tensors

    def fetch(self, external: int, address: int, size: int) -> None:
        """Arena -> scratchpad."""
        self.wait_stores()
        self._transfer(LOAD, Space.DRAM_READ, (external, address, size))

    def fetch_rows(
        self, external: int, address: int, size: int, rows: tuple[int, int, int]
    ) -> None:
        """rows: (number, bytes from row to row in the arena, in the scratchpad)."""
        self.wait_stores()
        self._transfer_rows(LOAD, Space.DRAM_READ, (external, address, size), rows)

    def store(self, external: int, address: int, size: int) -> None:
        """Scratchpad -> arena."""
        self._transfer(STORE, Space.DRAM_WRITE, (external, address, size))

    def store_rows(
        self, external: int, address: int, size: int, rows: tuple[int, int, int]
    ) -> None:
        self._transfer_rows(STORE, Space.DRAM_WRITE, (external, address, size), rows)

    def wait_loads(self) -> None:
        if LOAD in self._pending:
            self._wait(LOAD)

    def wait_stores(self) -> None:
        if STORE in self._pending:
            self._wait(STORE)

    def _transfer(self, channel: int, space: Space, what: tuple[int, int, int]) -> None:
        external, address, size = what
        self._pending.add(channel)
        self.asm.emit(Op.DMA, channel=channel, space=space, external=external, address=address,
                      bytes=size)

    def _transfer_rows(
        self, channel: int, space: Space, what: tuple[int, int, int], rows: tuple[int, int, int]
    ) -> None:
        external, address, size = what
        count, outside, inside = rows
        if count == 1 or (outside == size and inside == size):
            self._transfer(channel, space, (external, address, size * count))
            return
        self.asm.configure(DROWS=count, DEPITCH=outside, DSPITCH=inside)
        self._pending.add(channel)
        self.asm.emit(Op.DMA2, channel=channel, space=space, external=external, address=address,
                      bytes=size)

