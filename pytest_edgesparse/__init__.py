"""The pytest plugin of edgesparse: options, and the fixture `edgesparse_device`.

    def test_the_net_is_fast_enough(edgesparse_device):
        edgesparse_device.assert_latency(es.load("net.esp"), "20ms@64MHz")

A package of its own, because pytest imports it at every start, and nothing large with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from edgesparse.testing import DeviceUnderTest

__all__ = ["edgesparse_device", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("edgesparse", "plans on devices (edgesparse)")
    group.addoption(
        "--edgesparse-port", metavar="PORT",
        help="serial port of a device that tests run on; without, a board is emulated")
    group.addoption(
        "--edgesparse-baud", type=int, default=115200, metavar="BAUD",
        help="of that port (default 115200)")
    group.addoption(
        "--edgesparse-cpu", default="cortex-m4", metavar="CPU",
        help="core of the emulated board (default cortex-m4)")
    group.addoption(
        "--edgesparse-clock", default="64MHz", metavar="CLOCK",
        help="of an emulated core, for budgets in time that name none (default 64MHz)")


@pytest.fixture(scope="session")
def edgesparse_device(pytestconfig: pytest.Config) -> Iterator[DeviceUnderTest]:
    """The device that --edgesparse-port names, else an emulated board; an error, never a skip,
    where there is none."""
    from edgesparse.errors import EdgeSparseError
    from edgesparse.testing import open_device

    port, baud, cpu, clock = (
        pytestconfig.getoption(f"--edgesparse-{name}") for name in ("port", "baud", "cpu", "clock"))
    missing = ""
    try:
        device = open_device(port, baud, cpu, clock)
    except EdgeSparseError as error:
        missing = str(error)
    if missing:
        pytest.fail(f"edgesparse_device: {missing}", pytrace=False)
    with device:
        yield device
