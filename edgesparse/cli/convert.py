"""edgesparse convert: a model becomes a plan, and everything about it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgesparse.cli.budget_view import budget_json, show_budget
from edgesparse.cli.console import (
    amount,
    emit,
    fail,
    note,
    percent,
    say,
    stderr,
    table,
)
from edgesparse.cli.core_view import core_json, show_core
from edgesparse.cli.files import check_writable
from edgesparse.cli.layers import io_text, layer_json, layer_table, plan_json, totals
from edgesparse.cli.names import short_names
from edgesparse.cli.npu_view import npu_json, show_npu
from edgesparse.cli.remarks import notes, refusals
from edgesparse.cli.stream_option import show_stream, stream_json, stream_options
from edgesparse.convert import Conversion, Options, convert_model, find_issues, read_file
from edgesparse.errors import BadInput
from edgesparse.files import write_whole
from edgesparse.footprint import model_cost
from edgesparse.graph.ir import Array
from edgesparse.importers.tflite import import_tflite
from edgesparse.npu.options import NpuOptions
from edgesparse.passes.pipeline import CANONICAL, INT8
from edgesparse.profiling.budget import Budget, check_target, judge, parse_budget, split_target
from edgesparse.quantize.report import QuantReport
from edgesparse.quantize.samples import load_calibration
from edgesparse.target import load_target, target_names
from edgesparse.wording import counted

PASSES = tuple(dict.fromkeys(run.__name__ for run in (*CANONICAL, *INT8)))


def convert(
    model: Annotated[Path, typer.Argument(help="A .tflite file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The plan to write.")] = None,
    target: Annotated[str, typer.Option(
            metavar="|".join(target_names()),
            help="What the plan is made for: the limits it is checked against, and on esn-* a "
            "program for the emulated NPU. Every plan also runs on the portable core.")] = "host",
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="Typical inputs: .npz or .npy, real numbers, first axis = samples. A float model"
            " needs them; on esn-* they foretell how many activations will be zero."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="How ranges are chosen: headroom, minmax, percentile[:P] or mse."),
    ] = Options.method,
    check_only: Annotated[
        bool, typer.Option("--check", help="List everything unsupported; write nothing.")] = False,
    dump_after: Annotated[
        list[str] | None, typer.Option(help="Print the graph after this pass.")] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**31 - 1, help="Of the memory planner and the self test."),
    ] = 0,
    golden: Annotated[
        bool, typer.Option("--golden/--no-golden", help="Store a self test in the plan.")] = True,
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="auto|hop=N[,...]",
            help="A plan that samples are pushed into: auto, or any of hop=N (input columns a run;"
            " without it the model's total stride), mode=auto|incremental|continuous,"
            " phases=no (recompute where N is no multiple of a stride: less RAM), compact=yes"
            " (recompute what the start of padded windows needs: far less RAM), rate=HZ,"
            " frontend=none|ecg360, beats=yes, units=ADC units per mV."),
    ] = None,
    npu_resident: Annotated[
        bool | None,
        typer.Option("--npu-resident/--no-npu-resident",
                     help="On esn-*: load weights once, at the reset, as far as they fit."),
    ] = None,
    npu_fusion: Annotated[
        str, typer.Option(help="On esn-*: full, or none (each operator a kernel of its own)."),
    ] = Options.npu_fusion,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME@CLOCK[@TARGET]", help="What a run or a hop may take: 20ms@64MHz"
                     ", cycles=N, on cortex-m* also instructions=N. Exit code 1 and no plan when "
                     "the bound of emulated cycles (esn-*) or the predicted instructions "
                     "(cortex-m*) are above it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Convert a .tflite model into a plan."""
    if check_only and stream is not None:
        raise BadInput("--check looks at the model as it is: leave --stream out")
    if check_only and budget is not None:
        raise BadInput("--check makes no plan whose cycles could be bounded: leave --budget out")
    if check_only:
        _check(model, as_json)
        return
    if output is None:
        raise BadInput("-o PLAN is missing: where shall the plan go? (--check writes nothing)")
    check_writable(output, "-o", model, *((calibrate,) if calibrate else ()))
    target, allowed = _target_and_budget(target, budget)
    options = Options(
        calibration=calibration_of(model, calibrate), method=method, golden=golden, seed=seed,
        stream=stream_options(stream), dump_after=_passes(dump_after or []),
        dump=_dump_to(as_json), npu=NpuOptions(resident=npu_resident), npu_fusion=npu_fusion)
    with stderr().status(f"converting {model.name}"):
        result = convert_model(model, target, options)
        verdict = None if allowed is None else judge(result.plan, allowed, model, options)
    if verdict is None or verdict.met:
        write_whole(output, lambda file: file.write(result.plan.data))
    if as_json:
        emit(_json(result, model, output) | {"budget": budget_json(verdict)})
    else:
        _show(result, model, output)
        show_budget(verdict, result.plan)
    if verdict is not None and not verdict.met:
        raise typer.Exit(1)


