"""The plan as frozen dataclasses: twins of plan.fbs, table by table and field by field.

docs/PLAN_FORMAT.md says what each field means. The annotation of a field is its type in the
schema, the order of the fields is the schema's, and codec.py reads and writes by nothing else.
A field without a default is `required` in the schema, unless it is a number or a string.
Sources stand in source_model.py, the tables of streaming in stream_model.py, those of the NPU in
npu_model.py.

Three simplifications of the schema's shapes:
a union field holds the table itself (`Step.source` is a Mac, a Load, ...); a `Stage` table is
its body (`Branch.stages` is a tuple of Requant, Clamp, ...); an absent string is "", an absent
vector or list is an empty one, unless the field says `| None`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from edgesparse.plan.npu_model import Npu, NpuBlob
from edgesparse.plan.scalars import (
    F32,
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    Bool,
    Bytes,
    I8Array,
    I32Array,
    Int8Aligned,
    Int8Data,
    U32Tuple,
)
from edgesparse.plan.source_model import BiasForm as BiasForm
from edgesparse.plan.source_model import Copy as Copy
from edgesparse.plan.source_model import Encoding as Encoding
from edgesparse.plan.source_model import Geometry as Geometry
from edgesparse.plan.source_model import Load as Load
from edgesparse.plan.source_model import Lstm as Lstm
from edgesparse.plan.source_model import Mac as Mac
from edgesparse.plan.source_model import RowGroup as RowGroup
from edgesparse.plan.source_model import Scaled as Scaled
from edgesparse.plan.source_model import Source as Source
from edgesparse.plan.source_model import Svdf as Svdf
from edgesparse.plan.source_model import Weights as Weights
from edgesparse.plan.source_model import macs_of as macs_of
from edgesparse.plan.source_model import rings_of as rings_of
from edgesparse.plan.stream_model import Stream
from edgesparse.quantize.fixedpoint import Rounding


class DType(IntEnum):
    INT8 = 0


class Layout(IntEnum):
    """Where element (column, channel) stands: docs/PLAN_FORMAT.md section 2."""

    NWC = 0
    PLANAR = 1
    C4 = 2
    POLYPHASE = 3


class RingRole(IntEnum):
    NONE = 0
    APPEND = 1
    VIEW = 2


class RingUse(IntEnum):
    """COLUMNS: of tensors; SUMS: of one Running."""

    COLUMNS = 0
    SUMS = 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a tensor's elements stand; a constant or ring tensor has offset 0."""

    offset: U32
    pitch: U32
    columns: U32
    channels: U32
    halo: U16 = 0
    ring: I16 = -1
    ring_lag: U16 = 0
    ring_role: RingRole = RingRole.NONE
    layout: Layout = Layout.NWC
    phases: U8 = 1
    dtype: DType = DType.INT8
    zero_point: I8
    reserved: U8 = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """A value of the plan; `data` is present exactly when it is a constant."""

    shape: U32Tuple
    place: Place
    scale: F32
    data: Int8Aligned | None = None


@dataclass(frozen=True, kw_only=True)
class Ring:
    """Storage of `columns` columns of `channels` bytes that survives from run to run."""

    offset: U32
    columns: U32
    channels: U32
    zero_point: I8
    use: RingUse = RingUse.COLUMNS
    reserved: U16 = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Requant:
    multiplier: I32Array
    shift: I8Array
    zero_point: I8
    qmin: I8
    qmax: I8
    rounding: Rounding


@dataclass(frozen=True, kw_only=True)
class Clamp:
    qmin: I8
    qmax: I8


@dataclass(frozen=True, kw_only=True, eq=False)
class Lut:
    """`table` is [256] int8, the entry of value v at v + 128."""

    table: Int8Aligned


@dataclass(frozen=True, kw_only=True)
class Add:
    operand: U16
    left_shift: U8
    value: Scaled
    other: Scaled
    out: Scaled
    negate_value: Bool = False
    negate_other: Bool = False
    qmin: I8
    qmax: I8
    rounding: Rounding


