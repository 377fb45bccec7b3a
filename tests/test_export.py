"""edgesparse export: the project builds, runs on emulated Cortex-M, and gives Python's bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from command_line import Ran
from edgesparse.convert import Options, convert, convert_model
from edgesparse.errors import BadInput, WrongMachine
from edgesparse.export import export_plan, project
from edgesparse.export.c_source import comment, plan_c, plan_h
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Event, Run, StateChange
from edgesparse.streaming.plan import StreamOptions
from int8_models import ECG, model_path
from needs import require
from test_house import ROOT, only_one, run

MODELS = {
    "ad01": "models/mlperf/mlperf_ad01_int8",
    "kws": "models/mlperf/mlperf_kws_dscnn_int8",
    "ic": "models/mlperf/mlperf_ic_resnet8_int8",
}
BOARDS = {"cortex-m4": "mps2-an386", "cortex-m55": "mps3-an547"}


def ecg_stream(target: str) -> Plan:
    options = StreamOptions(hop=16, frontend="ecg360", beats=True)
    return convert_model(model_path(Path(), ECG), target, Options(stream=options)).plan


def small() -> Plan:
    return convert(model_path(Path(), ECG))


def kept(made: Path, folder: Path) -> Path:
    """`folder` with the content of `made`; what is right already is not touched or built again."""
    for path in made.rglob("*"):
        twin = folder / path.relative_to(made)
        if path.is_file() and not (twin.is_file() and twin.read_bytes() == path.read_bytes()):
            twin.parent.mkdir(parents=True, exist_ok=True)
            twin.write_bytes(path.read_bytes())
    return folder


def built(plan: Plan, name: str, cpu: str, made: Path) -> str:
    """What the exported program prints: in QEMU, or with the CPU "host" on this computer."""
    require("cmake")
    options: list[str] = ["-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    export_plan(plan, made, None if cpu == "host" else cpu)
    with only_one(f"export-{name}-{cpu}"):
        folder = kept(made, ROOT / "build" / f"export-{name}-{cpu}")
        if cpu != "host":
            require("arm")
            options += ["-DCMAKE_TOOLCHAIN_FILE=edgesparse/firmware_sim/arm-none-eabi.cmake",
                        f"-DES_CPU={cpu}"]
        run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja",
            *(o.replace("=edgesparse", f"={folder}/edgesparse") for o in options))
        run("cmake", "--build", folder / "build")
        app = folder / "build" / "app"
        if cpu == "host":
            return run(app)
        require("qemu")
        return run("qemu-system-arm", "-M", BOARDS[cpu], "-display", "none", "-monitor", "none",
                   "-serial", "none", "-semihosting-config", "enable=on,target=native",
                   "-kernel", app)


def once(plan: Plan) -> str:
    """What main_run.c prints: inputs that count up, all outputs."""
    given = [np.arange(np.prod(io.shape)).astype(np.uint8).astype(np.int16) - 128
             for io in plan.inputs]
    inputs = [x.astype(np.int8).reshape(io.shape) for x, io in zip(given, plan.inputs)]
    session = Session(plan)
    session.run(inputs[0] if len(inputs) == 1 else inputs)
    return "self test passed\n" + "".join(
        f"output {number}: {' '.join(map(str, y.ravel()))}\n"
        for number, y in enumerate(session.native.outputs))


def signal() -> Array:
    """main_stream.c's: a spike of 200 in every 360 samples."""
    away = np.abs(np.arange(3600) % 360 - 180)
    return np.where(away < 10, 200 - 20 * away, 0).astype(np.int16)


def lines_of(events: list[Event]) -> Iterator[str]:
    """As main_stream.c prints them."""
    total = runs = 0
    for event in events:
        if isinstance(event, Beat):
            yield f"beat at {event.position}, class {event.kind}"
        elif isinstance(event, StateChange):
            yield f"signal at {event.sample}, state {event.state.value}"
        elif isinstance(event, Run):
            runs += 1
            for value in event.outputs[0].astype(np.uint8).ravel().tolist():
                total = (total * 31 + value) & 0xFFFFFFFF
    yield f"{runs} runs, sum of outputs {total:08x}"


def ten_seconds(plan: Plan) -> str:
    stream = Stream(plan)
    events = [*stream.push_raw(signal()), *stream.flush()]
    return "\n".join(("self test passed", *lines_of(events), ""))


@pytest.mark.parametrize("cpu", BOARDS)
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_pythons_bytes_on_a_device(
    name: str, cpu: str, data_root: Path, tmp_path: Path
) -> None:
    plan = convert_model(model_path(data_root, MODELS[name]), cpu).plan
    assert built(plan, name, cpu, tmp_path / name) == once(plan)


@pytest.mark.parametrize("cpu", BOARDS)
def test_an_exported_stream_reports_pythons_beats_on_a_device(cpu: str, tmp_path: Path) -> None:
    plan = ecg_stream(cpu)
    expected = ten_seconds(plan)
    assert expected.count("beat at") == 10
    assert built(plan, "ecg", cpu, tmp_path / "ecg") == expected


def test_an_exported_project_builds_on_the_host(tmp_path: Path) -> None:
    plan = ecg_stream("cortex-m4")
    assert built(plan, "ecg", "host", tmp_path / "ecg") == ten_seconds(plan)


