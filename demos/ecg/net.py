"""The net: a causal, dilated, residual 1-D CNN of 52 k weights, 4 logits per 8 inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

S_LOGIT_BIAS = -0.7
"""Added to the S logit at export, against the weight of S in the loss. Chosen on DS1 records."""


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


STEM = (
    ConvSpec("stem1", 1, 16, 7, stride=2),
    ConvSpec("stem2", 16, 32, 5, stride=2, pruned=True),
    ConvSpec("stem3", 32, 48, 5, stride=2, pruned=True),
)
BLOCKS = tuple(
    ConvSpec(f"block{i + 1}", 48, 48, 3, dilation=2**i, residual=True, pruned=True)
    for i in range(6)
)
HEAD = ConvSpec("head", 48, 4, 1)
SPECS = (*STEM, *BLOCKS)


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

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ConvBn(spec) for spec in SPECS)
        self.drop = nn.Dropout1d(0.1)
        self.head = nn.Conv1d(HEAD.inputs, HEAD.outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits without the S bias, as the loss wants them."""
        for layer in self.layers:
            y = layer(x)
            x = torch.relu(x + y) if layer.spec.residual else torch.relu(y)
        out: Tensor = self.head(self.drop(x))
        return out

    def pruned_layers(self) -> list[ConvBn]:
        """The layers whose weights may be pruned."""
        return [layer for layer in self.layers if isinstance(layer, ConvBn) and layer.spec.pruned]


def fold(net: EcgNet) -> list[Folded]:
    """The net as plain convolutions, in order, head last, S bias inside the head."""
    folded = [layer.folded() for layer in net.layers if isinstance(layer, ConvBn)]
    assert net.head.bias is not None
    bias = net.head.bias.detach().numpy().copy()
    bias[2] += S_LOGIT_BIAS
    return [*folded, Folded(HEAD, net.head.weight.detach().numpy().copy(), bias)]


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
            x = y if layer.spec is HEAD else torch.relu(y)
        return np.asarray(x[0].T.numpy(), np.float32)