@dataclass(frozen=True, kw_only=True)
class Mul:
    operand: U16
    value_zero_point: I8
    other_zero_point: I8
    out: Scaled
    qmin: I8
    qmax: I8
    rounding: Rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class AddSingleRequant:
    operand: U16
    other_zero_point: I8
    multiplier: I32Array
    other_multiplier: I32Array
    shift: I8Array
    zero_point: I8
    qmin: I8
    qmax: I8


@dataclass(frozen=True, kw_only=True)
class Window:
    in_h: U16 = 1
    in_w: U16 = 1
    out_h: U16 = 1
    out_w: U16 = 1
    kernel_h: U16 = 1
    kernel_w: U16 = 1
    stride_h: U16 = 1
    stride_w: U16 = 1
    pad_top: U16 = 0
    pad_left: U16 = 0


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a Mean or AvgPool counts besides the columns that come in.

    ring     use SUMS
    each     an entry of it is a column, not the sum of a block of them
    fresh    of the columns that come in the first so many are remembered
    columns  the newest so many remembered ones count
    """

    ring: U16
    each: Bool
    fresh: U32
    columns: U32

    @property
    def tail(self) -> int:
        """Columns of the last block of a run, 0 where it has only one."""
        return 0 if self.each else self.columns % self.fresh

    @property
    def entries(self) -> int:
        """In the ring: the blocks of the window."""
        if self.each:
            return self.columns
        return self.columns // self.fresh * (2 if self.tail else 1) + (1 if self.tail else 0)

    @property
    def entry_bytes(self) -> int:
        """Of a channel: a value of int8, the sum of up to 256 of them, or of more."""
        return 1 if self.each else 2 if self.fresh <= 256 else 4


@dataclass(frozen=True, kw_only=True)
class MaxPool:
    window: Window
    qmin: I8
    qmax: I8


@dataclass(frozen=True, kw_only=True)
class AvgPool:
    window: Window
    qmin: I8
    qmax: I8
    running: Running | None = None


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Over all columns; 1 / columns is folded into `scaled`."""

    in_zero_point: I8
    scaled: Scaled
    qmin: I8
    qmax: I8
    rounding: Rounding
    running: Running | None = None


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Over the channels of a column."""

    multiplier: I32
    shift: I8
    diff_min: I32


StageBody: TypeAlias = (
    Requant | Clamp | Lut | Add | Mul | AddSingleRequant | MaxPool | AvgPool | Mean | Softmax
)


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Channels [first_channel, first_channel + channels) of the source, their tail and output."""

    first_channel: U32 = 0
    channels: U32
    output: U16
    stages: tuple[StageBody, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    input: U16
    source: Source
    branches: tuple[Branch, ...]
    scratch_offset: U32 = 0
    scratch_bytes: U32 = 0


@dataclass(frozen=True, kw_only=True)
class Io:
    tensor: U16
    float_io: Bool = False
    uint8_io: Bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Golden:
    """The self test: what a run on the inputs that `seed` stands for must give."""

    seed: U32
    trace_crc: U32
    outputs: Int8Data


@dataclass(frozen=True, kw_only=True)
class Names:
    model: str = ""
    tensors: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlanModel:
    """The root table, `Plan` in the schema."""

    format: U16 = 1
    target: str
    config: U32 = 0
    tensors: tuple[Tensor, ...]
    rings: tuple[Ring, ...] = ()
    steps: tuple[Step, ...]
    inputs: tuple[Io, ...]
    outputs: tuple[Io, ...]
    state_bytes: U32 = 0
    arena_bytes: U32
    golden: Golden | None = None
    source_sha256: Bytes | None = None
    producer: str = ""
    options: str = ""
    names: Names | None = None
    stream: Stream | None = None
    npu: Npu | None = None


STRUCTS: frozenset[type] = frozenset({Place, Ring, Geometry, Scaled, Window, NpuBlob})
"""What stands inline in its table, every field written; the other classes are tables."""


def same(a: Any, b: Any) -> bool:
    """Whether two parts of a plan have the same content, arrays included."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, (int, float, np.number)):
        return bool(a == b)
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)
