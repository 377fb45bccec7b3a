"""WFDB annotation files: read with checks, written whole, and back again."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import edgesparse as es
from edgesparse.scoring import CLASSES, SYMBOLS
from edgesparse.signals import Annotations, read_annotations, write_annotations
from needs import require

require("ecg")


def annotations(samples: list[int], symbols: str, rate: float | None = 360.0) -> Annotations:
    return Annotations("x", np.array(samples, np.int64), tuple(symbols), rate)


def same(one: Annotations, other: Annotations) -> bool:
    return (one.samples.tolist() == other.samples.tolist() and one.symbols == other.symbols
            and one.rate_hz == other.rate_hz)


def test_an_annotation_past_the_end_is_refused_by_name(cases_dir: Path) -> None:
    path = cases_dir / "wfdb" / "odd.atr"
    with pytest.raises(es.BadInput, match=r"record odd: odd\.atr: annotation 2 \('N'\) at sample "
                                          r"5000 lies past the end, the record has 999 samples"):
        read_annotations(path)


def test_without_a_header_there_is_no_end_to_compare_with(cases_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.atr").write_bytes((cases_dir / "wfdb" / "odd.atr").read_bytes())
    found = read_annotations(tmp_path / "odd.atr")
    assert found.samples.tolist() == [10, 500, 5000]
    assert found.symbols == ("N", "V", "N")
    assert found.rate_hz is None
    assert found.length is None


def test_all_of_mit_bih_has_the_beats_it_should(data_root: Path) -> None:
    folder = data_root / "data" / "mitdb"
    require("data", folder.is_dir())
    with (folder / "beat_counts.csv").open() as file:
        rows = list(csv.DictReader(file))
    total = 0
    for row in rows:
        found = read_annotations(folder / f"{row['record']}.atr")
        assert (found.rate_hz, found.length) == (360, 650_000)
        counts = Counter(CLASSES[SYMBOLS[s]] for s in found.symbols if s in SYMBOLS)
        assert {name: counts[name] for name in CLASSES} == {n: int(row[n]) for n in CLASSES}
        total += len(found)
    assert total == 112_647


@pytest.mark.parametrize(("data", "problem"), [
    (b"", "mark of the end"), (b"\0", "mark of the end"), (bytes([5, 4]), "mark of the end"),
    (bytes([5, 4, 0]), "mark of the end"), (bytes([5, 4, 9, 0xFC, 0, 0]), "damaged"),
    (bytes([0, 236, 255, 255, 0, 0]), "damaged"),
    (bytes([0, 236, 255, 255, 251, 255, 0, 4, 0, 0]), "at sample -5 lies before sample 0"),
    (bytes([9, 4, 0, 236, 255, 255, 251, 255, 0, 4, 0, 0]), "at sample 4 comes after a later one"),
])
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "x.atr").write_bytes(data)
    with pytest.raises(es.BadInput, match=r"record x: x\.atr") as caught:
        read_annotations(tmp_path / "x.atr")
    assert problem in str(caught.value)


def test_a_cut_at_any_byte_is_refused_or_keeps_what_stands_before_it(tmp_path: Path) -> None:
    whole = annotations([10, 500, 1600, 90_000], "NVFN")
    write_annotations(tmp_path / "x.atr", whole)
    data = (tmp_path / "x.atr").read_bytes()
    for size in range(len(data)):
        (tmp_path / "x.atr").write_bytes(data[:size])
        with pytest.raises(es.BadInput, match="record x"):
            read_annotations(tmp_path / "x.atr")


def test_a_missing_file_and_one_without_an_extension_are_named(tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match=r"record no: no\.atr: No such file"):
        read_annotations(tmp_path / "no.atr")
    (tmp_path / "no").write_bytes(b"\0\0")
    with pytest.raises(es.BadInput, match="extension"):
        read_annotations(tmp_path / "no")


def test_a_code_that_wfdb_does_not_define_is_no_beat(tmp_path: Path) -> None:
    (tmp_path / "x.atr").write_bytes(bytes([5, 45 << 2, 3, 1 << 2, 0, 0]))
    found = read_annotations(tmp_path / "x.atr")
    assert found.symbols == ("", "N")
    assert "" not in SYMBOLS


def test_a_file_of_another_rate_than_its_header_is_refused(tmp_path: Path) -> None:
    write_annotations(tmp_path / "x.atr", annotations([10, 20], "NN", rate=250.0))
    (tmp_path / "x.hea").write_text("x 1 360 999\nx.dat 212 200 11 0 0 0 0 MLII\n")
    with pytest.raises(es.BadInput, match="counts in 250 Hz, the header says 360 Hz"):
        read_annotations(tmp_path / "x.atr")


def test_a_bad_header_beside_it_is_said(tmp_path: Path) -> None:
    write_annotations(tmp_path / "x.atr", annotations([10], "N"))
    (tmp_path / "x.hea").write_text("x 1 360 999 00:00:00 2006\nx.dat 212 200\n")
    with pytest.raises(es.BadInput, match="base date '2006'"):
        read_annotations(tmp_path / "x.atr")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70_000), st.sampled_from("NLRaVFJASEj/Qe+~|!\"x[]fr?")),
                max_size=20),
       st.sampled_from([360.0, 250.0, 128.25, None]))
def test_what_is_written_is_read_back_and_wfdb_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]], rate: float | None
) -> None:
    folder = tmp_path_factory.mktemp("written")
    samples = np.cumsum([step for step, _ in steps], dtype=np.int64).tolist()
    written = annotations(samples, "".join(symbol for _, symbol in steps), rate)
    assume(rate is None or ('"', 0) not in zip(written.symbols, samples))
    write_annotations(folder / "x.atr", written)
    assert same(read_annotations(folder / "x.atr"), written)
    theirs = wfdb.rdann(str(folder / "x"), "atr")
    assert theirs.sample.tolist() == samples
    assert tuple(theirs.symbol) == written.symbols


def test_a_comment_that_would_be_lost_is_refused(tmp_path: Path) -> None:
    """WFDB keeps the rate of a file in a comment at sample 0."""
    with pytest.raises(es.BadInput, match="sample 0"):
        write_annotations(tmp_path / "x.atr", annotations([0, 10], '"N', 360.0))
    write_annotations(tmp_path / "x.atr", annotations([0, 10], '"N', None))


def test_no_beats_at_all_can_be_written(tmp_path: Path) -> None:
    """What a flat line gives."""
    for rate in (360.0, None):
        write_annotations(tmp_path / "x.qrs", annotations([], "", rate))
        assert same(read_annotations(tmp_path / "x.qrs"), annotations([], "", rate))


def test_scores_come_back_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    scores = rng.dirichlet(np.ones(3) * 0.1, 200).astype(np.float32)
    scores[0] = (0, 1, np.float32(1e-12))
    written = Annotations(
        "x", np.arange(200) * 300, ("N",) * 200, 360.0, scores=scores)
    write_annotations(tmp_path / "x.atr", written)
    found = read_annotations(tmp_path / "x.atr")
    assert found.scores is not None
    assert found.scores.dtype == np.float32
    assert (found.scores == scores).all()


@pytest.mark.parametrize(("notes", "problem"), [
    (["p 0.1 0.2 0.7", ""], "1 of 2 annotations have scores"),
    (["p 0.1 0.2 0.7", "p 0.1 0.2 0..7"], "no number"),
])
def test_scores_that_are_not_whole_are_refused(
    tmp_path: Path, notes: list[str], problem: str
) -> None:
    wfdb.wrann("x", "atr", np.array([5, 9]), ["N", "N"], aux_note=notes, write_dir=str(tmp_path))
    with pytest.raises(es.BadInput, match=problem):
        read_annotations(tmp_path / "x.atr")


def test_other_notes_are_not_taken_for_scores(tmp_path: Path) -> None:
    wfdb.wrann("x", "atr", np.array([5, 9]), ["+", "N"], aux_note=["(AFIB", "p wave"],
               write_dir=str(tmp_path))
    assert read_annotations(tmp_path / "x.atr").scores is None


@pytest.mark.parametrize("name", ["x", "x.", "a b.atr", "x.at1", "x.y.atr"])
def test_a_name_that_wfdb_cannot_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(es.BadInput, match=r"name it RECORD\.EXT"):
        write_annotations(tmp_path / name, annotations([5], "N"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_and_an_unknown_symbol_are_refused(tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match="no directory"):
        write_annotations(tmp_path / "no" / "x.atr", annotations([5], "N"))
    with pytest.raises(es.BadInput, match=r"\['Y'\] are no WFDB"):
        write_annotations(tmp_path / "x.atr", annotations([5], "Y"))


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.atr"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgesparse.signals.annotations.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_annotations(target, annotations([5], "N"))
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
