"""Score the shipped int8 nets as a device runs them, on DS1 as often as wanted, on DS2 once.

python -m demos.ecg.score_ds2 --records ds1
python -m demos.ecg.score_ds2 --records ds2 --this-counts
python -m demos.ecg.score_ds2 --records folds --models FOLDER --nets NET: held-out records of DS1
with the nets that cross_validate.py --export FOLDER wrote

Each .tflite becomes a stream plan; every record is pushed through the C core as ADC samples and
flushed; the beats that come out are scored by edgesparse.scoring. Beside them stands the float net
of the same training, run by NumPy behind the same front end and decoded in floating point. Needs
edgesparse[ecg], no torch. Every scoring of DS2 is counted in DS2.md before a record is opened.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demos.ecg import reference_decoder as rd
from demos.ecg import reference_integer as ri
from demos.ecg.folded import SHAPES, Folded, load, run_folded
from demos.ecg.split import DS1, DS2, FOLDS
from edgesparse.convert import Options, convert
from edgesparse.demo.ecg import CHUNK
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.scoring import RecordScore, Rules, Score, score_record
from edgesparse.signals.annotations import Annotations, read_annotations
from edgesparse.signals.wfdb_record import read_record
from edgesparse.streaming.beats import ECG360_CLASSES
from edgesparse.streaming.events import Beat, Run, StateChange
from edgesparse.streaming.plan import StreamOptions

ROOT = Path(__file__).resolve().parents[2]
LOG = Path(__file__).resolve().parent / "DS2.md"
SUBSETS = ("ds1", "ds2", "folds")
SHOWN = (
    *("qrs_se", "qrs_ppv", "v_se", "v_ppv", "v_ap", "s_se", "s_ppv", "s_ap", "s_f1", "n_se"),
    *("accuracy", "macro_f1"),
)
HEADS = (
    *("QRS Se", "QRS +P", "V Se", "V +P", "V AP", "S Se", "S +P", "S AP", "S F1", "N Se", "acc"),
    "mF1",
)
ODD_S = "232"
"""Nearly all beats of this record are S, without a normal rhythm to compare with."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One record as a device gets it.

    samples    [samples] int16, ADC units without offset at 360 Hz, lead MLII
    reference  the cardiologists' annotations
    """

    name: str
    samples: Array
    reference: Annotations


@dataclass(frozen=True, eq=False)
class Net:
    """A shipped file as a plan, and the float net that it was made from."""

    name: str
    plan: Plan
    folded: list[Folded]
    sha256: str


@dataclass(frozen=True, eq=False)
class Result:
    """One net on several records.

    int8, float       scores against the reference
    int8_with_vf, float_with_vf  the same, beats in ventricular flutter counted too
    decoded           int8 with the beats that the core withholds where the signal is bad
    agreement         those beats scored with the float beats as the reference
    seconds           spent in the C core; signal_seconds: how much signal that was
    """

    name: str
    int8: Score
    float: Score
    int8_with_vf: Score
    float_with_vf: Score
    decoded: Score
    agreement: Score
    seconds: float
    signal_seconds: float


def read(folder: Path, name: str) -> Recording:
    """Raises BadInput for a record that is not as its header says."""
    signal = read_record(folder / name)
    return Recording(name, signal.centred(), read_annotations(folder / f"{name}.atr"))


def read_net(models: Path, floats: Path, name: str) -> Net:
    """Convert the .tflite as `edgesparse convert --stream hop=8,frontend=ecg360,beats=yes` does."""
    path = models / f"{name}.tflite"
    stream = StreamOptions(
        8, mode="continuous", rate=rd.SAMPLE_RATE_HZ, frontend="ecg360", beats=True)
    folded = load(floats / f"{name}.npz", SHAPES[name])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Net(name, convert(path, options=Options(stream=stream)), folded, digest)


def annotations(name: str, position: Array, kind: Array, share: Array, length: int) -> Annotations:
    """Beats inside the record, with the probability of each class."""
    at = np.rint(position).astype(np.int64)
    inside = at < length
    symbols = tuple(ECG360_CLASSES[k] for k in kind[inside])
    scores = share[inside].astype(np.float32)
    return Annotations(name, at[inside], symbols, rd.SAMPLE_RATE_HZ, length, scores)


@dataclass(frozen=True, eq=False)
class Streamed:
    """What the int8 plan made of one record.

    reported  the beats that the core reports: what is scored
    decoded   the same and those it withholds while the signal cannot be believed (lead off,
              saturated, ...); the float net has no such judgement, so this is compared with it
    """

    reported: Annotations
    decoded: Annotations
    seconds: float


def core_beats(net: Net, record: Recording) -> Streamed:
    """The whole record through the C core.

    The core reports no probabilities: they come from the definition of the decoder
    (reference_integer.py) on the core's own logits. Raises ValueError when a beat of the core is
    not one of the definition's, or when one is withheld though the signal was good throughout.
    """
    stream = Stream(net.plan, rate=rd.SAMPLE_RATE_HZ)
    begin = time.perf_counter()
    events = []
    for at in range(0, len(record.samples), CHUNK):
        events += stream.push(record.samples[at : at + CHUNK])
    events += stream.flush()
    seconds = time.perf_counter() - begin
    length = len(record.samples)
    beats = [e for e in events if isinstance(e, Beat)]
    found = {(e.position, e.kind) for e in beats if e.position < length}
    runs = [e.outputs[0].reshape(-1, 4)[e.skip :] for e in events if isinstance(e, Run)]
    scale, zero = net.plan.outputs[0].scale, net.plan.outputs[0].zero_point
    decoded = ri.decode(np.concatenate(runs), ri.tables(scale, zero))
    rows = (decoded.position, decoded.kind, decoded.vote / decoded.vote.sum(axis=1, keepdims=True))
    rows = tuple(part[decoded.position < length] for part in rows)
    defined = list(zip(rows[0].tolist(), rows[1].tolist(), strict=True))
    good = not any(isinstance(e, StateChange) for e in events)
    if not found <= set(defined) or (good and len(found) < len(defined)):
        raise ValueError(f"{net.name}, record {record.name}: core and decoder differ in beats")
    kept = np.array([beat in found for beat in defined], bool)
    reported = annotations(record.name, *(part[kept] for part in rows), length)
    return Streamed(reported, annotations(record.name, *rows, length), seconds)


def float_beats(net: Net, record: Recording) -> Annotations:
    """The float net and decoder behind the integer front end."""
    inputs = ri.millivolts(ri.front_end(rd.flushed(record.samples)))
    beats = rd.decode(run_folded(net.folded, inputs))
    share = beats.vote / beats.vote.sum(axis=1, keepdims=True)
    return annotations(record.name, beats.position, beats.kind, share, len(record.samples))


def scored(name: str, pairs: Iterable[tuple[Net, Recording]]) -> Result:
    """Stream, run the float net, and score every record with the net that belongs to it."""
    rows: dict[str, list[RecordScore]] = {}
    seconds, samples = 0.0, 0
    with_vf = Rules(leave_out_vf=False)
    for net, record in pairs:
        ours, exact = core_beats(net, record), float_beats(net, record)
        for which, reference, test, rules in (
            ("int8", record.reference, ours.reported, Rules()),
            ("float", record.reference, exact, Rules()),
            ("int8_with_vf", record.reference, ours.reported, with_vf),
            ("float_with_vf", record.reference, exact, with_vf),
            ("decoded", record.reference, ours.decoded, Rules()),
            ("agreement", exact, ours.decoded, Rules()),
        ):
            score = score_record(record.name, reference, test, rules)
            rows.setdefault(which, []).append(score)
        seconds += ours.seconds
        samples += len(record.samples)
    scores = {
        which: Score(tuple(found), with_vf if which.endswith("vf") else Rules())
        for which, found in rows.items()
    }
    return Result(name, **scores, seconds=seconds, signal_seconds=samples / rd.SAMPLE_RATE_HZ)


def percent(part: float | None, digits: int = 2) -> str:
    """- where it is undefined."""
    return "-" if part is None else f"{100 * part:.{digits}f}"


def row(name: str, statistics: Mapping[str, float | None]) -> str:
    """One line of a table."""
    return f"| {name} | " + " | ".join(percent(statistics[key]) for key in SHOWN) + " |"


def head(title: str) -> list[str]:
    """The two lines above a table."""
    return [f"| {title} | " + " | ".join(HEADS) + " |", "| --- |" + " --- |" * len(HEADS)]


def gross_table(results: list[Result]) -> list[str]:
    """All nets, int8 and float, with what depends on single records beside it."""
    lines = head("gross")
    for result in results:
        name = result.name
        lines.append(row(f"{name}, int8", result.int8.gross.statistics))
        lines.append(row(f"{name}, float", result.float.gross.statistics))
        if ODD_S in [one.name for one in result.int8.records]:
            without = result.int8.without(ODD_S).gross.statistics
            lines.append(row(f"{name}, int8, without {ODD_S}", without))
        if result.int8_with_vf.gross.counts != result.int8.gross.counts:
            counted = result.int8_with_vf.gross.statistics
            lines.append(row(f"{name}, int8, flutter counted", counted))
    return lines


def agreement_table(results: list[Result]) -> list[str]:
    """Int8 against float of the same training."""
    lines = [
        "| int8 against float | unmatched events, % | same class, % | mF1 drop, points "
        "| beats withheld, signal bad | times real time |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        counts = result.agreement.gross.counts
        apart = counts.missed + counts.extra
        ours = result.decoded.gross.statistics["macro_f1"]
        withheld = result.decoded.gross.counts.test - result.int8.gross.counts.test
        exact = result.float.gross.statistics["macro_f1"]
        drop = "-" if ours is None or exact is None else f"{100 * (exact - ours):.2f}"
        lines.append(
            f"| {result.name} | {percent(apart / (apart + counts.qrs.tp), 3)} "
            f"| {percent(counts.agreement, 3)} | {drop} | {withheld} "
            f"| {result.signal_seconds / result.seconds:.0f} |"
        )
    return lines


def record_table(result: Result) -> list[str]:
    """Every record of one net, the mean of the records, and all together; int8."""
    lines = head(f"{result.name}, int8")
    lines += [row(one.name, one.statistics) for one in result.int8.records]
    lines.append(row("average", result.int8.average))
    lines.append(row("gross", result.int8.gross.statistics))
    return lines


def to_json(result: Result) -> dict[str, Any]:
    """All counts and rates."""
    scores = ("int8", "float", "int8_with_vf", "float_with_vf", "decoded", "agreement")
    return {
        "net": result.name,
        "seconds": result.seconds,
        **{name: getattr(result, name).to_json() for name in scores},
    }


def counted(nets: list[Net]) -> int:
    """Write the next scoring of DS2 into the log; returns its number."""
    text = LOG.read_text()
    number = text.count("\n## Scoring ") + 1
    files = "\n".join(f"{net.sha256}  {net.name}.tflite" for net in nets)
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    LOG.write_text(f"{text}\n## Scoring {number}\nStarted {started}.\n```\n{files}\n```\n")
    return number


def show(tables: list[list[str]], records: str) -> None:
    """Print tables; those of DS2 go into the log at once."""
    text = "".join("\n" + "\n".join(lines) + "\n" for lines in tables)
    print(text, flush=True)
    if records == "ds2":
        with LOG.open("a") as log:
            log.write(text)


def read_nets(args: argparse.Namespace, name: str) -> list[tuple[Net, tuple[str, ...]]]:
    """Nets and the records that each of them is scored on."""
    if args.records == "folds":
        folders = [args.models / f"fold{k}" for k in range(len(FOLDS))]
        return [(read_net(at, at, name), held) for at, held in zip(folders, FOLDS, strict=True)]
    held = {"ds1": DS1, "ds2": DS2}[args.records]
    return [(read_net(args.models, args.floats, name), held)]


def main() -> None:
    """Score, print the tables, write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "mitdb")
    parser.add_argument("--records", choices=SUBSETS, required=True)
    parser.add_argument("--this-counts", action="store_true", help="needed for ds2")
    parser.add_argument("--nets", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--models", type=Path, default=ROOT / "edgesparse" / "demo")
    parser.add_argument("--floats", type=Path, default=ROOT / "build" / "ecg" / "float")
    parser.add_argument("--out", type=Path, help="JSON; default build/ecg/score_RECORDS.json")
    args = parser.parse_args()
    if args.records == "ds2" and not args.this_counts:
        parser.error("DS2 is scored once, and every time is counted in DS2.md: --this-counts")
    nets = {name: read_nets(args, name) for name in args.nets}
    if args.records == "ds2":
        counted([net for one in nets.values() for net, _ in one])
    names = [name for _, held in next(iter(nets.values())) for name in held]
    records = {name: read(args.data, name) for name in names}
    results = []
    for name, one in nets.items():
        pairs = ((net, records[each]) for net, held in one for each in held)
        results.append(scored(name, pairs))
        show([record_table(results[-1])], args.records)
    show([gross_table(results), agreement_table(results)], args.records)
    out = args.out or ROOT / "build" / "ecg" / f"score_{args.records}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps([to_json(result) for result in results]) + "\n")


if __name__ == "__main__":
    main()
