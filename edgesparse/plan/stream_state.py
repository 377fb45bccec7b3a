"""How many bytes of the arena a stream keeps: PLAN_FORMAT.md section "Streams"."""

from __future__ import annotations

from edgesparse.plan.stream_model import Stream
from edgesparse.plan.wire import round_up

ALIGN = 8
HEADER, FRONT_END, BEATS, QUALITY = 40, 12, 34, 48
"""The fixed bytes of each part."""


def stream_state_bytes(stream: Stream, channels: int, classes: int) -> int:
    """channels of a pushed sample; classes the beat decoder tells apart."""
    parts = [HEADER + 2 * channels]
    if stream.front_end is not None:
        parts.append(FRONT_END + 2 * len(stream.front_end.taps))
    if stream.beats is not None:
        parts.append(BEATS + 2 * 5 * classes)
    if stream.quality is not None:
        parts.append(QUALITY + stream.quality.missing_window // 8)
    return sum(round_up(part, ALIGN) for part in parts)
