"""What faults do to a worker, from within its process, so that it works on every node (`topology.faults`)."""

import os
import signal
import subprocess
from typing import Any

__all__ = ["kill_worker", "pause_worker"]

#: A process must have stopped before it can go on.
_LEAST_SECONDS = 0.05


def kill_worker(_actor: Any) -> None:
    """End this process at once, as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause_worker(_actor: Any, seconds: float) -> None:
    """Stop this process; a small one beside it, which needs nobody else, lets it go on after so many seconds."""
    wait = max(seconds, _LEAST_SECONDS)
    subprocess.Popen(["/bin/sh", "-c", f"sleep {wait:.3f}; kill -CONT {os.getpid()}"], start_new_session=True)
    os.kill(os.getpid(), signal.SIGSTOP)
