"""The runtimes that edgesparse must equal; a test that asks for one skips where it is not there.

Values are keyed by the importer's tensor names, which are unique.
"""

from __future__ import annotations

from edgesparse.importers.tflite_schema import read_model
from edgesparse.oracle import TfliteMicro, TfliteRuntime
from needs import require


def tflite_oracle(model: bytes) -> TfliteRuntime:
    """tflite-runtime 2.14.0 with its reference kernels, giving what every operator computed."""
    require("oracle")
    return TfliteRuntime(model, read_model(model, "oracle"))


def micro_oracle(model: bytes) -> TfliteMicro:
    """tflite-micro, for what the first one refuses."""
    require("tflm")
    return TfliteMicro(model, read_model(model, "oracle"))
