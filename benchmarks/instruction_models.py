"""The plans that the instruction costs of Cortex-M targets are fitted to, and those that they are
held against: shipped models, and random nets that have what those lack.

No model is in both. Random nets are int8 with random weights; a seed is a net.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cortex_m_nets import NETS, SHARES, Blocks, masked, model_of

from edgesparse.convert import Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.streaming.plan import StreamOptions
from edgesparse.target import load_target
from tflite_chain import Net

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "edgesparse" / "demo"

FITTED = (
    *(f"models/arm/arm_kws_{name}" for name in ("cnn_s", "dnn_s", "lstm_s")),
    *(f"cases/tflite/{name}" for name in ("b16", "cr", "mu", "s2b", "sfc_dense")),
    "models/har/har_ashwinbyte_int8", "models/pcg/pcg_mfcc_int8",
    "models/mlperf/mlperf_strm_ww_old_int8", "models/tflm/tflm_micro_speech",
    "models/tflm/tflm_hello_int8", "models/tflm/tflm_person_detect",
    *(f"models/generated/{name}" for name in (
        "conv1d_uns80_int8", "conv2d_uns0_int8", "conv2d_b1480_int8", "dw_uns80_int8",
        "gru_unroll_uns0_int8", "legacy_lstm_int8", "mlp_b11680_int8")),
)
JUDGED = (
    *(f"models/mlperf/mlperf_{name}_int8" for name in ("ad01", "kws_dscnn", "ic_resnet8", "vww")),
    "models/arm/arm_kws_dscnn_s", "models/ecg/ecg_classifyheartbeats_quant",
    "models/pcg/pcg_oldmodels_lmfe_int8", "models/tflm/tflm_mnist_lstm_int8",
    "models/tflm/tflm_dtln_lstm",
    *(f"models/generated/{name}" for name in ("conv2d_uns50_int8", "mlp_uns80_int8_SP")),
)
"""Below the data root, without .tflite."""

FITTED_STREAMS = (
    ("ecg_c15_dense", 8), ("ecg_c24_dense", 8), ("ecg_c24_dense", 40), ("ecg_c48_16x1_75", 16))
JUDGED_STREAMS = (("ecg_c48_4x1_75", 8), ("ecg_c48_dense", 8), ("ecg_c48_4x1_75", 32))
"""Demo nets, and input columns a hop."""

FITTED_SEEDS, JUDGED_SEEDS = range(100, 190), range(900, 910)
CHOICES = (Blocks(4, 1), Blocks(1, 4), Blocks(2, 4), Blocks(4, 4), Blocks(1, 16))


@dataclass(frozen=True)
class Case:
    """A plan for a target, made when it is asked for; chunk: samples of a hop, 0: no stream."""

    name: str
    make: Callable[[str], Plan]
    chunk: int = 0


def fitted(data_root: Path) -> Iterator[Case]:
    """Encodings are chosen by bytes: the costs that would choose otherwise are not known yet."""
    yield from (_shipped(data_root, name, by_bytes=True) for name in FITTED)
    yield from (_stream(*stream, by_bytes=True) for stream in FITTED_STREAMS)
    yield from (_random(seed) for seed in FITTED_SEEDS)


def judged(data_root: Path) -> Iterator[Case]:
    yield from (_shipped(data_root, name) for name in JUDGED)
    yield from (_stream(*stream) for stream in JUDGED_STREAMS)
    yield from (_random(seed) for seed in JUDGED_SEEDS)
    for net, some in NETS.items():
        for blocks in some:
            for share in SHARES:
                if share or blocks == some[0]:
                    yield Case(f"{net} {blocks} {share} %", partial(_blocks, net, blocks, share))


def _shipped(data_root: Path, name: str, by_bytes: bool = False) -> Case:
    path = data_root / f"{name}.tflite"
    return Case(name.split("/")[-1], partial(_converted, path, Options(), by_bytes))


def _stream(net: str, hop: int, by_bytes: bool = False) -> Case:
    """A hop of the shipped ECG: half as many columns as samples at 360 Hz."""
    options = Options(stream=StreamOptions(hop=hop, frontend="ecg360", beats=True))
    return Case(f"{net} hop {hop}", partial(
        _converted, DEMO / f"{net}.tflite", options, by_bytes), 2 * hop)


def _converted(path: Path, options: Options, by_bytes: bool, target: str) -> Plan:
    if by_bytes:
        options = replace(options, encodings=load_target(target).encodings)
    return convert_model(path, target, options).plan


def _blocks(net: str, blocks: Blocks, share: int, target: str) -> Plan:
    options = Options(encodings=("dense", blocks.encoding))
    return convert_model(model_of(net, blocks, share), target, options).plan


# ---- random nets


def _random(seed: int) -> Case:
    return Case(f"random net {seed}", partial(plan_of_net, seed))


def plan_of_net(seed: int, target: str) -> Plan:
    """With one kind of blocks. Some fitted nets have nothing else, also where weights are not zero
    or blocks do not fit, as no converter would have it."""
    rng = np.random.default_rng(seed)
    blocks = CHOICES[seed % len(CHOICES)]
    kind = (conv1d, conv2d, perceptron, conv1d)[seed // len(CHOICES) % 4]
    model = kind(Net(rng), rng, blocks)
    alone = seed in FITTED_SEEDS and seed % 3 == 0
    only = (f"bsr {blocks}",) if alone else ("dense", f"bsr {blocks}")
    return convert_model(model, target, Options(encodings=only)).plan


def _pick(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _weights(rng: np.random.Generator, shape: tuple[int, ...], blocks: Blocks) -> Array:
    """Half of the layers that blocks fit have zeros."""
    fits = shape[0] % blocks.rows == 0 and shape[-1] % blocks.cols == 0
    share = _pick(rng, 0, 0, 0, 40, 60, 75, 85, 92) if fits else 0
    return masked(rng, shape, blocks if fits else Blocks(1, 1), share)


def conv1d(net: Net, rng: np.random.Generator, blocks: Blocks) -> bytes:
    """Convolutions over time, some depthwise, some with a shortcut; a mean; fully connected."""
    x = net.input(1, 1, int(rng.integers(40, 260)), _pick(rng, 1, 2, 3, 4, 6, 16))
    for _ in range(rng.integers(2, 5)):
        x = _layer1d(net, rng, blocks, x)
    return _head(net, rng, blocks, x)


def _layer1d(net: Net, rng: np.random.Generator, blocks: Blocks, x: str) -> str:
    channels, columns = net.shape(x)[-1], net.shape(x)[-2]
    how: dict[str, Any] = {
        "padding": _pick(rng, "same", "same", "valid"),
        "activation": _pick(rng, "relu", "relu", "none")}
    kind = rng.integers(8)
    if kind == 0 and channels >= 4:
        return net.depthwise(x, (1, _pick(rng, 3, 5, 9)), **how)
    if kind == 1:
        return net.pool(_pick(rng, "MAX_POOL_2D", "AVERAGE_POOL_2D"), x, (1, 2))
    if kind == 2 and channels >= 8:
        w = _weights(rng, (channels, 1, 3, channels), blocks)
        y = net.conv(x, channels, (1, 3), weights=w, padding="same")
        return net.binary("ADD", x, y, "relu")
    rows, taps = _pick(rng, 8, 12, 16, 20, 32, 40, 48, 64, 96), _pick(rng, 1, 3, 5, 7, 9)
    stride = _pick(rng, 1, 1, 2) if columns > 30 else 1
    w = _weights(rng, (rows, 1, taps, channels), blocks)
    return net.conv(x, rows, (1, taps), weights=w, stride=(1, stride), **how)


def conv2d(net: Net, rng: np.random.Generator, blocks: Blocks) -> bytes:
    """A small image; every second convolution depthwise or a pool; fully connected."""
    side = int(rng.integers(10, 26))
    x = net.input(1, side, side, _pick(rng, 1, 3, 4))
    for number in range(rng.integers(2, 6)):
        channels, size = net.shape(x)[-1], _pick(rng, 1, 3, 3, 5)
        stride = _pick(rng, 1, 1, 2) if net.shape(x)[1] > 8 else 1
        if number % 2 and channels >= 8:
            kind = rng.integers(3)
            if kind == 0:
                x = net.depthwise(x, (3, 3), stride=(stride,) * 2, activation="relu")
                continue
            if kind == 1 and net.shape(x)[1] > 5:
                x = net.pool(_pick(rng, "MAX_POOL_2D", "AVERAGE_POOL_2D"), x, (2, 2))
                continue
        rows = _pick(rng, 8, 16, 24, 32, 48)
        w = _weights(rng, (rows, size, size, channels), blocks)
        x = net.conv(x, rows, (size, size), weights=w, stride=(stride,) * 2, activation="relu")
    return _head(net, rng, blocks, x)


def perceptron(net: Net, rng: np.random.Generator, blocks: Blocks) -> bytes:
    """Fully connected layers."""
    x = net.input(1, _pick(rng, 32, 100, 256, 490))
    for _ in range(rng.integers(2, 5)):
        rows = _pick(rng, 10, 32, 64, 96, 144, 256)
        w = _weights(rng, (rows, net.shape(x)[-1]), blocks)
        x = net.dense(x, rows, _pick(rng, "relu", "relu", "none"), weights=w)
    return net.build(net.softmax(x) if net.shape(x)[-1] <= 32 and rng.integers(2) else x)


def _head(net: Net, rng: np.random.Generator, blocks: Blocks, x: str) -> bytes:
    if rng.integers(3):
        x = net.pool("AVERAGE_POOL_2D", x, net.shape(x)[1:3])
    x = net.flat(x)
    w = _weights(rng, (_pick(rng, 4, 8, 10, 16), net.shape(x)[-1]), blocks)
    x = net.dense(x, w.shape[0], weights=w)
    return net.build(net.softmax(x) if rng.integers(2) else x)
