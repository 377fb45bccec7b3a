"""The steps of a model while they are made, and tensors seen in the shape a step needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Graph, Node, Shape, Tensor
from edgesparse.mapping import stages
from edgesparse.mapping.draft import Draft
from edgesparse.mapping.views import View, reshaped
from edgesparse.mapping.weights import PORTABLE, WeightPolicy
from edgesparse.plan import model as pm
from edgesparse.plan.stream_model import Stream
from edgesparse.target import NpuConfig


@dataclass(frozen=True)
class Slot:
    """A tensor that is columns of a ring: the ring of which tensor, seen how."""

    ring: str
    role: pm.RingRole
    lag: int = 0


@dataclass(frozen=True)
class Remembered:
    """A ring of the plan before it has an address."""

    columns: int
    channels: int
    zero_point: int = 0
    use: pm.RingUse = pm.RingUse.COLUMNS


@dataclass(frozen=True)
class Fusion:
    """on   nodes join the step before them
    npu  the machine whose kernels they join; None: the portable core, which runs any tail"""

    on: bool = True
    npu: NpuConfig | None = None


FULL = Fusion()


@dataclass
class Lowered:
    """The steps of a model and where each tensor's bytes are, relative to its root."""

    graph: Graph
    drafts: list[Draft] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    rings: dict[str, Remembered] = field(default_factory=dict)
    """By the tensor whose columns or sums they are, or by the name of an operator's state."""
    slots: dict[str, Slot] = field(default_factory=dict)
    """Tensors that are windows into a ring; they have no view."""
    stream: Stream | None = None
    """The table of a hop model; the assembler says where its state stands."""
    weights: WeightPolicy = PORTABLE
    """How the target wants weights."""
    fusion: Fusion = FULL
    """Whether nodes join the step before them, and whose kernels decide."""
    splits: list[str] = field(default_factory=list)
    """Groups that the machine is too small for: where they were cut, and why."""


def as_matrix(low: Lowered, node: Node, name: str, columns: int, channels: int) -> str:
    """`name` as [columns, channels]: itself, an alias, or a copy where the bytes are not dense."""
    x = low.tensors[name]
    if (x.columns, x.channels) == (columns, channels):
        return name
    flat = add_tensor(low, x, f"{name}:{columns}x{channels}", (columns, channels))
    if flat in low.views:
        return flat
    view = reshaped(x, low.views[name], low.tensors[flat]) if name in low.views else None
    if view is None:
        low.views[flat] = View(flat, 0, channels)
        low.drafts.append(Draft(
            name, stages.box_copy((x.size,), (0, (1,)), (0, (1,))), flat, (), node.origin))
    else:
        low.views[flat] = view
    return flat


def as_matrix_result(low: Lowered, name: str, columns: int, channels: int) -> str:
    """The tensor a Mac writes so that `name` holds its result."""
    y = low.tensors[name]
    if (y.columns, y.channels) == (columns, channels):
        return name
    flat = add_tensor(low, y, f"{name}:{columns}x{channels}", (columns, channels))
    view = reshaped(y, low.views[name], low.tensors[flat])
    if view is None:
        raise Unsupported(
            name, "result", f"shape {list(y.shape)} does not hold {columns} columns of "
            f"{channels} channels", "a Reshape after this layer")
    low.views[flat] = view
    return flat


def same_or_one(t: Tensor, out: Tensor) -> bool:
    """Whether `t` broadcasts to `out` along all columns or none of them."""
    aligned = (1,) * (len(out.shape) - len(t.shape)) + t.shape
    columns = list(zip(aligned[:-1], out.shape[:-1], strict=True))
    return all(a == o for a, o in columns) or all(a == 1 for a, _ in columns)


def same_box(t: Tensor, out: Tensor) -> bool:
    return (t.columns, t.channels) == (out.columns, out.channels)


def broadcastable(low: Lowered, node: Node, name: str, out: Tensor) -> str:
    """`name` where columns and channels are those of `out` or 1; otherwise a full copy of it."""
    t = low.tensors[name]
    if same_or_one(t, out):
        return name
    aligned = (1,) * (len(out.shape) - len(t.shape)) + t.shape
    full = add_tensor(low, t, f"{name}:{'x'.join(map(str, out.shape))}", out.shape)
    if full not in low.views:
        low.views[full] = View(full, 0, out.channels)
        strides = stages.strides_of(aligned)
        read = [0 if a == 1 else s for a, s in zip(aligned, strides, strict=True)]
        low.drafts.append(Draft(
            name, stages.box_copy(out.shape, (0, read), (0, stages.strides_of(out.shape))), full,
            (), node.origin))
    return full


def add_tensor(low: Lowered, like: Tensor, name: str, shape: Shape) -> str:
    """A tensor of the plan that the graph does not have; the same name gives the same tensor."""
    while name in low.graph.tensors:
        name += "'"
    low.tensors.setdefault(name, Tensor(name, shape, like.dtype, like.quant))
    return name


def add_state(low: Lowered, name: str, shape: Remembered) -> int:
    """A ring that belongs to a source; returns its number in the plan."""
    while name in low.rings or name in low.tensors:
        name += "'"
    low.rings[name] = shape
    return len(low.rings) - 1


def contiguous_output(low: Lowered, name: str) -> str:
    """Plan outputs are dense: copy what is only a window into other bytes."""
    t, view = low.tensors[name], low.views.get(name)
    if view is not None and (view.pitch == t.channels or t.columns == 1):
        return name
    dense = add_tensor(low, t, f"{name}:output", t.shape)
    low.views[dense] = View(dense, 0, t.channels)
    low.drafts.append(Draft(
        name, stages.box_copy((t.size,), (0, (1,)), (0, (1,))), dense, (), ()))
    return dense
