"""Every error edgesparse raises on purpose.

A message says *what* is wrong, *where* (the user's own layer or field name), what is *allowed*
and what to *do* about it. The command line prints it without a traceback and exits with
`exit_code`.
"""

from __future__ import annotations

from typing import ClassVar

from edgesparse.wording import counted


class EdgeSparseError(Exception):
    """Base of all errors below; never raised itself."""

    exit_code: ClassVar[int] = 2


class BadInput(EdgeSparseError):
    """An argument, array or file of the user does not fit what the model or command needs."""


class ImportFailed(EdgeSparseError):
    """A model file is damaged or inconsistent; names the tensor, buffer or operator."""


class Unsupported(EdgeSparseError):
    """A sound model uses something edgesparse does not execute."""

    def __init__(self, where: str, operator: str, reason: str, suggestion: str = "") -> None:
        self.where = where
        self.operator = operator
        self.reason = reason
        self.suggestion = suggestion
        hint = f" Try: {suggestion}" if suggestion else ""
        super().__init__(f"{where} ({operator}): {reason}.{hint}")


class UnsupportedModel(EdgeSparseError):
    """All the refusals of one model together; `issues` holds one Unsupported each."""

    def __init__(self, model: str, issues: tuple[Unsupported, ...]) -> None:
        self.model = model
        self.issues = issues
        lines = "\n".join(f"  {issue}" for issue in issues)
        super().__init__(f"{model}: {counted(len(issues), 'unsupported part')}:\n{lines}")


class DoesNotFit(EdgeSparseError):
    """A limit of the plan format or of the target is exceeded."""


class PlanInvalid(EdgeSparseError):
    """Plan bytes break an invariant of docs/PLAN_FORMAT.md; the message starts with its number."""


class GraphInvalid(EdgeSparseError):
    """A pass left an inconsistent graph: a fault of edgesparse, never of the user's model."""

    exit_code = 1


class CheckFailed(EdgeSparseError):
    """A check the user asked for did not pass (verify mismatch, budget missed)."""

    exit_code = 1


class NativeError(EdgeSparseError):
    """The C core refused a call; `status` is its es_status value."""

    def __init__(self, call: str, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{call}: {text}")


class SourcesMissing(EdgeSparseError):
    """The installed package lacks the C sources that a firmware is built from."""


class WrongMachine(EdgeSparseError):
    """A plan cannot run on the backend asked for: no program for it, or one for another machine."""


class NpuRefused(EdgeSparseError):
    """The verifier refused a program for the NPU; docs/NPU.md section 5 says what `trap` means.

    trap         its name
    instruction  number of the instruction at fault; `text` is its disassembly
    info         the value, address or register at fault
    """

    verb: ClassVar[str] = "refused"

    def __init__(self, trap: str, instruction: int, info: int, text: str) -> None:
        self.trap = trap
        self.instruction = instruction
        self.info = info
        super().__init__(
            f"NPU program {self.verb}: {trap} ({info}) at instruction {instruction}: {text}; "
            "docs/NPU.md section 5 says what the name means")


class NpuTrapped(NpuRefused):
    """A run on the NPU stopped on its data, or at the limit it was given."""

    exit_code = 1
    verb = "stopped"


class ToolMissing(EdgeSparseError):
    """A program that is not part of edgesparse is not installed; says which and how to get it."""


class BuildFailed(EdgeSparseError):
    """The firmware does not build with the compiler that is installed."""


class DeviceFailed(EdgeSparseError):
    """The emulator of a device does not start, or does not do as it is told."""


class LinkError(EdgeSparseError):
    """The link to a device failed; nothing is known to be wrong with the plan."""

    exit_code = 1


class LinkTimeout(LinkError):
    """No answer that fits the request, however often it was sent; the port itself works."""


class LinkLost(LinkError):
    """The port is gone: unplugged, closed, or never there."""


class LinkRefused(LinkError):
    """The device understood a request and refused it; `group` is None for SMP's own codes."""

    def __init__(self, what: str, group: int | None, code: int, text: str) -> None:
        self.what = what
        self.group = group
        self.code = code
        self.text = text
        where = "" if group is None else f"group {group}, "
        super().__init__(f"the device refused to {what}: {text} ({where}code {code})")


class DeviceRefused(EdgeSparseError):
    """A device does not take a plan: it does not fit there, or is not allowed to run.

    code  of SMP's image group, docs/LINK.md section 5
    """

    def __init__(self, reason: str, code: int) -> None:
        self.code = code
        super().__init__(reason)
