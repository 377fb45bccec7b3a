"""A bad line: the content is exact, or there is a clear error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import LinkTimeout
from edgesparse.link import Framing, Link, images
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Run
from link_device import NO_WAIT, Faults, LockstepPort
from link_faults import Outcome, Scene, one_run
from stream_plans import comparable, full_stream_plan, random_signal


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return stream_scene(tmp_path_factory.mktemp("plan"))


def stream_scene(folder: Path) -> Scene:
    rng = np.random.default_rng(4)
    plan = Plan.from_bytes(write_plan(full_stream_plan()))
    path = folder / "stream.esp"
    plan.save(path)
    signal = random_signal(rng, 3000)
    here = Stream(plan)
    events = [e for e in (*here.push(signal), *here.flush()) if not isinstance(e, Run)]
    inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in plan.inputs]
    session = Session(plan).native
    for given, x in zip(session.inputs, inputs):
        given[:] = x.reshape(-1)
    session.run()
    return Scene(path, signal, comparable(events), inputs, [y.tobytes() for y in session.outputs])


def test_a_bad_line_corrupts_nothing(scene: Scene, pytestconfig: pytest.Config) -> None:
    """one_run() asserts what came out. More of them: pytest --link-runs 10000."""
    runs = pytestconfig.getoption("--link-runs")
    first = pytestconfig.getoption("--link-seed")
    outcomes = [one_run(seed, scene, comparable) for seed in range(first, first + runs)]
    mild = [outcome for outcome in outcomes if not outcome.harsh]
    assert [outcome for outcome in mild if outcome.error] == []
    assert len(failed(outcomes)) <= runs // 50, failed(outcomes)
    assert sum(outcome.repeats for outcome in outcomes) > runs / 4
    assert Counter(outcome.what for outcome in outcomes).keys() == {"upload", "stream", "infer"}


def failed(outcomes: list[Outcome]) -> list[str]:
    return [outcome.error for outcome in outcomes if outcome.error]


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("kind", ["flip", "drop"])
def test_each_byte_of_an_exchange_may_break(framing: Framing, way: str, kind: str) -> None:
    """The n-th byte, for every n of a frame and the one after it."""
    port = OneFault(kind)
    link = Link(port, framing, NO_WAIT, sequence=3)
    for at in range(160):
        port.left[way] = at
        assert images.images(link) == ()
        assert link.echo("x" * 40) == "x" * 40
    assert link.counters.repeats > 70
    link.close()


class OneFault(LockstepPort):
    """One byte of the line is changed or lost."""

    def __init__(self, kind: str) -> None:
        super().__init__(256)
        self.left = {"there": -1, "back": -1}
        self.kind = kind

    def write(self, data: bytes) -> int:
        self.held += self.through("back", self.exchange(self.through("there", data)))
        return len(data)

    def through(self, way: str, data: bytes) -> bytes:
        at, self.left[way] = self.left[way], self.left[way] - len(data)
        if not 0 <= at < len(data):
            return data
        bad = bytes((data[at] ^ 0x10,)) if self.kind == "flip" else b""
        return data[:at] + bad + data[at + 1:]


def test_unplugged_in_mid_upload_and_plugged_in_again() -> None:
    plan = np.random.default_rng(6).integers(0, 256, 20_000, dtype=np.uint8).tobytes()
    port = LockstepPort(512)
    link = Link(port, Framing.COBS, NO_WAIT)

    def unplug(sent: int) -> None:
        if sent > 9_000:
            port.there = Faults(drop=1.0)

    with pytest.raises(LinkTimeout, match="take the plan"):
        images.upload(link, plan, unplug)
    port.there = Faults()
    offsets: list[int] = []
    digest = images.upload(Link(port, Framing.COBS, NO_WAIT), plan, offsets.append)
    assert offsets[0] > 9_000
    assert [image.hash for image in images.images(link)] == [digest]
    link.close()


def test_chunks_get_smaller_on_a_bad_line_and_grow_again() -> None:
    plan = bytes(100_000)
    port = LockstepPort(1024, there=Faults(flip=2e-3), seed=2)
    link = Link(port, Framing.COBS, NO_WAIT)
    chunks: set[int] = set()
    images.upload(link, plan, lambda sent: chunks.add(link.chunk))
    assert min(chunks) < 512
    port.there = Faults()
    for _ in range(200):
        link.echo("x")
    assert link.chunk == 1024
    link.close()
