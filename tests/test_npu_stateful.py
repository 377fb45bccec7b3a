"""Steps with a state of their own on targets with an NPU: steps of the CPU, named, and exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import Conversion, convert_model
from edgesparse.graph.ir import Graph
from edgesparse.mapping.assemble import assemble
from edgesparse.mapping.lower import lower
from edgesparse.mapping.lowered import Fusion
from edgesparse.mapping.weights import policy_of
from edgesparse.ops import AvgPool, Mean, Op
from edgesparse.plan import model as pm
from edgesparse.runtime.session import Session
from edgesparse.streaming.incremental import incremental
from edgesparse.target import load_target
from edgesparse.verify import VerifyOptions, verify
from needs import require
from npu_run import Checked, lower_and_check
from op_cases import CASES
from streaming_nets import build
from test_import_tflite import read
from test_recurrent import LSTMS, inputs_of
from test_running import averaged

TARGETS = ("esn-s", "esn-m", "esn-lab")
RUNNING = "a mean that counts columns of earlier runs has no code"


def on_cpu(done: Conversion) -> set[tuple[str, str]]:
    """(kind of step, why the CPU runs it)"""
    assert done.npu is not None
    return {(done.plan.layers[step].kind, reason) for step, reason in done.npu.host}


def encodings(macs: tuple[pm.Mac, ...]) -> set[pm.Encoding]:
    return {group.encoding for mac in macs for group in mac.weights.groups}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LSTMS)
def test_an_lstm_is_a_named_step_of_the_cpu(name: str, target: str, models_dir: Path) -> None:
    """Its gates are stored as CPUs want them, what the NPU multiplies in lanes."""
    read(models_dir.parent, name)  # skips where it is not there
    done = convert_model(models_dir / f"{name}.tflite", target)
    assert ("lstm", "Lstm has no code") in on_cpu(done)
    assert done.npu is not None
    assert any("Lstm has no code" in line for line in done.npu.report)
    sources = [step.source for step in done.plan.model.steps]
    gates = [pm.macs_of(s) for s in sources if isinstance(s, pm.Lstm)]
    layers = [pm.macs_of(s) for s in sources if isinstance(s, pm.Mac)]
    assert gates
    assert layers
    assert all(pm.Encoding.LANES not in encodings(macs) for macs in gates)
    assert all(encodings(macs) == {pm.Encoding.LANES} for macs in layers)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LSTMS)
def test_its_model_is_the_portable_one_run_after_run(
    name: str, target: str, models_dir: Path
) -> None:
    read(models_dir.parent, name)
    path = models_dir / f"{name}.tflite"
    portable, npu = Session(convert_model(path).plan), Session(
        convert_model(path, target).plan, backend=target)
    first = inputs_of(name, portable.plan.inputs[0].shape)[:40]
    for _ in range(2):  # a reset restores the start of both
        assert np.array_equal(portable.run(first), npu.run(first))
        portable.reset()
        npu.reset()
    assert npu.self_test()


def test_its_model_is_the_oracles(models_dir: Path) -> None:
    require("oracle")
    name = "tflm/tflm_dtln_lstm"
    read(models_dir.parent, name)
    path = models_dir / f"{name}.tflite"
    report = verify(convert_model(path, "esn-s").plan, path,
                    VerifyOptions(inputs=20, backend="esn-s"))
    assert report.differing == 0
    assert any(t.elements for t in report.tensors)


@pytest.mark.parametrize("name", ["Lstm", "Svdf"])
def test_random_ones_are_the_portable_ones_run_after_run(name: str) -> None:
    rng = np.random.default_rng(23)
    for _ in range(20):
        case = CASES[name](rng)
        model = case.tflite()
        done = convert_model(model, "esn-s")
        assert (name.lower(), f"{name} has no code") in on_cpu(done)
        portable, npu = Session(convert_model(model).plan), Session(done.plan, backend="esn-s")
        x = rng.integers(-128, 128, (12, *case.ins[0].shape)).astype(np.int8)
        np.testing.assert_array_equal(npu.run(x), portable.run(x))


def checked(graph: Graph, runs: int) -> Checked:
    target = load_target("esn-s")
    low = lower(graph, policy_of(target), Fusion(npu=target.npu))
    plan = assemble(low, target.name, "test", "{}").model
    return lower_and_check(replace(plan, config=target.config), target.npu, runs=runs)


@pytest.mark.parametrize("head", [Mean((1,)), AvgPool((1, 24), (1, 24))])
@pytest.mark.parametrize("hop", [1, 4])
def test_a_mean_over_a_moving_window_is_the_cpus_and_the_rest_is_not(head: Op, hop: int) -> None:
    """Its sums stand in a ring of the arena; the convolution before it has its own on the NPU."""
    done = checked(incremental(averaged(24, head), hop).graph, runs=60)
    assert {reason for _, reason in done.lowered.host} == {RUNNING}
    assert done.counters["mac_issued"] > 0


@pytest.mark.parametrize("head", [Mean((1,)), AvgPool((1, 24), (1, 24))])
def test_a_mean_over_what_comes_in_is_on_the_npu(head: Op) -> None:
    assert checked(averaged(24, head), runs=2).lowered.host == ()


@pytest.mark.parametrize(("net", "padding", "hop", "crowded"), [
    ("conv_pool", "same", 8, True), ("tcn", "same", 32, True), ("strided", "same", 8, False)])
def test_a_stream_with_many_columns_kept_runs_as_far_as_its_rings_fit(
    net: str, padding: str, hop: int, crowded: bool
) -> None:
    """Rings of 66 and 138 KB against 64 KiB of scratchpad; windows put together out of rings."""
    done = checked(incremental(build(net, padding, 1440), hop).graph, runs=6)
    reasons = {reason for _, reason in done.lowered.host}
    assert any("its ring does not fit" in reason for reason in reasons) == crowded
    assert done.counters["mac_issued"] > 0
