"""The nets: causal, dilated, residual 1-D CNNs, 4 logits per 8 inputs; C48 has 52 k weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from demos.ecg.folded import ConvSpec, Folded, Shape


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
