"""The memory of this process and of all that it has started, directly or not, together."""

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["together_gb"]

_PROC = Path("/proc")


def together_gb() -> float:
    """Return the memory of the whole family in gigabytes; pages that several share are counted once, in parts."""
    return sum(_own_kb(process) for process in _family(os.getpid())) / 2**20


def _family(first: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    waiting = [first]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, [])


def _parent(process: int) -> int | None:
    try:
        return int(
            (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        )
    except OSError:  # it has ended meanwhile
        return None


def _own_kb(process: int) -> int:
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
