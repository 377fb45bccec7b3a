"""The NPU program of a plan, as the core finds it: native/include/edgesparse/npu_plan.h."""

from __future__ import annotations

from edgesparse.errors import WrongMachine
from edgesparse.npu.isa import INSTRUCTION_BYTES
from edgesparse.plan.npu_model import Npu
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import NativePlan, ffi
from edgesparse.runtime.npu import NpuProgram
from edgesparse.target import load_target, target_names


def check_program(plan: Plan) -> Npu:
    """Raises WrongMachine when the plan has no program."""
    if plan.model.npu is None:
        raise WrongMachine(
            "the plan has no program for an NPU; convert the model with --target "
            f"{' or '.join(_npu_targets())}, or run the plan on the portable backend")
    return plan.model.npu


def program_of(plan: Plan, native: NativePlan) -> NpuProgram:
    """The program with copies of its commands and blobs; `native` is the same plan, opened.

    Raises WrongMachine when the plan has none.
    """
    npu = check_program(plan)
    blobs = ffi.new("es_npu_blob[]", max(1, len(npu.blobs)))
    program = ffi.new("es_npu_program *")
    native.npu_program(blobs, len(npu.blobs), program)
    return NpuProgram(
        commands=bytes(ffi.buffer(program.commands, INSTRUCTION_BYTES * program.instructions)),
        prologue=program.prologue, config=program.config,
        blobs=tuple(
            bytes(ffi.buffer(blobs[i].data, blobs[i].size)) for i in range(program.blob_count)),
        dram_bytes=program.dram_bytes, state_bytes=program.state_bytes, steps=program.steps)


def check_configuration(plan: Plan, backend: str) -> None:
    """Raises WrongMachine when the program of `plan` was made for another one than `backend`."""
    config = load_target(backend).config
    if plan.model.config != config:
        made_for = [n for n in _npu_targets() if load_target(n).config == plan.model.config]
        raise WrongMachine(
            f"the plan's program was made for configuration {plan.model.config} "
            f"({', '.join(made_for) or 'unknown here'}), {backend} is {config}; convert the model "
            f"with --target {backend}" + (f", or run it on {made_for[0]}" if made_for else ""))


def _npu_targets() -> tuple[str, ...]:
    return tuple(name for name in target_names() if load_target(name).npu)