def _target_and_budget(target: str, text: str | None) -> tuple[str, Budget | None]:
    """A budget may name the target, which --target may repeat. Raises BadInput."""
    text, named = (None, "") if text is None else split_target(text)
    if named and target not in ("host", named):
        raise BadInput(f"--budget is for {named}, --target says {target}; leave one of them out")
    target = named or target
    load_target(target)
    budget = None if text is None else parse_budget(text)
    if budget is not None:
        check_target(target, budget)
    return target, budget


def _check(model: Path, as_json: bool) -> None:
    issues = find_issues(model)
    if as_json:
        emit({"model": str(model), "unsupported": [str(issue) for issue in issues]})
    elif not issues:
        say(f"{model}: everything in it is supported; a float model needs --calibrate to convert")
    if issues:
        if not as_json:
            fail(f"{model}: {counted(len(issues), 'unsupported part')}")
            for line in refusals(issues):
                note(f"  {line}")
        raise typer.Exit(2)


def calibration_of(model: Path, path: Path | None) -> dict[str, Array] | None:
    """The arrays of a calibration file for the inputs of a model; None without a file."""
    if path is None:
        return None
    return load_calibration(path, import_tflite(*read_file(model)))


def _passes(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if name not in PASSES:
            raise BadInput(f"--dump-after {name}: no such pass; there are {', '.join(PASSES)}")
    return tuple(names)


def _dump_to(as_json: bool) -> Any:
    """Where graphs are printed: with --json, stdout belongs to the one object."""

    def dump(name: str, text: str) -> None:
        if as_json:
            stderr().print(f"after {name}:\n{text}", soft_wrap=True)
        else:
            say(f"after {name}:\n{text}")

    return dump


def _show(result: Conversion, model: Path, output: Path) -> None:
    plan = result.plan
    say(f"{model.name} -> {output} for {plan.model.target}", "bold")
    for what, ios in (("in ", plan.inputs), ("out", plan.outputs)):
        for io in ios:
            say(f"{what} {io_text(io)}")
    show_stream(
        plan.model.stream, notes(result.notes, [node.name for node in result.graph.nodes]))
    show_npu(plan)
    show_core(plan)
    say()
    layer_table(plan.layers)
    say()
    names = short_names([layer.name for layer in plan.layers])
    for name, reason in zip(names, result.reasons):
        if reason:
            note(f"{name}: stored as {reason}")
    for step, rate in result.zero_rates.items():
        note(f"{names[step]}: {percent(rate)} of its products meet a zero in the calibration data")
    for line in result.npu.report if result.npu else ():
        note(f"NPU: {line}")
    say()
    if result.quantization is not None:
        _show_quantization(result.quantization)
    macs, weights = model_cost(import_tflite(*read_file(model)))
    sums = totals(plan.layers)
    if plan.model.stream is not None:
        say(f"MACs {amount(macs)} a window, {amount(sums['macs'])} a run")
    elif macs > sums["macs"]:
        say(f"folded channels that never change: MACs {amount(macs)} -> {amount(sums['macs'])}, "
            f"weights {weights:,} -> {sums['dense_bytes']:,}")
    size = model.stat().st_size
    state = plan.model.state_bytes
    kept = f", {state:,} of them kept from run to run; the rest is" if state else ";"
    say(f"RAM    {plan.ram_bytes:,} bytes{kept} {result.memory.ratio:.2f} x the lower bound of "
        f"{result.memory.bound:,}")
    say(f"flash  {plan.flash_bytes:,} bytes; {percent(plan.flash_bytes / size)} of the model's "
        f"{size:,}")


def _show_quantization(report: QuantReport) -> None:
    names = short_names([layer.layer for layer in report.layers])
    table(
        ("layer", "operator", "SQNR dB>", "max error>", "saturated>"),
        [[name, layer.operator, f"{layer.sqnr_db:.1f}", f"{layer.max_error:.3g}",
          f"{100 * layer.saturated:.2f} %"] for name, layer in zip(names, report.layers)],
        f"int8 against float over {report.samples} calibration inputs")
    for out in report.outputs:
        say(f"output {out.output}, before any softmax: {out.sqnr_db:.1f} dB")
    say()


def _json(result: Conversion, model: Path, output: Path) -> dict[str, Any]:
    report = result.quantization
    macs, weights = model_cost(import_tflite(*read_file(model)))
    return {
        "model": str(model),
        "model_macs": macs,
        "model_weights": weights,
        "plan": str(output),
        "model_bytes": model.stat().st_size,
        **plan_json(result.plan),
        "ram_bound_bytes": result.memory.bound,
        "ram_ratio": result.memory.ratio,
        "stream": stream_json(result.plan.model.stream),
        "npu": npu_json(result.plan),
        "core": core_json(result.plan),
        "npu_report": list(result.npu.report) if result.npu else [],
        "zero_rates": {result.plan.layers[step].name: rate
                       for step, rate in result.zero_rates.items()},
        "notes": list(result.notes),
        "layers": layer_json(result.plan.layers, result.reasons),
        "quantization": None if report is None else {
            "samples": report.samples,
            "sqnr_db": report.sqnr_db,
            "layers": [vars(layer) for layer in report.layers],
            "outputs": [vars(out) for out in report.outputs],
        },
    }
