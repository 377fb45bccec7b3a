"""The text of a WFDB header (.hea), read strictly.

The wfdb package matches headers with patterns that stop where they no longer fit: a date before
the time, a missing rate or a gain of 0 become a different, plausible record. Here each field
either follows the format or is refused by name. What passes, wfdb reads the same way (tested).

Source: WFDB header format, header(5) of the WFDB Applications Guide.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from pathlib import Path

from edgesparse.errors import BadInput

MV_PER_UNIT = {"": 1.0, "mV": 1.0, "V": 1000.0, "uV": 0.001}
"""Units of the gain that mean a voltage; none means mV by the format."""
SUFFIXES = (".hea", ".dat", ".atr")


@dataclass(frozen=True)
class Channel:
    """One signal line.

    file            of the samples, beside the header
    format          WFDB signal format, such as "212"
    per_frame       samples in each frame: this channel's rate is frame rate * per_frame
    skew            frames by which the channel stands too late in the file
    byte_offset     where samples start in the file
    gain            ADC units per mV; 0 where the header says 0 or nothing (uncalibrated)
    baseline        ADC value at 0 mV
    checksum        16-bit sum of all samples; None where the header leaves it out or writes 0,
                    as converters do that have none to write
    name            description, often the lead; may be empty
    """

    file: str
    format: str
    per_frame: int
    skew: int
    byte_offset: int
    gain: float
    units: str
    baseline: int
    checksum: int | None
    name: str


@dataclass(frozen=True)
class Header:
    """A single-segment record.

    rate_hz  frames per second
    length   frames, None where the header leaves it out
    """

    record: str
    path: Path
    rate_hz: float
    length: int | None
    channels: tuple[Channel, ...]

    @property
    def leads(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.channels)


def header_path(path: Path) -> Path:
    """Path of the header, given a record with or without .hea, .dat or .atr."""
    if path.suffix in SUFFIXES:
        return path.with_suffix(".hea")
    return path.with_name(path.name + ".hea")


def read_header(path: Path) -> Header:
    """Read DIR/RECORD.hea.

    Raises BadInput that names record, line and field.
    """
    file = header_path(path)
    record = file.stem
    try:
        # As wfdb reads it: bytes outside ASCII occur in comments of old records.
        text = file.read_text("ascii", errors="ignore")
    except OSError as error:
        raise BadInput(f"record {record}: header {file}: {error.strerror or error}") from error
    lines = [
        (number, line.strip()) for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise BadInput(f"record {record}: header {file.name} has no record line")
    rate_hz, length, count = _record_line(_Line(record, *lines[0]))
    if len(lines) - 1 != count:
        raise BadInput(
            f"record {record}: header {file.name} announces {count} signals and describes "
            f"{len(lines) - 1}")
    channels = tuple(_signal_line(_Line(record, *line)) for line in lines[1:])
    return Header(record, file, rate_hz, length, channels)


@dataclass(frozen=True)
class _Line:
    """One line of the header of a record, and the error for a field of it."""

    record: str
    number: int
    text: str

    def bad(self, field: str, value: str, allowed: str) -> BadInput:
        return BadInput(
            f"record {self.record}: header line {self.number}: {field} '{value}'; allowed is "
            f"{allowed}")


_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/-?\d+(?:\.\d+)?(?:\(-?\d+(?:\.\d+)?\))?)?")
"""Frame rate, then counter frequency and base counter value, which only display tools use."""
_TIME = re.compile(r"(?:(?:(\d{1,2}):)?(\d{1,2}):)?(\d{1,2})(?:\.\d{1,6})?")
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


def _record_line(line: _Line) -> tuple[float, int | None, int]:
    """Frame rate, length in frames, number of signals."""
    name, *fields = line.text.split()
    if "/" in name:
        raise line.bad("record name", name, "a single segment; read the segments one by one")
    if not re.fullmatch(r"[-\w]+", name):
        raise line.bad("record name", name, "letters, digits, - and _")
    if not fields or not re.fullmatch(r"\d+", fields[0]):
        raise line.bad("number of signals", " ".join(fields[:1]), "a whole number")
    if len(fields) < 2:
        raise line.bad("sampling rate", "", "a number of Hz; without one the times mean nothing")
    rate = _RATE.fullmatch(fields[1])
    if rate is None or float(rate[1]) == 0:
        raise line.bad("sampling rate", fields[1], "RATE or RATE/COUNTER or RATE/COUNTER(BASE)")
    if len(fields) > 2 and (not re.fullmatch(r"\d+", fields[2]) or int(fields[2]) == 0):
        raise line.bad("number of samples", fields[2],
                       "a whole number above 0, or leave it out to take all the file holds")
    if len(fields) > 3:
        _check_time(line, fields[3])
    if len(fields) > 4:
        _check_date(line, fields[4])
    if len(fields) > 5:
        raise line.bad("field after the date", fields[5], "nothing")
    length = int(fields[2]) if len(fields) > 2 else None
    return float(rate[1]), length, int(fields[0])


def _check_time(line: _Line, text: str) -> None:
    found = _TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 60)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise line.bad("base time", text, "HH:MM:SS; correct it or remove it, nothing here uses it")


def _check_date(line: _Line, text: str) -> None:
    allowed = "DD/MM/YYYY; correct it or remove it, nothing here uses it"
    found = _DATE.fullmatch(text)
    if found is None:
        raise line.bad("base date", text, allowed)
    day, month, year = map(int, found.groups())
    try:
        datetime.date(year, month, day)
    except ValueError as error:
        raise line.bad("base date", text, f"{allowed} ({error})") from error


_FORMAT = re.compile(r"(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?")
_GAIN = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:\((-?\d+)\))?(?:/(\S+))?")
_INTEGERS = (
    ("ADC resolution", r"\d+"), ("ADC zero", r"-?\d+"), ("initial value", r"-?\d+"),
    ("checksum", r"-?\d+"), ("block size", r"\d+"))


def _signal_line(line: _Line) -> Channel:
    fields = line.text.split(maxsplit=8)
    if not re.fullmatch(r"[-\w]+(\.\w+)?", fields[0]):
        raise line.bad("file name", fields[0], "letters, digits, - and _ with one extension")
    layout = _FORMAT.fullmatch(fields[1]) if len(fields) > 1 else None
    if layout is None or layout[2] == "0":
        raise line.bad("format", " ".join(fields[1:2]), "FORMAT[xSAMPLES][:SKEW][+OFFSET]")
    gain = _GAIN.fullmatch(fields[2]) if len(fields) > 2 else None
    if len(fields) > 2 and (gain is None or not math.isfinite(float(gain[1]))):
        raise line.bad("gain", fields[2], "GAIN[(BASELINE)][/UNITS], GAIN not below 0")
    for (name, pattern), value in zip(_INTEGERS, fields[3:8]):
        if not re.fullmatch(pattern, value):
            raise line.bad(name, value, "a whole number")
    zero = int(fields[4]) if len(fields) > 4 else 0
    checksum = int(fields[6]) & 0xFFFF if len(fields) > 6 else 0
    units = (gain[3] or "") if gain else ""
    return Channel(
        file=fields[0], format=layout[1], per_frame=int(layout[2] or 1), skew=int(layout[3] or 0),
        byte_offset=int(layout[4] or 0),
        gain=float(gain[1]) / MV_PER_UNIT.get(units, 1.0) if gain else 0.0, units=units,
        baseline=int(gain[2]) if gain and gain[2] else zero,
        checksum=checksum or None, name=fields[8].strip() if len(fields) > 8 else "")
