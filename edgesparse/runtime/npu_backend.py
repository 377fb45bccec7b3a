"""Plans on the emulated NPU: the program in place of the steps, on the session's own arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgesparse.errors import BadInput, NativeError
from edgesparse.graph.ir import Array
from edgesparse.npu.disassemble import decode
from edgesparse.npu.isa import Op
from edgesparse.npu.written import arena_writes
from edgesparse.plan.interpret import self_test_inputs
from edgesparse.plan.model import RingRole
from edgesparse.plan.places import addresses
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import NO_GOLDEN, NativePlan, NativeSession, status_text
from edgesparse.runtime.npu import Counters, NpuKnobs, NpuMachine, NpuRun
from edgesparse.runtime.npu_plan import check_configuration, program_of
from edgesparse.target import load_target, target_names

PORTABLE = "portable"


def backends() -> tuple[str, ...]:
    """What can execute a plan: the portable core, and every target with an NPU."""
    return (PORTABLE, *(name for name in target_names() if load_target(name).npu))


def check_backend(backend: str) -> None:
    """Raises BadInput when there is no such backend."""
    if backend not in backends():
        raise BadInput(f"backend {backend!r}: {', '.join(backends())} is allowed")


class NpuBackend:
    """A machine with the program of a plan, run on the arena of a session.

    knobs  how the next run is counted
    trace  whether it keeps its events
    last   the newest run; None: there was none
    watch  is given every run
    """

    def __init__(
        self, plan: Plan, opened: NativePlan, native: NativeSession, name: str
    ) -> None:
        """opened: the plan that the session runs; name: a target with an NPU.

        Raises WrongMachine when the plan has no program, or one for another configuration;
        NpuRefused when the verifier refuses it.
        """
        self._program = program_of(plan, opened)
        check_configuration(plan, name)
        config = load_target(name).npu
        assert config is not None
        self._plan, self._native = plan, native
        self._machine = NpuMachine(config, self._program)
        self.knobs = NpuKnobs()
        self.trace = False
        self.watch: Callable[[NpuRun], None] = lambda run: None
        self.last: NpuRun | None = None
        self._after_host: Callable[[int], None] = lambda step: None
        native.set_runner(self._run)

    def _run(self) -> None:
        self.last = self._machine.run(self._native.arena, self.knobs, self._host, self.trace)
        self.watch(self.last)

    def _host(self, step: int) -> None:
        self._native.run_step(step)
        self._after_host(step)

    def reset(self) -> Counters:
        """Forget earlier runs; the session's arena is reset by itself. Returns what that took."""
        self.last = None
        return self._machine.reset(self.knobs)

    def run_traced(self, read: Callable[[int], Array]) -> dict[int, Array]:
        """Run once; what is left of it, by tensor number, int8.

        That is what the CPU's steps wrote, and every tensor that stands whole in the arena after
        the run. Results that never left the scratchpad, or were overwritten, are missing.
        read  gives a tensor of the arena, after its step
        """
        found: dict[int, Array] = {}
        steps = self._plan.model.steps

        def after(step: int) -> None:
            for branch in steps[step].branches:
                found[branch.output] = read(branch.output)

        self._after_host = after
        try:
            self._native.run()
        finally:
            self._after_host = lambda step: None
        for number in self._whole():
            if number not in found:
                found[number] = read(number)
        return found

    def _whole(self) -> list[int]:
        """Tensors that the program writes and nobody overwrites, in the order of the steps."""
        model = self._plan.model
        kept = arena_writes(self._program.commands, model.arena_bytes)
        on_cpu = {one.fields[3] for one in decode(self._program.commands) if one.op == Op.HOST}
        whole = []
        for number, step in reversed(list(enumerate(model.steps))):
            for branch in step.branches:
                place = model.tensors[branch.output].place
                if place.ring_role is RingRole.NONE:
                    where = addresses(place)
                    if kept[where].all():
                        whole.append(branch.output)
                    kept[where] = False
            if number in on_cpu:
                end = step.scratch_offset + step.scratch_bytes
                kept[step.scratch_offset : end] = False
        return whole[::-1]

    def self_test(self, outputs: Sequence[Array]) -> bool:
        """Whether the golden outputs come out; of the steps in between nothing is compared.

        outputs  the session's buffers. Raises NativeError when the plan has no golden vector
        """
        golden = self._plan.model.golden
        if golden is None:
            raise NativeError("self_test", NO_GOLDEN, status_text(NO_GOLDEN))
        self._native.reset()
        self.reset()
        sizes = [buffer.size for buffer in self._native.inputs]
        stream = self_test_inputs(golden.seed, sum(sizes))
        for buffer, values in zip(self._native.inputs, np.split(stream, np.cumsum(sizes)[:-1])):
            buffer[:] = values
        self._native.run()
        same = np.array_equal(np.concatenate(outputs), golden.outputs)
        self._native.reset()
        self.reset()
        return same


def npu_backend(
    plan: Plan, opened: NativePlan, native: NativeSession, backend: str
) -> NpuBackend | None:
    """What runs the plan in place of its steps; None on the portable backend."""
    return None if backend == PORTABLE else NpuBackend(plan, opened, native, backend)
