"""A new plan on a device: upload, trial, self test, confirm, and the old plan when that fails.

Everything the device has done is read back from it. Whatever is cut short, the next call goes on
from the state it finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from edgesparse.errors import CheckFailed, LinkError, LinkRefused, LinkTimeout
from edgesparse.link.client import Link
from edgesparse.link.images import Image, confirm, images, try_out, upload
from edgesparse.link.inference import self_test
from edgesparse.link.info import DeviceInfo, device_info
from edgesparse.link.refusals import TRIAL_RUNS, check_fit, explained
from edgesparse.link.smp import GROUP_CODES, Group
from edgesparse.plan.plan import Plan

NO_PLAN_RUNS, TEST_FAILED = 4, 7
"""Of our own group."""
TEST_TRIES = 4
MOST_TRIES = 4
"""Starts that a trial may take to end; a firmware usually gives it one."""
RESET = "the device was reset during its self test"


class Stage(Enum):
    """How far a deployment is. A stage is entered when what it names begins."""

    ASK = "asking the device"
    UPLOAD = "uploading"
    REQUEST = "requesting a trial"
    RESTART = "restarting into the trial"
    TEST = "testing"
    CONFIRM = "confirming"
    REVERT = "going back to the old plan"


@dataclass
class Course:
    """Where a deployment is, for who watches it or has to say how to go on.

    sent   bytes of the plan that the device has
    watch  called when any of it has changed
    """

    stage: Stage = Stage.ASK
    sent: int = 0
    watch: Callable[[Course], None] = field(default=lambda course: None, repr=False)

    def enter(self, stage: Stage) -> None:
        self.stage = stage
        self.watch(self)

    def has(self, sent: int) -> None:
        self.sent = sent
        self.watch(self)


class Outcome(Enum):
    NOTHING_TO_DO = "it ran already, confirmed"
    CONFIRMED = "it runs, confirmed"
    ON_TRIAL = "it runs until the next reset, not confirmed"
    REVERTED = "the old plan runs again"


@dataclass(frozen=True)
class Deployed:
    """What a deployment came to.

    device    as it said at the beginning
    before    what it had then
    now       what it has at the end, read anew
    uploaded  whether bytes were sent, or the device had them
    resumed   of those, the first; earlier ones came in a call that was cut short
    test_us   what the self test took there; None: there was none
    why       of a reverted one, what went wrong
    """

    outcome: Outcome
    digest: bytes
    device: DeviceInfo
    before: tuple[Image, ...]
    now: tuple[Image, ...]
    uploaded: bool = False
    resumed: int = 0
    test_us: int | None = None
    why: str = ""


def deploy(
    link: Link, plan: Plan, keep: bool = True, timeout: float = 20.0,
    course: Course | None = None,
) -> Deployed:
    """Bring a plan to a device and let it run there.

    keep     confirm it once its self test has passed
    timeout  seconds in which the device has to be back after a reset
    course   kept up to date meanwhile
    Raises DeviceRefused for a plan that does not fit, LinkRefused, LinkTimeout, LinkLost.
    """
    course = course or Course()
    course.enter(Stage.ASK)
    device = device_info(link)
    try:
        return _deploy(link, plan, device, (keep, timeout), course)
    except LinkRefused as refused:
        raise explained(refused, plan, device) from refused


def _deploy(
    link: Link, plan: Plan, device: DeviceInfo, how: tuple[bool, float], course: Course
) -> Deployed:
    keep, timeout = how
    digest = hashlib.sha256(plan.data).digest()
    before = images(link)
    own = find(before, digest)
    if own is not None and own.active and own.confirmed:
        return _left_alone(link, digest, device, before)
    _check_no_other_trial(before, own)
    resumed = 0
    if own is None or not own.active:
        check_fit(plan, device)
        resumed = _bring(link, plan, own, course)
        course.enter(Stage.REQUEST)
        try_out(link, digest)
        course.enter(Stage.RESTART)
        link.reset(timeout=timeout)
    took, why = _tested(link, plan, digest, course)
    outcome = Outcome.ON_TRIAL
    if why:
        outcome = Outcome.REVERTED
        _revert(link, digest, timeout, course)
    elif keep:
        outcome = Outcome.CONFIRMED
        course.enter(Stage.CONFIRM)
        confirm(link, digest)
    at_last = images(link)
    _check_end(at_last, digest, outcome)
    return Deployed(outcome, digest, device, before, at_last, own is None, resumed, took, why)


def _left_alone(
    link: Link, digest: bytes, device: DeviceInfo, before: tuple[Image, ...]
) -> Deployed:
    """What runs, confirmed. To try it is to give up the trial of another that waits for a reset."""
    if not device.running:
        raise CheckFailed(
            "the device has this plan, confirmed, but does not start it: it took the device down "
            "too often, or does not fit its firmware any more; deploy another plan")
    now = try_out(link, digest) if any(image.pending for image in before) else before
    return Deployed(Outcome.NOTHING_TO_DO, digest, device, before, now)


def _check_no_other_trial(found: tuple[Image, ...], own: Image | None) -> None:
    """The device would say so itself, after the upload has begun."""
    now = running(found)
    if now is not None and now is not own and not now.confirmed:
        raise LinkRefused(
            "take another plan", Group.IMAGE, TRIAL_RUNS, GROUP_CODES[Group.IMAGE][TRIAL_RUNS])


def find(found: tuple[Image, ...], digest: bytes) -> Image | None:
    """The plan with this SHA-256."""
    return next((image for image in found if image.hash == digest), None)


def running(found: tuple[Image, ...]) -> Image | None:
    """The plan that runs."""
    return next((image for image in found if image.active), None)


def _bring(link: Link, plan: Plan, own: Image | None, course: Course) -> int:
    """The byte from which on it had to be sent. A plan that is listed was hashed as it stands in
    flash, and need not be."""
    course.enter(Stage.UPLOAD)
    if own is not None:
        course.has(len(plan.data))
        return 0
    answers: list[int] = []

    def watch(sent: int) -> None:
        answers.append(sent)
        course.has(sent)

    upload(link, plan.data, watch)
    first = answers[0] if answers else 0
    return first if first > link.buffer else 0  # what the first message cannot have brought


def _tested(
    link: Link, plan: Plan, digest: bytes, course: Course
) -> tuple[int | None, str]:
    """Microseconds of the self test (None: the plan has none), and what is wrong ("": nothing).

    A device that crashes in the test is reset by its watchdog. It then runs the old plan, whose
    test passes; so who runs, and since when, is asked afterwards.
    """
    course.enter(Stage.TEST)
    if not _runs(link, digest) or not device_info(link).running:
        return None, "the device did not start it, or stopped it again before it could be tested"
    if plan.model.golden is None:
        return None, ""
    before = int(link.stats()["frames"])
    try:
        took = self_test(link, TEST_TRIES)
    except LinkRefused as refused:
        if refused.group != Group.EDGESPARSE or refused.code not in (NO_PLAN_RUNS, TEST_FAILED):
            raise
        return None, "its self test gave other bytes there than here" if (
            refused.code == TEST_FAILED and _runs(link, digest)) else RESET
    except LinkTimeout:
        return None, "its self test did not end"
    if int(link.stats()["frames"]) <= before or not _runs(link, digest):
        return None, RESET
    return took, ""


def _runs(link: Link, digest: bytes) -> bool:
    now = running(images(link))
    return now is not None and now.hash == digest


def _revert(link: Link, digest: bytes, timeout: float, course: Course) -> None:
    """Reset, without a confirm, until the trial has no start left."""
    course.enter(Stage.REVERT)
    for _ in range(MOST_TRIES):
        if not _runs(link, digest):
            return
        link.reset(timeout=timeout)


def _check_end(now: tuple[Image, ...], digest: bytes, outcome: Outcome) -> None:
    """What the device lists has to be what was asked of it."""
    own = find(now, digest)
    active, confirmed = (own.active, own.confirmed) if own else (False, False)
    wanted = {Outcome.CONFIRMED: (True, True), Outcome.ON_TRIAL: (True, False)}
    if (active, confirmed) != wanted.get(outcome, (False, False)):
        raise LinkError(
            f"the device should say of the plan: {outcome.value}; it says "
            f"{'it runs' if active else 'it does not run'}, "
            f"{'confirmed' if confirmed else 'not confirmed'}; deploy again")
