"""edgesparse deploy, on the device of the link's tests: what it does, says, and leaves behind."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgesparse as es
from command_line import Ran, dense_layer
from ecg_stream import ecg_plan
from edgesparse.errors import DeviceRefused, LinkLost, LinkRefused, LinkTimeout
from edgesparse.link import deploy as deployment
from edgesparse.link import open_link
from edgesparse.link.client import Link
from edgesparse.link.images import UPLOAD, images
from edgesparse.link.info import DeviceInfo
from edgesparse.link.refusals import ADVICE, check_fit, explained
from edgesparse.link.smp import GROUP_CODES, Group
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from link_device import on_a_pty

DEVICE = DeviceInfo(True, bytes(8), 1, 1, 1, 360.0, 1, 8, "dsp", None, 20_000, 65_536)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old.esp and new.esp, and wrong.esp, whose self test fails anywhere."""
    folder = tmp_path_factory.mktemp("plans")
    es.convert(dense_layer()).save(folder / "old.esp")
    ecg_plan().save(folder / "new.esp")
    model = ecg_plan(16).model
    assert model.golden is not None
    golden = replace(model.golden, outputs=model.golden.outputs ^ 1)
    Plan.from_bytes(write_plan(replace(model, golden=golden))).save(folder / "wrong.esp")
    return folder


@pytest.fixture
def port(folder: Path) -> Iterator[str]:
    """A device with the real plan store that runs old.esp."""
    with on_a_pty(plan=folder / "old.esp", store=True) as port:
        yield port


def digest(plan: Path) -> bytes:
    return hashlib.sha256(plan.read_bytes()).digest()


def runs(port: str) -> list[tuple[str, bool]]:
    """The hash of what runs, and whether it is confirmed."""
    with open_link(port) as link:
        return [(image.hash.hex(), image.confirmed) for image in images(link) if image.active]


def test_a_plan_is_uploaded_tested_and_confirmed(folder: Path, port: str) -> None:
    new = folder / "new.esp"
    ran = Ran("deploy", new, "--port", port)
    assert (ran.code, ran.err) == (0, "")
    for words in ("before  slot 0", f"upload  {new.stat().st_size:,} bytes", "test    passed",
                  "runs, confirmed", "new.esp runs, confirmed, after"):
        assert words in ran.out
    assert runs(port) == [(digest(new).hex(), True)]
    with open_link(port) as link:
        assert link.info()["hop"] == 16


def test_what_runs_already_is_left_alone(folder: Path, port: str) -> None:
    ran = Ran("deploy", folder / "old.esp", "--port", port)
    assert ran.code == 0
    assert "nothing to do" in ran.out
    told = Ran("deploy", folder / "old.esp", "--port", port, "--json").json
    assert (told["outcome"], told["uploaded"]) == ("nothing_to_do", False)


def test_a_plan_whose_self_test_fails_is_taken_back(folder: Path, port: str) -> None:
    ran = Ran("deploy", folder / "wrong.esp", "--port", port)
    assert ran.code == 1
    old = digest(folder / "old.esp").hex()
    assert "gave other bytes there than here" in ran.err
    assert f"the old plan {old[:12]} runs again" in ran.err
    assert runs(port) == [(old, True)]
    told = Ran("deploy", folder / "wrong.esp", "--port", port, "--json")
    assert (told.code, told.json["outcome"], told.json["uploaded"]) == (1, "reverted", False)


def test_without_confirm_the_next_call_confirms(folder: Path, port: str) -> None:
    new = folder / "new.esp"
    ran = Ran("deploy", new, "--port", port, "--no-confirm")
    assert ran.code == 0
    assert "until the next reset" in ran.out
    assert runs(port) == [(digest(new).hex(), False)]
    other = Ran("deploy", folder / "wrong.esp", "--port", port)
    assert other.code == 1
    assert "deploy the plan on trial again to keep it" in other.err
    told = Ran("deploy", new, "--port", port, "--json").json
    assert (told["outcome"], told["uploaded"]) == ("confirmed", False)
    assert runs(port) == [(digest(new).hex(), True)]


def test_a_reset_ends_a_trial(folder: Path, port: str) -> None:
    assert Ran("deploy", folder / "new.esp", "--port", port, "--no-confirm").code == 0
    old = digest(folder / "old.esp").hex()
    ran = Ran("device", "reset", "--port", port)
    assert ran.code == 0
    assert f"plan {old[:12]}, runs, confirmed" in ran.out
    assert runs(port) == [(old, True)]
    [active] = [image for image in Ran("device", "reset", "--port", port, "--json").json["now"]
                if image["active"]]
    assert (active["sha256"], active["confirmed"]) == (old, True)


def test_a_trial_that_waits_is_given_up_for_what_runs(folder: Path, port: str) -> None:
    new, old = folder / "new.esp", folder / "old.esp"
    with open_link(port) as link:
        deployment.upload(link, new.read_bytes())
        deployment.try_out(link, digest(new))
    assert Ran("deploy", old, "--port", port).code == 0
    with open_link(port) as link:
        assert not any(image.pending for image in images(link))


