"""A test file run again with every array access of its kernels checked."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["passes_with_checked_bounds"]


def passes_with_checked_bounds(cache: Path, *arguments: str | Path, **environment: str) -> None:
    """Run tests in a process whose kernels check their bounds; fail with what it printed.

    Such kernels are compiled anew, which takes most of the time: `cache` keeps them for all files that share some, and they
    are optimised less, because few examples run.
    """
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1", "NUMBA_CACHE_DIR": str(cache), **environment}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-o", "timeout=0"]
    done = subprocess.run(
        [*command, *map(str, arguments)], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
