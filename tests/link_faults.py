"""One randomized use of the link over a line that changes, loses, repeats and holds back bytes.

A run ends with the right content or with a clear error; whatever else it ends with is a fault of
ours, and raises AssertionError.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from edgesparse.errors import LinkError
from edgesparse.graph.ir import Array
from edgesparse.link import Framing, Link, images, inference
from edgesparse.link.stream import DeviceStream
from link_device import NO_WAIT, Faults, LockstepPort

RATES = (0.0, 1e-4, 1e-3)


class Line(Protocol):
    """What is wrong with the line, each way."""

    there: Faults
    back: Faults


def any_bytes(rng: np.random.Generator) -> bytes:
    return rng.integers(0, 256, int(rng.integers(1, 12_000)), dtype=np.uint8).tobytes()


@dataclass(frozen=True)
class Scene:
    """A plan file and what comes of it here: events of `signal`, outputs for `inputs`.

    payload  something to upload, that the device takes for a plan
    """

    plan: Path
    signal: Array
    events: list[object]
    inputs: list[Array]
    outputs: list[bytes]
    payload: Callable[[np.random.Generator], bytes] = any_bytes


Connect = Callable[[int, Framing, int, Scene], AbstractContextManager[tuple[Link, Line]]]
"""Takes a seed and a buffer size, which a device may have of its own. The line is good."""


@contextmanager
def in_lockstep(
    seed: int, framing: Framing, buffer: int, scene: Scene
) -> Iterator[tuple[Link, LockstepPort]]:
    port = LockstepPort(buffer, scene.plan, seed=seed, store=seed % 2 == 1)
    link = Link(port, framing, NO_WAIT, sequence=seed % 255)
    yield link, port
    link.close()


@dataclass(frozen=True)
class Outcome:
    """repeats: requests sent again; error: its text, or "" when the run succeeded."""

    what: str
    harsh: bool
    repeats: int
    error: str


def random_faults(rng: np.random.Generator) -> Faults:
    flip, drop = rng.choice(RATES, 2)
    late, twice = rng.choice((0.0, 0.0, 0.02), 2)
    return Faults(float(flip), float(drop), float(late), float(twice))


def one_run(
    seed: int, scene: Scene, comparable: Callable[[list[object]], list[object]],
    connect: Connect = in_lockstep,
) -> Outcome:
    """Upload and switch over, stream, or infer, by chance; compare with what is right."""
    rng = np.random.default_rng(seed)
    framing = Framing.COBS if rng.random() < 0.5 else Framing.CONSOLE
    buffer = int(rng.choice((256, 512, 1024)))
    there, back = random_faults(rng), random_faults(rng)
    uses = {"upload": upload, "stream": stream, "infer": infer}
    error = ""
    with connect(seed, framing, buffer, scene) as (link, line):
        line.there, line.back = there, back
        what = ("upload", "stream", "infer")[int(rng.integers(3))]
        try:
            uses[what](link, line, scene, rng, comparable)
        except LinkError as caught:
            error = f"{type(caught).__name__}: {caught}"
    harsh = max(there.flip, there.drop, back.flip, back.drop) > 1e-4
    return Outcome(what, harsh, link.counters.repeats, error)


def upload(
    link: Link, line: Line, scene: Scene, rng: np.random.Generator, comparable: object
) -> None:
    plan = scene.payload(rng)
    digest = images.upload(link, plan)
    images.try_out(link, digest)
    link.reset()
    images.confirm(link, digest)
    line.there = line.back = Faults()
    listed = {image.hash: image for image in images.images(link)}
    assert listed[digest].confirmed
    assert listed[digest].active
    assert digest == hashlib.sha256(plan).digest()


def stream(
    link: Link, line: Line, scene: Scene, rng: np.random.Generator,
    comparable: Callable[[list[object]], list[object]],
) -> None:
    device = DeviceStream(link)
    events: list[object] = []
    at = 0
    while at < len(scene.signal):
        count = int(rng.integers(1, 600))
        events += device.push(scene.signal[at:at + count])
        at += count
    events += device.finish()
    assert comparable(events) == scene.events


def infer(
    link: Link, line: Line, scene: Scene, rng: np.random.Generator, comparable: object
) -> None:
    for _ in range(4):
        inference.reset_state(link)
        outputs = inference.run(link, scene.inputs)
        assert [y.tobytes() for y in outputs] == scene.outputs
