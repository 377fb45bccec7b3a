"""WFDB records: decoded by the wfdb package, checked here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.signals.signal import MISSING, Adc, Signal, as_int16
from edgesparse.signals.wfdb_header import MV_PER_UNIT, Channel, Header, read_header

LEAD = "MLII"
"""The lead that is taken without being asked for: nearly all of MIT-BIH has it."""
WFDB_FAILS = (OSError, ValueError, IndexError, KeyError, TypeError, OverflowError)
"""What the wfdb package raises for files it cannot read."""

_LAYOUT: dict[str, tuple[int, int, dict[int, int]]] = {
    "8": (1, 1, {}), "80": (1, 1, {}), "16": (1, 2, {}), "160": (1, 2, {}),
    "24": (1, 3, {}), "32": (1, 4, {}), "212": (2, 3, {1: 2}), "310": (3, 4, {1: 2, 2: 4}),
    "311": (3, 4, {1: 2, 2: 3}),
}
"""Format -> samples of a block, its bytes, and bytes that fewer samples at the end need.

Not 61 (wfdb 4.3 cannot convert its big-endian samples) nor the compressed 508, 516, 524.
"""
_INVALID = {
    "80": -(2**7), "310": -(2**9), "311": -(2**9), "212": -(2**11), "16": MISSING, "160": MISSING,
    "24": -(2**23), "32": -(2**31),
}
"""Value that means "not measured"; format 8, which stores differences, has none."""


def need_wfdb(what: str) -> None:
    """Raises BadInput without the wfdb package."""
    if find_spec("wfdb") is None:
        raise BadInput(f"{what}: the package wfdb reads and writes such files: "
                       "pip install 'edgesparse[ecg]'")


def read_record(
    path: Path, lead: str | int | None = None, *, ignore_checksum: bool = False,
    gain: float | None = None,
) -> Signal:
    """Read one channel of a WFDB record, each of its samples at the channel's own rate.

    path             DIR/RECORD, with or without .hea
    lead             name or number of the channel; None takes MLII, or the only channel
    ignore_checksum  take a channel whose checksum in the header is wrong
    gain             ADC units per mV, where the header gives none (gain 0, or no voltage)
    returns          int16 in ADC units; the format's own mark of an invalid sample is MISSING

    A header without a length means all that the file holds; in format 212, whose file is a whole
    number of pairs, the last sample may then be filling.

    Raises BadInput that names record and field for everything that is not as the header says,
    and for what would have to be guessed.
    """
    header = read_header(path)
    number = _choose(header, lead)
    channel = header.channels[number]
    length = _checked_length(header, number)
    need_wfdb(f"record {header.record}")
    samples = _decode(header, number)
    if len(samples) != length * channel.per_frame:
        raise BadInput(f"record {header.record}: {len(samples)} samples came out of {channel.file} "
                       f"where {length * channel.per_frame} were expected")
    total = int(samples.sum(dtype=np.int64)) & 0xFFFF
    if channel.checksum is not None and total != channel.checksum and not ignore_checksum:
        raise BadInput(
            f"record {header.record}: checksum of signal {number} ({channel.name}) is {total}, the "
            f"header says {channel.checksum}: samples or header are damaged; ask to ignore the "
            "checksum to use them all the same")
    if (invalid := _INVALID.get(channel.format)) is not None:
        samples = np.where(samples == invalid, MISSING, samples)
    return Signal(
        as_int16(samples, f"record {header.record}"), header.rate_hz * channel.per_frame,
        Adc(_gain(header, channel, gain), channel.baseline), header.record, channel.name)


def _choose(header: Header, lead: str | int | None) -> int:
    """Number of the channel to read."""
    leads = header.leads
    there = ", ".join(f"{number} {name or '(no name)'}" for number, name in enumerate(leads))
    if isinstance(lead, int):
        if not 0 <= lead < len(leads):
            raise BadInput(f"record {header.record}: no signal {lead}; there are {there}")
        return lead
    if lead is None and len(leads) == 1:
        return 0
    found = [number for number, name in enumerate(leads) if name == (lead or LEAD)]
    if len(found) == 1:
        return found[0]
    problem = f"has no lead {lead or LEAD}" if not found else f"has {len(found)} leads {lead}"
    raise BadInput(f"record {header.record}: {problem}; ask for one of {there or 'no signals'}"
                   + (" by number" if found else ""))


def _gain(header: Header, channel: Channel, given: float | None) -> float:
    where = f"record {header.record}: signal {channel.name or channel.file}"
    known = channel.gain != 0 and channel.units in MV_PER_UNIT
    if given is not None:
        if known and given != channel.gain:
            raise BadInput(f"{where}: gain {channel.gain:g} in the header, {given:g} was given; "
                           "a gain is taken only where the header has none")
        return given
    if channel.gain == 0:
        raise BadInput(f"{where}: gain 0 means that it was not calibrated; give a gain in ADC "
                       "units per mV (200 is customary)")
    if not known:
        raise BadInput(f"{where}: units '{channel.units}' are no voltage; allowed are "
                       f"{', '.join(filter(None, MV_PER_UNIT))}; or give a gain per mV")
    return channel.gain


def _checked_length(header: Header, number: int) -> int:
    """Frames of the record, once the file has as many bytes as that takes."""
    channel = header.channels[number]
    where = f"record {header.record}: signal file {channel.file}"
    if channel.format not in _LAYOUT:
        raise BadInput(f"{where}: format '{channel.format}'; allowed are {', '.join(_LAYOUT)}: "
                       "convert it with xform of the WFDB software")
    together = [other for other in header.channels if other.file == channel.file]
    if any((o.format, o.byte_offset) != (channel.format, channel.byte_offset) for o in together):
        raise BadInput(f"{where}: its signals differ in format or byte offset; one of each is "
                       "allowed in a file")
    if channel.skew:
        raise BadInput(f"{where}: skew {channel.skew}; only channels without skew are read")
    file = header.path.with_name(channel.file)
    try:
        held = file.stat().st_size - channel.byte_offset
    except OSError as error:
        raise BadInput(f"{where}: {error.strerror or error}") from error
    per_frame = sum(other.per_frame for other in together)
    samples, size, _ = _LAYOUT[channel.format]
    if header.length is None:
        length = held * samples // size // per_frame
        if length < 1:
            raise BadInput(f"{where}: not one whole frame in its {held} bytes")
        return length
    needed = _bytes(channel.format, header.length * per_frame)
    whole = -(-header.length * per_frame // samples) * size
    if held not in (needed, whole):
        raise BadInput(
            f"{where}: number of samples {header.length} needs {needed} bytes, the file holds "
            f"{held}: header or file is cut; correct the number or leave it out to take all")
    return header.length


def _bytes(fmt: str, samples: int) -> int:
    """Bytes that hold a number of samples."""
    block, size, partial = _LAYOUT[fmt]
    rest = samples % block
    return samples // block * size + (partial[rest] if rest else 0)


def _decode(header: Header, number: int) -> Array:
    """[n] int32, ADC units of one channel. Frames are kept apart: no averaging."""
    import wfdb

    try:
        record = wfdb.rdrecord(
            str(header.path.with_suffix("")), channels=[number], physical=False,
            smooth_frames=False, return_res=32)
    except WFDB_FAILS as error:
        raise BadInput(f"record {header.record}: wfdb: {error}") from error
    samples: Array = np.asarray(record.e_d_signal[0], np.int32)
    return samples
