"""What no client sends, under sanitizers: native/fuzz/mutate_link.c.

For a longer run, after this one:
    build/test-fuzz/native/mutate_link -n 5000000 -s 1
"""

from __future__ import annotations

import re
import subprocess

from test_house import fuzz_driver

LINES = 100_000


def test_no_line_makes_the_device_step_over_its_buffers() -> None:
    done = subprocess.run(
        [fuzz_driver("mutate_link"), "-n", str(LINES)], capture_output=True, text=True,
        timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    count = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", done.stdout)}
    assert count["frames"] > LINES * 3 // 2
    for name in ("wrong ", "not coded right", "too long", "seen before", "runs"):
        assert any(key.startswith(name) and value > 100 for key, value in count.items()), name
