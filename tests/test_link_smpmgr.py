"""The unmodified smpmgr, a program, drives the device with the real plan store: extra `smpmgr`.

Each command is a process and a connection of its own, and begins with the same sequence.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgesparse.link import images, open_link
from link_device import on_a_pty
from needs import require

require("smpmgr")

PLAN = np.random.default_rng(3).integers(0, 256, 9_000, dtype=np.uint8).tobytes()
OTHER = PLAN[::-1]


def smpmgr(port: str, *words: str | Path) -> str:
    """What it prints; fails where it does."""
    done = subprocess.run(
        [sys.executable, "-m", "smpmgr", "--port", port, *words], capture_output=True, text=True,
        timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states(port: str) -> dict[str, set[str]]:
    """Hash -> which of pending, confirmed and active it is."""
    slots = smpmgr(port, "image", "state-read").split("ImageState(")[1:]
    return {
        re.findall(r"'([0-9A-F]{64})'", slot)[0].lower():
            set(re.findall(r"(pending|confirmed|active)=True", slot))
        for slot in slots}


def upload(port: str, plan: bytes, folder: Path) -> str:
    path = folder / "plan.esp"
    path.write_bytes(plan)
    smpmgr(port, "image", "upload", "--format", "any", path)
    return hashlib.sha256(plan).hexdigest()


def test_upload_test_reset_confirm_and_revert(tmp_path: Path) -> None:
    with on_a_pty(store=True) as port:
        first = upload(port, PLAN, tmp_path)
        assert states(port) == {first: set()}
        for _ in range(2):  # the same bytes twice: done, not taken for a late copy
            smpmgr(port, "image", "state-write", first)
        assert states(port) == {first: {"pending"}}
        smpmgr(port, "os", "reset")
        assert states(port) == {first: {"active"}}
        smpmgr(port, "image", "state-write", "--confirm")
        assert states(port) == {first: {"active", "confirmed"}}

        second = upload(port, OTHER, tmp_path)
        smpmgr(port, "image", "state-write", second)
        smpmgr(port, "os", "reset")
        assert states(port) == {first: {"confirmed"}, second: {"active"}}
        smpmgr(port, "os", "reset")  # never confirmed
        assert states(port) == {first: {"active", "confirmed"}, second: set()}
        smpmgr(port, "image", "erase", "1")
        assert states(port) == {first: {"active", "confirmed"}}


def test_it_goes_on_with_an_upload_that_our_client_began(tmp_path: Path) -> None:
    seen: list[int] = []

    def unplug(sent: int) -> None:
        seen.append(sent)
        if sent > 4_000:
            raise KeyboardInterrupt

    with on_a_pty(store=True) as port:
        with pytest.raises(KeyboardInterrupt), open_link(port) as link:
            images.upload(link, PLAN, unplug)
        digest = upload(port, PLAN, tmp_path)
        with open_link(port) as link:
            [image] = images.images(link)
            assert image.hash.hex() == digest
            before = link.stats()
        assert before["rx"] < 1.6 * len(PLAN), "it sent everything again"


def test_what_the_device_refuses_it_names(tmp_path: Path) -> None:
    with on_a_pty(store=True) as port:
        upload(port, PLAN, tmp_path)
        assert "HASH_NOT_FOUND" in smpmgr(port, "image", "state-write", "00" * 32)
