"""On Cortex-M cores weights take the encoding with the fewest instructions: a plan with zeros is
never slower than one without."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from edgesparse.cortex.estimate import format_cost
from edgesparse.graph.ir import Array
from edgesparse.sparsity.choose import formats_of
from edgesparse.sparsity.choose_instructions import Cost, choose_instructions
from edgesparse.sparsity.formats import Bsr, Dense, decode_group
from edgesparse.sparsity.measure import measure
from edgesparse.target import load_target
from needs import require
from test_house import ROOT, only_one

sys.path.append(str(ROOT / "benchmarks"))

import cortex_m_nets as nets

ONLY = ("dense", "bsr 4x1", "bsr 1x4", "bsr 4x4")


def blocks(share: int, rows: int = 4, cols: int = 4, shape: tuple[int, int] = (64, 128)) -> Array:
    rng = np.random.default_rng(share)
    real = nets.masked(rng, shape, nets.Blocks(rows, cols), share)
    made: Array = np.rint(100 * real).astype(np.int8)
    return made


def given(**each: float) -> Cost:
    """Costs by name of the format; "bsr_4x1" for "bsr 4x1"."""
    return lambda form, w: each[form.name.replace(" ", "_")]


def chosen(cost: Cost, w: Array) -> str:
    decision = choose_instructions(measure(w), w, cost, ONLY)
    (group,) = decision.groups
    np.testing.assert_array_equal(decode_group(group, w.shape[1]), w)
    name = "dense" if group.encoding.name == "DENSE" else ""
    return name or f"bsr {group.block_rows}x{group.block_cols}"


def test_fewest_instructions_win_over_fewest_bytes() -> None:
    w = blocks(75)
    sizes = {f.name: f.size(w) for f in formats_of(128, ONLY)}
    assert min(sizes, key=lambda name: sizes[name]) == "bsr 4x4"
    assert chosen(given(dense=100, bsr_4x1=60, bsr_1x4=50, bsr_4x4=80), w) == "bsr 1x4"
    assert chosen(given(dense=100, bsr_4x1=60, bsr_1x4=50, bsr_4x4=51), w) == "bsr 4x4"


def test_sparse_rows_must_beat_dense_ones_clearly() -> None:
    w = blocks(75)
    assert chosen(given(dense=100, bsr_4x1=99, bsr_1x4=100, bsr_4x4=98.5), w) == "dense"
    assert chosen(given(dense=100, bsr_4x1=99, bsr_1x4=97, bsr_4x4=101), w) == "bsr 1x4"
    # Fewer bytes, and near the fewest instructions: but not faster than dense.
    assert chosen(given(dense=100, bsr_4x1=99, bsr_1x4=97, bsr_4x4=99), w) == "bsr 1x4"


def test_blocks_that_take_more_bytes_than_dense_rows_are_none() -> None:
    w = blocks(0)
    assert chosen(given(dense=100, bsr_4x1=50, bsr_1x4=50, bsr_4x4=50), w) == "dense"


def test_the_reason_names_bytes_and_instructions() -> None:
    w = blocks(75)
    costs = given(dense=100, bsr_4x1=60, bsr_1x4=50, bsr_4x4=30)
    told = choose_instructions(measure(w), w, costs, ONLY).reason
    assert told.startswith("bsr 4x4: 75.0 % zeros in whole 4x4 blocks; 2,208 B against 8,192 B")
    assert told.endswith("; 30 % of its instructions")
    slow = given(dense=100, bsr_4x1=160, bsr_1x4=150, bsr_4x4=130)
    assert choose_instructions(measure(w), w, slow, ONLY).reason.endswith(
        "which would take 1.30 times the instructions")


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_a_few_zeros_stay_dense_and_many_do_not(target: str) -> None:
    machine = load_target(target)
    assert machine.instructions is not None
    cost = format_cost(machine.instructions, columns=64)
    dense, sparse = blocks(10, shape=(64, 320)), blocks(90, shape=(64, 320))
    assert cost(Bsr(4, 4), sparse) < 0.7 * cost(Dense(), sparse)
    for w, wanted in ((dense, True), (sparse, False)):
        (group,) = choose_instructions(measure(w), w, cost, machine.encodings).groups
        assert (group.encoding.name == "DENSE") == wanted


@pytest.mark.parametrize(("net", "blocks", "share"), [("ecg", "1x4", "50"), ("ad01", "1x4", "75")])
def test_a_sparse_plan_is_not_slower_than_a_dense_one(net: str, blocks: str, share: str) -> None:
    """In QEMU; the fewest bytes are slower than what was chosen, or the same."""
    for name in ("arm", "qemu", "cmake"):
        require(name)
    with only_one("measure"):
        done = subprocess.run(
            (sys.executable, ROOT / "benchmarks" / "cortex_m_choice.py", "--net", net, "--blocks",
             blocks, "--share", share, "--cpu", "cortex-m4", "--json"),
            capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line: dict[str, Any] = json.loads(done.stdout)
    assert line["slower"] is False
    assert line["chosen"] <= min(line["dense"], line["fewest_bytes"])
