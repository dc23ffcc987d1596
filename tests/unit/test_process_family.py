"""Memory and processor time of a process and of what it has started."""

import subprocess
import sys

from benchmarks.process_family import processor_s, together_gb


def test_memory_together_has_that_of_a_process_that_a_child_has_started():
    """A grandchild with a hundred megabytes is part of the sum while it lives, and no longer."""
    grandchild = "import sys; held = bytes([1]) * (100 << 20); print('ready', flush=True); sys.stdin.read()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    before = together_gb()
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        during = together_gb()
        taken = processor_s()
        started.communicate()
    assert len(taken) >= 3
    assert started.pid in taken
    assert min(taken.values()) >= 0.0 < sum(taken.values())
    assert during - before > 0.09
    assert together_gb() - before < 0.09
