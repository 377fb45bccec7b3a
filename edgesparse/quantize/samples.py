"""Calibration and evaluation inputs: from a file, checked against the model, one by one."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array, Graph


def load_calibration(path: str | Path, graph: Graph) -> dict[str, Array]:
    """Read calibration inputs: .npz by input name, or one array (.npy, .npz) for a single input.

    Returns tensor name -> [N, ...] float32, N samples.
    Raises BadInput when the file cannot be read or does not fit the inputs of `graph`.
    """
    path = Path(path)
    arrays = _read(path)
    called = dict(zip(graph.input_names or graph.inputs, graph.inputs))
    if len(arrays) == 1 and len(graph.inputs) == 1:
        inputs = dict(zip(graph.inputs, arrays.values()))
    else:
        if unknown := sorted(arrays.keys() - called.keys() - set(graph.inputs)):
            raise BadInput(f"{path.name}: array '{unknown[0]}' is no input of {graph.name}; "
                           f"allowed are {_allowed(graph)}")
        inputs = {called.get(name, name): array for name, array in arrays.items()}
    return check_samples(graph, inputs, path.name)


def check_samples(
    graph: Graph, inputs: Mapping[str, Array], source: str = "calibration data"
) -> dict[str, Array]:
    """Inputs with one sample per entry of the first axis -> tensor name -> [N, *shape] float32.

    inputs  tensor name -> [N, *shape] real numbers; a leading 1 of the shape may be left out
    source  what to call them in a message
    Raises BadInput for missing or unknown names, other shapes, no samples, NaN or infinity.
    """
    if inputs.keys() != set(graph.inputs):
        wrong = sorted(set(graph.inputs) - inputs.keys()) or sorted(inputs.keys())
        raise BadInput(f"{source}: arrays {sorted(inputs)} do not fit {graph.name} (look at "
                       f"'{wrong[0]}'); it takes {_allowed(graph)}")
    checked: dict[str, Array] = {}
    for name in graph.inputs:
        array, shape = np.asarray(inputs[name]), graph.tensors[name].shape
        if array.dtype.kind not in "fiub":
            raise BadInput(f"{source}: input '{name}' has dtype {array.dtype}; allowed are real "
                           "numbers, best float32")
        if array.shape[1:] not in (shape, shape[1:] if shape[:1] == (1,) else shape):
            raise BadInput(f"{source}: input '{name}' has shape {list(array.shape)}; allowed is "
                           f"[samples, {', '.join(map(str, shape))}]")
        if not array.shape or array.shape[0] == 0:
            raise BadInput(f"{source}: input '{name}' has no samples; at least 1 is needed, 100 "
                           "are usual")
        with np.errstate(over="ignore"):  # what does not fit float32 becomes infinity
            array = array.astype(np.float32).reshape(-1, *shape)
        bad = np.flatnonzero(~np.isfinite(array.reshape(array.shape[0], -1)).all(axis=1))
        if bad.size:
            raise BadInput(f"{source}: input '{name}', sample {bad[0]} holds NaN or infinity "
                           f"({bad.size} such samples); remove them")
        checked[name] = array
    counts = {name: array.shape[0] for name, array in checked.items()}
    if len(set(counts.values())) > 1:
        raise BadInput(f"{source}: inputs differ in the number of samples: {counts}")
    return checked


def one_by_one(inputs: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The samples of checked inputs."""
    for i in range(len(next(iter(inputs.values())))):
        yield {name: array[i] for name, array in inputs.items()}


def _allowed(graph: Graph) -> str:
    """The inputs as a user has to give them."""
    names = graph.input_names or graph.inputs
    return ", ".join(
        f"'{name}' [samples, {', '.join(map(str, graph.tensors[tensor].shape))}]"
        for name, tensor in zip(names, graph.inputs))


def _read(path: Path) -> dict[str, Array]:
    """The arrays of a .npy or .npz file by name; pickled objects are refused."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            arrays = {name: np.asarray(loaded[name]) for name in loaded.files}
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path}: not a .npy or .npz file of plain arrays ({error}); write it with "
                       "numpy.savez(path, input=array)") from error
    if not arrays:
        raise BadInput(f"{path}: holds no array")
    return arrays
