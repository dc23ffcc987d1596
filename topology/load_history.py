"""The timeline of a summary as columns: who did how much, epoch by epoch, and how well it was shared."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.errors import DeclarationError

__all__ = ["LoadHistory"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A part of a run: an epoch, or a share of all epochs from 0 to 1.
Place = int | float


@dataclass(frozen=True, slots=True, eq=False)
class LoadHistory:
    """One row for each entry of a timeline; a run of up to 512 epochs has an entry for each epoch.

    Attributes:
        epoch: the first epoch of the entry; it has `epochs` of them.
        seconds: since the start of the run, when the entry was complete.
        objects: that came in the entry.
        costs: work done, one column for each evaluator.
        peak: the largest cost of each epoch, added up over the entry.
        latency_ms: of the entry's slowest epoch.
        busiest_ms: the longest time that one task worked on one epoch of the entry.
    """

    epoch: Ints
    epochs: Ints
    seconds: Floats
    objects: Ints
    costs: Ints
    peak: Ints
    latency_ms: Floats
    busiest_ms: Floats

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "LoadHistory":
        """Take the timeline of a summary."""
        start, *entries = summary["timeline"]
        evaluators = len(summary["evaluators"])

        def column(name: str, dtype: type[Any]) -> NDArray[Any]:
            return np.array([entry[name] for entry in entries], dtype)

        costs = [entry["costs"] or [0] * evaluators for entry in entries]
        return cls(
            epoch=column("epoch", np.int64),
            epochs=column("epochs", np.int64),
            seconds=column("seconds", np.float64),
            objects=np.diff(column("objects", np.int64), prepend=start["objects"]),
            costs=np.array(costs, np.int64).reshape(len(entries), evaluators),
            peak=column("peak", np.int64),
            latency_ms=column("latency_ms", np.float64),
            busiest_ms=column("busiest_ms", np.float64),
        )

    def __len__(self) -> int:
        return len(self.epoch)

    @property
    def end(self) -> int:
        """Return the epoch behind the last."""
        return int(self.epoch[-1] + self.epochs[-1]) if len(self) else 0

    @property
    def efficiency(self) -> Floats:
        """Parallel efficiency of each entry: 1 is perfect, 1 / evaluators is one bearing all; 1 where nothing was to do."""
        borne = self.costs.shape[1] * self.peak
        return np.asarray(np.divide(self.costs.sum(1), borne, out=np.ones(len(self)), where=borne > 0))

    def parallel_efficiency(self) -> float:
        """Return the parallel efficiency of all entries together, as the summary defines it."""
        borne = self.costs.shape[1] * int(self.peak.sum())
        return int(self.costs.sum()) / borne if borne else 1.0

    def epoch_of(self, place: Place) -> int:
        """Return the epoch of a place: a whole number is an epoch, a share is that share of all epochs."""
        if isinstance(place, float):
            if not 0.0 <= place <= 1.0:
                raise DeclarationError(f"{place} is no place in a run; expected an epoch, or a share from 0.0 to 1.0")
            return round(place * self.end)
        if not 0 <= place <= self.end:
            raise DeclarationError(f"epoch {place} is not in this run, which has epochs 0 to {self.end - 1}")
        return place

    def between(self, after: Place = 0, until: Place = 1.0) -> "LoadHistory":
        """Return the entries that begin at `after` or later and end by `until`; raise where there is none."""
        first, last = self.epoch_of(after), self.epoch_of(until)
        inside = (self.epoch >= first) & (self.epoch + self.epochs <= last)
        if not inside.any():
            raise DeclarationError(f"no entry of the timeline lies in epochs {first} to {last - 1} of {self.end}")
        columns = {f.name: getattr(self, f.name)[inside] for f in dataclasses.fields(self)}
        return LoadHistory(**columns)

    def described(self, rows: int = 12) -> str:
        """Return a table for a person: for parts of the run, efficiency and each evaluator's share of the cost."""
        parts = np.array_split(np.arange(len(self)), min(rows, len(self))) if len(self) else []
        lines = ["    epochs   efficiency   share of the cost by evaluator, %"]
        for part in parts:
            some = LoadHistory(**{f.name: getattr(self, f.name)[part] for f in dataclasses.fields(self)})
            total = max(int(some.costs.sum()), 1)
            shares = " ".join(f"{100 * cost / total:4.0f}" for cost in some.costs.sum(0).tolist())
            span = f"{some.epoch[0]}-{some.end - 1}"
            lines.append(f"{span:>10}   {some.parallel_efficiency():10.2f}  {shares}")
        return "\n".join(lines)
