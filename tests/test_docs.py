"""The documents: generated ones are current, commands exist, and so do the files they name."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from edgesparse.cli import app
from edgesparse.importers import tflite_call, tflite_layout, tflite_ops
from edgesparse.importers.tflite_ops import HANDLERS
from edgesparse.link.refusals import ADVICE
from edgesparse.ops import OPS
from test_house import own_files

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = ROOT / "docs" / "OPERATORS.md"
CHECKED = sorted(
    {ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
    | set((ROOT / "docs").glob("*.md")) | set((ROOT / "demos").rglob("*.md")))

PLAN_EXAMPLE = ROOT / "docs" / "PLAN_EXAMPLE.md"

documents = pytest.mark.parametrize(
    "document", CHECKED, ids=lambda path: str(path.relative_to(ROOT)))


# ---- docs/OPERATORS.md ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "page"), [("plan_hex.py", PLAN_EXAMPLE), ("operators_doc.py", OPERATORS)])
def test_a_page_that_a_script_makes_is_current(
    script: str, page: Path, update_golden: bool
) -> None:
    done = subprocess.run(
        (sys.executable, f"tools/{script}"), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if update_golden:
        page.write_text(done.stdout)
    assert done.stdout == page.read_text(), "pytest tests/test_docs.py --update-golden"


def test_the_list_of_operators_has_every_operator() -> None:
    page = OPERATORS.read_text()
    for name in HANDLERS:
        assert f"\n| {name} | " in page
    for name in OPS:
        assert f"\n| {name} | " in page
    imported = {name for op in OPS.values() for name in op.tflite}
    assert imported <= HANDLERS.keys()
    assert {f"| {name} | a constant |" for name in HANDLERS.keys() - imported} == set(
        re.findall(r"^(\| \w+ \| a constant \|)", page, re.MULTILINE))


def refusals_at_import() -> Iterator[str]:
    """The texts that are passed to refuse(), with what is filled in cut out."""
    for module in (tflite_call, tflite_layout, tflite_ops):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "refuse" and not isinstance(node.args[0], ast.Name)):
                yield ast.unparse(node.args[0])


def test_the_list_of_operators_has_every_refusal_of_the_importer() -> None:
    """Found another way than the generator finds them: by the pieces of text between braces."""
    page = OPERATORS.read_text()
    texts = list(refusals_at_import())
    assert len(texts) > 25
    for text in texts:
        value = ast.parse(text, mode="eval").body
        parts = value.values if isinstance(value, ast.JoinedStr) else [value]
        for part in parts:
            if isinstance(part, ast.Constant):
                assert str(part.value) in page, text


# ---- figures that come from docs/MODELS.md -------------------------------------------------------


def model_row(name: str) -> dict[str, str]:
    """A line of the table by the heads of its columns."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (ROOT / "docs" / "MODELS.md").read_text().splitlines()
            if line.startswith("| ")]
    (found,) = (row for row in rows if row[0].endswith(name))
    return dict(zip(rows[0], found, strict=True))


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_quoted_figures_are_those_of_the_table() -> None:
    readme, design = (ROOT / "README.md").read_text(), (ROOT / "docs" / "DESIGN.md").read_text()
    vww, ecg = model_row("vww_int8"), model_row("ecg_c48_4x1_75")
    assert (f"{number(vww['.tflite']) / 1000:.0f} KB to {number(vww['plan']) / 1000:.0f} KB"
            in readme)
    assert (f"{number(ecg['nonzero MACs']) / 1e6:.2f} M against {number(ecg['MACs']) / 1e6:.2f} M"
            in readme)
    assert f"{model_row('arm_kws_lstm_s')['plan']} bytes instead of" in design
    assert f"{model_row('ic_resnet8_int8')['RAM']} bytes of RAM" in design


# ---- docs/DEVICE.md -----------------------------------------------------------------------------


def test_every_code_of_a_refusal_is_in_the_table_with_its_advice() -> None:
    rows = re.findall(
        r"^\| ([\d, ]+) \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs" / "DEVICE.md").read_text(),
        re.MULTILINE)
    told = {int(code): advice for codes, advice in rows for code in codes.split(", ")}
    assert told == ADVICE


# ---- commands ------------------------------------------------------------------------------------


