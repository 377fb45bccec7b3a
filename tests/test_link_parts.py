"""What a firmware leaves out of the link is not there, and the rest is: docs/LINK.md section 7."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from edgesparse.errors import LinkRefused
from edgesparse.link import Framing, images, inference, smp
from edgesparse.link.client import Link
from edgesparse.link.framing import Decoder, encode
from edgesparse.link.stream import DeviceStream
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from link_device import NO_WAIT, LockstepPort
from stream_plans import full_stream_plan

WITHOUT_STREAMS = ("-DES_LINK_STREAMS=OFF",)
WITHOUT_CONSOLE = ("-DES_LINK_CONSOLE=OFF",)
FILE = np.random.default_rng(4).integers(0, 256, 3_000, dtype=np.uint8).tobytes()
PARAMETERS = smp.Command(smp.Group.OS, 6, smp.Op.READ, "name its buffers")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "stream.esp"
    Plan.from_bytes(write_plan(full_stream_plan())).save(path)
    return path


def test_without_streams_the_rest_works(plan: Path) -> None:
    port = LockstepPort(1024, plan, options=WITHOUT_STREAMS)
    with Link(port, Framing.CONSOLE, NO_WAIT) as link:
        assert images.upload(link, FILE) == hashlib.sha256(FILE).digest()
        assert link.info()["run"] is True
        assert inference.latency(link).count == 0
        with pytest.raises(LinkRefused, match="not supported"):
            DeviceStream(link)


def test_without_console_its_lines_are_noise(plan: Path) -> None:
    port = LockstepPort(1024, plan, options=WITHOUT_CONSOLE)
    message = smp.encode(PARAMETERS, 1, {})
    assert port.exchange(encode(Framing.CONSOLE, message)) == b""
    for noise in (b"", encode(Framing.CONSOLE, message), b"\x06\x09", b"\x04\x14AAAA\n"):
        assert port.exchange(noise) == b""
        replies = port.exchange(encode(Framing.COBS, message) * 2)
        assert 1 <= len(Decoder(Framing.COBS).feed(replies)) <= 2, noise
    with Link(port, Framing.COBS, NO_WAIT) as link:
        assert images.upload(link, FILE) == hashlib.sha256(FILE).digest()
        stream = DeviceStream(link)
        stream.push(np.zeros(100, np.int16))
        stream.close()
