"""What keeps a process with a few threads from pausing: who waits for the interpreter gets it soon, and garbage is small."""

import gc
import sys

__all__ = ["prompt_threads"]

#: How long a thread may keep the interpreter while another waits for it: an alert passes through three such waits.
SWITCH_SECONDS = 0.0005

#: Collections of young objects before an older generation is looked through. Queries and their columns live long, and to walk
#: over all of them every few thousand requests would stop the process for longer than a request takes.
GENERATIONS = (10_000, 50, 1_000)


def prompt_threads() -> None:
    """Set up this process: called once, when all modules are there, which are never looked through again."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