def fenced(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language; "" for those that name none."""
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, document.read_text(), re.MULTILINE | re.DOTALL)


PROGRAMS = ("edgesparse", "python", "pytest", "cmake", "ctest", "pip", "apt-get", "clang-format",
            "mkdir")


def commands(document: Path) -> Iterator[list[str]]:
    """What a reader would type: lines of shell blocks, and code in a sentence that is a command."""
    blocks = fenced(document, "sh") + [
        block for block in fenced(document, "") if block.startswith(PROGRAMS)]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`", document.read_text())
    for line in (*lines, *inline):
        for part in re.split(r"\s(?:&&|\|)\s", line):
            words = shlex.split(part, comments=True)
            while words and (words[0] == "export" or re.fullmatch(r"[A-Z_]+=.*", words[0])):
                words = words[1:]
            if ">" in words:
                words = words[: words.index(">")]
            if words:
                yield words


def check_command(words: list[str]) -> None:
    """The program, its file, and its options exist; raises AssertionError."""
    program, *rest = words
    program = Path(program).name
    if program == "edgesparse":
        check_edgesparse(rest)
    elif program in ("python", "python3"):
        check_python(rest)
    elif program == "pytest":
        for word in rest:
            if word.startswith("tests"):
                assert (ROOT / word).exists(), word
            elif word.startswith("--"):
                options = ("tests/conftest.py", "pytest_edgesparse/__init__.py")
                assert any(f'"{word}"' in (ROOT / name).read_text() for name in options), word
    elif program in ("cmake", "ctest"):
        known = "".join(path.read_text() for path in own_files("CMakeLists.txt", ".cmake"))
        for variable, value in re.findall(r"-D(\w+)=(\S+)", " ".join(rest)):
            assert variable.startswith("CMAKE_") or f"{variable} " in known, variable
            assert "/" not in value or (ROOT / value).exists(), value
    elif program == "pip":
        for extras in re.findall(r"\[([\w,]+)\]", " ".join(rest)):
            for extra in extras.split(","):
                assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text(), extra
    else:
        assert program in PROGRAMS, program


def check_edgesparse(arguments: list[str]) -> None:
    """The command is one of ours and would accept these arguments; it is not run."""
    if not arguments or arguments[0].startswith("-"):
        return
    known: Any = typer.main.get_command(app)
    words = iter(arguments)
    while hasattr(known, "commands"):  # demo has commands of its own
        name = next(words, "")
        assert name in known.commands, f"edgesparse {' '.join(arguments)}"
        known = known.commands[name]
    parameters = known.params
    options = {name: p for p in parameters for name in (*p.opts, *p.secondary_opts)}
    given = []
    for word in words:
        if word.startswith("-"):
            assert word in {*options, "--help"}, word
            given.append(options.get(word))
            if word in options and not options[word].is_flag:
                assert next(words, None) is not None, f"{word} lacks its value"
        else:
            given.append(next((p for p in parameters if is_argument(p) and p not in given), None))
            assert given[-1] is not None, f"{word}: too many arguments"
    needed = [p.name for p in parameters if p.required and p not in given]
    if given:  # `edgesparse convert` alone names the command
        assert needed == [], f"lacks {needed}"


def is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def check_python(arguments: list[str]) -> None:
    """A file or module of the repository, with the options its text knows; or code."""
    if arguments[0] == "-c":
        compile(arguments[1], "python -c", "exec")
        return
    if arguments[0] == "-m":
        name = arguments[1].replace(".", "/")
        if name in ("venv", "pytest", "edgesparse"):
            return
        script, rest = ROOT / f"{name}.py", arguments[2:]
    else:
        script, rest = ROOT / arguments[0], arguments[1:]
    assert script.is_file(), script
    # Scripts of one folder share their options.
    text = "".join(path.read_text() for path in sorted(script.parent.glob("*.py")))
    for word in rest:
        assert not word.startswith("--") or f'"{word}"' in text, f"{script.name} {word}"


@documents
def test_every_command_exists(document: Path) -> None:
    for words in commands(document):
        try:
            check_command(words)
        except AssertionError as error:
            pytest.fail(f"{shlex.join(words)}: {str(error).splitlines()[0]}")


def test_commands_are_found_and_wrong_ones_noticed() -> None:
    found = [words for document in CHECKED for words in commands(document)]
    assert ["edgesparse", "demo", "ecg"] in found
    assert len(found) > 20
    for wrong in ("edgesparse transmogrify x", "edgesparse convert x.tflite --fast",
                  "python tools/no_such.py", "python firmware_sim/size.py --speed",
                  "pytest --no-such-option", "cmake -DES_NOTHING=ON", "pip install .[everything]",
                  "make all", "pytest tests/test_nothing.py", "edgesparse verify x.esp",
                  "edgesparse inspect x.esp y.esp", "edgesparse convert x.tflite -o"):
        with pytest.raises(AssertionError):
            check_command(shlex.split(wrong))


def test_the_python_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = fenced(ROOT / "README.md", "python")
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert isinstance(names["y"], np.ndarray)
    assert isinstance(names["events"], list)


# ---- files ---------------------------------------------------------------------------------------

NAMED = re.compile(r"`([\w.*<>\-]+(?:/[\w.*<>\-]*)*)`")
SUFFIXES = (".py", ".c", ".h", ".md", ".fbs", ".toml", ".cdef", ".ld", ".cmake")


def missing_files(document: Path) -> list[str]:
    """Links and names of files in a document that lead nowhere."""
    text = document.read_text()
    tracked = [path.relative_to(ROOT) for path in own_files()]
    tops = {path.parts[0] for path in tracked if len(path.parts) > 1}
    missing = [
        link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
        if not (document.parent / link).exists()]
    for name in NAMED.findall(text):
        wanted = re.sub(r"<\w+>", "*", name).rstrip("/")
        if "/" in wanted:
            there = wanted.split("/")[0] not in tops or any(matches(p, wanted) for p in tracked)
        else:
            there = "*" in wanted or not wanted.endswith(SUFFIXES) or any(
                path.name == wanted for path in tracked)
        if not there:
            missing.append(name)
    return missing


def matches(path: Path, pattern: str) -> bool:
    """Whether a file is what the pattern names, or lies in the folder it names."""
    return any(part.match(pattern) for part in (path, *path.parents)) or (
        "**" in pattern and path.match(pattern.replace("**/", "")))


@documents
def test_every_file_that_is_named_exists(document: Path) -> None:
    assert missing_files(document) == []


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text(
        "[a](no.md) `edgesparse/no.py` `docs/*.txt` `no_such.py` `edgesparse/<x>.py` `docs/` `x/y`")
    assert missing_files(document) == ["no.md", "edgesparse/no.py", "docs/*.txt", "no_such.py"]
