"""Runs plan bytes in NumPy: the plain second implementation beside the C core.

It follows docs/PLAN_FORMAT.md on an arena of its own and shares nothing with native/. Before a
run everything that no plan may rely on is overwritten, so that a plan whose memory map is wrong
gives wrong results here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.plan.arithmetic import apply, convolve
from edgesparse.plan.places import addresses, halo_addresses, ring_addresses
from edgesparse.plan.read import read_plan
from edgesparse.plan.recurrent import lstm, svdf_feature, svdf_time
from edgesparse.sparsity.formats import decode_weights

POISON = 0x5A
WINDOWED = (pm.MaxPool, pm.AvgPool, pm.Mean)


class Interpreter:
    """One session: the arena with its rings, and the weights, decoded once.

    Made from the bytes of a plan; what read_plan does not check is taken to hold (es_plan_open
    checks it). Raises PlanInvalid.
    """

    def __init__(self, plan: bytes) -> None:
        self.model = read_plan(plan)
        self._weights: dict[int, Array] = {}  # by id(): steps may share them
        for step in self.model.steps:
            for mac in pm.macs_of(step.source):
                if id(mac.weights) not in self._weights:
                    decoded = decode_weights(mac.weights).astype(np.float64)
                    self._weights[id(mac.weights)] = decoded
        self._addresses: dict[int, Array] = {}
        self._arena = np.zeros(self.model.arena_bytes, np.int8)
        self._heads = self._arena[: 4 * len(self.model.rings)].view("<u4")
        self.reset()

    def reset(self) -> None:
        """Forget the past: rings hold their zero point."""
        self._arena[:] = 0
        for ring in self.model.rings:
            end = ring.offset + ring.columns * ring.channels
            self._arena[ring.offset : end] = ring.zero_point

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """One run. inputs: int8, one per plan input; returns int8, one per plan output.

        Shapes are those of the tensors. Raises BadInput when an input does not fit.
        """
        for _ in self._steps(inputs):
            pass
        return self._outputs()

    def run_traced(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """One run; returns what each step wrote, by tensor number, read right after the step."""
        return {number: self._shaped(number, values)
                for _, number, values in self._steps(inputs)}

    def run_read(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """One run; returns what each step read, [columns, channels], by the step's number."""
        read: dict[int, Array] = {}
        for _ in self._steps(inputs, read):
            pass
        return read

    def self_test_values(self, seed: int) -> tuple[int, Array]:
        """(trace_crc, outputs) of a run after a reset: docs/PLAN_FORMAT.md section 9.

        outputs: int8, all elements of all outputs in order.
        """
        self.reset()
        tensors = [self.model.tensors[io.tensor] for io in self.model.inputs]
        sizes = [t.place.columns * t.place.channels for t in tensors]
        stream = self_test_inputs(seed, sum(sizes))
        parts = np.split(stream, np.cumsum(sizes)[:-1])
        crc = 0
        inputs = [part.reshape(t.shape) for part, t in zip(parts, tensors)]
        for step, _, values in self._steps(inputs):
            if not isinstance(step.source, pm.Copy):
                crc = zlib.crc32(values.tobytes(), crc)
        return crc, np.concatenate([y.ravel() for y in self._outputs()])

    def _steps(
        self, inputs: Sequence[Array], read: dict[int, Array] | None = None
    ) -> Iterator[tuple[pm.Step, int, Array]]:
        """Run, and give (step, output tensor, [columns, channels]) after each branch.

        read  takes the input of each step
        """
        self._arena[self.model.state_bytes :] = POISON
        self._write_inputs(inputs)
        for number, step in enumerate(self.model.steps):
            end = step.scratch_offset + step.scratch_bytes
            self._arena[step.scratch_offset : end] = POISON
            if read is not None:
                read[number] = self._read(step.input).copy()
            results = self._step(step)
            for output, values in results:
                self._write(output, values)
                yield step, output, self._read(output)
            self._advance(step)

    def _write_inputs(self, inputs: Sequence[Array]) -> None:
        expected = [self.model.tensors[io.tensor] for io in self.model.inputs]
        if len(inputs) != len(expected):
            raise BadInput(f"{len(inputs)} inputs; the plan has {len(expected)}")
        for i, (io, tensor, x) in enumerate(zip(self.model.inputs, expected, inputs)):
            if x.shape != tensor.shape or x.dtype != np.int8:
                raise BadInput(
                    f"input {i}: {x.dtype} {list(x.shape)}; int8 {list(tensor.shape)} is allowed")
            self._write(io.tensor, x.reshape(tensor.place.columns, tensor.place.channels))

    def _outputs(self) -> tuple[Array, ...]:
        return tuple(
            self._shaped(io.tensor, self._read(io.tensor)) for io in self.model.outputs)

    def _step(self, step: pm.Step) -> list[tuple[int, Array]]:
        """What every branch gives, before anything is written: (tensor, [columns, channels])."""
        x = self._read(step.input)
        zero_point = self.model.tensors[step.input].place.zero_point
        if isinstance(step.source, pm.Copy):
            return [(step.branches[0].output, self._copied(step, step.source, x))]
        if isinstance(step.source, pm.Lstm):
            return [(step.branches[0].output, self._lstm(step.source, x, zero_point))]
        if isinstance(step.source, pm.Mac):
            source = convolve(step.source, self._weights[id(step.source.weights)], x, zero_point)
        elif isinstance(step.source, pm.Svdf):
            source = self._svdf(step.source, x, zero_point)
        else:
            source = self._loaded(step, x)
        results = []
        for branch in step.branches:
            v = source[:, branch.first_channel : branch.first_channel + branch.channels]
            for stage in branch.stages:
                v = apply(stage, v, self._read, self._remember)
            results.append((branch.output, v.astype(np.int8)))
        return results

    def _loaded(self, step: pm.Step, x: Array) -> Array:
        """The input's elements, repeated where it has one channel, or one column and no window
        follows."""
        columns, channels = x.shape
        if channels == 1:
            channels = sum(branch.channels for branch in step.branches)
        windowed = any(isinstance(s, WINDOWED) for b in step.branches for s in b.stages)
        if columns == 1 and not windowed:
            columns = self.model.tensors[step.branches[0].output].place.columns
        return np.broadcast_to(x.astype(np.int64), (columns, channels))

    def _lstm(self, source: pm.Lstm, x: Array, zero_point: int) -> Array:
        """Every h; the state goes on."""
        hidden, cell = (self._ring(ring) for ring in pm.rings_of(source))
        start = self.model.rings[source.hidden_ring].zero_point
        if source.anew:
            hidden[:], cell[:] = start, self.model.rings[source.cell_ring].zero_point
        weights = (self._weights[id(source.input.weights)],
                   self._weights[id(source.recurrent.weights)])
        y, h, c = lstm(source, weights, x, (zero_point, start), (hidden[0], cell[0].view("<i2")))
        hidden[0], cell[0].view("<i2")[:] = h, c
        return y

    def _svdf(self, source: pm.Svdf, x: Array, zero_point: int) -> Array:
        """The sums over the past, this run's column being its newest."""
        ring, head = self._ring(source.ring), int(self._heads[source.ring])
        newest = svdf_feature(source, self._weights[id(source.feature.weights)], x, zero_point)
        ring[head] = newest.view(np.int8)
        return svdf_time(source, np.roll(ring, -head - 1, axis=0).view("<i2"))

    def _ring(self, number: int) -> Array:
        """[columns, channels] int8, a view."""
        ring = self.model.rings[number]
        end = ring.offset + ring.columns * ring.channels
        return self._arena[ring.offset : end].reshape(ring.columns, ring.channels)

    def _copied(self, step: pm.Step, copy: pm.Copy, x: Array) -> Array:
        output = step.branches[0].output
        place = self.model.tensors[output].place
        if copy.fill:
            y = np.full((place.columns, place.channels), copy.fill_value, np.int8)
        else:
            y = self._read(output)
        index = np.indices(copy.dims).reshape(len(copy.dims), -1)
        source = copy.in_offset + np.array(copy.in_strides) @ index
        target = copy.out_offset + np.array(copy.out_strides) @ index
        y.ravel()[target] = x.ravel()[source]
        return y

    def _remember(self, running: pm.Running, fresh: Array, zero_point: int) -> Array:
        """The sums over the window, [1, channels] int64, after its newest columns.

        Entries hold the lowest bits of a sum; `low` is the least a block can have.
        """
        ring, channels = self.model.rings[running.ring], fresh.shape[1]
        storage = self._arena[ring.offset : ring.offset + ring.columns * channels]
        totals = np.frombuffer(storage[: 4 * channels].tobytes(), "<i4").astype(np.int64)
        width = np.dtype(f"<u{running.entry_bytes}")
        entries = np.frombuffer(storage[4 * channels :].tobytes(), width).astype(np.int64)
        entries = entries.reshape(running.entries, channels)
        sizes = [1] * running.fresh if running.each else [running.fresh]
        if running.tail:
            sizes = [running.fresh - running.tail, running.tail]
        # Of two kinds of blocks the window has an odd number: one of the other kind leaves.
        for block, leaving in zip(np.split(fresh, np.cumsum(sizes)[:-1]), reversed(sizes)):
            head, low = int(self._heads[running.ring]), (-128 - zero_point) * leaving
            totals += block.sum(axis=0) - (low + (entries[head] - low) % 256**width.itemsize)
            entries[head] = block.sum(axis=0) % 256**width.itemsize
            self._heads[running.ring] = (head + 1) % running.entries
        storage[: 4 * channels] = np.frombuffer(totals.astype("<i4").tobytes(), np.int8)
        storage[4 * channels :] = np.frombuffer(entries.astype(width).tobytes(), np.int8)
        return totals[None]

    def _read(self, number: int) -> Array:
        """[columns, channels] int8 of a tensor, a copy."""
        tensor = self.model.tensors[number]
        if tensor.data is not None:
            return tensor.data.reshape(tensor.place.columns, tensor.place.channels)
        values: Array = self._arena[self._where(number)]
        return values

    def _write(self, number: int, values: Array) -> None:
        """The elements of a tensor, and its halo."""
        place = self.model.tensors[number].place
        self._arena[self._where(number)] = values
        if place.halo:
            self._arena[halo_addresses(place)] = place.zero_point

    def _where(self, number: int) -> Array:
        place = self.model.tensors[number].place
        if place.ring_role is not pm.RingRole.NONE:
            head = int(self._heads[place.ring])
            return ring_addresses(place, self.model.rings[place.ring], head)
        if number not in self._addresses:
            self._addresses[number] = addresses(place)
        return self._addresses[number]

    def _advance(self, step: pm.Step) -> None:
        """Move the heads of the rings that a step has written."""
        moved = [(place.ring, place.columns)
                 for place in (self.model.tensors[b.output].place for b in step.branches)
                 if place.ring_role is pm.RingRole.APPEND]
        if isinstance(step.source, pm.Svdf):
            moved.append((step.source.ring, 1))
        for ring, columns in moved:
            self._heads[ring] = (self._heads[ring] + columns) % self.model.rings[ring].columns

    def _shaped(self, number: int, values: Array) -> Array:
        return values.reshape(self.model.tensors[number].shape)


def self_test_inputs(seed: int, count: int) -> Array:
    """[count] int8 from xorshift32 starting at `seed`: docs/PLAN_FORMAT.md section 9."""
    out, x = np.zeros(count, np.uint8), seed
    for i in range(count):
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        out[i] = x >> 24
    return out.view(np.int8)
