"""The instruction table: what is made from it is current, and its text can be read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edgesparse.npu.disassemble import decode, disassemble
from edgesparse.npu.isa import (
    COUNTERS,
    INSTRUCTION_BYTES,
    SKIP,
    TABLE,
    Config,
    Index,
    Kind,
    Op,
    Space,
)
from edgesparse.runtime.native import ffi, lib
from edgesparse.target import load_target
from npu_program import ins

ROOT = Path(__file__).resolve().parent.parent


def test_header_and_page_are_current() -> None:
    done = subprocess.run(
        (sys.executable, "tools/npu_isa.py", "--check"), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operation_has_a_row() -> None:
    assert [row.op for row in TABLE] == list(Op) == list(range(len(Op)))
    for row in TABLE:
        assert all(bool(name) is (kind is not Kind.NONE)
                   for name, kind in zip(row.names, row.fields))


def test_counters_have_the_names_of_the_core() -> None:
    names = [lib.es_npu_counter_name(i) for i in range(len(COUNTERS) + 1)]
    assert names.pop() == ffi.NULL
    assert tuple(ffi.string(name).decode() for name in names) == COUNTERS
    page = (ROOT / "docs" / "NPU.md").read_text()
    assert " ".join(COUNTERS) in re.sub(r"\s+", " ", page)


def test_text_names_registers_and_formats() -> None:
    code = [
        ins(Op.CFG, register=Config.XSTRIDE, value=-3), ins(Op.LOOP, count=9, body=4),
        ins(Op.SET, stream=1, ring=3, address=64), ins(Op.LOOP, count=2, body=2),
        ins(Op.MACB, acc=1, weights=0, x=1, steps=20, index=2,
            format=Index.N_OF_M | SKIP | 2 << 16 | 4 << 24),
        ins(Op.REQ, v=2, acc=1, mask=5),
        ins(Op.DMA2, channel=3, space=Space.DRAM_WRITE | 16, external=5, address=6, bytes=7),
        ins(Op.MACG, format=4 | 1 << 9), ins(Op.MACV, flags=SKIP), ins(Op.END)]
    assert disassemble(b"".join(code)) == """\
    0 CFG register=XSTRIDE value=-3
    1 LOOP count=9 body=4
    2   SET stream=s1 ring=r2 address=64
    3   LOOP count=2 body=2
    4     MACB acc=a1 weights=s0 x=s1 steps=20 format=2_OF_4+SKIP index=2
    5     REQ v=v2 acc=a1 mask=m4 multiplier=0 shift=0
    6 DMA2 channel=ch3 space=DRAM_WRITE+TRANSPOSE blob=0 external=5 address=6 bytes=7
    7 MACG acc=a0 weights=s0 x=s0 steps=0 format=GROUP4+WIDE index=0
    8 MACV acc=a0 weights=s0 x=s0 flags=SKIP
    9 END"""


@given(st.binary(max_size=160))
def test_any_bytes_have_a_text(code: bytes) -> None:
    lines = disassemble(code).splitlines()
    assert len(lines) == len(list(decode(code))) == len(code) // INSTRUCTION_BYTES


def test_targets_have_the_machines_of_the_page() -> None:
    page = (ROOT / "docs" / "NPU.md").read_text()
    sizes = []
    for name in ("esn-s", "esn-m", "esn-lab"):
        npu = load_target(name).npu
        assert npu is not None
        assert npu.id == load_target(name).config
        assert f"{name} (id {npu.id})" in page
        sizes.append((npu.lanes, npu.vectors, npu.scratchpad_bytes >> 10, npu.banks))
    assert sizes == [(16, 8, 64, 8), (32, 16, 128, 16), (16, 8, 1024, 8)]
    assert load_target("host").npu is None
