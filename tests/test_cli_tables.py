"""Numbers, names and tables of the command line."""

from __future__ import annotations

import json

import pytest
from rich.text import Text

from edgesparse.cli.console import amount, emit, percent, shortened, table, wrapped
from edgesparse.cli.names import short_names
from edgesparse.cli.remarks import notes, refusals
from edgesparse.errors import DoesNotFit, Unsupported
from edgesparse.wording import counted


@pytest.mark.parametrize(("number", "text"), [
    (0, "0"), (9_999, "9,999"), (10_000, "10 k"), (12_345, "12.3 k"), (999_499, "999 k"),
    (999_500, "1 M"), (9_876_543, "9.88 M"), (766_346_496, "766 M"), (1_234_567_890, "1,235 M"),
])
def test_amounts_are_short(number: int, text: str) -> None:
    assert amount(number) == text


def test_percent_and_numbers_of_things() -> None:
    assert [percent(part) for part in (0, 0.7512, 1)] == ["0.0 %", "75.1 %", "100.0 %"]
    assert [counted(n, "column") for n in (0, 1, 2, 1234)] == [
        "0 columns", "1 column", "2 columns", "1,234 columns"]


def test_long_lines_break_between_words_under_their_indent() -> None:
    text = "head: a b\n  stem: one two three net/a-very-long/name"
    assert wrapped(text, 16).split("\n") == [
        "head: a b", "  stem: one two", "      three", "      net/a-very-long/name"]
    assert wrapped(text, 100) == text


FLOAT = "is float32 in a model that is int8 elsewhere"


def test_what_many_layers_are_refused_for_is_said_once() -> None:
    issues = [
        Unsupported(f"net/b{i}/Conv2D", "Conv", f"'net/b{i}/t' {FLOAT}", "int8") for i in range(5)]
    other = Unsupported("net/x/Elu", "ELU", "it is not executed")
    add = Unsupported("net/b9/Add", "Add", f"'y' {FLOAT}", "int8")
    limit = DoesNotFit("too many steps")
    assert refusals([*issues[:2], other, *issues[2:], add, limit]) == [
        f"6 layers, from b0 to b9 (Conv, Add): a tensor {FLOAT}. Try: int8",
        "x (ELU): it is not executed.", "too many steps"]
    assert refusals(issues[:1]) == [f"b0 (Conv): 'net/b0/t' {FLOAT}. Try: int8"]
    assert refusals(issues[1:3]) == [f"b1 and b2 (Conv): a tensor {FLOAT}. Try: int8"]


def test_notes_have_the_names_of_the_table() -> None:
    names = ["net/a/Conv2D", "net/a/Conv2D/x", "net/b/Conv2D"]
    lines = ["hop 8 was chosen", "net/a/Conv2D/x: kept 2 times", "net/b/Conv2D: kept 2 times",
             "not continuous: net/b/Conv2D (Conv): it pads"]
    short = short_names(names)
    assert notes(lines, names) == [
        "hop 8 was chosen", f"{short[1]} and {short[2]}: kept 2 times",
        f"not continuous: {short[2]} (Conv): it pads"]


def test_layers_get_the_part_of_their_name_that_tells_them_apart() -> None:
    names = ["net/stem/Pad + net/stem/Relu;net/stem/BiasAdd", "net/block/BiasAdd + net/add/Add",
             "net/head/MatMul"]
    assert short_names(names) == ["stem", "block +1", "head"]


def test_names_without_a_common_part_stay_and_equal_ones_are_numbered() -> None:
    assert short_names(["a/b", "c/d", "dense"]) == ["a/b", "c/d", "dense"]
    assert short_names(["n/conv/Relu", "n/conv/BiasAdd"]) == ["conv #1", "conv #2"]
    assert short_names(["Softmax"]) == ["Softmax"]
    assert short_names([]) == []


def test_long_names_lose_their_middle() -> None:
    assert shortened(Text("activation_10"), 20).plain == "activation_10"
    assert shortened(Text("activation_10"), 9).plain == "acti…n_10"


def test_a_wide_table_cuts_its_first_column_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table(("name", "value>", "what"), [("x" * 70, 1_234_567, "y" * 20), ("[red]", None, 0.5)])
    first, second, third = (line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert first.split() == ["name", "value", "what"]
    assert len(second) <= 60
    assert "…" in second
    assert "1,234,567 " + "y" * 20 in second
    assert third.split() == ["[red]", "0.5"]


def test_json_has_no_numbers_that_json_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": float("inf"), "b": [float("nan"), 1.5], "c": {"d": (1, 2)}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": {"d": [1, 2]}}
