"""The nets: causal, dilated, residual 1-D CNNs, 4 logits per 8 inputs; C48 has 52 k weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional


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


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor | None, spec: ConvSpec) -> Tensor:
    """Convolve with zeros before the first input.

    x        [batch, inputs, time]
    returns  [batch, outputs, ceil(time / stride)]; output t reads inputs up to stride * t
    """
    padded = functional.pad(x, (spec.dilation * (spec.kernel - 1), 0))
    return functional.conv1d(padded, weight, bias, spec.stride, 0, spec.dilation)


class ConvBn(nn.Module):
    """Causal convolution and batch normalisation."""

    def __init__(self, spec: ConvSpec) -> None:
        super().__init__()
        self.spec = spec
        self.conv = nn.Conv1d(spec.inputs, spec.outputs, spec.kernel, bias=False)
        self.norm = nn.BatchNorm1d(spec.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, inputs, time] -> [batch, outputs, ceil(time / stride)]."""
        out: Tensor = self.norm(causal_conv(x, self.conv.weight, None, self.spec))
        return out

    def folded(self) -> Folded:
        """Weights in float64, rounded once."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        weight = self.conv.weight.double() * scale[:, None, None]
        bias = norm.bias.double() - norm.running_mean.double() * scale
        return Folded(self.spec, weight.detach().float().numpy(), bias.detach().float().numpy())


class EcgNet(nn.Module):
    """x [batch, 1, time] mV at 180 Hz -> [batch, 4, ceil(time / 8)] logits: beat, N, S, V."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(ConvBn(spec) for spec in shape.specs())
        self.drop = nn.Dropout1d(0.1)
        self.head = nn.Conv1d(shape.widths[-1], 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits beat, N, S, V."""
        for layer in self.layers:
            y = layer(x)
            x = torch.relu(x + y) if layer.spec.residual else torch.relu(y)
        out: Tensor = self.head(self.drop(x))
        return out

    def pruned_layers(self) -> list[ConvBn]:
        """The layers whose weights may be pruned."""
        return [layer for layer in self.layers if isinstance(layer, ConvBn) and layer.spec.pruned]


def fold(net: EcgNet) -> list[Folded]:
    """The net as plain convolutions, in order, head last."""
    folded = [layer.folded() for layer in net.layers if isinstance(layer, ConvBn)]
    assert net.head.bias is not None
    bias = net.head.bias.detach().numpy().copy()
    return [*folded, Folded(net.shape.head(), net.head.weight.detach().numpy().copy(), bias)]


def run_folded(folded: list[Folded], inputs_mv: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Float run of the folded net over a signal of any length, as a stream from rest would see it.

    inputs_mv  [time] mV at 180 Hz
    returns    [ceil(time / 8), 4] float32 logits
    """
    with torch.inference_mode():
        x = torch.from_numpy(np.asarray(inputs_mv, np.float32))[None, None]
        for layer in folded:
            y = causal_conv(
                x, torch.from_numpy(layer.weight), torch.from_numpy(layer.bias), layer.spec
            )
            if layer.spec.residual:
                y = x + y
            x = y if layer.spec.head else torch.relu(y)
        return np.asarray(x[0].T.numpy(), np.float32)
