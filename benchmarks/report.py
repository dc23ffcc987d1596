"""What a benchmark is given and what it gives back."""

import os
import platform
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Goal", "Options", "Report", "machine", "resident_gb"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says: a minute's version, the seed, the sizes a benchmark may take, a folder for pictures.

    `workloads` asks for the questions on which indexes break, in place of the usual one.
    """

    quick: bool = False
    seed: int = 1
    data: Path | None = None
    queries: int | None = None
    megabytes: int | None = None
    out: Path | None = None
    workloads: bool = False


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on one figure, from below or from above."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Tell whether a measured value keeps the bound."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, on what data, with what seed, and which goals it meets.

    `columns` and `rows` are the table for a person; `figures` name the same numbers for a script.
    """

    name: str
    data: str
    seed: int
    figures: Mapping[str, float]
    goals: Sequence[Goal]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        goals = []
        for goal in self.goals:
            value = float(self.figures[goal.figure])  # figures may be numpy's, which JSON does not know
            bound = {"at_least": goal.at_least} if goal.at_least is not None else {"at_most": goal.at_most}
            goals.append({"figure": goal.figure, "value": value, **bound, "met": goal.met(value)})
        return {
            "name": self.name,
            "data": self.data,
            "seed": self.seed,
            "machine": machine(),
            "figures": {name: float(value) for name, value in self.figures.items()},
            "goals": goals,
        }


def machine() -> str:
    """Describe the machine in a line."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def resident_gb() -> float:
    """Return the memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**30
