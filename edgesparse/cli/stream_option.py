"""The value of --stream: auto, or fields of StreamOptions: hop=N,mode=..,beats=yes, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from edgesparse.cli.console import note
from edgesparse.errors import BadInput
from edgesparse.plan.stream_model import Stream, StreamMode
from edgesparse.streaming.plan import StreamOptions
from edgesparse.wording import counted

AUTO = "auto"
"""All of it from the model."""
YES_OR_NO = ("beats", "compact", "phases")
FLAGS = {"yes": True, "no": False}


def stream_options(text: str | None) -> StreamOptions | None:
    """Raises BadInput for a name, a number or a flag that is none."""
    if text is None:
        return None
    if text == AUTO:
        return StreamOptions()
    names = [f.name for f in fields(StreamOptions)]
    values: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name in values:
            raise BadInput(f"--stream {text}: {name} is given twice; give it once")
        if name not in names or not equals:
            raise BadInput(
                f"--stream {text}: {part.strip()!r} is not understood; {AUTO}, or name=value with "
                f"each of {', '.join(names)} at most once is allowed")
        values[name] = _value(text, name, value)
    return StreamOptions(**values)


def _value(text: str, name: str, value: str) -> Any:
    if name in ("mode", "frontend"):
        return value
    try:
        if name in YES_OR_NO:
            return FLAGS[value]
        return int(value) if name == "hop" else float(value)
    except (ValueError, KeyError):
        allowed = "a number"
        if name in YES_OR_NO:
            allowed = "yes or no"
        elif name == "hop":
            allowed = "a whole number"
        raise BadInput(f"--stream {text}: {name}={value}; {allowed} is allowed") from None


def stream_json(table: Stream | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {
        "mode": table.mode.name.lower(), "rate_hz": table.rate_mhz / 1000, "hop": table.hop,
        "samples_per_run": _samples_per_run(table), "window": table.window or None,
        "delay_samples": table.delay, "front_end": table.front_end is not None,
        "beats": table.beats is not None, "quality": table.quality is not None,
    }


def show_stream(table: Stream | None, notes: Sequence[str] = ()) -> None:
    """How a plan streams, what was chosen, what stopped reuse; or what it keeps from run to run."""
    if table is not None:
        _show_table(table)
    for line in notes:
        note(f"  {line}")


def _show_table(table: Stream) -> None:
    late = f" from its column {table.exact} on" if table.exact else ""
    exact = f"equal to every window of {counted(table.window, 'column')} computed anew"
    if table.mode is StreamMode.CONTINUOUS:
        exact = f"equal to a run over the whole record{late}"
    rate = f" at {table.rate_mhz / 1000:g} Hz" if table.rate_mhz else ""
    wait = "a beat's report" if table.beats is not None else "its run"
    delay = f"at most {counted(table.delay, 'sample')} to {wait}"
    if not table.delay:
        delay = "each sample is in a run at once"
    note(f"stream {table.mode.name.lower()}, {exact}; a run takes "
         f"{counted(table.hop, 'column')}, {counted(_samples_per_run(table), 'sample')}{rate}; "
         f"{delay}")


def _samples_per_run(table: Stream) -> int:
    return table.hop * (table.front_end.decimation if table.front_end is not None else 1)
