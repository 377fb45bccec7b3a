"""Where the elements of a tensor stand: docs/PLAN_FORMAT.md section 2."""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.plan.model import Layout, Place, Ring, RingRole


def addresses(place: Place) -> Array:
    """[columns, channels] arena addresses of a tensor that stands in no ring."""
    return _at(place, np.arange(place.columns))


def halo_addresses(place: Place) -> Array:
    """[2 * halo * phases, channels] arena addresses of the columns of zero point around it.

    Counting on over all phases, halo * phases columns on each side are halo in every phase.
    """
    reach = place.halo * place.phases
    before = np.arange(-reach, 0)
    return _at(place, np.concatenate([before, place.columns + np.arange(reach)]))


def extent(place: Place) -> tuple[int, int]:
    """(first, end) of the arena bytes a tensor that stands in no ring occupies.

    From its first element to its last, halo included; in C4 whole groups of four channels, in
    POLYPHASE all phases as long as the first.
    """
    lines = {Layout.C4: -(-place.channels // 4), Layout.NWC: 1}.get(place.layout, place.channels)
    phase_columns = -(-place.columns // place.phases)
    if place.layout is Layout.NWC:
        unit, last = place.pitch, (place.columns - 1) * place.pitch + place.channels
    else:
        unit = 4 if place.layout is Layout.C4 else 1
        last_phase = (place.phases - 1) * (place.pitch // place.phases)
        last = (lines - 1) * place.pitch + last_phase + phase_columns * unit
    margin = place.halo * unit
    return place.offset - margin, place.offset + last + margin


def ring_addresses(place: Place, ring: Ring, head: int) -> Array:
    """[columns, channels] arena addresses of a ring tensor while the head is `head`."""
    first = head
    if place.ring_role is RingRole.VIEW:
        first = head - place.ring_lag - place.columns
    column = (first + np.arange(place.columns)) % ring.columns
    return ring.offset + column[:, None] * ring.channels + np.arange(place.channels)


def _at(place: Place, column: Array) -> Array:
    column, channel = column[:, None], np.arange(place.channels)[None]
    if place.layout is Layout.NWC:
        relative = column * place.pitch + channel
    elif place.layout is Layout.PLANAR:
        relative = channel * place.pitch + column
    elif place.layout is Layout.C4:
        relative = channel // 4 * place.pitch + column * 4 + channel % 4
    else:
        phase, inside = column % place.phases, column // place.phases
        relative = channel * place.pitch + phase * (place.pitch // place.phases) + inside
    address: Array = place.offset + relative
    return address
