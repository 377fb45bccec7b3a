"""Which channels of an operator's tensors stay or go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgesparse.graph.ir import Array, Graph, Node, Tensor
from edgesparse.ops.add import Sum
from edgesparse.ops.concat import Concat
from edgesparse.ops.conv import Conv
from edgesparse.ops.fully_connected import FullyConnected
from edgesparse.ops.history import History
from edgesparse.ops.mean import Mean
from edgesparse.ops.mul import Mul
from edgesparse.ops.pad import Pad
from edgesparse.ops.pool import Pool
from edgesparse.ops.quantize import Dequantize, Quantize
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.slice import Slice
from edgesparse.ops.space_to_batch import BatchToSpace, SpaceToBatch
from edgesparse.ops.transpose import Transpose
from edgesparse.ops.unary import Unary


@dataclass(frozen=True, eq=False)
class Link:
    """Channel x_channels[i] of tensor x and y_channels[i] of tensor y: both stay or both go."""

    x: str
    x_channels: Array
    y: str
    y_channels: Array

    def spread(self, kept: Mapping[str, Array]) -> None:
        """Keep what the other side keeps.

        kept  tensor -> bool [channels], changed in place
        """
        np.logical_or.at(kept[self.y], self.y_channels, kept[self.x][self.x_channels])
        np.logical_or.at(kept[self.x], self.x_channels, kept[self.y][self.y_channels])


def links(graph: Graph, node: Node) -> list[Link] | None:
    """What ties the channels (last dimension) of inputs and output together.

    None: the operator does not keep channels apart, all of them stay. A Conv or FullyConnected
    that sums over all channels ties nothing: its rows and its columns go alone.
    """
    op, y = node.op, graph.tensors[node.outputs[0]]
    ins = graph.ins(node)
    last = len(y.shape) - 1
    if isinstance(op, FullyConnected) or (isinstance(op, Conv) and op.groups == 1):
        return []
    if isinstance(op, Conv):
        return [_grouped(op.groups, ins[0], y)]
    if isinstance(op, (Unary, Pool, Quantize, Dequantize, History)):
        return [_same(ins[0], y)]
    if isinstance(op, (Sum, Mul)):
        return [_same(x, y) for x in ins if x.channels == y.channels]  # the rest: broadcast
    if isinstance(op, Concat):
        return _concat(graph, node, y) if op.axis % (last + 1) == last else [
            _same(x, y) for x in ins]
    x = ins[0]
    apart = (
        (isinstance(op, Mean) and len(x.shape) - 1 not in op.dimensions(len(x.shape)))
        or (isinstance(op, Transpose) and last >= 0 and op.perm[-1] == last)
        or (isinstance(op, (SpaceToBatch, BatchToSpace)) and len(op.block) < last)
    )
    if apart:
        return [_same(x, y)]
    if isinstance(op, Reshape):
        return _reshape(x, y)
    if isinstance(op, Slice) and last >= 0 and op.stride[-1] == 1:
        to = np.arange(y.channels)
        return [Link(x.name, op.begin[-1] + to, y.name, to)]
    if isinstance(op, Pad) and last >= 0:
        to = np.arange(x.channels)
        return [Link(x.name, to, y.name, op.before[-1] + to)]
    return None


def _same(x: Tensor, y: Tensor) -> Link:
    every = np.arange(y.channels)
    return Link(x.name, every, y.name, every)


def _grouped(groups: int, x: Tensor, y: Tensor) -> Link:
    """Every input channel of a group with every output channel of it."""
    per_x, per_y = x.channels // groups, y.channels // groups
    group = np.repeat(np.arange(groups), per_x * per_y)
    i = np.tile(np.repeat(np.arange(per_x), per_y), groups)
    o = np.tile(np.arange(per_y), groups * per_x)
    return Link(x.name, group * per_x + i, y.name, group * per_y + o)


def _concat(graph: Graph, node: Node, y: Tensor) -> list[Link]:
    """Along the channels: each input with its part of the output."""
    found, first = [], 0
    for x in graph.ins(node):
        every = np.arange(x.channels)
        found.append(Link(x.name, every, y.name, first + every))
        first += x.channels
    return found


def _reshape(x: Tensor, y: Tensor) -> list[Link] | None:
    """One channel of the narrower tensor is every n-th of the wider."""
    if x.channels % y.channels and y.channels % x.channels:
        return None
    every = np.arange(max(x.channels, y.channels))
    return [Link(x.name, every % x.channels, y.name, every % y.channels)]
