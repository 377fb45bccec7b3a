"""The block-sparse nets whose instructions are counted on Cortex-M cores are what they claim."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from edgesparse.plan import model as pm
from edgesparse.sparsity.formats import block_occupancy, decode_weights
from needs import require
from test_house import ROOT, only_one

sys.path.append(str(ROOT / "benchmarks"))

import cortex_m_nets as nets

EVERY = [(net, blocks, share) for net, some in nets.NETS.items()
         for blocks in some for share in nets.SHARES]


def macs_of(net: str, blocks: nets.Blocks, share: int) -> list[pm.Mac]:
    """plan_of() itself refuses other encodings than those of `blocks`."""
    steps = nets.plan_of(net, blocks, share, "cortex-m4").model.steps
    return [step.source for step in steps if isinstance(step.source, pm.Mac)]


@pytest.mark.parametrize(("net", "blocks", "share"), EVERY, ids=str)
def test_zeros_stand_in_blocks_of_the_share(net: str, blocks: nets.Blocks, share: int) -> None:
    for mac in macs_of(net, blocks, share):
        if mac.weights.groups[0].encoding is pm.Encoding.DENSE:
            continue
        w = decode_weights(mac.weights)
        occupied = block_occupancy(w, blocks.rows, blocks.cols)
        assert np.count_nonzero(w) == occupied.sum() * blocks.rows * blocks.cols
        assert 1 - occupied.mean() == pytest.approx(share / 100, abs=0.001) or (
            (str(blocks), share, w.shape) == ("1x16", 90, (32, 80)) and occupied.mean() == 0.2)


@pytest.mark.parametrize(("net", "blocks", "share"), EVERY, ids=str)
def test_geometries_are_those_of_the_nets(net: str, blocks: nets.Blocks, share: int) -> None:
    """Nothing was folded away: the layers have all their rows and columns."""
    found = [(m.weights.rows, m.geometry.kernel_w, m.geometry.stride_w, m.geometry.out_w)
             for m in macs_of(net, blocks, share)]
    products = [m.weights.rows * m.weights.cols * m.geometry.out_w
                for m in macs_of(net, blocks, share)]
    if net == "ecg":
        assert found == [(16, 7, 2, 128), (32, 5, 2, 64), (64, 5, 1, 64), (64, 5, 1, 64),
                         (5, 1, 1, 1)]
        assert sum(products) == 2_144_576
    else:
        assert [rows for rows, *_ in found] == [128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
        assert sum(products) == 264_192


def test_the_script_counts_and_sets_the_goal_beside_it() -> None:
    for name in ("arm", "qemu", "cmake"):
        require(name)
    with only_one("measure"):
        done = subprocess.run(
            (sys.executable, ROOT / "benchmarks" / "cortex_m_nets.py", "--net", "ad01",
             "--cpu", "cortex-m4", "--share", "90", "--json"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line: dict[str, Any] = json.loads(done.stdout)
    assert (line["blocks"], line["goal"]) == ("4x4", 85_000)
    assert 20_000 < line["instructions"] < 400_000
