"""Run the command line inside the test, and the models its tests use."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from edgesparse.cli import app
from edgesparse.graph.ir import Quant, Tensor
from tflite_builder import Call, Options, build

ECG = Path(str(files("edgesparse.demo") / "ecg_c48_4x1_75.tflite"))


class Ran:
    """What a command left: exit code and both streams."""

    def __init__(self, *arguments: object, stdin: bytes | None = None) -> None:
        result = CliRunner().invoke(
            app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def json(self) -> Any:
        """stdout, which must be one JSON object and nothing else."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def dense_layer(dtype: str = "int8", rows: int = 4, columns: int = 8, seed: int = 0) -> bytes:
    """y = FULLY_CONNECTED(x) [1, rows], int8 with one scale or float32, as a .tflite file."""
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        x, y = Tensor("x", (1, columns), "float32"), Tensor("y", (1, rows), "float32")
        w = Tensor("w", (rows, columns), "float32",
                   data=rng.normal(size=(rows, columns)).astype(np.float32))
        b = Tensor("b", (rows,), "float32", data=rng.normal(size=rows).astype(np.float32))
    else:
        x = Tensor("x", (1, columns), "int8", Quant((0.05,), (3,)))
        y = Tensor("y", (1, rows), "int8", Quant((0.1,), (-7,)))
        w = Tensor("w", (rows, columns), "int8", Quant((0.02,), (0,)),
                   rng.integers(-127, 128, (rows, columns)).astype(np.int8))
        b = Tensor("b", (rows,), "int32", Quant((0.001,), (0,)),
                   rng.integers(-500, 500, rows).astype(np.int32))
    call = Call("FULLY_CONNECTED", ("x", "w", "b"), ("y",), Options("FullyConnected"))
    return build([x, w, b, y], [call], ["x"], ["y"])


def two_outputs() -> bytes:
    """a = RELU(x), b = RELU(y) on two int8 inputs [1, 4] and [1, 6]."""
    def tensor(name: str, columns: int) -> Tensor:
        return Tensor(name, (1, columns), "int8", Quant((0.1,), (0,)))
    tensors = [tensor("x", 4), tensor("y", 6), tensor("a", 4), tensor("b", 6)]
    calls = [Call("RELU", ("x",), ("a",)), Call("RELU", ("y",), ("b",))]
    return build(tensors, calls, ["x", "y"], ["a", "b"])


def unsupported_twice() -> bytes:
    """Two operators that edgesparse refuses."""
    names = ("x", "m", "y")
    tensors = [Tensor(n, (1, 4), "float32") for n in names]
    calls = [Call("NEG", ("x",), ("m",)), Call("ELU", ("m",), ("y",))]
    return build(tensors, calls, ["x"], ["y"])
