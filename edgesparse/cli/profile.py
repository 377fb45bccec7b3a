"""edgesparse profile: where the time of a plan goes, by layer."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from edgesparse.cli.console import emit, stderr
from edgesparse.cli.core_view import predicted_json, show_predicted
from edgesparse.cli.device_view import show_device
from edgesparse.cli.files import check_writable, open_plan
from edgesparse.cli.names import short_names
from edgesparse.cli.port import BAUD, PORT_HELP, Baud, opened_link
from edgesparse.cli.profile_view import show_comparison, show_host, show_profile
from edgesparse.cli.run import load_arrays, plan_inputs
from edgesparse.errors import BadInput
from edgesparse.files import write_whole
from edgesparse.plan.plan import Plan
from edgesparse.profiling.budget import parse_clock
from edgesparse.profiling.device import QEMU, DeviceProfile, profile_port
from edgesparse.profiling.predicted import cores, predict
from edgesparse.profiling.profile import HostProfile, Profile
from edgesparse.profiling.report import compare as compared
from edgesparse.profiling.report import profile_json
from edgesparse.profiling.run import HOST, ProfileOptions
from edgesparse.profiling.run import profile as run_profile
from edgesparse.profiling.trace import chrome_trace
from edgesparse.runtime.npu import NpuKnobs
from edgesparse.runtime.session import Inputs


def profile(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    on: Annotated[
        str | None, typer.Option(help="host; the esn-* target the plan was made for; "
                                 "qemu:cortex-m4, -m33, -m7 or -m55, an emulated board; or "
                                 "cortex-m4 or cortex-m55: predicted, not run.")] = None,
    port: Annotated[
        str | None, typer.Option(help=PORT_HELP + " The plan has to run there already.")] = None,
    baud: Baud = BAUD,
    clock: Annotated[
        str, typer.Option(help="Of an emulated core, for milliseconds.")] = "64MHz",
    source: Annotated[
        Path | None,
        typer.Option("--input", help=".npy or .npz as of run; of a stream, samples [n] or "
                     "[n, channels]. Without it: uniform int8, of a stream bumps as of a heart."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs made here.")] = 0,
    trace: Annotated[
        Path | None, typer.Option(help="Write the last run for Perfetto, in Chrome's format.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier --json of the same model, set beside.")
    ] = None,
    launch: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Cycles counted before each run.")
    ] = NpuKnobs.launch_cycles,
    fetch: Annotated[
        bool, typer.Option("--fetch/--no-fetch", help="Instructions come from flash, in time.")
    ] = True,
    scan_width: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Activations looked at for zeros in a cycle; "
                          "0: the target's.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run a plan and show emulated cycles, traffic and skipped work of each layer; on the host, its
    share of the time; on a device, QEMU instructions or ticks of its clock."""
    if (on is None) == (port is None):
        raise BadInput("one of --on and --port is needed: where to run the plan")
    if on is not None and on in cores():
        _predict(plan, on, parse_clock(clock), as_json, (source, trace, compare))
        return
    if trace is not None:
        check_writable(trace, "--trace", plan, *(p for p in (source, compare) if p))
        if on is None or on == HOST or on.startswith(QEMU):
            raise BadInput(
                f"--trace: {port or on} has no emulated cycles; profile on an esn-* target")
    loaded = open_plan(plan)
    before: Any = None if compare is None else _read_json(compare)
    options = ProfileOptions(
        seed, NpuKnobs(launch, fetch, scan_width), trace is not None, parse_clock(clock))
    inputs = None if source is None else _inputs(loaded, source)
    with stderr().status(f"profiling {plan.name}"):
        if port is None:
            assert on is not None
            found = run_profile(loaded, inputs, on, options)
        else:
            with opened_link(port, baud) as link:
                found = profile_port(link, loaded, inputs, port, seed)
    told = profile_json(found, loaded)
    rows = None if compare is None else compared(told, before)
    names = short_names([layer.name for layer in loaded.layers])
    if trace is not None:
        assert isinstance(found, Profile)
        text = json.dumps(chrome_trace(found, names), separators=(",", ":")).encode()
        write_whole(trace, lambda file: file.write(text))
    if as_json:
        more = {} if rows is None else {"comparison": [
            asdict(row) | {"ratio": row.ratio, "energy_ratio": row.energy_ratio} for row in rows]}
        emit({"plan": str(plan), **told, **more})
    elif rows is not None:
        show_comparison(rows, told, before)
    elif isinstance(found, HostProfile):
        show_host(found, names, plan.name)
    elif isinstance(found, DeviceProfile):
        show_device(found, names, plan.name)
    else:
        show_profile(found, names, plan.name)


def _predict(
    path: Path, on: str, clock_hz: int, as_json: bool, not_used: tuple[Path | None, ...]
) -> None:
    """Nothing runs: shapes and encodings decide."""
    if any(given is not None for given in not_used):
        raise BadInput(
            f"--on {on}: instructions are predicted and nothing runs; leave --input, --trace and "
            "--compare out")
    plan = open_plan(path)
    found = predict(plan, on)
    if as_json:
        emit({"plan": str(path), **predicted_json(found, plan, clock_hz)})
    else:
        show_predicted(found, plan, clock_hz, path.name)


def _inputs(plan: Plan, path: Path) -> Inputs:
    if plan.model.stream is None:
        return plan_inputs(plan, path)[0]
    arrays = load_arrays(path)
    if len(arrays) != 1:
        raise BadInput(f"--input {path}: {len(arrays)} arrays; a stream takes the samples of one")
    return next(iter(arrays.values()))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--compare {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--compare {path}: not a JSON file ({error})") from error
