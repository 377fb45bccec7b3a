"""The unmodified smpclient drives the device: extra `interop`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgesparse.device import Device, DeviceOptions
from edgesparse.plan.write import write_plan
from link_device import on_a_pty
from needs import require
from stream_plans import full_stream_plan

require("interop")
smpclient = pytest.importorskip("smpclient")

PLAN = np.random.default_rng(2).integers(0, 256, 30_000, dtype=np.uint8).tobytes()
SHA = hashlib.sha256(PLAN).digest()


def console() -> Any:
    from smpclient.transport.serial import SMPSerialTransport

    return SMPSerialTransport()


def cobs() -> Any:
    from smpclient.transport.serial import SMPSerialRawTransport
    from smpclient.transport.serial.framing.cobs import Cobs

    return SMPSerialRawTransport(mtu=1024, framing=Cobs())


transports = pytest.mark.parametrize("transport", [console, cobs])
stores = pytest.mark.parametrize("store", [False, True], ids=["ram", "store"])


@transports
@stores
def test_an_update_from_upload_to_confirm(
    transport: Callable[[], Any], store: bool
) -> None:
    from smpclient.requests.image_management import ImageErase, ImageStatesRead, ImageStatesWrite
    from smpclient.requests.os_management import EchoWrite, ResetWrite

    async def update(name: str) -> None:
        async with smpclient.SMPClient(transport(), name) as client:
            assert (await client.request(EchoWrite(d="Hello"))).r == "Hello"
            async for sent in client.upload(PLAN):  # a host that stops half way
                if sent > 10_000:
                    break
            offsets = [sent async for sent in client.upload(PLAN)]
            assert offsets[0] >= 10_000
            assert offsets[-1] == len(PLAN)
            [image] = (await client.request(ImageStatesWrite(hash=SHA, confirm=False))).images
            assert image.hash == SHA
            assert image.pending
            await client.request(ResetWrite())
            [image] = (await client.request(ImageStatesRead())).images
            assert image.active
            assert not image.confirmed
            refused = await client.request(ImageErase())
            assert refused.err.rc == 28
            [image] = (await client.request(ImageStatesWrite(confirm=True))).images
            assert image.confirmed
            async for _ in client.upload(PLAN[::-1]):
                pass
            states = (await client.request(ImageStatesRead())).images
            assert [(image.confirmed, image.active) for image in states] == [
                (True, True), (False, False)]

    with on_a_pty(store=store) as name:
        asyncio.run(update(name))


@transports
@stores
def test_a_trial_without_confirm_is_over_after_a_reset(
    transport: Callable[[], Any], store: bool
) -> None:
    from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite
    from smpclient.requests.os_management import ResetWrite

    async def revert(name: str) -> None:
        async with smpclient.SMPClient(transport(), name) as client:
            async for _ in client.upload(PLAN):
                pass
            await client.request(ImageStatesWrite(hash=SHA, confirm=False))
            await client.request(ResetWrite())
            await client.request(ResetWrite())
            [image] = (await client.request(ImageStatesRead())).images
            assert not image.active

    with on_a_pty(store=store) as name:
        asyncio.run(revert(name))


@transports
def test_the_real_store_reverts_to_the_confirmed_plan(transport: Callable[[], Any]) -> None:
    """Upload, resume, test, reset, confirm; then another plan that nobody confirms."""
    from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite
    from smpclient.requests.os_management import ResetWrite

    other = PLAN[::-1]

    async def revert(name: str) -> None:
        async with smpclient.SMPClient(transport(), name) as client:
            async def states() -> list[tuple[bytes, bool, bool, bool]]:
                images = (await client.request(ImageStatesRead())).images
                return [(i.hash, i.pending, i.confirmed, i.active) for i in images]

            async def try_out(plan: bytes) -> None:
                async for sent in client.upload(plan):
                    if sent > 9_000:
                        break
                offsets = [sent async for sent in client.upload(plan)]
                assert offsets[0] >= 9_000
                sha = hashlib.sha256(plan).digest()
                await client.request(ImageStatesWrite(hash=sha, confirm=False))
                assert (sha, True, False, False) in await states()
                await client.request(ResetWrite())

            await try_out(PLAN)
            await client.request(ImageStatesWrite(confirm=True))
            assert await states() == [(SHA, False, True, True)]
            await try_out(other)
            theirs = hashlib.sha256(other).digest()
            assert await states() == [(SHA, False, True, False), (theirs, False, False, True)]
            await client.request(ResetWrite())
            assert await states() == [(SHA, False, True, True), (theirs, False, False, False)]

    with on_a_pty(store=True) as name:
        asyncio.run(revert(name))


@transports
def test_it_drives_the_firmware_on_an_emulated_board(transport: Callable[[], Any]) -> None:
    require("arm")
    require("qemu")
    from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite
    from smpclient.requests.os_management import ResetWrite

    plan = write_plan(full_stream_plan())
    digest = hashlib.sha256(plan).digest()

    async def update(name: str) -> None:
        async with smpclient.SMPClient(transport(), name) as client:
            async for _ in client.upload(plan):
                pass
            await client.request(ImageStatesWrite(hash=digest, confirm=False))
            await client.request(ResetWrite())
            await asyncio.sleep(0.5)  # it does not ask again what a starting board has not heard
            [image] = (await client.request(ImageStatesRead())).images
            assert (image.hash, image.active, image.confirmed) == (digest, True, False)
            [image] = (await client.request(ImageStatesWrite(confirm=True))).images
            assert image.confirmed

    with Device.start("cortex-m4", options=DeviceOptions(pty=True)) as device:
        asyncio.run(update(device.port))
