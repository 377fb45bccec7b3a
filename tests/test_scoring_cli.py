"""edgesparse score: files in, tables or JSON out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import Ran
from edgesparse.signals import Annotations, write_annotations
from needs import require

require("ecg")

HEADER = "{0} 1 360 216000\n{0}.dat 212 200 11 1024 0 0 0 MLII\n"


def put(path: Path, marked: list[tuple[int, str]], scores: list[list[float]] | None = None) -> None:
    path.parent.mkdir(exist_ok=True)
    write_annotations(path, Annotations(
        "put", np.array([at for at, _ in marked], np.int64), tuple(s for _, s in marked), 360.0,
        scores=None if scores is None else np.array(scores, np.float32)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records a and b: reference in ref/, test in out/."""
    put(tmp_path / "ref" / "a.atr", [(1000, "N"), (2000, "V"), (3000, "A"), (150_000, "N")])
    put(tmp_path / "out" / "a.atr", [(1010, "N"), (2010, "V"), (3200, "N"), (150_000, "N")])
    put(tmp_path / "ref" / "b.atr", [(1000, "L"), (120_000, "N")])
    put(tmp_path / "out" / "b.atr", [(1000, "V"), (120_054, "N"), (130_000, "N")])
    for name in "ab":
        (tmp_path / "ref" / f"{name}.hea").write_text(HEADER.format(name))
    return tmp_path


ONE = """\
Beats within 150 ms; flutter and fibrillation left out; rates in %

record  beats  missed  extra  QRS Se  QRS +P    acc    mF1
a           4       1      1   75.00   75.00  75.00  60.00

record    V Se    V +P  V FPR  V AP  S Se  S +P  S FPR  S AP
a       100.00  100.00  0.000     -  0.00     -  0.000     -

Reference (rows; O: no beat) by test (columns; o: missed)
a  n  s  v  f  q  o
N  2  0  0  0  0  0
S  0  0  0  0  0  1
V  0  0  1  0  0  0
F  0  0  0  0  0  0
Q  0  0  0  0  0  0
O  1  0  0  0  0
"""


def test_one_record_gives_its_tables(folder: Path) -> None:
    ran = Ran("score", "--reference", folder / "ref" / "a.atr", "--test", folder / "out" / "a.atr")
    assert ran.code == 0
    assert [line.rstrip() for line in ran.out.splitlines()] == ONE.splitlines()


def test_several_records_give_gross_and_average(folder: Path) -> None:
    ran = Ran("score", "--reference", folder / "ref", "--test", folder / "out" / "REC.atr",
              "--records", "a,b")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    # b: L called v, N right, one invented; acc a 3/4, b 1/2, all 4/6
    assert ["gross", "6", "1", "2", "83.33", "71.43", "66.67", "44.44"] in lines
    assert ["average", "87.50", "70.83", "62.50", "60.00"] in lines
    assert ["average", "100.00", "50.00", "16.667", "-", "0.00", "-", "0.000", "-"] in lines
    assert ["N", "3", "0", "1", "0", "0", "0"] in lines
    assert max(map(len, ran.out.splitlines())) <= 80


def test_the_start_can_be_left_out(folder: Path) -> None:
    arguments = ("score", "--reference", folder / "ref", "--test", folder / "out", "--records",
                 "a,b", "--json")
    assert Ran(*arguments).json["gross"]["reference"] == 6
    for text in ("5min", "300s", "300 s", "0.0833334h"):
        found = Ran(*arguments, "--skip-first", text).json
        assert found["gross"]["reference"] == 2, text
        assert found["gross"]["qrs_se"] == 1


def test_json_is_one_object_of_everything(folder: Path) -> None:
    found = Ran("score", "--reference", folder / "ref", "--test", folder / "out", "--records",
                "b,a", "--json").json
    assert [one["record"] for one in found["records"]] == ["b", "a"]
    assert found["rules"] == {"window_s": 0.15, "skip_first_s": 0.0, "leave_out_vf": True}
    assert found["gross"]["counts"]["O"]["n"] == 2
    assert found["average"]["statistics"]["qrs_se"] == 0.875
    assert found["average"]["records"]["v_se"] == 1


def test_scores_in_the_test_file_give_average_precision(folder: Path) -> None:
    put(folder / "out" / "a.atr", [(1000, "N"), (2000, "N"), (3000, "N"), (150_000, "N")],
        [[0.8, 0.1, 0.1], [0.5, 0.1, 0.4], [0.6, 0.0, 0.4], [0.9, 0.1, 0.0]])
    ran = Ran("score", "--reference", folder / "ref" / "a.atr", "--test", folder / "out" / "a.atr")
    assert ["a", "0.00", "-", "0.000", "50.00", "0.00", "-", "0.000", "25.00"] in [
        line.split() for line in ran.out.splitlines()]


def test_flutter_is_counted_when_asked(folder: Path) -> None:
    put(folder / "ref" / "a.atr", [(1000, "N"), (2000, "["), (4000, "]")])
    put(folder / "out" / "a.atr", [(1000, "N"), (3000, "V")])
    arguments = ("score", "--reference", folder / "ref" / "a.atr", "--test",
                 folder / "out" / "a.atr", "--json")
    assert Ran(*arguments).json["gross"]["extra"] == 0
    assert Ran(*arguments, "--count-vf").json["gross"]["extra"] == 1


def refused(ran: Ran, *words: str) -> None:
    """Exit code 2, one error on stderr, nothing on stdout."""
    assert ran.code == 2, ran.out + ran.err
    assert ran.err.startswith("error: ")
    assert ran.out == ""
    for word in words:
        assert word in ran.err


def test_what_cannot_be_scored_is_refused(folder: Path) -> None:
    ref, out = folder / "ref", folder / "out"
    refused(Ran("score", "--reference", ref / "no.atr", "--test", out / "a.atr"), "record no")
    refused(Ran("score", "--reference", ref, "--test", out / "a.atr"), "--reference", "--records")
    refused(Ran("score", "--reference", ref / "a.atr", "--test", out / "a.atr", "--records", "a"),
            "--reference", "REC")
    refused(Ran("score", "--reference", ref, "--test", out, "--records", "a,a"), "each once")
    refused(Ran("score", "--reference", ref, "--test", out, "--records", "a,,b"), "--records a,,b")
    refused(Ran("score", "--reference", ref, "--test", out, "--records", "a,c"), "record c")
    for text in ("5", "5 minutes", "-5s", "", "infs"):
        refused(Ran("score", "--reference", ref / "a.atr", "--test", out / "a.atr",
                    f"--skip-first={text}"), "--skip-first", "5min")
    (out / "a.atr").write_bytes((out / "a.atr").read_bytes()[:-2])
    refused(Ran("score", "--reference", ref / "a.atr", "--test", out / "a.atr"), "record a: a.atr")


def test_a_beat_past_the_end_of_the_record_is_refused(folder: Path) -> None:
    put(folder / "out" / "a.atr", [(216_000, "N")])
    refused(Ran("score", "--reference", folder / "ref" / "a.atr", "--test",
                folder / "out" / "a.atr"), "sample 216000 lies past the end")
