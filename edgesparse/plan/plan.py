"""A plan as users hold it: the bytes of the file, and what they say about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgesparse.errors import BadInput
from edgesparse.files import write_whole
from edgesparse.graph.ir import Shape
from edgesparse.plan import model as pm
from edgesparse.plan.read import flatbuffer_of, read_plan
from edgesparse.plan.write import sha256_of
from edgesparse.sparsity.formats import format_of

KINDS: dict[type, str] = {
    pm.Requant: "requant", pm.Clamp: "clamp", pm.Lut: "lut", pm.Add: "add", pm.Mul: "mul",
    pm.AddSingleRequant: "add_single_requant", pm.MaxPool: "max_pool", pm.AvgPool: "avg_pool",
    pm.Mean: "mean", pm.Softmax: "softmax", pm.Load: "load", pm.Copy: "copy",
    pm.Lstm: "lstm", pm.Svdf: "svdf",
}


@dataclass(frozen=True)
class GroupInfo:
    """Consecutive rows stored in one encoding."""

    encoding: str
    """As people say it: "dense", "bsr 4x1", "2:4"."""
    rows: int
    bytes: int
    """Values and index."""


@dataclass(frozen=True)
class LayerInfo:
    """One step of a plan; without weights, the numbers about them are 0.

    kind          "conv1d", "conv2d", "depthwise", "fully_connected", "lstm", "svdf", "copy", or the
                  first stage
    inputs        shapes of the input and of every further operand
    macs          as if no weight were zero and no tap lay in the padding: rows * columns of the
                  weight matrix * output positions
    macs_stored   the same of the weights that are not zero
    zeros         share of weights that are zero
    weight_bytes  values and index of all groups
    dense_bytes   what they would take without any encoding
    layout        of the first output
    """

    name: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    stages: tuple[str, ...]
    layout: str
    macs: int = 0
    macs_stored: int = 0
    zeros: float = 0.0
    encodings: tuple[GroupInfo, ...] = ()
    weight_bytes: int = 0
    dense_bytes: int = 0


@dataclass(frozen=True)
class IoInfo:
    """An input or output; stored = round(real / scale) + zero_point. The device has int8; the
    user's model had float32 here where `float_io`, and stored + 128 in uint8 where `uint8_io`."""

    name: str
    shape: Shape
    scale: float
    zero_point: int
    float_io: bool
    uint8_io: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """A whole plan file; made by from_bytes() or load()."""

    data: bytes
    model: pm.PlanModel

    def __repr__(self) -> str:
        name = self.model.names.model if self.model.names else "?"
        return (f"Plan({name!r}, {len(self.model.steps)} steps, {self.ram_bytes:,} bytes of RAM, "
                f"{self.flash_bytes:,} of flash)")

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan:
        """Raises PlanInvalid."""
        return cls(bytes(data), read_plan(data))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Raises BadInput when the file cannot be read, PlanInvalid when it is no plan."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}") from error

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all. Raises BadInput when it cannot be written."""
        try:
            write_whole(Path(path), lambda file: file.write(self.data))
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}") from error

    @property
    def ram_bytes(self) -> int:
        """The arena a session needs, to the byte."""
        return self.model.arena_bytes

    @property
    def flash_bytes(self) -> int:
        """The whole file."""
        return len(self.data)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the FlatBuffer, hexadecimal, as in the trailer."""
        return sha256_of(flatbuffer_of(self.data)).hex()

    @cached_property
    def layers(self) -> tuple[LayerInfo, ...]:
        """One entry per step, in execution order."""
        names = self.model.names.steps if self.model.names else ()
        return tuple(
            self._layer(step, _name(names, i, "step")) for i, step in enumerate(self.model.steps))

    @cached_property
    def inputs(self) -> tuple[IoInfo, ...]:
        return self._ios(self.model.inputs, self.model.names.inputs if self.model.names else (),
                         "input")

    @cached_property
    def outputs(self) -> tuple[IoInfo, ...]:
        return self._ios(self.model.outputs, self.model.names.outputs if self.model.names else (),
                         "output")

    def _ios(
        self, ios: Sequence[pm.Io], names: Sequence[str], what: str
    ) -> tuple[IoInfo, ...]:
        tensors = [self.model.tensors[io.tensor] for io in ios]
        return tuple(
            IoInfo(_name(names, i, what), t.shape, t.scale, t.place.zero_point, io.float_io,
                   io.uint8_io)
            for i, (io, t) in enumerate(zip(ios, tensors)))

    def _layer(self, step: pm.Step, name: str) -> LayerInfo:
        tensors = self.model.tensors
        stages = [stage for branch in step.branches for stage in branch.stages]
        reads = [step.input, *(
            s.operand for s in stages if isinstance(s, (pm.Add, pm.Mul, pm.AddSingleRequant)))]
        outputs = [tensors[branch.output] for branch in step.branches]
        kinds = tuple(KINDS[type(stage)] for stage in stages)
        inputs = tuple(tensors[i].shape for i in reads)
        shapes, layout = tuple(t.shape for t in outputs), outputs[0].place.layout.name
        source = step.source
        macs = pm.macs_of(source)
        if not macs:
            kind = kinds[0] if kinds else KINDS[type(source)]
            return LayerInfo(name, kind, inputs, shapes, kinds, layout)
        kind = _mac_kind(source.geometry) if isinstance(source, pm.Mac) else KINDS[type(source)]
        groups = [group for mac in macs for group in mac.weights.groups]
        encodings = tuple(
            GroupInfo(format_of(group).name, group.row_count, len(group.values) + len(group.index))
            for group in groups)
        # An LSTM multiplies its recurrent weights once for each column of its input.
        positions = macs[0].geometry.out_h * macs[0].geometry.out_w
        dense = sum(mac.weights.rows * mac.weights.cols for mac in macs)
        nnz = sum(group.nnz for group in groups)
        filters = source.time.size if isinstance(source, pm.Svdf) else 0
        return LayerInfo(
            name, kind, inputs, shapes, kinds, layout, macs=dense * positions + filters,
            macs_stored=nnz * positions + filters, zeros=1 - nnz / dense, encodings=encodings,
            weight_bytes=sum(e.bytes for e in encodings), dense_bytes=dense)


def _mac_kind(g: pm.Geometry) -> str:
    if g.groups > 1 and g.groups == g.in_c:
        return "depthwise"
    if g.in_h * g.in_w == 1 and g.groups == 1:
        return "fully_connected"
    return "conv1d" if g.in_h == 1 and g.kernel_h == 1 else "conv2d"


def _name(names: Sequence[str], number: int, what: str) -> str:
    """The stored name, or a number where a plan was stripped of its names."""
    return names[number] if number < len(names) and names[number] else f"{what} {number}"
