"""Running a plan: arrays in, arrays out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.model import Place, RingRole
from edgesparse.plan.places import addresses, ring_addresses
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.quantize.fixedpoint import round_half_away
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.npu_backend import check_backend, npu_backend

Inputs = Array | Sequence[Array] | Mapping[str, Array]
"""One array for a plan with one input; otherwise one per input, in order or by name."""


@dataclass(frozen=True)
class StepTime:
    """A step since profile(): how often it ran, and seconds in all."""

    name: str
    runs: int
    seconds: float


class Session:
    """A plan ready to run, with the memory of a streaming plan from run to run.

    Threads that share a session take turns; sessions of their own run at the same time.
    backend  "portable", or a target with an NPU: the plan's program on the emulator; `npu` then
             says what it counted
    Raises PlanInvalid when the core refuses the plan, BadInput for an unknown backend or what is
    no Plan, WrongMachine when the plan has no program for the backend, NpuRefused when its program
    is not sound.
    """

    def __init__(self, plan: Plan, backend: str = "portable") -> None:
        check_backend(backend)
        if not isinstance(plan, Plan):
            raise BadInput(
                f"a session runs a Plan (from convert or load), not {type(plan).__name__}")
        self.plan = plan
        self._turn = threading.Lock()
        opened = NativePlan(plan.data)
        self.native = NativeSession(opened)
        self.npu = npu_backend(plan, opened, self.native, backend)
        self._heads = self.native.arena[: 4 * len(plan.model.rings)].view("<u4")

    def run(self, x: Inputs) -> Array | tuple[Array, ...]:
        """Run once, or once per entry of a new first axis that all inputs have.

        x        int8 is taken as stored; float is quantized with the scale of the input, ties
                 away from zero, and saturates; uint8 is taken where the user's model had it
        returns  the output, a tuple if there are several: float32 or uint8 where the user's model
                 had that, int8 elsewhere; with the new axis if x had one. The runs of a batch
                 follow each other: a streaming plan remembers from one to the next
        Raises BadInput for a number, shape or type of inputs that does not fit.
        """
        inputs, batch = stored_inputs(self.plan.inputs, x)
        runs = 1 if batch is None else batch
        results = [np.empty((runs, *out.shape), dtype_of(out)) for out in self.plan.outputs]
        with self._turn:
            for i in range(runs):
                self._write([values[i] for values in inputs])
                self.native.run()
                for result, stored, out in zip(results, self.native.outputs, self.plan.outputs):
                    result[i] = as_user_gets(stored.reshape(out.shape), out)
        if batch is None:
            results = [result[0] for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def run_traced(self, x: Inputs) -> dict[int, Array]:
        """Run once; return what each step wrote, int8, by tensor number, read after the step.

        On an NPU: of that, what is left in the arena after the run.
        Raises BadInput as run() does, and for a batch.
        """
        inputs, batch = stored_inputs(self.plan.inputs, x)
        if batch is not None:
            raise BadInput("run_traced takes one run at a time, without a batch axis")
        written: dict[int, Array] = {}
        with self._turn:
            self._write([values[0] for values in inputs])
            if self.npu is not None:
                return self.npu.run_traced(self._read)
            for number, step in enumerate(self.plan.model.steps):
                self.native.run_step(number)
                for branch in step.branches:
                    written[branch.output] = self._read(branch.output)
        return written

    def reset(self) -> None:
        """Forget earlier runs."""
        self.native.reset()
        if self.npu is not None:
            self.npu.reset()

    def self_test(self) -> bool:
        """Whether the plan's golden vector comes out, on an NPU its outputs; forgets earlier runs.

        Raises NativeError when the plan has none.
        """
        if self.npu is not None:
            return self.npu.self_test(self.native.outputs)
        return self.native.self_test()

    def profile(self, on: bool = True) -> None:
        """Start timing every step, from zero; or stop."""
        self.native.count(on)

    def times(self) -> tuple[StepTime, ...]:
        """One entry per step since profile()."""
        names = [layer.name for layer in self.plan.layers]
        return tuple(StepTime(n, *counts) for n, counts in zip(names, self.native.counts()))

    def _write(self, values: Sequence[Array]) -> None:
        for buffer, value in zip(self.native.inputs, values):
            buffer[:] = value.ravel()

    def _read(self, number: int) -> Array:
        """What the step that ran last wrote into a tensor, in its shape."""
        tensor = self.plan.model.tensors[number]
        return self.native.arena[self._where(tensor.place)].reshape(tensor.shape)

    def _where(self, place: Place) -> Array:
        if place.ring_role is RingRole.NONE:
            return addresses(place)
        ring = self.plan.model.rings[place.ring]
        # The head has moved past what was written.
        return ring_addresses(place, ring, int(self._heads[place.ring]) - place.columns)


def stored_inputs(
    wanted: Sequence[IoInfo], x: Inputs
) -> tuple[list[Array], int | None]:
    """Each input as [runs, *shape] int8, and the length of the batch axis if there is one.

    Raises BadInput for a number, shape or type of inputs that does not fit.
    """
    arrays = [np.asarray(a) for a in _in_order(x, wanted)]
    batches = {len(a) if a.ndim == len(w.shape) + 1 else None for a, w in zip(arrays, wanted)}
    for a, w in zip(arrays, wanted):
        if a.shape[-len(w.shape) :] != w.shape or a.ndim > len(w.shape) + 1 or not a.size:
            raise BadInput(
                f"input {w.name!r} has shape {list(a.shape)}; {list(w.shape)} is allowed, or "
                f"[n, {', '.join(map(str, w.shape))}] for n runs")
    if len(batches) > 1:
        raise BadInput(
            "inputs of one run and of several, or of different numbers of runs, do not mix: "
            f"give all of them the same first axis (found {sorted(map(str, batches))})")
    batch = batches.pop()
    stored = [_stored(a, w) for a, w in zip(arrays, wanted)]
    return [a[None] if batch is None else a for a in stored], batch


def _in_order(x: Inputs, wanted: Sequence[IoInfo]) -> list[Array]:
    names = [w.name for w in wanted]
    if isinstance(x, Mapping):
        if set(x) != set(names):
            raise BadInput(f"inputs {sorted(x)}; exactly {names} are allowed")
        return [x[name] for name in names]
    if isinstance(x, np.ndarray):
        x = [x]
    if not isinstance(x, Sequence) or isinstance(x, (str, bytes)):
        raise BadInput(f"inputs are a {type(x).__name__}; an array, a sequence of arrays or a "
                       f"mapping of {names} is allowed")
    if len(x) != len(wanted):
        raise BadInput(f"{len(x)} inputs; the plan has {len(wanted)}: {names}")
    return list(x)


def _stored(a: Array, io: IoInfo) -> Array:
    """int8 as it is, uint8 less 128, float quantized."""
    if a.dtype == np.int8:
        return a
    if a.dtype == np.uint8 and io.uint8_io:
        return flip(a).view(np.int8)
    if a.dtype.kind != "f":
        raise BadInput(f"input {io.name!r} is {a.dtype}; int8 (stored) or float (real) is allowed")
    if np.isnan(a).any():
        raise BadInput(f"input {io.name!r} holds NaN; numbers are allowed")
    return quantize(a, io)


def dtype_of(io: IoInfo) -> type[np.generic]:
    """What the user's model has there."""
    return np.float32 if io.float_io else np.uint8 if io.uint8_io else np.int8


def as_user_gets(stored: Array, io: IoInfo) -> Array:
    """int8 -> what the user's model has there."""
    if io.float_io:
        return dequantize(stored, io)
    return flip(stored).view(np.uint8) if io.uint8_io else stored


def flip(x: Array) -> Array:
    """Turn the top bit of each byte: int8 <-> uint8 of the number 128 higher."""
    turned: Array = np.ascontiguousarray(x) ^ np.array(-128, np.int8).view(x.dtype)
    return turned


def quantize(x: Array, io: IoInfo) -> Array:
    """float -> int8 as TFLite's QUANTIZE: a float32 quotient, ties away from zero, saturating."""
    with np.errstate(over="ignore"):
        quotient = x.astype(np.float32) / np.float32(io.scale)
    whole = round_half_away(np.clip(quotient, -512, 512))
    return np.clip(whole + io.zero_point, -128, 127).astype(np.int8)


def dequantize(x: Array, io: IoInfo) -> Array:
    """int8 -> float32 as TFLite's DEQUANTIZE: a float64 product, rounded to float32."""
    return ((x.astype(np.float64) - io.zero_point) * io.scale).astype(np.float32)
