"""Power cuts in an update of an emulated board: QEMU killed, started again on the same flash.

    python benchmarks/device_power_cuts.py --data-root ../shared [--cpu cortex-m4] [--every 1024]

A plan is uploaded over the line; at every 1024 bytes sent, and in the last piece, the command to
try it, the reset and the command to confirm it (half sent; sent, some milliseconds ago; answered),
the process is killed with SIGKILL. The next start has to run a whole plan: listed by its hash, self
test passed, one inference with the oracle's bytes. Which of the two: `allowed`. The start after
that has to run the same, or the old one after a trial. Then a plan whose golden outputs are wrong
is tried: its self test fails, and the next start runs the old one. Exit status 1 for any exception.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from device_models import PATIENCE, Given, expected
from preloaded import ROOT
from records import markdown

from edgesparse.convert import convert_model
from edgesparse.device import Device
from edgesparse.errors import LinkRefused
from edgesparse.link import Link, images, inference, open_link
from edgesparse.link.client import RESET, Port
from edgesparse.link.images import Image
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from int8_models import model_path

OLD, NEW = "models/mlperf/mlperf_kws_dscnn_int8", "models/generated/conv2d_uns0_int8"
SELF_TEST_FAILED = 7
"""Of group 64, docs/LINK.md section 6."""
DELAYS_S = (0.0, 0.001, 0.005, 0.02, 0.1, 0.5)
"""From a request that is sent whole to the cut."""


class PowerCut(Exception):
    """The device was killed, on purpose."""


@dataclass(frozen=True)
class Known:
    """A plan, and one run with what the oracle says of it."""

    plan: Plan
    run: Given

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.plan.data).digest()


def known(root: Path, name: str) -> Known:
    plan = convert_model(model_path(root, name), "cortex-m4").plan
    *_, run = expected(root, name, plan, 3)
    return Known(plan, run)


class CutPort:
    """A port that cuts the power once `left` more bytes are written, and a while has passed."""

    def __init__(self, port: Port, device: Device) -> None:
        self.port, self.device = port, device
        self.left: int | None = None
        self.share: float | None = None
        self.delay = 0.0

    def cut_after(self, count: int, delay: float = 0.0) -> None:
        self.left, self.delay = count, delay

    def cut_in_next(self, share: float, delay: float = 0.0) -> None:
        """In the next request, when this share of it is sent."""
        self.share, self.delay = share, delay

    @property
    def timeout(self) -> float | None:
        return self.port.timeout

    @timeout.setter
    def timeout(self, value: float | None) -> None:
        self.port.timeout = value

    @property
    def in_waiting(self) -> int:
        return self.port.in_waiting

    def read(self, size: int = 1) -> bytes:
        return self.port.read(size)

    def write(self, data: bytes) -> int | None:
        if self.share is not None:
            self.left = round(self.share * len(data))
        if self.left is None or len(data) < self.left:
            self.left = None if self.left is None else self.left - len(data)
            return self.port.write(data)
        self.port.write(data[:self.left])
        time.sleep(self.delay)
        self.device.kill()
        raise PowerCut

    def reset_input_buffer(self) -> None:
        self.port.reset_input_buffer()

    def close(self) -> None:
        self.port.close()


class Bench:
    """A flash file and the board on it, off and on again."""

    def __init__(self, cpu: str, folder: Path, old: Known, new: Known) -> None:
        self.cpu, self.flash, self.plans = cpu, folder / "flash.bin", (old, new)
        self.device = Device.start(cpu, self.flash, plan=old.plan)
        self.link = self._open()

    def _open(self) -> Link:
        return open_link(self.device.port, patience=PATIENCE)

    def restart(self) -> None:
        self.off()
        self.device = Device.start(self.cpu, self.flash)
        self.link = self._open()

    def off(self) -> None:
        self.link.close()
        self.device.stop()

    def port(self) -> CutPort:
        cutting = CutPort(self.link.port, self.device)
        self.link.port = cutting
        return cutting

    def running(self) -> tuple[Known, Image]:
        """What runs, after its self test and an inference. AssertionError for anything half."""
        listed = images.images(self.link)
        [image] = [image for image in listed if image.active]
        [plan] = [plan for plan in self.plans if plan.digest == image.hash]
        assert self.link.info()["run"] is True
        inference.self_test(self.link)
        there = b"".join(y.tobytes() for y in inference.run(self.link, plan.run.inputs))
        assert there == plan.run.as_bytes()[1], "the inference differs from the oracle's"
        return plan, image


@dataclass(frozen=True)
class Cut:
    """phase  "upload", "finish", "test", "reset", "confirm"
    share  of the request that is sent, or of the upload's bytes; 2: its reply has come, too
    delay  s, from then to the cut
    """

    phase: str
    share: float
    delay: float = 0.0


def cuts() -> Iterator[Cut]:
    """In the phases after the upload."""
    for phase in ("finish", "test", "reset", "confirm"):
        yield Cut(phase, 0.5)
        for delay in DELAYS_S:
            yield Cut(phase, 1.0, delay)
        yield Cut(phase, 2.0)


ALLOWED = {
    "upload": ("old",), "finish": ("old",), "test": ("old", "new"), "test answered": ("new",),
    "reset": ("old", "new"), "confirm": ("old", "new"), "confirm answered": ("new",)}
"""What may run after the first start."""


def update(bench: Bench, cut: Cut, old: Known, new: Known) -> None:
    """An update up to the cut; always raises PowerCut."""
    port = bench.port()
    data = new.plan.data
    if cut.phase == "upload":
        port.cut_after(round(cut.share), cut.delay)

    def arm(phase: str) -> None:
        if cut.phase == phase and cut.share <= 1:
            port.cut_in_next(cut.share, cut.delay)

    def answered(phase: str) -> None:
        if cut.phase == phase:
            bench.device.kill()
            raise PowerCut

    images.upload(bench.link, data, lambda sent: _before_last(bench.link, sent, data, arm))
    answered("finish")
    arm("test")
    images.try_out(bench.link, new.digest)
    answered("test")
    arm("reset")
    bench.link.request(RESET, {}, tries=1)
    answered("reset")
    images.images(bench.link)
    arm("confirm")
    images.confirm(bench.link, new.digest)
    answered("confirm")
    raise AssertionError(f"{cut} did not cut")


def _before_last(link: Link, sent: int, data: bytes, arm: Callable[[str], None]) -> None:
    if sent < len(data) <= sent + link.chunk - images.OVERHEAD:
        arm("finish")


def check(bench: Bench, cut: Cut) -> str:
    """Cut, start twice; which plan ran first, "old" or "new". AssertionError for what must not be.

    A plan that was confirmed is the old one of the next cut.
    """
    old, _ = bench.running()
    [new] = [plan for plan in bench.plans if plan is not old]
    with suppress(PowerCut):
        update(bench, cut, old, new)
    bench.restart()
    first, image = bench.running()
    which = "old" if first is old else "new"
    answered = f"{cut.phase} answered"
    allowed = ALLOWED[answered if cut.share > 1 and answered in ALLOWED else cut.phase]
    assert which in allowed, f"{which} runs, {' or '.join(allowed)} is allowed"
    if cut.phase != "upload":
        bench.restart()
        then, settled = bench.running()
        assert then is (first if image.confirmed else old), "the next start runs another plan"
        assert settled.confirmed, "what runs after a trial is not confirmed"
    return which


def wrong_golden(plan: Plan) -> bytes:
    """The plan with a golden output changed, its checks made again."""
    golden = plan.model.golden
    assert golden is not None
    outputs = golden.outputs.copy()
    outputs[0] ^= 1
    return write_plan(replace(plan.model, golden=replace(golden, outputs=outputs)))


def self_test_fails(link: Link) -> bool:
    try:
        inference.self_test(link)
    except LinkRefused as refused:
        return refused.code == SELF_TEST_FAILED
    return False


def check_self_test(bench: Bench) -> str:
    """A trial that fails its self test is not confirmed: the next start runs the old plan."""
    old, _ = bench.running()
    [new] = [plan for plan in bench.plans if plan is not old]
    digest = images.upload(bench.link, wrong_golden(new.plan))
    images.try_out(bench.link, digest)
    bench.link.reset()
    assert [image.hash for image in images.images(bench.link) if image.active] == [digest]
    assert self_test_fails(bench.link), "a self test passed that must not"
    bench.link.reset()
    plan, image = bench.running()
    assert plan is old
    assert image.confirmed
    return "old"


def points(args: argparse.Namespace, size: int) -> Iterator[Cut]:
    rng = np.random.default_rng(1)
    for at in range(0, size, args.every):
        yield Cut("upload", at, float(rng.choice(DELAYS_S[:3])))
    yield from list(cuts())[::args.skip]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--cpu", default="cortex-m4")
    parser.add_argument("--every", type=int, default=1024, help="bytes sent of the upload")
    parser.add_argument("--skip", type=int, default=1, help="take each n-th of the other cuts")
    args = parser.parse_args()
    old, new = known(args.data_root, OLD), known(args.data_root, NEW)
    found: dict[str, list[str]] = {}
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.cpu, Path(folder), old, new)
        try:
            for cut in points(args, len(new.plan.data)):
                which = check(bench, cut)
                found.setdefault(cut.phase, []).append(which)
                print(f"{cut}: {which}", file=sys.stderr, flush=True)
            found["self test fails"] = [check_self_test(bench)]
        except AssertionError as error:
            faults.append(str(error))
        finally:
            bench.off()
    print(markdown(("cut in", "cuts", "then the old plan ran", "the new one"), [
        (phase, len(ran), ran.count("old"), ran.count("new")) for phase, ran in found.items()]))
    print(f"\n{args.cpu}, plans of {len(old.plan.data):,} and {len(new.plan.data):,} bytes: "
          f"{sum(map(len, found.values()))} cuts, {len(faults)} failures")
    print("\n".join(faults), file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
