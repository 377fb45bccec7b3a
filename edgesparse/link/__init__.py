"""The link to a device over a serial line: SMP v2 (docs/LINK.md)."""

from __future__ import annotations

from edgesparse.link.client import Link, open_link
from edgesparse.link.framing import Framing

__all__ = ["Framing", "Link", "open_link"]
