"""What the ECG benchmarks share: records of DS1, streams of the shipped nets, tables.

Nothing here opens a record of DS2: those are scored once, elsewhere (demos/ecg/MODEL_CARD.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import TypeVar

from edgesparse.convert import Options, convert
from edgesparse.demo.ecg import MODEL, SAMPLE_RATE_HZ, TRAINED_ON
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.scoring import RecordScore, score_record
from edgesparse.signals import Annotations, read_annotations
from edgesparse.signals.wfdb_record import read_record
from edgesparse.streaming.events import Beat, Event
from edgesparse.streaming.plan import StreamOptions
from edgesparse.streaming.replay import beat_annotations

DS1 = tuple(sorted(TRAINED_ON))
Part = TypeVar("Part")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Ecg:
    """A record of DS1: lead MLII at 360 Hz.

    limit  seconds that are used; None: all
    """

    folder: Path
    name: str
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.name not in DS1:
            raise BadInput(f"record {self.name}: the records of DS1 are allowed: {', '.join(DS1)}")

    @cached_property
    def samples(self) -> Array:
        """[n] int16, ADC units (200 per mV) without the offset."""
        end = None if self.limit is None else round(self.limit * SAMPLE_RATE_HZ)
        return read_record(self.folder / self.name).centred()[:end]

    @cached_property
    def reference(self) -> Annotations:
        """The experts' marks of the part that is used."""
        marks = read_annotations(self.folder / f"{self.name}.atr")
        count = int((marks.samples < len(self.samples)).sum())
        return Annotations(
            marks.name, marks.samples[:count], marks.symbols[:count], SAMPLE_RATE_HZ,
            len(self.samples))

    def score(self, events: Iterable[Event]) -> RecordScore:
        """What a stream found against the experts, as EC57 compares."""
        beats = [event for event in events if isinstance(event, Beat)]
        found = beat_annotations(
            self.name, beats, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ, len(self.samples))
        return score_record(self.name, self.reference, found)


def options(about: str | None) -> argparse.ArgumentParser:
    """--data-root, --records, --seconds and --model."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared",
                        help="folder with data/mitdb")
    parser.add_argument("--records", default=",".join(DS1), help="of DS1, with commas")
    parser.add_argument("--seconds", type=float, help="so much of each record only")
    parser.add_argument("--model", default=MODEL, help="a net of edgesparse/demo")
    return parser


def records(arguments: argparse.Namespace) -> list[Ecg]:
    folder = arguments.data_root / "data" / "mitdb"
    return [Ecg(folder, name, arguments.seconds) for name in arguments.records.split(",")]


def told(items: Sequence[Part], what: str) -> Iterator[Part]:
    """The items; before each, on stderr, a line that says how far it is."""
    for number, item in enumerate(items, 1):
        name = item.name if isinstance(item, Ecg) else item
        print(f"{what} {number} of {len(items)}: {name}", file=sys.stderr, flush=True)
        yield item


def converted(model: str, stream: bool = True) -> Plan:
    """A net of edgesparse/demo as a plan: of ADC samples, 16 a run, with beats; or of windows."""
    taken = StreamOptions(hop=8, frontend="ecg360", beats=True) if stream else None
    with as_file(files("edgesparse.demo") / model) as path:
        return convert(path, options=Options(stream=taken))


def streamed(plan: Plan, samples: Array, chunk: int = 1 << 14) -> list[Event]:
    """Everything a whole recording gives, its end included."""
    stream = Stream(plan)
    events = [
        event for at in range(0, len(samples), chunk) for event in stream.push(
            samples[at : at + chunk])]
    return [*events, *stream.flush()]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def percent(part: float | None, digits: int = 2) -> str:
    return "-" if part is None else f"{100 * part:.{digits}f}"
