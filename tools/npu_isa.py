"""What is made from the NPU's instruction table: python tools/npu_isa.py [--check]

Writes native/include/edgesparse/npu_isa.inc and the table in docs/NPU.md section 4; with --check
it writes nothing and fails when one of them is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

from edgesparse.npu import isa

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "native" / "include" / "edgesparse" / "npu_isa.inc"
PAGE = ROOT / "docs" / "NPU.md"
SLOTS = ("a", "b", "c", "i0", "i1", "i2")
LISTS: tuple[tuple[str, type[IntEnum]], ...] = (
    ("KIND", isa.Kind), ("REG", isa.Config), ("SPACE", isa.Space), ("INDEX", isa.Index),
    ("TRAP", isa.Trap), ("ENGINE", isa.Engine))
CONSTANTS = (
    "INSTRUCTION_BYTES", "LOOP_DEPTH", "LOOP_BODY", "STREAM_DIMS", "DMA_CHANNELS", "NPOS_MAX",
    "DMA_PENDING", "EXECUTED_MAX", "TRANSPOSE", "INDEX_BITS", "SKIP", "N_SHIFT", "M_SHIFT",
    "GROUP_BITS", "WIDE_COLUMNS", "PER_TENSOR", "SINGLE_ROUNDING")
MACROS = ("OP", *(name for name, _ in LISTS), "CONSTANT", "COUNTER")


def _rows() -> Iterator[str]:
    for row in isa.TABLE:
        kinds = ", ".join(kind.name for kind in row.fields)
        yield f"ES_NPU_OP({row.op.name}, {row.op.value}, {kinds})"
    for name, members in LISTS:
        for member in members:
            yield f"ES_NPU_{name}({member.name}, {member.value})"
    for name in CONSTANTS:
        yield f"ES_NPU_CONSTANT({name}, {getattr(isa, name)})"
    for name in isa.COUNTERS:
        yield f"ES_NPU_COUNTER({name})"


def header() -> str:
    """npu_isa.inc: lists for whoever defines their macros; all are undefined at its end."""
    lines = [
        "/* Made by tools/npu_isa.py from edgesparse/npu/isa.py.",
        " * OP(name, value, kinds of a, b, c, i0, i1, i2), COUNTER(name), others (name, value). */"]
    for name in MACROS:
        lines += [f"#ifndef ES_NPU_{name}", f"#define ES_NPU_{name}(...)", "#endif"]
    lines += _rows()
    lines += [f"#undef ES_NPU_{name}" for name in MACROS]
    return "\n".join(lines) + "\n"


def table() -> str:
    """The table of docs/NPU.md."""
    lines = ["| op | | fields | does | cycles |", "| --- | --- | --- | --- | --- |"]
    for row in isa.TABLE:
        fields = ", ".join(
            f"{slot} {name}" for slot, name in zip(SLOTS, row.names, strict=True) if name)
        lines.append(f"| {row.op.value} | {row.op.name} | {fields} | {row.does} | {row.cycles} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its table made anew."""
    return re.sub(
        r"(<!-- tools/npu_isa.py -->\n).*?(\n<!-- end -->)",
        lambda found: found[1] + table() + found[2], text, flags=re.DOTALL)


def main() -> int:
    wanted = {HEADER: header(), PAGE: page(PAGE.read_text())}
    stale = [
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run python tools/npu_isa.py")
        return len(stale) > 0
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
