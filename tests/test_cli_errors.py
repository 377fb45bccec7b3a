"""What every command does with what it cannot use: one line, the right exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgesparse as es
from command_line import ECG, Ran
from edgesparse.files import write_whole


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "ecg.esp"
    es.convert(ECG).save(path)
    return path


def refused(ran: Ran, *words: str) -> None:
    """Exit code 2, an error on stderr with these words, nothing on stdout."""
    assert ran.code == 2, ran.out + ran.err
    assert ran.err.startswith("error: ")
    for word in words:
        assert word in ran.err
    assert ran.out == ""


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    refused(Ran("convert", tmp_path / "no.tflite", "-o", tmp_path / "x.esp"), "no.tflite")
    refused(Ran("convert", tmp_path / "no.tflite", "--check"), "no.tflite")


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tflite").write_bytes(b"not a model at all")
    refused(Ran("convert", tmp_path / "x.tflite", "-o", tmp_path / "x.esp"), "x.tflite")


def test_a_missing_output_is_asked_for() -> None:
    refused(Ran("convert", ECG), "-o PLAN")


def test_a_missing_output_directory_is_said_before_the_work(tmp_path: Path) -> None:
    refused(Ran("convert", ECG, "-o", tmp_path / "no" / "x.esp"), str(tmp_path / "no"))


def test_a_directory_as_output_is_refused(tmp_path: Path) -> None:
    refused(Ran("convert", ECG, "-o", tmp_path), "directory")


def test_a_directory_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, and tests run as root too: the refusal is made here."""
    def locked(**_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("edgesparse.files.tempfile.mkstemp", locked)
    refused(Ran("convert", ECG, "-o", tmp_path / "x.esp"), "Permission denied")


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.esp"
    target.write_bytes(b"old")

    def full(_: str, __: object) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr("edgesparse.files.os.replace", full)
    refused(Ran("convert", ECG, "-o", target), "No space left on device", "x.esp")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("command", ["inspect", "run", "verify"])
def test_a_plan_that_is_none_is_refused(command: str, tmp_path: Path, plan: Path) -> None:
    more = {
        "inspect": (), "verify": ("--against", ECG),
        "run": ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"),
    }[command]
    refused(Ran(command, tmp_path / "no.esp", *more), "no.esp")
    broken = tmp_path / "broken.esp"
    data = bytearray(plan.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    refused(Ran(command, broken, *more), "I-3")


def test_usage_errors_exit_with_2() -> None:
    for arguments in (["nonsense"], ["convert"], ["convert", ECG, "--seed", "x"],
                      ["verify", "x.esp", "--against", ECG, "--inputs", "0"], ["demo", "eeg"]):
        ran = Ran(*arguments)
        assert ran.code == 2
        assert ran.out == ""


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edgesparse.cli.convert.convert_model", interrupted)
    assert Ran("convert", ECG, "-o", tmp_path / "x.esp").code == 130


def test_an_internal_fault_exits_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def faulty(*_: object) -> None:
        raise es.GraphInvalid("after conv1d: reads t, which does not exist")

    monkeypatch.setattr("edgesparse.cli.convert.convert_model", faulty)
    ran = Ran("convert", ECG, "-o", tmp_path / "x.esp")
    assert ran.code == 1
    assert ran.err == "error: after conv1d: reads t, which does not exist\n"


def test_a_layer_name_is_never_taken_for_markup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def faulty(*_: object) -> None:
        raise es.BadInput("input [red] has shape [1, 2]")

    monkeypatch.setattr("edgesparse.cli.convert.convert_model", faulty)
    ran = Ran("convert", ECG, "-o", tmp_path / "x.esp")
    assert ran.err == "error: input [red] has shape [1, 2]\n"


def test_the_module_runs_as_a_program_without_colour_in_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "edgesparse", "convert", tmp_path / "no.tflite", "--check"),
        capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help_exit_with_0() -> None:
    assert Ran("--version").out == f"edgesparse {es.__version__}\n"
    for arguments in ([], ["convert"], ["inspect"], ["run"], ["verify"], ["doctor"], ["demo"]):
        assert Ran(*arguments, "--help").code == 0


def test_the_model_itself_is_no_place_for_the_plan(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(Path(ECG).read_bytes())
    (tmp_path / "link.esp").symlink_to(model)
    for output in (model, tmp_path / "link.esp"):
        refused(Ran("convert", model, "-o", output), "this is the input")
    assert model.read_bytes() == Path(ECG).read_bytes()


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.esp").write_bytes(b"old")
    (tmp_path / "link.esp").symlink_to("real.esp")
    assert Ran("convert", ECG, "-o", tmp_path / "link.esp").code == 0
    assert (tmp_path / "link.esp").is_symlink()
    assert (tmp_path / "real.esp").read_bytes()[4:8] == b"ESPL"


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, lambda file: file.write(b"plan"))
    assert os.read(reader, 100) == b"plan"
    assert pipe.is_fifo()
    os.close(reader)


def test_a_refused_plan_is_named(tmp_path: Path, plan: Path) -> None:
    broken = tmp_path / "mine.esp"
    broken.write_bytes(plan.read_bytes()[:-1])
    refused(Ran("inspect", broken), "mine.esp", "I-")


def test_an_unknown_method_is_refused_for_every_model(tmp_path: Path) -> None:
    refused(Ran("convert", ECG, "-o", tmp_path / "x.esp", "--method", "foo"), "foo", "minmax")


def test_output_survives_a_terminal_that_cannot_show_it(plan: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "edgesparse", "inspect", str(plan)], capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert ran.returncode == 0, ran.stderr
    assert b"Traceback" not in ran.stderr
