"""The assembler: what it refuses, and configuration set where it has to be and only there."""

from __future__ import annotations

import pytest

from edgesparse.errors import DoesNotFit
from edgesparse.npu.assembler import Assembler, merged
from edgesparse.npu.disassemble import decode
from edgesparse.npu.isa import TABLE, Config, Op
from npu_run import config


@pytest.fixture
def asm() -> Assembler:
    return Assembler(config())


def ops(asm: Assembler) -> list[str]:
    return [word.op.name for word in asm.words]


def test_every_instruction_comes_out_as_it_went_in(asm: Assembler) -> None:
    """Through the disassembler's decoder, each field at 1 where it may be."""
    for row in TABLE:
        names = [name for name in row.names if name]
        asm.emit(row.op, **dict.fromkeys(names, 1))
    for row, found in zip(TABLE, decode(asm.binary()), strict=True):
        assert found.op == row.op
        assert found.fields == tuple(int(bool(name)) for name in row.names)


@pytest.mark.parametrize(("op", "fields"), [
    (Op.SET, {"stream": 16}), (Op.SET, {"stream": 0, "ring": 33}), (Op.RADV, {"ring": 32}),
    (Op.DMA, {"channel": 8}), (Op.VLD, {"v": 8}), (Op.VLDA, {"acc": 8}), (Op.DMA, {"blob": 256}),
    (Op.CFG, {"register": 0, "value": 2**31}), (Op.SET, {"address": -1}), (Op.REQ, {"mask": 9})])
def test_what_the_machine_does_not_have_is_refused(
    asm: Assembler, op: Op, fields: dict[str, int]
) -> None:
    with pytest.raises(DoesNotFit, match="is allowed"):
        asm.emit(op, **fields)


def test_registers_up_to_the_last_position_must_exist(asm: Assembler) -> None:
    asm.cfg(Config.NPOS, 4)
    asm.emit(Op.VLD, v=4)
    with pytest.raises(DoesNotFit, match="v = 5"):
        asm.emit(Op.VLD, v=5)
    with pytest.raises(DoesNotFit, match="NPOS 9"):
        asm.cfg(Config.NPOS, 9)


def test_a_register_is_set_only_when_its_value_changes(asm: Assembler) -> None:
    asm.configure(VL=16, QMIN=-128, COLPITCH=1)  # the defaults
    assert ops(asm) == []
    asm.configure(VL=7)
    asm.configure(VL=7)
    assert ops(asm) == ["CFG"]
    asm.start()
    asm.configure(VL=7)
    assert ops(asm) == ["CFG", "CFG"]


def test_what_a_loop_sets_to_one_value_is_set_before_it(asm: Assembler) -> None:
    def body() -> None:
        asm.cfg(Config.QMIN, -5)
        asm.emit(Op.NOP)

    asm.loop(3, body)
    assert ops(asm) == ["CFG", "LOOP", "NOP"]
    assert asm.words[1].values[3:5] == (3, 1)


def test_what_a_loop_changes_is_set_each_time_round(asm: Assembler) -> None:
    """The first instruction of the body must not rely on what stood before the loop."""
    asm.cfg(Config.NPOS, 4)

    def body() -> None:
        asm.cfg(Config.NPOS, 4)
        asm.emit(Op.NOP)
        asm.cfg(Config.NPOS, 2)
        asm.emit(Op.NOP)

    asm.loop(2, body)
    assert ops(asm) == ["CFG", "LOOP", "CFG", "NOP", "CFG", "NOP"]
    asm.cfg(Config.NPOS, 2)  # known after the loop
    assert len(asm.words) == 6


def test_an_inner_loop_makes_the_outer_one_change(asm: Assembler) -> None:
    def inner() -> None:
        asm.cfg(Config.QMAX, 1)
        asm.emit(Op.NOP)

    def outer() -> None:
        asm.cfg(Config.QMAX, 0)
        asm.emit(Op.NOP)
        asm.loop(2, inner)

    asm.loop(2, outer)
    assert ops(asm) == ["LOOP", "CFG", "NOP", "CFG", "LOOP", "NOP"]


def test_a_loop_of_once_is_no_loop(asm: Assembler) -> None:
    asm.loop(1, lambda: asm.emit(Op.NOP))
    asm.loop(0, lambda: asm.emit(Op.NOP))
    assert ops(asm) == ["NOP"]


def test_long_and_deep_loops_are_refused(asm: Assembler) -> None:
    with pytest.raises(DoesNotFit, match="65 instructions"):
        asm.loop(2, lambda: [asm.emit(Op.NOP) for _ in range(65)] and None)

    def nested(depth: int) -> None:
        asm.loop(2, lambda: nested(depth - 1) if depth else asm.emit(Op.NOP))

    with pytest.raises(DoesNotFit, match="4 deep"):
        nested(4)


def test_stream_dimensions_that_run_on_are_one() -> None:
    assert merged([(8, 4), (32, 3), (5, 1), (7, 2)]) == [(8, 12), (7, 2)]
    assert merged([(0, 3), (0, 5), (64, 2)]) == [(0, 15), (64, 2)]


def test_five_dimensions_are_refused(asm: Assembler) -> None:
    with pytest.raises(DoesNotFit, match="5 dimensions"):
        asm.stream(0, 0, [(1, 2), (3, 2), (7, 2), (15, 2), (31, 2)])
