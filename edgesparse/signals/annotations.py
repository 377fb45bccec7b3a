"""WFDB annotation files: coded by the wfdb package, checked here."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.signals.signal import check_rate
from edgesparse.signals.wfdb_header import header_path, read_header
from edgesparse.signals.wfdb_record import WFDB_FAILS, need_wfdb

SCORED = ("N", "S", "V")
"""Classes of the columns of Annotations.scores."""
_SCORES = re.compile(r"p ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)")
"""The aux string of a beat that carries its scores."""


@dataclass(frozen=True, eq=False)
class Annotations:
    """Marks in a recording, in order of time.

    name     of the record, for messages
    samples  [n] int64, samples from the start of the record
    symbols  n WFDB codes, such as "N" or "+"; "" for a code that WFDB does not define
    rate_hz  of `samples`; None where neither file nor header says it
    length   samples of the record, None where unknown
    scores   [n, 3] float32, probability of N, S, V (SCORED) of each; None without

    Raises BadInput for a mark before sample 0, past the end, or out of order.
    """

    name: str
    samples: Array
    symbols: tuple[str, ...]
    rate_hz: float | None = None
    length: int | None = None
    scores: Array | None = None

    def __post_init__(self) -> None:
        if self.samples.shape != (len(self.symbols),) or self.samples.dtype.kind != "i":
            raise BadInput(
                f"{self.name}: samples are {self.samples.dtype} {list(self.samples.shape)} for "
                f"{len(self.symbols)} symbols; one integer each is needed: round positions first")
        if self.rate_hz is not None:
            check_rate(self.rate_hz, self.name)
        if self.scores is not None and self.scores.shape != (len(self), len(SCORED)):
            raise BadInput(f"{self.name}: scores have shape {list(self.scores.shape)}; needed is "
                           f"[{len(self)}, {len(SCORED)}]")
        if self.scores is not None and not np.isfinite(self.scores).all():
            raise BadInput(f"{self.name}: scores must be finite numbers")
        self._refuse(self.samples < 0, "lies before sample 0")
        self._refuse(np.diff(self.samples, prepend=0) < 0, "comes after a later one")
        if self.length is not None:
            self.check_end(self.length)

    def __len__(self) -> int:
        return len(self.symbols)

    def check_end(self, length: int) -> None:
        """Raises BadInput for a mark past the end of a record of `length` samples."""
        self._refuse(self.samples >= length, f"lies past the end, the record has {length} samples")

    def _refuse(self, wrong: Array, problem: str) -> None:
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise BadInput(f"{self.name}: annotation {at} ('{self.symbols[at]}') at sample "
                           f"{int(self.samples[at])} {problem}")


def read_annotations(path: Path) -> Annotations:
    """Read DIR/RECORD.EXT, such as 100.atr.

    A header of the same name beside it gives rate and length; then a mark past the end or another
    rate in the file is refused.

    Raises BadInput that names record and problem.
    """
    name = f"record {path.stem}: {path.name}"
    need_wfdb(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror or error}") from error
    if not path.suffix:
        raise BadInput(f"{name}: an annotation file has an extension, such as .atr")
    if len(data) % 2 or data[-2:] != b"\0\0":
        # Without this end wfdb drops the last mark and says nothing.
        raise BadInput(f"{name}: does not end with the mark of the end (two zero bytes): cut off, "
                       "or no annotation file")
    rate_hz, length = _of_header(path)
    samples, symbols, notes, own_rate = _decode(path, name)
    if rate_hz is not None and own_rate is not None and own_rate != rate_hz:
        raise BadInput(f"{name}: counts in {own_rate:g} Hz, the header says {rate_hz:g} Hz")
    return Annotations(name, samples, symbols, rate_hz or own_rate, length,
                       _scores(name, notes))


def _of_header(path: Path) -> tuple[float | None, int | None]:
    """Frame rate and frames of the record beside it: the units that annotations count in."""
    if not header_path(path.with_suffix("")).exists():
        return None, None
    header = read_header(path.with_suffix(""))
    return header.rate_hz, header.length


def _decode(path: Path, name: str) -> tuple[Array, tuple[str, ...], list[str], float | None]:
    """Samples, symbols, aux strings, and the rate that file or header gives."""
    import wfdb

    try:
        found = wfdb.rdann(str(path.with_suffix("")), path.suffix[1:])
    except WFDB_FAILS as error:
        raise BadInput(f"{name}: damaged: {error}") from error
    # wfdb gives NaN for a code without a symbol.
    symbols = tuple(symbol if isinstance(symbol, str) else "" for symbol in found.symbol)
    rate = None if found.fs is None else float(found.fs)
    return np.asarray(found.sample, np.int64), symbols, list(found.aux_note), rate


def _scores(name: str, notes: list[str]) -> Array | None:
    """[n, 3] float32 from aux strings, when every mark has one."""
    found = [_SCORES.fullmatch(note) for note in notes]
    count = sum(match is not None for match in found)
    if count == 0:
        return None
    if count < len(notes):
        raise BadInput(f"{name}: {count} of {len(notes)} annotations have scores; needed are none "
                       "or all")
    try:
        rows = [[float(text) for text in match.groups()] for match in found if match is not None]
    except ValueError as error:
        raise BadInput(f"{name}: a score is no number ({error})") from error
    return np.array(rows, np.float32)


def check_name(path: Path) -> None:
    """Raises BadInput for a name that WFDB does not allow, or without the wfdb package."""
    need_wfdb(str(path))
    if not re.fullmatch(r"[-\w]+", path.stem) or not re.fullmatch(r"\.[a-zA-Z]+", path.suffix):
        raise BadInput(f"{path}: name it RECORD.EXT; allowed are letters, digits, - and _, then an "
                       "extension of letters")


def write_annotations(path: Path, annotations: Annotations) -> None:
    """Write DIR/RECORD.EXT, whole or not at all. Scores go into the aux strings.

    path  its stem of letters, digits, - and _; its extension of letters (what WFDB allows)

    Raises BadInput for another name, a symbol that WFDB does not define, or a comment at sample 0
    of a file with a rate, which nobody could read back.
    """
    check_name(path)
    import wfdb
    from wfdb.io.annotation import ann_label_table

    if unknown := sorted(set(annotations.symbols) - set(ann_label_table["symbol"])):
        raise BadInput(f"{annotations.name}: {unknown} are no WFDB annotation symbols")
    if annotations.rate_hz is not None and ("\"", 0) in zip(
        annotations.symbols, annotations.samples.tolist()
    ):
        raise BadInput(f"{annotations.name}: a comment (\") at sample 0 would be read back as the "
                       "file's note of its rate; put it at sample 1")
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no directory {path.parent}; make it first")
    notes = None
    if annotations.scores is not None:
        # Nine digits give every float32 back.
        notes = ["p " + " ".join(f"{value:.9g}" for value in row) for row in annotations.scores]
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / path.name
        if len(annotations):
            wfdb.wrann(
                path.stem, path.suffix[1:], annotations.samples.astype(np.int64),
                list(annotations.symbols), aux_note=notes, fs=annotations.rate_hz,
                write_dir=folder)
        else:
            made.write_bytes(_no_marks(path, annotations.rate_hz))
        os.replace(made, path)


def _no_marks(path: Path, rate_hz: float | None) -> bytes:
    """A file without marks, which wfdb reads but does not write: rate, if known, and the end."""
    import wfdb

    empty = wfdb.Annotation(path.stem, path.suffix[1:], np.zeros(0, np.int64), fs=rate_hz)
    return bytes(empty.calc_fs_bytes()) + b"\0\0"
