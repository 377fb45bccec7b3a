"""The C core through cffi: what native/include/edgesparse/edgesparse.h offers, as Python objects.

The only importer of edgesparse._native; runtime/npu.py takes it from here. Pointers are made once,
when an object is; a call costs no conversion. The interpreter lock is not held while the core runs:
sessions run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from edgesparse.errors import BadInput, NativeError, PlanInvalid
from edgesparse.graph.ir import Array

try:
    from edgesparse._native import ffi as ffi
    from edgesparse._native import lib as lib
except ModuleNotFoundError as missing:
    raise ImportError(
        "the C core of edgesparse is not built beside this package; in a checkout run "
        "pip install -e . (a plain install is hidden there by the source folder)") from missing

API_VERSION: int = lib.ES_API_VERSION
ALIGN: int = lib.ES_ALIGN
GUARD = 0xA5
"""What guard bytes around an arena hold."""


def status_text(status: int) -> str:
    """What the core says about one of its status values."""
    text: bytes = ffi.string(lib.es_status_text(status))
    return text.decode()


def _refused(call: str, status: int) -> NoReturn:
    raise NativeError(call, status, status_text(status))


def _check(call: str, status: int) -> None:
    if status != lib.ES_OK:
        _refused(call, status)


def _aligned(size: int) -> Array:
    """[size] uint8 at an address that is a multiple of ALIGN."""
    room = np.zeros(size + ALIGN, np.uint8)
    start = -room.ctypes.data % ALIGN
    return room[start : start + size]


@dataclass(frozen=True)
class PlanInfo:
    """What the core reads from a plan; sizes in bytes."""

    ram_bytes: int
    state_bytes: int
    flash_bytes: int
    steps: int
    inputs: int
    outputs: int
    config: int
    source_sha256: bytes | None


@dataclass(frozen=True)
class NativeStream:
    """A stream and how far it is: es_stream; worst_seconds is the longest run with a budget."""

    rate_mhz: int
    channels: int
    hop: int
    delay: int
    classes: int
    samples: int
    runs: int
    missing: int
    signal: int
    overruns: int
    worst_seconds: float


class NativeResult(NamedTuple):
    """es_result."""

    kind: int
    value: int
    strength: int
    skip: int
    sample: int
    column: int


NO_GOLDEN: int = lib.ES_ERR_NO_GOLDEN
ENDED: int = lib.ES_ERR_ENDED
RUN: int = lib.ES_RESULT_RUN
BEAT: int = lib.ES_RESULT_BEAT


def _take_result(user: Any, r: Any) -> None:
    ffi.from_handle(user)(
        NativeResult(int(r.kind), r.value, r.strength, r.skip, r.sample, r.column))


ffi.def_extern(name="es_host_result")(_take_result)


@dataclass
class _Runner:
    """What stands in for the steps, and what went wrong in it."""

    run: Callable[[], None]
    error: BaseException | None = None


def _run(user: Any) -> int:
    ffi.from_handle(user).run()
    return 0


def _run_failed(kind: Any, error: BaseException, trace: Any) -> None:
    """C cannot pass it on; NativeSession raises it again."""
    ffi.from_handle(trace.tb_frame.f_locals["user"]).error = error


ffi.def_extern(name="es_host_run", error=1, onerror=_run_failed)(_run)


class NativePlan:
    """A plan the core has checked and opened."""

    def __init__(self, data: bytes) -> None:
        """Raises PlanInvalid, starting with the number of the broken invariant."""
        self._bytes = _aligned(len(data))  # must live as long as the plan
        self._bytes[:] = np.frombuffer(data, np.uint8)
        self._pointer = ffi.new("es_plan *")
        fault = ffi.new("es_fault *", {"step": -1, "index": -1})
        status = lib.es_plan_open(
            self._pointer, ffi.from_buffer(self._bytes), len(data), fault)
        if status in (lib.ES_ERR_FILE, lib.ES_ERR_VERSION, lib.ES_ERR_FORMAT):
            raise PlanInvalid(_describe(fault, status))
        _check("es_plan_open", status)

    def info(self) -> PlanInfo:
        info = ffi.new("es_info *")
        _check("es_plan_info", lib.es_plan_info(self._pointer, info))
        sha = info.source_sha256
        return PlanInfo(
            info.ram_bytes, info.state_bytes, info.flash_bytes, info.steps, info.inputs,
            info.outputs, info.config, bytes(ffi.buffer(sha, 32)) if sha else None)

    def npu_program(self, blobs: Any, capacity: int, program: Any) -> None:
        """Fill es_npu_blob[capacity] and es_npu_program. Raises NativeError when there is none."""
        _check("es_npu_program_of", lib.es_npu_program_of(
            self._pointer, blobs, capacity, program))


def _describe(fault: Any, status: int) -> str:
    """ "I-24: the plan breaks ... (step 3, part 0)"."""
    where = [
        f"{what} {number}"
        for what, number in (("step", fault.step), ("part", fault.index)) if number >= 0
    ]
    place = f" ({', '.join(where)})" if where else ""
    return (
        f"I-{fault.invariant}: {status_text(status)}{place}; "
        "docs/PLAN_FORMAT.md section 12 says what the number means")


class NativeSession:
    """A session with an arena of its own.

    arena           [ram_bytes] int8, all of it; for debuggers and tests
    inputs, outputs [size] int8 each: the bytes of a plan input or output, inside the arena
    """

    def __init__(self, plan: NativePlan, arena_bytes: int | None = None, guard: int = 0) -> None:
        """arena_bytes: None for exactly what the plan needs. guard: bytes before and after the
        arena, a multiple of ALIGN, that intact() looks at.

        Raises NativeError when arena_bytes is too small, BadInput for such a guard.
        """
        if guard % ALIGN:
            raise BadInput(f"guard = {guard}: a multiple of {ALIGN} is allowed")
        info = plan.info()
        size = info.ram_bytes if arena_bytes is None else arena_bytes
        self._plan = plan
        self._memory = _aligned(guard + size + guard)
        self._memory[:] = GUARD
        self._guard, self._size = guard, size
        memory = self._memory[guard : guard + size]
        self._base = ffi.from_buffer(memory)
        self._pointer = ffi.new("es_session *")
        _check("es_session_init", lib.es_session_init(
            self._pointer, plan._pointer, self._base, size))
        self.arena: Array = memory.view(np.int8)
        self.inputs = [self._buffer(lib.es_input, i) for i in range(info.inputs)]
        self.outputs = [self._buffer(lib.es_output, i) for i in range(info.outputs)]
        self._counters = ffi.new("es_step_counter[]", info.steps)
        self._runner: _Runner | None = None
        self._runner_handle: Any = None

    def _buffer(self, get: Any, index: int) -> Array:
        buffer = ffi.new("es_buffer *")
        _check("es_input" if get is lib.es_input else "es_output", get(
            self._pointer, index, buffer))
        first = ffi.cast("char *", buffer.data) - ffi.cast("char *", self._base)
        return self.arena[first : first + buffer.size]

    def run(self) -> None:
        """Raises what the runner raises, where there is one."""
        status = lib.es_run(self._pointer)
        if status:
            self._failed("es_run", status)

    def set_runner(self, run: Callable[[], None]) -> None:
        """From now on `run` does what all steps do, in runs and in streams."""
        self._runner = _Runner(run)
        self._runner_handle = ffi.new_handle(self._runner)
        lib.es_set_runner(self._pointer, lib.es_host_run, self._runner_handle)

    def _failed(self, call: str, status: int) -> NoReturn:
        if self._runner is not None and self._runner.error is not None:
            error, self._runner.error = self._runner.error, None
            raise error
        _refused(call, status)

    def run_step(self, step: int) -> None:
        """Raises NativeError when there is no such step."""
        _check("es_run_step", lib.es_run_step(self._pointer, step))

    def reset(self) -> None:
        _check("es_reset", lib.es_reset(self._pointer))

    def self_test(self) -> bool:
        """Whether the plan's golden vector comes out. Raises NativeError when it has none."""
        status = lib.es_self_test(self._pointer)
        if status == lib.ES_ERR_SELF_TEST:
            return False
        _check("es_self_test", status)
        return True

    def count(self, on: bool = True) -> None:
        """Start counting runs and time of every step, from zero; or stop."""
        ffi.memmove(self._counters, bytes(ffi.sizeof(self._counters)), ffi.sizeof(self._counters))
        lib.es_set_clock(self._pointer, lib.es_host_ticks if on else ffi.NULL)
        lib.es_set_counters(self._pointer, self._counters if on else ffi.NULL)

    def counts(self) -> list[tuple[int, float]]:
        """Per step: how often it ran since count(), and seconds in all."""
        return [(counter.runs, counter.ticks * 1e-9) for counter in self._counters]

    def push(self, samples: Array, take: Callable[[NativeResult], None] | None) -> None:
        """Push samples [frames, channels] int16, C order; results go to `take`, in order, or
        nowhere.

        Raises NativeError when the plan is no stream or the record has ended, and what a runner
        raises; after that only a reset allows further samples.
        """
        handle = ffi.new_handle(take)
        status = lib.es_push(
            self._pointer, ffi.from_buffer("int16_t[]", samples), len(samples),
            ffi.NULL if take is None else lib.es_host_result, handle)
        if status:
            self._failed("es_push", status)

    def flush(self, take: Callable[[NativeResult], None]) -> None:
        """End the record. Raises NativeError when the plan is no stream, and as push()."""
        handle = ffi.new_handle(take)
        status = lib.es_flush(self._pointer, lib.es_host_result, handle)
        if status:
            self._failed("es_flush", status)

    def budget(self, seconds: float) -> None:
        """From now on measure runs, and count those that take longer; 0: none."""
        lib.es_set_clock(self._pointer, lib.es_host_ticks)
        lib.es_set_budget(self._pointer, min(round(seconds * 1e9), (1 << 32) - 1))

    def stream_info(self) -> NativeStream:
        """Raises NativeError when the plan is no stream."""
        info = ffi.new("es_stream *")
        _check("es_stream_info", lib.es_stream_info(self._pointer, info))
        return NativeStream(
            info.rate_mhz, info.channels, info.hop, info.delay, info.classes, info.samples,
            info.runs, info.missing, int(info.signal), info.overruns, info.worst_ticks * 1e-9)

    def intact(self) -> bool:
        """Whether the guard bytes are as they were."""
        before = self._memory[: self._guard]
        after = self._memory[self._guard + self._size :]
        return bool((before == GUARD).all() and (after == GUARD).all())
