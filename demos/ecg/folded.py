"""A trained net as plain convolutions: how one is stored and run in floating point, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ConvSpec:
    """One convolution, causal: dilation * (kernel - 1) zeros before the first input, none after."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    residual: bool = False
    pruned: bool = False
    head: bool = False


@dataclass(frozen=True)
class Shape:
    """One of the shipped nets.

    widths    channels of the three stem layers; the last is also the width of the six blocks
    block     rows (output channels) of a block of weights that are pruned together
    sparsity  part of each pruned layer's blocks that is zero; 0 is dense
    """

    widths: tuple[int, int, int]
    block: int = 1
    sparsity: float = 0.0

    def specs(self) -> tuple[ConvSpec, ...]:
        """All convolutions before the head."""
        one, two, three = self.widths
        return (
            ConvSpec("stem1", 1, one, 7, stride=2),
            ConvSpec("stem2", one, two, 5, stride=2, pruned=True),
            ConvSpec("stem3", two, three, 5, stride=2, pruned=True),
            *(
                ConvSpec(f"block{i + 1}", three, three, 3, 1, 2**i, residual=True, pruned=True)
                for i in range(6)
            ),
        )

    def head(self) -> ConvSpec:
        """The last convolution, to four logits."""
        return ConvSpec("head", self.widths[-1], 4, 1, head=True)


C48, C24, C15 = (16, 32, 48), (8, 16, 24), (5, 10, 15)
SHAPES = {
    "ecg_c48_4x1_75": Shape(C48, 4, 0.75),
    "ecg_c48_16x1_75": Shape(C48, 16, 0.75),
    "ecg_c48_un_90": Shape(C48, 1, 0.90),
    "ecg_c48_dense": Shape(C48),
    "ecg_c24_dense": Shape(C24),
    "ecg_c15_dense": Shape(C15),
}


@dataclass(frozen=True)
class Folded:
    """A convolution with its batch normalisation folded in.

    weight  [outputs, inputs, kernel] float32
    bias    [outputs] float32
    """

    spec: ConvSpec
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def run_folded(folded: list[Folded], inputs_mv: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Float run of the folded net over a signal of any length, as a stream from rest would see it.

    inputs_mv  [time] mV at 180 Hz
    returns    [ceil(time / 8), 4] float32 logits
    """
    x = np.asarray(inputs_mv, np.float32)[None]
    for layer in folded:
        y = _convolved(x, layer)
        if layer.spec.residual:
            y += x
        x = y if layer.spec.head else np.maximum(y, 0.0, out=y)
    return np.ascontiguousarray(x.T)


def _convolved(x: NDArray[np.float32], layer: Folded) -> NDArray[np.float32]:
    """x [inputs, time] -> [outputs, ceil(time / stride)]; output t reads inputs to stride * t."""
    spec = layer.spec
    padded = np.pad(x, ((0, 0), (spec.dilation * (spec.kernel - 1), 0)))
    starts = [tap * spec.dilation for tap in range(spec.kernel)]
    seen = np.concatenate([padded[:, at : at + x.shape[1] : spec.stride] for at in starts])
    weight = layer.weight.transpose(0, 2, 1).reshape(spec.outputs, -1)
    return np.asarray(weight @ seen + layer.bias[:, None], np.float32)


def with_bias(folded: list[Folded], bias: tuple[float, float, float, float]) -> list[Folded]:
    """The same net with something added to its logits (beat, N, S, V)."""
    *rest, head = folded
    return [*rest, Folded(head.spec, head.weight, head.bias + np.array(bias, np.float32))]


def save(path: Path, folded: list[Folded]) -> None:
    """Write .npz: weight and bias of each layer by its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {f"{f.spec.name}.weight": f.weight for f in folded}
    parts |= {f"{f.spec.name}.bias": f.bias for f in folded}
    np.savez(path, **parts)


def load(path: Path, shape: Shape) -> list[Folded]:
    """What save() wrote. Raises ValueError when it is a net of another shape."""
    with np.load(path) as parts:
        specs = (*shape.specs(), shape.head())
        folded = [
            Folded(s, parts[f"{s.name}.weight"], parts[f"{s.name}.bias"])
            for s in specs
            if f"{s.name}.weight" in parts
        ]
    found = [layer.weight.shape for layer in folded]
    wanted = [(s.outputs, s.inputs, s.kernel) for s in specs]
    if found != wanted:
        raise ValueError(f"{path}: weights {found}, a net of widths {shape.widths} has {wanted}")
    return folded
