"""Memory and processor time of this process and of all that it has started, directly or not."""

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["processor_s", "together_gb"]

_PROC = Path("/proc")


def together_gb() -> float:
    """Return the memory of the whole family in gigabytes; pages that several share are counted once, in parts."""
    return sum(_own_kb(process) for process in _family(os.getpid())) / 2**20


def processor_s() -> dict[int, float]:
    """Return the processor time that each of the family has taken so far, in seconds, by its number."""
    ticks = os.sysconf("SC_CLK_TCK")
    taken = {process: _status(process)[11:13] for process in _family(os.getpid())}
    return {process: sum(map(int, fields)) / ticks for process, fields in taken.items() if fields}


def _family(first: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and (status := _status(int(entry.name))):
            children.setdefault(int(status[1]), []).append(int(entry.name))
    waiting = [first]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, [])


def _status(process: int) -> list[str]:
    """Return what follows the name in the status of a process, parent first but one; nothing where it has ended."""
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _own_kb(process: int) -> int:
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