def test_an_upload_goes_on_where_it_stopped(folder: Path, port: str) -> None:
    plan = (folder / "new.esp").read_bytes()
    first = {"off": 0, "len": len(plan), "sha": hashlib.sha256(plan).digest(), "data": plan[:900]}
    with open_link(port) as link:
        at = 900
        link.request(UPLOAD, first)
        while at < len(plan) // 2:
            at = link.request(UPLOAD, {"off": at, "data": plan[at:at + 900]})["off"]
    told = Ran("deploy", folder / "new.esp", "--port", port, "--no-confirm", "--json").json
    assert (told["uploaded"], told["resumed_at"]) == (True, at)
    assert told["outcome"] == "on_trial"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (LinkLost("the port failed"), 1)])
def test_what_is_cut_short_says_how_to_go_on(
    folder: Path, port: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    """In every stage; then the same command goes on."""
    def stop(at: str) -> Ran:
        def fail(*_: object, **__: object) -> Any:
            raise error
        with monkeypatch.context() as patch:
            patch.setattr(deployment, at, fail)
            return Ran("deploy", folder / "new.esp", "--port", port)

    def partly(link: Link, plan: bytes, progress: Callable[[int], None]) -> None:
        progress(12_345)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(deployment, "upload", partly)
        ran = Ran("deploy", folder / "new.esp", "--port", port)
    assert ran.code == code
    assert re.search(r"has 12,345 of [\d,]+ bytes and runs what it ran; the same", ran.err)
    for at, words in (
        ("device_info", "nothing was changed on the device"),
        ("try_out", "the device has all of the plan and runs what it ran; the same command"),
        ("self_test", "the plan is on trial; the same command tests and confirms it"),
        ("confirm", "the plan is on trial, or confirmed by now; the same command tests and"),
    ):
        ran = stop(at)
        assert (ran.code, words in ran.err) == (code, True), (at, ran.err)
    assert Ran("deploy", folder / "new.esp", "--port", port).code == 0


@pytest.mark.parametrize("code", sorted(GROUP_CODES[Group.IMAGE]))
def test_every_refusal_says_what_to_do(code: int) -> None:
    text = GROUP_CODES[Group.IMAGE][code]
    error = explained(LinkRefused("take the plan", Group.IMAGE, code, text), ecg_plan(), DEVICE)
    assert ADVICE[code] in str(error)
    assert text in str(error)
    assert error.exit_code == (2 if isinstance(error, DeviceRefused) else 1)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (replace(DEVICE, ram_bytes=4096), "bytes of 4,096); take a smaller model"),
        (replace(DEVICE, slot_bytes=8192), "bytes of 8,192); prune"),
    ])
def test_what_does_not_fit_is_known_before_the_upload(device: DeviceInfo, words: str) -> None:
    with pytest.raises(DeviceRefused, match=re.escape(words)):
        check_fit(ecg_plan(), device)
    check_fit(ecg_plan(), replace(DEVICE, ram_bytes=None, slot_bytes=None))


def test_a_plan_for_an_npu_does_not_fit_a_cortex_m() -> None:
    npu = es.convert(dense_layer(rows=64, columns=32), "esn-s")
    with pytest.raises(DeviceRefused, match=r"another target \(esn-s\); convert the model with"):
        check_fit(npu, DEVICE)
    check_fit(npu, replace(DEVICE, isa="esn-s"))


def test_refusals_of_other_groups_stay() -> None:
    refused = LinkRefused("run", Group.EDGESPARSE, 15, "x")
    assert explained(refused, ecg_plan(), None) is refused


def test_a_port_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    ran = Ran("deploy", folder / "new.esp", "--port", tmp_path / "none")
    assert ran.code == 1
    assert "cannot be opened" in ran.err


def test_a_confirmed_plan_that_the_device_does_not_start_is_no_success(
    folder: Path, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "device_info", lambda link: replace(DEVICE, running=False))
    ran = Ran("deploy", folder / "old.esp", "--port", port)
    assert ran.code == 1
    assert "does not start it: it took the device down too often" in ran.err


def crash(link: Link, tries: int | None = None) -> int:
    """The device starts anew in its self test, with the old plan, whose own test passes."""
    link.reset()
    return 5


def hang(link: Link, tries: int | None = None) -> int:
    raise LinkTimeout("no answer")


@pytest.mark.parametrize(
    ("test", "words"),
    [(crash, "the device was reset during its self test"), (hang, "its self test did not end")])
def test_a_device_that_crashes_in_its_test_keeps_the_old_plan(
    folder: Path, port: str, monkeypatch: pytest.MonkeyPatch,
    test: Callable[[Link, int | None], int], words: str,
) -> None:
    monkeypatch.setattr(deployment, "self_test", test)
    ran = Ran("deploy", folder / "new.esp", "--port", port)
    assert ran.code == 1
    assert words in ran.err
    assert runs(port) == [(digest(folder / "old.esp").hex(), True)]


def test_an_answer_that_contradicts_the_state_is_an_error(
    folder: Path, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that says yes to a confirm and does nothing."""
    monkeypatch.setattr(deployment, "confirm", lambda link, digest: images(link))
    ran = Ran("deploy", folder / "new.esp", "--port", port)
    assert ran.code == 1
    assert "it says it runs, not confirmed; deploy again" in ran.err


def test_a_plan_without_a_test_vector_is_deployed_and_that_is_said(
    tmp_path: Path, port: str
) -> None:
    es.convert(dense_layer(seed=3), options=es.Options(golden=False)).save(tmp_path / "x.esp")
    ran = Ran("deploy", tmp_path / "x.esp", "--port", port)
    assert ran.code == 0
    assert "test    none: the plan has no test vector" in ran.out
