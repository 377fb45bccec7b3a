"""Damaged .tflite files through the whole converter: what still converts computes what it says."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import Options, convert
from edgesparse.errors import EdgeSparseError
from edgesparse.graph.evaluate import evaluate
from edgesparse.importers.tflite import import_tflite
from edgesparse.runtime.session import Session
from mutate import mutants
from op_cases import CASES

SOURCES = (
    "cases/tflite/b16", "cases/tflite/cr", "cases/tflite/mu", "cases/tflite/s2b",
    "cases/tflite/sfc_b4", "cases/tflite/sfc_csr", "models/generated/gru_unroll_uns0_int8",
    "models/pcg/pcg_mfcc_int8", "models/tflm/tflm_hello_float", "models/tflm/tflm_hello_int8",
    "models/tflm/tflm_mnist_lstm_int8", "Lstm", "Svdf",
)
"""Files, and operators of which a model is made here."""
SECONDS = 20.0
"""CPU time; far over what the slowest takes, so that only a hang reaches it."""


def converts_to_its_meaning(mutant: bytes, rng: np.random.Generator) -> str:
    """Convert and run; returns the name of the refusal, or "converted"."""
    try:
        plan = convert(mutant, options=Options(golden=False))
    except EdgeSparseError as refusal:
        return type(refusal).__name__ if str(refusal) else "a refusal without a word"
    graph = import_tflite(mutant, "mutant")
    inputs = {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        if graph.tensors[name].dtype == "int8"
        else rng.normal(size=graph.tensors[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    with np.errstate(all="ignore"):
        want = evaluate(graph, inputs)
    got = Session(plan).run([inputs[name] for name in graph.inputs])
    results = got if isinstance(got, tuple) else (got,)
    for name, y in zip(graph.outputs, results, strict=True):
        np.testing.assert_array_equal(y.ravel(), want[name].ravel(), err_msg=name)
    return "converted"


@pytest.mark.parametrize("source", SOURCES)
def test_what_still_converts_equals_the_reference(
    source: str, data_root: Path, pytestconfig: pytest.Config
) -> None:
    count = -(-int(pytestconfig.getoption("--mutants")) // len(SOURCES))
    if source in CASES:
        data = CASES[source](np.random.default_rng(5)).tflite()
    else:
        data = (data_root / f"{source}.tflite").read_bytes()
    number = SOURCES.index(source)
    rng = np.random.default_rng([47, number])
    outcomes: Counter[str] = Counter()
    for mutant in mutants(data, np.random.default_rng([43, number]), count):
        start = time.process_time()
        outcomes[converts_to_its_meaning(mutant, rng)] += 1
        assert time.process_time() - start < SECONDS
    assert sum(outcomes.values()) == count
    ours = {"GraphInvalid", "PlanInvalid", "a refusal without a word"}
    assert not ours & set(outcomes), outcomes
    assert len(outcomes) > 1
