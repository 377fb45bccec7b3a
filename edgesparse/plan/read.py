"""The bytes of a plan file become a plan model.

Checked here: the trailer, both digests, the identifier, and that everything lies inside the
buffer (I-1 to I-6). All other invariants are the C core's to check, es_plan_open.
"""

from __future__ import annotations

import zlib

from edgesparse.errors import PlanInvalid
from edgesparse.plan.codec import decode
from edgesparse.plan.model import PlanModel
from edgesparse.plan.wire import round_up
from edgesparse.plan.write import FORMAT, IDENTIFIER, MAGIC, TRAILER, sha256_of


def read_plan(data: bytes) -> PlanModel:
    """Return the model; its arrays are read-only views into `data`.

    Raises PlanInvalid, whatever the bytes are.
    """
    model = decode(PlanModel, flatbuffer_of(data), IDENTIFIER)
    if model.format != FORMAT:
        raise PlanInvalid(f"I-6: the plan has format {model.format}, this is a reader of {FORMAT}")
    return model


def flatbuffer_of(data: bytes) -> memoryview:
    """Return the FlatBuffer of a plan file after checking the trailer; raises PlanInvalid."""
    if len(data) < TRAILER.size + 16:
        raise PlanInvalid(f"I-1: {len(data)} bytes are too few for a plan; cut short in transfer?")
    magic, version, size, crc, sha = TRAILER.unpack(data[-TRAILER.size :])
    if magic != MAGIC or any(data[-16:]):
        raise PlanInvalid("I-1: no plan trailer at the end; is this a plan, and all of it?")
    padding = data[size : -TRAILER.size]
    if (version != FORMAT or not 8 <= size < 1 << 31
            or round_up(size, 16) + TRAILER.size != len(data) or any(padding)):
        raise PlanInvalid(
            f"I-2: format {version}, {size} bytes stated, {len(data)} bytes in the file; "
            f"format {FORMAT}, the exact size, and padding with zeros are allowed")
    flatbuffer = memoryview(data)[:size].toreadonly()
    if zlib.crc32(flatbuffer) != crc:
        raise PlanInvalid("I-3: the checksum differs: the plan was damaged, copy it again")
    if sha256_of(flatbuffer) != sha:
        raise PlanInvalid("I-3: the SHA-256 differs: the plan was changed")
    return flatbuffer
