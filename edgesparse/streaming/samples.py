"""Samples of any kind as the int16 that a stream plan is given.

Integers are what the plan takes: ADC units with a front end, stored values of its input without.
Floats are the model's own unit (mV for the ECG nets), NaN is a missing sample. `edgesparse stream`
and `es.Stream.push` mean the same by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.runtime.session import quantize
from edgesparse.signals.resample import SAME
from edgesparse.signals.signal import HIGHEST, LOWEST, MISSING, Adc, Signal

SAME_GAIN = 1e-6
"""Relative difference up to which two gains are one: a plan holds 31 bits of it."""
INT8 = (-128, 127)


@dataclass(frozen=True)
class PlanInput:
    """What a stream plan takes.

    rate_hz  of its samples; 0 is unknown
    units    ADC units per mV; None without a front end: then samples are stored input values,
             real = (stored - zero_point) * scale
    source   its input
    """

    rate_hz: float
    units: float | None
    source: IoInfo

    def check(self, name: str, rate_hz: float, adc: Adc | None) -> None:
        """Raises BadInput for a signal of another rate or gain; `adc` None: not known."""
        if self.rate_hz and not math.isclose(rate_hz, self.rate_hz, rel_tol=SAME):
            raise BadInput(
                f"{name}: {rate_hz:g} Hz, the plan takes {self.rate_hz:g} Hz: resample it "
                "(--resample, of a file), or take a plan for this rate")
        if self.units is None or adc is None:
            return
        if not math.isclose(adc.gain, self.units, rel_tol=SAME_GAIN):
            raise BadInput(
                f"{name}: {adc.gain:g} ADC units per mV, the plan takes {self.units:g}: convert "
                f"the model with units={adc.gain:g} in --stream")

    def samples(self, signal: Signal) -> Array:
        """[n] int16 to push; gaps stay marked.

        From integers of a known ADC the value at 0 mV is taken away; without a front end they
        become mV, which the plan must then state a rate for.
        Raises BadInput as check(), from_integers() and from_real().
        """
        self.check(signal.name, signal.rate_hz, signal.adc)
        if signal.in_mv:
            return self.from_real(signal.samples, signal.name)
        if self.units is not None:
            return signal.centred()
        if signal.adc is None:
            return self.from_integers(signal.samples, signal.name)
        if not self.rate_hz:
            raise BadInput(
                f"{signal.name}: ADC units at {signal.rate_hz:g} Hz, but the plan has neither a "
                f"front end nor a rate to compare with, and takes stored values "
                f"({_outside(signal.samples)}): {WAY_OUT}")
        return self.from_real(signal.millivolts(), signal.name)

    def pushed(self, values: Array) -> Array:
        """What a caller pushes as int16: integers are what the plan takes, floats are real.

        Raises BadInput for another type, and as from_integers() and from_real().
        """
        if values.dtype.kind == "f":
            return self.from_real(values)
        if values.dtype.kind not in "iu":
            raise BadInput(f"samples are {values.dtype}; int16 or float is allowed")
        return self.from_integers(values)

    def from_integers(self, values: Array, name: str = "push") -> Array:
        """Integers of any shape as int16; MISSING stays.

        Raises BadInput for what int16, or without a front end the int8 input, does not hold.
        """
        if values.size and (values.min() < MISSING or values.max() > HIGHEST):
            raise BadInput(f"{name}: samples reach from {values.min()} to {values.max()}; int16 is "
                           "allowed")
        if self.units is None and _too_large(values).any():
            raise BadInput(f"{name}: {_outside(values)}, what the int8 input of a plan without a "
                           f"front end stores: {WAY_OUT}")
        return values.astype(np.int16)

    def from_real(self, values: Array, name: str = "push") -> Array:
        """Floats of any shape as int16, NaN as MISSING.

        With a front end as its ADC would give them, halves to even; without one quantized as
        Session.run() does, so that they saturate.
        Raises BadInput for a value that the ADC would not hold.
        """
        missing = np.isnan(values)
        there = np.where(missing, 0, values)
        if self.units is None:
            stored = quantize(there, self.source).astype(np.int16)
            return np.where(missing, np.int16(MISSING), stored)
        whole = np.rint(there.astype(np.float64) * self.units)
        outside = (whole > HIGHEST) | (whole < LOWEST)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            raise BadInput(
                f"{name}: sample {at} is {values.flat[at]:g} mV, {whole.flat[at]:.0f} ADC units at "
                f"{self.units:g} per mV; allowed are {LOWEST} .. {HIGHEST}: floats are mV, give "
                "ADC units as integers")
        return np.where(missing, MISSING, whole).astype(np.int16)


WAY_OUT = ("convert the model with frontend=ecg360 in --stream to take ADC samples, or give stored "
           "values, or real ones as floats")


def _too_large(values: Array) -> Array:
    outside: Array = ((values < INT8[0]) | (values > INT8[1])) & (values != MISSING)
    return outside


def _outside(values: Array) -> str:
    return (f"{int(_too_large(values).sum()):,} of {values.size:,} samples are outside "
            f"{INT8[0]} .. {INT8[1]}")


def input_of(plan: Plan) -> PlanInput:
    """Of a stream plan with any number of channels."""
    table, source = plan.model.stream, plan.inputs[0]
    assert table is not None
    units, front = None, table.front_end
    if front is not None:
        # The inverse of scale_to_input(), which made multiplier and shift: 31 bits, so that nine
        # digits are what was asked for.
        step = source.scale * (1 << front.fraction_bits) * front.multiplier
        units = float(f"{(1 << front.shift) / step:.9g}")
    return PlanInput(table.rate_mhz / 1000, units, source)


def plan_input(plan: Plan, beats: bool = False) -> PlanInput:
    """Raises BadInput for a plan that is no stream of one channel; `beats` are what is wanted."""
    if plan.model.stream is None:
        options = "hop=N,frontend=ecg360,beats=yes" if beats else "hop=N"
        raise BadInput(
            f"the plan takes windows, not samples; convert the model with --stream {options}, or "
            "use edgesparse run")
    channels = plan.inputs[0].shape[-1]
    if channels != 1:
        raise BadInput(f"the plan takes {channels} channels a sample; plans of one channel "
                       "are streamed here, es.Stream takes any")
    return input_of(plan)
