"""edgesparse score: beats of a test against a reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from edgesparse.cli.console import Cell, emit, say, table
from edgesparse.errors import BadInput
from edgesparse.scoring import COLUMNS, ROWS, Rules, Score, score_records
from edgesparse.signals import read_annotations

RECORD = "REC"
"""Stands for the name of each record in --reference and --test."""
EXTENSION = ".atr"
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
DETECTION = (("QRS Se", "qrs_se"), ("QRS +P", "qrs_ppv"), ("acc", "accuracy"), ("mF1", "macro_f1"))
CLASSES = (
    ("V Se", "v_se"), ("V +P", "v_ppv"), ("V FPR", "v_fpr"), ("V AP", "v_ap"),
    ("S Se", "s_se"), ("S +P", "s_ppv"), ("S FPR", "s_fpr"), ("S AP", "s_ap"),
)
"""Column and statistic; together at most 80 characters wide."""


def score(
    reference: Annotated[
        Path, typer.Option(help="Annotation file, its header beside it; with --records a folder, "
                           "or DIR/REC.atr where REC stands for each record.")],
    test: Annotated[Path, typer.Option(help="The same for the beats to be scored.")],
    records: Annotated[
        str | None, typer.Option(help="Names with commas, such as 101,106,108.")] = None,
    skip_first: Annotated[
        str, typer.Option(help="Leave out the start of each record; EC57 leaves out 5min.")] = "0s",
    count_vf: Annotated[
        bool, typer.Option("--count-vf", help="Also count in flutter and fibrillation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare beat annotations with a reference as EC57 does: 150 ms window, AAMI classes."""
    rules = Rules(skip_first_s=duration(skip_first), leave_out_vf=not count_vf)
    result = score_records(
        {name: (read_annotations(mine), read_annotations(theirs))
         for name, (mine, theirs) in _files(reference, test, records).items()}, rules)
    if as_json:
        emit(result.to_json())
    else:
        _show(result)


def duration(text: str) -> float:
    """Seconds of "90s", "5min" or "1h". Raises BadInput for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|h)", text)
    if found is None:
        raise BadInput(f"--skip-first {text}: allowed is a number with s, min or h, such as 5min")
    return float(found[1]) * SECONDS[found[2]]


def _files(reference: Path, test: Path, records: str | None) -> dict[str, tuple[Path, Path]]:
    """Record -> annotation files of reference and test."""
    if records is None:
        for option, path in (("--reference", reference), ("--test", test)):
            if path.is_dir():
                raise BadInput(f"{option} {path}: this is a folder; name its records with "
                               "--records, or give one annotation file")
        return {reference.stem: (reference, test)}
    names = [name.strip() for name in records.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise BadInput(f"--records {records}: allowed are names with commas, each once")
    return {name: (_file("--reference", reference, name), _file("--test", test, name))
            for name in names}


def _file(option: str, path: Path, record: str) -> Path:
    if path.is_dir():
        return path / f"{record}{EXTENSION}"
    if RECORD not in path.name:
        raise BadInput(f"{option} {path}: with --records, give a folder, or a file with {RECORD} "
                       f"in the place of the record's name, such as DIR/{RECORD}{EXTENSION}")
    return path.with_name(path.name.replace(RECORD, record))


def _show(result: Score) -> None:
    rules, gross = result.rules, result.gross
    several = len(result.records) > 1
    rows = [*result.records, gross] if several else [*result.records]
    left_out = f"; first {rules.skip_first_s:g} s left out" if rules.skip_first_s else ""
    say(f"Beats within {1000 * rules.window_s:g} ms{left_out}; flutter and fibrillation "
        f"{'left out' if rules.leave_out_vf else 'counted'}; rates in %")
    say()
    average: list[list[Cell]] = []
    if several:
        average = [["average", None, None, None, *_percents(result.average, DETECTION)]]
    table(
        ("record", "beats>", "missed>", "extra>", *(f"{title}>" for title, _ in DETECTION)),
        [[one.name, one.counts.reference, one.counts.missed, one.counts.extra,
          *_percents(one.statistics, DETECTION)] for one in rows] + average)
    say()
    if several:
        average = [["average", *_percents(result.average, CLASSES)]]
    table(
        ("record", *(f"{title}>" for title, _ in CLASSES)),
        [[one.name, *_percents(one.statistics, CLASSES)] for one in rows] + average)
    say()
    table(
        (rows[-1].name, *(f"{name}>" for name in COLUMNS)),
        [[name, *_cells(name, cells)] for name, cells in zip(ROWS, gross.counts.cells)],
        "Reference (rows; O: no beat) by test (columns; o: missed)")


def _cells(row: str, cells: tuple[int, ...]) -> list[Cell]:
    """No beat and not called is no event: left empty."""
    return [*cells[:-1], None if row == ROWS[-1] else cells[-1]]


def _percents(
    found: Mapping[str, float | None], columns: tuple[tuple[str, str], ...]
) -> list[Cell]:
    """Two digits, three for the small false positive rates; - where it is undefined."""
    out: list[Cell] = []
    for _, name in columns:
        part, digits = found[name], 3 if name.endswith("_fpr") else 2
        out.append("-" if part is None else f"{100 * part:.{digits}f}")
    return out
