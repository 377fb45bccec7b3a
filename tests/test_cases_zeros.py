"""The cases that break other tools, ../shared/cases/README.md: A7 and A8, what zeros bring."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from command_line import Ran
from edgesparse.convert import Conversion, convert_model
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import LayerInfo, Plan
from edgesparse.sparsity.choose import MIN_SAVING
from edgesparse.sparsity.formats import Bitmask, decode_weights
from test_cases import assert_exact, source_of
from tflite_chain import Net

# ---- A7: one net at 0, 50, 80, 95 % zeros ------------------------------------------------------


def pruned(zeros: float) -> bytes:
    """The same random net with the smallest weights set to 0; of the depthwise layers, which are
    small, at most a third."""
    net = Net(np.random.default_rng(7))
    x = net.input(1, 1, 128, 4)
    for rows in (32, 48, 64):
        x = net.conv(x, rows, (1, 5), stride=(1, 2), activation="relu", zeros=zeros)
        x = net.depthwise(x, (1, 3), activation="relu", zeros=min(zeros, 1 / 3))
    return net.build(net.dense(net.flat(x), 5, zeros=zeros))


def test_a7_bytes_and_macs_fall_with_the_zeros_or_the_report_says_why(tmp_path: Path) -> None:
    reports = []
    for percent in (0, 50, 80, 95):
        path = tmp_path / f"net{percent}.tflite"
        path.write_bytes(pruned(percent / 100))
        ran = Ran("convert", path, "-o", tmp_path / f"net{percent}.esp", "--json")
        assert ran.code == 0, ran.err
        reports.append(ran.json)
        assert_exact(Plan.load(tmp_path / f"net{percent}.esp"), path)
    explained = 0
    for denser, sparser in pairwise(reports):
        assert sparser["flash_bytes"] < denser["flash_bytes"]
        assert sparser["totals"]["weight_bytes"] < denser["totals"]["weight_bytes"]
        assert sparser["totals"]["macs_stored"] < denser["totals"]["macs_stored"]
        assert len(sparser["layers"]) == len(denser["layers"])
        for before, after in zip(denser["layers"], sparser["layers"]):
            assert after["macs_stored"] <= before["macs_stored"]
            if after["weight_bytes"] >= before["weight_bytes"]:
                assert after["reason"].endswith("weights of groups stay dense")
                explained += 1
    assert explained > 0
    assert reports[-1]["totals"]["weight_bytes"] < 0.15 * reports[0]["totals"]["weight_bytes"]


# ---- A8: where the encoding flips --------------------------------------------------------------

ROWS, COLUMNS = 32, 64
DENSE = ROWS * COLUMNS


def conv_1x1(zeros: int) -> Conversion:
    """A 1x1 convolution with so many zeros at random places, no two weights alike elsewhere."""
    net = Net(np.random.default_rng(8))
    x = net.input(1, 1, 16, COLUMNS)
    w = net.rng.integers(1, 128, DENSE) * net.rng.choice([-1, 1], DENSE)
    w[net.rng.permutation(DENSE)[:zeros]] = 0
    # Rows keep a weight of 127, so that quantization leaves every number as it is.
    matrix = w.reshape(ROWS, 1, 1, COLUMNS)
    matrix[np.arange(ROWS), 0, 0, np.abs(matrix[:, 0, 0]).argmax(axis=1)] = 127
    return convert_model(net.build(net.conv(x, ROWS, (1, 1), weights=matrix.astype(np.float32))))


def stored(done: Conversion) -> tuple[LayerInfo, str]:
    (layer,), (reason,) = done.plan.layers, done.reasons
    return layer, reason


@pytest.mark.parametrize("percent", range(10, 100, 10))
def test_a8_the_encoding_is_never_larger_than_dense(percent: int) -> None:
    zeros = round(DENSE * percent / 100)
    layer, reason = stored(conv_1x1(zeros))
    assert layer.zeros == pytest.approx(zeros / DENSE)
    assert layer.weight_bytes <= layer.dense_bytes == DENSE
    assert f"{zeros / DENSE:.1%} zeros".replace("%", " %") in reason
    # Of what can hold scattered zeros the bitmask is the plain one; nothing chosen may be larger.
    bitmask = DENSE - zeros + ROWS * COLUMNS // 8
    cheapest = min(DENSE, bitmask)
    assert layer.weight_bytes <= cheapest / (1 - MIN_SAVING)
    sparse = layer.encodings[0].encoding != "dense"
    assert sparse == (bitmask < (1 - MIN_SAVING) * DENSE)
    if sparse:
        assert f"{layer.weight_bytes:,} B against {DENSE:,} B dense" in reason
        assert f"({layer.weight_bytes / DENSE:.0%})".replace("%", " %") in reason
    else:
        assert reason.startswith(f"dense: {zeros / DENSE:.1%}".replace("%", " %"))


def test_a8_it_flips_exactly_at_85_percent_of_dense() -> None:
    """bitmask: a bit per weight and the weights that are not zero; 2,048 * 0.85 = 1,740.8."""
    flip = DENSE - (int((1 - MIN_SAVING) * DENSE) - DENSE // 8)
    assert flip == 564
    before, after = (stored(conv_1x1(zeros)) for zeros in (flip - 1, flip))
    assert [group.encoding for group in before[0].encodings] == ["dense"]
    assert before[0].weight_bytes == DENSE
    assert before[1] == "dense: 27.5 % zeros; 2,048 B, bitmask 1,741 B"
    assert [group.encoding for group in after[0].encodings] == ["bitmask"]
    assert after[0].weight_bytes == Bitmask().size(decode(after[0], flip)) == 1740
    assert after[1].startswith("bitmask: 27.5 % zeros; 1,740 B against 2,048 B dense (85 %)")


def decode(layer: LayerInfo, zeros: int) -> Array:
    """The weights that the plan of conv_1x1(zeros) holds."""
    w = decode_weights(source_of(conv_1x1(zeros).plan, 0).weights)
    assert w.shape == (ROWS, COLUMNS)
    assert np.count_nonzero(w) == DENSE - zeros
    assert layer.zeros == zeros / DENSE
    return w
