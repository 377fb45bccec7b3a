"""Gradual pruning in blocks of 1, 4 or 16 output channels by one weight."""

from __future__ import annotations

import torch
from torch import Tensor

from demos.ecg.folded import Shape
from demos.ecg.net import ConvBn, EcgNet

FIRST, LAST = 0.02, 0.60
"""Part of the fine-tuning at which pruning begins and is complete."""
REFRESH_STEPS = 10


def sparsity_at(progress: float, final: float) -> float:
    """Cubic ramp: much early, little late.

    Source: Zhu and Gupta 2017, "To prune, or not to prune", eq. 1.
    """
    x = min(max((progress - FIRST) / (LAST - FIRST), 0.0), 1.0)
    return final * (1.0 - (1.0 - x) ** 3)


def block_mask(weight: Tensor, sparsity: float, block: int) -> Tensor:
    """Keep the blocks with the largest L2 norm.

    weight    [outputs, inputs, kernel]
    sparsity  0 .. 1, part of the layer's blocks to remove
    block     consecutive outputs that make a block, at one (input, tap); 1 is unstructured
    returns   like weight, 0.0 or 1.0
    """
    rows = weight.shape[0] // block
    norm = weight.reshape(rows, block, -1).square().sum(dim=1)
    order = norm.flatten().argsort(stable=True)
    mask = torch.ones_like(norm).flatten()
    mask[order[: round(sparsity * len(order))]] = 0.0
    mask = mask.reshape(rows, 1, -1).expand(rows, block, -1)
    return mask.reshape(weight.shape).contiguous()


class Pruner:
    """Holds one mask per pruned layer and keeps the weights under it at zero."""

    def __init__(self, net: EcgNet, shape: Shape) -> None:
        self._layers: list[ConvBn] = net.pruned_layers()
        self._final, self._block = shape.sparsity, shape.block
        self._reached = 0.0
        self._masks = [torch.ones_like(layer.conv.weight) for layer in self._layers]

    @classmethod
    def fixed(cls, net: EcgNet) -> Pruner:
        """Keeps what is zero in a pruned net at zero, and prunes nothing more."""
        pruner = cls(net, net.shape)
        pruner._reached = pruner._final
        pruner._masks = [(layer.conv.weight != 0).float() for layer in pruner._layers]
        return pruner

    @torch.no_grad()
    def apply(self, step: int, steps: int) -> None:
        """Call after each optimizer step: refresh the masks when due, then zero what they hide."""
        last = step + 1 == steps
        if self._reached < self._final and (step % REFRESH_STEPS == 0 or last):
            self._reached = self._final if last else sparsity_at(step / steps, self._final)
            self._masks = [
                block_mask(layer.conv.weight, self._reached, self._block) for layer in self._layers
            ]
        self.hide(self._layers)

    @torch.no_grad()
    def hide(self, layers: list[ConvBn]) -> None:
        """Zero the hidden weights of these layers (the net's own, or those of a copy of it)."""
        for layer, mask in zip(layers, self._masks, strict=True):
            layer.conv.weight.mul_(mask)
