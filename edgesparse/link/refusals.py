"""What a device's refusal of a plan means for this plan, and what to do about it.

The codes are those of SMP's image group, as docs/LINK.md section 5 lists them.
"""

from __future__ import annotations

from edgesparse.errors import DeviceRefused, EdgeSparseError, LinkRefused
from edgesparse.link.info import DeviceInfo
from edgesparse.link.smp import GROUP_CODES, Group
from edgesparse.plan.plan import Plan

NEEDS_RAM, OTHER_RATE, OTHER_TARGET, TOO_LARGE = 15, 25, 29, 30
NO_PLAN, TRIAL_RUNS, NOT_RUNNING = 8, 28, 32

CORTEX_M = ("c", "dsp", "mve")
"""Kernels of devices without an NPU, which take plans of every target that has none."""

PROTOCOL = "host and firmware disagree about the protocol; update the older one"
ADVICE = {
    3: "deploy again, the upload then starts anew",
    4: "sign it with a key that the device knows, or deploy to one without keys",
    NO_PLAN: "the device was reset before the plan was whole; deploy again",
    12: "deploy again; when that fails too, its flash or the driver of it is at fault",
    14: "reset the device (edgesparse device reset) and deploy again",
    NEEDS_RAM: "take a smaller model or, of a stream, a smaller hop",
    20: PROTOCOL,
    21: PROTOCOL,
    22: "convert the model with the edgesparse of the firmware, or update the firmware",
    23: "where edgesparse inspect finds it sound, the firmware has another core: update that",
    24: "line or flash changed bytes each time; deploy again, at a lower --baud",
    OTHER_RATE: "convert the model for the rate and channels that the device measures",
    27: "convert the model anew: the device takes no older plan any more",
    TRIAL_RUNS: "deploy the plan on trial again to keep it, or reset the device (edgesparse device "
                "reset) to be rid of it",
    OTHER_TARGET: "convert the model with --target cortex-m4 or cortex-m55",
    TOO_LARGE: "prune the model further, or give the device larger slots",
    31: PROTOCOL,
    NOT_RUNNING: "the device was reset meanwhile and runs another one; deploy again",
}
OF_THE_PLAN = (4, NEEDS_RAM, 22, 23, OTHER_RATE, 27, OTHER_TARGET, TOO_LARGE)
"""No second try will change these."""


def explained(refused: LinkRefused, plan: Plan, device: DeviceInfo | None) -> EdgeSparseError:
    """The refusal with figures of the plan and what to do; one of another group as it is."""
    if refused.group != Group.IMAGE or refused.code not in ADVICE:
        return refused
    text = reason(refused.code, plan, device)
    if refused.code in OF_THE_PLAN:
        return DeviceRefused(f"the device refused to {refused.what}: {text}", refused.code)
    return LinkRefused(refused.what, refused.group, refused.code, text)


def check_fit(plan: Plan, device: DeviceInfo) -> None:
    """Raises DeviceRefused for what the device would refuse when all is uploaded."""
    code = 0
    if plan.model.config and device.isa in CORTEX_M:
        code = OTHER_TARGET
    elif device.ram_bytes is not None and plan.ram_bytes > device.ram_bytes:
        code = NEEDS_RAM
    elif device.slot_bytes is not None and plan.flash_bytes > device.slot_bytes:
        code = TOO_LARGE
    if code:
        raise DeviceRefused(
            f"the device would refuse the plan: {reason(code, plan, device)}", code)


def reason(code: int, plan: Plan, device: DeviceInfo | None) -> str:
    """What code says, with the plan's figures and the device's, and what to do."""
    ram, slot = (None, None) if device is None else (device.ram_bytes, device.slot_bytes)
    figures = {
        NEEDS_RAM: f"{plan.ram_bytes:,} bytes{_of(ram)}",
        TOO_LARGE: f"{plan.flash_bytes:,} bytes{_of(slot)}",
        OTHER_TARGET: plan.model.target,
        OTHER_RATE: _rate(plan),
    }.get(code, "")
    known = f" ({figures})" if figures else ""
    return f"{GROUP_CODES[Group.IMAGE][code]}{known}; {ADVICE[code]}"


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {limit:,}"


def _rate(plan: Plan) -> str:
    table = plan.model.stream
    if table is None:
        return "it takes windows, not samples"
    return f"{table.rate_mhz / 1000:g} Hz, channels: {plan.inputs[0].shape[-1]}"
