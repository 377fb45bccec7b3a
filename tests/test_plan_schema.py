"""native/src/plan/schema.inc, from which the core checks a plan's structure, says what plan.fbs
says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgesparse.plan import model as pm

SCHEMA = Path(pm.__file__).with_name("plan.fbs")
CORE = Path(pm.__file__).parents[2] / "native" / "src" / "plan" / "schema.inc"
SIZES = {"bool": 1, "byte": 1, "ubyte": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
         "float32": 4}
LIMITS = {
    ("Plan", "tensors"): 65535, ("Plan", "rings"): 32767, ("Plan", "steps"): 4096,
    ("Plan", "inputs"): 64, ("Plan", "outputs"): 64, ("Step", "branches"): 16,
    ("Branch", "stages"): 16, ("Weights", "groups"): 16,
    ("Npu", "blobs"): 65535,
}
"""I-7 of docs/PLAN_FORMAT.md."""


@dataclass(frozen=True)
class Row:
    """One line of schema.inc."""

    table: str
    field: str
    kind: str
    size: int
    align: int
    limit: int
    sub: str
    required: bool


def core_rows() -> tuple[list[str], list[Row]]:
    """(tables in order, fields in order)."""
    text = CORE.read_text().split("*/", 1)[1]
    tables = re.findall(r"^ES_TABLE\((\w+)\)$", text, re.M)
    rows = [
        Row(table, field, kind, int(size), int(align), int(limit), sub, required == "1")
        for table, field, kind, size, align, limit, sub, required in re.findall(
            r"^ES_FIELD\((\w+), (\w+), (\w+), (\d+), (\d+), (\d+), (\w+), ([01])\)$", text, re.M)]
    assert len(tables) + len(rows) == text.count("ES_")
    return tables, rows


@dataclass(frozen=True)
class Schema:
    """plan.fbs: fields as (name, type, attributes); sizes and alignments of structs."""

    tables: dict[str, list[tuple[str, str, str]]]
    unions: dict[str, list[str]]
    structs: dict[str, tuple[int, int]]
    enums: set[str]

    @staticmethod
    def read() -> Schema:
        text = re.sub(r"//.*", "", SCHEMA.read_text())
        found = re.findall(
            r"(table|struct|enum|union)\s+(\w+)(?:\s*:\s*\w+)?\s*{(.*?)}", text, re.S)
        bodies = {
            word: {name: body for keyword, name, body in found if keyword == word}
            for word in ("table", "struct", "enum", "union")}
        fields = {
            name: re.findall(r"(\w+)\s*:\s*([\w\[\]]+)\s*([^;]*);", body)
            for name, body in (bodies["table"] | bodies["struct"]).items()}
        enums = set(bodies["enum"])
        structs: dict[str, tuple[int, int]] = {}
        for name in bodies["struct"]:
            end, align = 0, 1
            for _, kind, _ in fields[name]:
                size = 1 if kind in enums else SIZES[kind]
                end, align = -(-end // size) * size + size, max(align, size)
            structs[name] = (-(-end // align) * align, align)
        return Schema(
            {name: fields[name] for name in bodies["table"]},
            {name: re.findall(r"\w+", body) for name, body in bodies["union"].items()},
            structs, enums)

    def rows(self, table: str) -> list[Row]:
        return [row for field in self.tables[table] for row in self._rows(table, *field)]

    def _rows(self, table: str, field: str, kind: str, attributes: str) -> list[Row]:
        required = "required" in attributes
        forced = re.search(r"force_align: (\d+)", attributes)
        limit = LIMITS.get((table, field), 0)

        def row(what: str, size: int = 4, align: int = 4, sub: str = "None") -> list[Row]:
            return [Row(table, field, what, size, align, limit, sub, required)]

        if kind in self.unions:
            members = self.unions[kind]
            return [
                Row(table, f"{field}_type", "SCALAR", 1, 1, 0, "None", False),
                Row(table, field, "UNION", 4, 4, len(members), members[0], required)]
        if kind.startswith("["):
            element = kind[1:-1]
            if element == "string":
                return row("STRINGS")
            if element in self.tables:
                return row("TABLES", sub=element)
            size, align = self.structs.get(element, (SIZES.get(element, 0),) * 2)
            return row("VECTOR", size, int(forced[1]) if forced else align)
        if kind == "string":
            return row("STRING")
        if kind in self.tables:
            return row("TABLE", sub=kind)
        if kind in self.structs:
            return row("STRUCT", *self.structs[kind])
        size = 1 if kind in self.enums else SIZES[kind]
        return row("BOOL" if kind == "bool" else "SCALAR", size, size)


def test_the_core_knows_every_field_as_the_schema_has_it() -> None:
    schema = Schema.read()
    tables, rows = core_rows()
    assert sorted(tables) == sorted(schema.tables)
    assert rows == [row for table in tables for row in schema.rows(table)]


def test_members_of_a_union_stand_one_after_the_other() -> None:
    tables, _ = core_rows()
    for members in Schema.read().unions.values():
        first = tables.index(members[0])
        assert tables[first : first + len(members)] == members
