"""What a comparison says: the differences, counted all and kept up to a limit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["KINDS", "UNKNOWN", "Comparison", "Difference", "Kind", "Tally"]

Kind = Literal["missing", "unexpected", "repeated", "wrong", "out_of_order"]
KINDS: tuple[Kind, ...] = ("missing", "unexpected", "repeated", "wrong", "out_of_order")

#: The type of a line that belongs to no query of the input, or has not the form of a result of its query.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the oracle has it.

    Attributes:
        query: the query's identifier as the line or the input has it.
        ts: the event time of the result.
        type: the type of the query, with " snapshot" where it is one, or `UNKNOWN`.
        kind: what is wrong: a result that is not there, that should not be there, that is there again, that says
            something else, or that comes after a later one.
        expected: what the oracle has, if it has something (for `out_of_order`, the time that came before).
        found: what the results have, if they have something.
    """

    query: Any
    ts: Any
    type: str
    kind: Kind
    expected: Any = None
    found: Any = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a comparison.

    Attributes:
        expected: by type, what the oracle asks for: matches, answers, or final results of `knn` and `topk` queries.
        found: by type, the lines of the results.
        differing: by type and kind, how many differences there are.
        differences: some of them, up to a limit for each type and kind.
    """

    expected: Mapping[str, int]
    found: Mapping[str, int]
    differing: Mapping[tuple[str, Kind], int]
    differences: tuple[Difference, ...]

    @property
    def total(self) -> int:
        """The number of all differences, also of those that were not kept."""
        return sum(self.differing.values())

    @property
    def ok(self) -> bool:
        """Whether the results are right."""
        return not self.differing


class Tally:
    """Counts results and differences while they are found; keeps at most `limit` differences of a type and kind."""

    def __init__(self, limit: int) -> None:
        self.expected: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self._limit = limit
        self._differing: Counter[tuple[str, Kind]] = Counter()
        self._kept: list[Difference] = []

    def room(self, type_: str, kind: Kind) -> int:
        """Return how many more differences of a type and kind will be kept."""
        return max(self._limit - self._differing[type_, kind], 0)

    def add(
        self, type_: str, kind: Kind, query: Any, ts: Any, *, expected: Any = None, found: Any = None, times: int = 1
    ) -> None:
        """Take note of a difference; `times` counts results that differ in the same way."""
        if self.room(type_, kind):
            self._kept.append(Difference(query, ts, type_, kind, expected, found))
        self._differing[type_, kind] += times

    def count_only(self, type_: str, kind: Kind, times: int) -> None:
        """Count differences that are not described."""
        if times:
            self._differing[type_, kind] += times

    def comparison(self) -> Comparison:
        """Return what was found."""
        return Comparison(
            {name: n for name, n in self.expected.items() if n},
            {name: n for name, n in self.found.items() if n},
            {key: n for key, n in self._differing.items() if n},
            tuple(self._kept),
        )
