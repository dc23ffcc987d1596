"""Answers that are due once at a known instant: snapshots, and each instant of a `terms` query."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal

from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS
from streams.comparison.differences import UNKNOWN, Tally
from streams.oracle import Oracle, Registration

__all__ = ["Answers", "Form", "ranked_list"]

Form = Literal["objects", "terms"]
Key = tuple[int, int, Form]

_ID_TYPES = (int, str)


def ranked_list(value: Any) -> tuple[tuple[int | str, float], ...] | None:
    """Return the ``[[id, distance or score], ...]`` of a line as a tuple to compare; None if it is no such list."""
    if not isinstance(value, list):
        return None
    listed = []
    for item in value:
        if not isinstance(item, list | tuple) or len(item) != 2:
            return None
        name, number = item
        if type(name) not in _ID_TYPES or type(number) not in (int, float):
            return None
        listed.append((name, number))
    return tuple(listed)


def _object_set(value: Any) -> Hashable | None:
    """Return the ``[id, ...]`` of a line without its order; an identifier counts as often as it is there."""
    if not isinstance(value, list) or any(type(name) not in _ID_TYPES for name in value):
        return None
    return frozenset(Counter(value).items())


def _term_list(value: Any) -> Hashable | None:
    """Return the ``[[term, count], ...]`` of a line."""
    listed = ranked_list(value)
    if listed is None or any(type(term) is not str or type(count) is not int for term, count in listed):
        return None
    return listed


_READERS: dict[int, Callable[[Any], Hashable | None]] = {
    TYPE_RANGE: _object_set,
    TYPE_KNN: ranked_list,
    TYPE_TERMS: _term_list,
}


class Answers:
    """The answers of the oracle that are due once, and the lines that claim to be one."""

    def __init__(self, oracle: Oracle, codes: list[int], tally: Tally) -> None:
        self._oracle = oracle
        self._tally = tally
        self._due: dict[Key, list[Registration]] = defaultdict(list)
        self._found: dict[Key, list[Any]] = defaultdict(list)
        self._latest: dict[tuple[int, Form], int] = {}
        self._asked = [
            (q, code)
            for q, code in zip(oracle.registrations, codes, strict=True)
            if q.lives and (q.type == TYPE_TERMS or not q.continuous)
        ]
        for q, code in self._asked:
            form: Form = "terms" if q.type == TYPE_TERMS else "objects"
            for now in oracle.instants(q) if q.type == TYPE_TERMS else (q.ts,):
                self._due[code, now, form].append(q)

    def claims(self, code: int, ts: int, value: Any) -> bool:
        """Tell whether a list of objects is the answer to a snapshot that has none yet."""
        key: Key = (code, ts, "objects")
        waiting = self._due.get(key, [])
        if len(self._found.get(key, [])) >= len(waiting):
            return False
        return any(_READERS[q.type](value) == _READERS[q.type](self._answer(q)) for q in waiting)

    def add(self, code: int, name: int | str, ts: int, form: Form, value: Any) -> None:
        """Take a line."""
        asked = self._due.get((code, ts, form))
        if asked:
            latest = self._latest.get((code, form), ts)
            if ts < latest:
                kind = asked[0].result_type
                self._tally.add(kind, "out_of_order", name, ts, expected=f"ts >= {latest}", found=f"ts {ts}")
            self._latest[code, form] = max(ts, latest)
        self._found[code, ts, form].append(value)

    def compare(self, names: list[int | str]) -> None:
        """Compare all lines taken with all answers due."""
        unmatched: list[tuple[Key, Registration, Any]] = []
        for key, q, answer in self._expected():
            self._tally.expected[q.result_type] += 1
            read = _READERS[q.type]
            lines = self._found.get(key, [])
            right = read(answer)
            same = next((place for place, value in enumerate(lines) if read(value) == right), None)
            if same is None:
                unmatched.append((key, q, answer))
            else:
                del lines[same]
                self._tally.found[q.result_type] += 1
        for key, q, answer in unmatched:
            lines = self._found.get(key, [])
            if lines:
                self._tally.found[q.result_type] += 1
                self._tally.add(q.result_type, "wrong", q.id, key[1], expected=answer, found=lines.pop(0))
            else:
                self._tally.add(q.result_type, "missing", q.id, key[1], expected=answer)
        for (code, ts, form), lines in self._found.items():
            asked = self._due.get((code, ts, form))
            kind = asked[0].result_type if asked else UNKNOWN
            for value in lines:
                self._tally.found[kind] += 1
                self._tally.add(kind, "repeated" if asked else "unexpected", names[code], ts, found=value)

    def _expected(self) -> Iterator[tuple[Key, Registration, Any]]:
        for q, code in self._asked:
            if q.type != TYPE_TERMS:
                yield (code, q.ts, "objects"), q, self._answer(q)
                continue
            counts = self._oracle.term_counts(q)
            for now in self._oracle.instants(q):
                yield (code, now, "terms"), q, [list(item) for item in counts.at(now)]

    def _answer(self, q: Registration) -> list[Any]:
        """Return the answer of a snapshot of objects as its line has it."""
        if q.type == TYPE_KNN:
            return self._oracle.listed(self._oracle.nearest(q))
        return [self._oracle.object_ids[row] for row in self._oracle.selected(q).tolist()]
