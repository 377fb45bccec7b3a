"""edgesparse run: arrays through a plan."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from edgesparse.cli.console import emit, say, stderr
from edgesparse.cli.files import check_writable, open_plan
from edgesparse.errors import BadInput
from edgesparse.files import write_whole
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.session import Inputs, Session
from edgesparse.wording import counted


def run(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    source: Annotated[
        Path, typer.Option("--input", help=".npy, or .npz with one array per input by name; "
                           "first axis = runs; one run may lack it.")],
    output: Annotated[
        Path, typer.Option("--output", help=".npy, or .npz with one array per output by name.")],
    backend: Annotated[str, typer.Option(help="What executes the plan.")] = "portable",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run a plan: int8 inputs as stored, float inputs quantized."""
    check_writable(output, "--output", source, plan)
    loaded = open_plan(plan)
    if len(loaded.outputs) > 1 and output.suffix == ".npy":
        names = ", ".join(io.name for io in loaded.outputs)
        raise BadInput(f"--output {output}: the plan has several outputs ({names}); "
                       "name a .npz file")
    session = Session(loaded, backend)
    inputs, runs = plan_inputs(loaded, source)
    with stderr().status(f"running {plan.name}"):
        results = session.run(inputs)
    arrays = results if isinstance(results, tuple) else (results,)
    named = {io.name: array for io, array in zip(loaded.outputs, arrays)}
    if output.suffix == ".npz":
        write_whole(output, lambda file: np.savez(file, **named))
    else:
        write_whole(output, lambda file: np.save(file, arrays[0]))
    if as_json:
        emit({
            "plan": str(plan), "runs": runs, "backend": backend, "output": str(output),
            "outputs": {n: {"shape": a.shape, "dtype": a.dtype.name} for n, a in named.items()}})
    else:
        shapes = ", ".join(f"{n} {a.dtype} {list(a.shape)}" for n, a in named.items())
        say(f"{counted(runs, 'run')} -> {output}: {shapes}")


def plan_inputs(plan: Plan, path: Path) -> tuple[Inputs, int]:
    """The arrays of a file for the plan's inputs, and how many runs they are: each has an axis of
    runs, or they are one run."""
    arrays = load_arrays(path)
    if len(plan.inputs) == 1 and len(arrays) == 1:
        found = list(arrays.values())
    else:
        wanted = {io.name for io in plan.inputs}
        if wanted != arrays.keys():
            raise BadInput(f"--input {path}: has arrays {_quoted(arrays)}; the plan's inputs are "
                           f"{_quoted(wanted)}: write them with numpy.savez(path, **arrays)")
        found = [arrays[io.name] for io in plan.inputs]
    for array, io in zip(found, plan.inputs):
        if array.shape != io.shape and array.shape[1:] != io.shape:
            raise BadInput(
                f"--input {path}: input '{io.name}' has shape {list(array.shape)}; allowed is "
                f"{list(io.shape)}, or [runs, {', '.join(map(str, io.shape))}]")
    single = found[0].ndim == len(plan.inputs[0].shape)
    return found, 1 if single else len(found[0])


def _quoted(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


def load_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a .npy (called "array") or .npz file; pickled objects are refused.

    Raises BadInput for what is neither.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            return {name: np.asarray(loaded[name]) for name in loaded.files}
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path}: not a .npy or .npz file of plain arrays ({error})") from error