def test_plan_c_holds_the_bytes_of_the_plan_and_plan_h_its_numbers() -> None:
    plan = small()
    source, header = plan_c(plan), plan_h(plan)
    values = re.findall(r"^    ([\d,]+),$", source, re.M)
    assert bytes(int(v) for line in values for v in line.split(",")) == plan.data
    for line in (f"ES_PLAN_BYTES {plan.flash_bytes}u", f"ES_PLAN_RAM {plan.ram_bytes}u",
                 "ES_PLAN_INPUT0_SHAPE {1, 1440, 1}", "ES_PLAN_OUTPUT0_SIZE 720"):
        assert f"#define {line}\n" in header
    scale = re.search(r"INPUT0_SCALE (\S+)f\n", header)
    assert scale
    assert np.float32(scale[1]) == np.float32(plan.inputs[0].scale)
    for layer in plan.layers:
        assert comment(layer.name) in header


def test_a_name_cannot_end_a_comment() -> None:
    assert comment("a*/b\\\n/*é") == "a* /b/?/ *?"


# ---- the directory -------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_plan_gives_the_same_files(tmp_path: Path) -> None:
    plan = small()
    made = export_plan(plan, tmp_path / "a")
    export_plan(plan, tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert sorted(made.files) == sorted(tree(tmp_path / "a"))


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(BadInput, match="not empty, and not from an earlier export"):
            export_plan(small(), tmp_path, force=force)
    assert tree(tmp_path) == {"notes.txt": b"mine"}


def test_an_earlier_export_is_replaced_only_when_asked(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()  # empty: as good as none
    export_plan(small(), folder)
    (folder / "main.c").write_text("changed")
    (folder / "mine.c").write_text("mine")
    (folder / "edgesparse" / "gone.c").write_text("of an older core")
    before = tree(folder)
    with pytest.raises(BadInput, match="--force"):
        export_plan(small(), folder)
    assert tree(folder) == before
    made = export_plan(small(), folder, force=True)
    assert (folder / "mine.c").read_text() == "mine"
    assert (folder / "main.c").read_text() != "changed"
    assert set(tree(folder)) == {*made.files, "mine.c"}


@pytest.mark.parametrize("there", [False, True])
def test_an_export_that_fails_leaves_all_as_it_was(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, folder = small(), tmp_path / "project"
    if there:
        export_plan(plan, folder)
    before = tree(tmp_path)

    def cut(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
        yield from list(files.items())[:5]
        raise OSError(28, "No space left on device")

    class Cut(dict[str, bytes]):
        def items(self) -> Iterator[tuple[str, bytes]]:  # type: ignore[override]
            return cut(dict(super().items()))

    monkeypatch.setattr(project, "dict", Cut, raising=False)
    with pytest.raises(BadInput, match="No space left on device; nothing was written"):
        export_plan(plan, folder, force=there)
    assert tree(tmp_path) == before


def test_a_plan_for_the_npu_is_refused(tmp_path: Path) -> None:
    plan = convert(model_path(Path(), ECG), "esn-s")
    with pytest.raises(WrongMachine, match="--target cortex-m4"):
        export_plan(plan, tmp_path / "x")


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    small().save(tmp_path / "ecg.esp")
    ran = Ran("export", tmp_path / "ecg.esp", "-o", tmp_path / "x", "--cpu", "cortex-m33", "--json")
    assert (ran.code, ran.json["cpu"], ran.json["trusted"]) == (0, "cortex-m33", True)
    assert ran.json["features"] == [
        "ADD", "BSR", "DENSE", "MAC", "PAIRS", "PATCHES", "REQUANT", "TALL"]
    readme = (tmp_path / "x" / "README.txt").read_text()
    assert "qemu-system-arm -M mps2-an505" in readme
    assert "@" not in readme
    text = Ran("export", tmp_path / "ecg.esp", "-o", tmp_path / "y", "--check-on-device")
    assert text.code == 0
    assert "flash" in text.out
    assert "--target cortex-m4" in " ".join(text.out.split())  # it was made for the host
    assert "ES_TRUST_PLAN 0" in (tmp_path / "y" / "es_config.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("-o", "{x}/none/y"), "make it first"), (("-o", "{x}/ecg.esp"), "this is a file"),
     (("-o", "{x}"), "not empty"), (("-o", "{x}/y", "--cpu", "cortex-a9"), "no such CPU")])
def test_errors_exit_with_2(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    small().save(tmp_path / "ecg.esp")
    filled = [a.format(x=tmp_path) for a in arguments]
    ran = Ran("export", tmp_path / "ecg.esp", *filled)
    assert ran.code == 2
    assert message in ran.err
    assert set(tree(tmp_path)) == {"ecg.esp"}


def test_a_damaged_plan_exits_with_2(tmp_path: Path) -> None:
    damaged = bytearray(small().data)
    damaged[1000] ^= 1
    (tmp_path / "bad.esp").write_bytes(damaged)
    ran = Ran("export", tmp_path / "bad.esp", "-o", tmp_path / "x")
    assert ran.code == 2
    assert "I-3" in ran.err
    assert set(tree(tmp_path)) == {"bad.esp"}
