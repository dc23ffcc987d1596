"""Sorting the lines of a results file by what they claim to be, and comparing each sort with the oracle."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from streams.batches import DETECTS, TYPE_RANGE
from streams.columns import Ids
from streams.comparison.answers import Answers
from streams.comparison.differences import UNKNOWN, Comparison, Tally
from streams.comparison.matches import MatchColumns, compare_matches
from streams.comparison.states import compare_states
from streams.oracle import Oracle, Registration
from streams.oracle.identities import Codes

__all__ = ["MAX_DIFFERENCES", "compare"]

#: How many differences of a type and kind are kept; all are counted.
MAX_DIFFERENCES = 100

_ID_TYPES = (int, str)


def compare(oracle: Oracle, lines: Iterable[dict[str, Any]], *, limit: int = MAX_DIFFERENCES) -> Comparison:
    """Compare the parsed lines of a results file with the oracle; memory grows with the results.

    Args:
        oracle: the definition, over the input that gave the results.
        lines: one object a line, in the order of the file.
        limit: how many differences to keep of each type and kind.
    """
    tally = Tally(limit)
    sorter = _Sorter(oracle, tally)
    sorter.take(lines)
    sorter.compare()
    return tally.comparison()


class _Sorter:
    """Lines by what they are: columns of matches, answers that are due once, and results that change."""

    def __init__(self, oracle: Oracle, tally: Tally) -> None:
        self._oracle = oracle
        self._tally = tally
        self._queries = Codes.of(Ids.of(q.id for q in oracle.registrations))
        self._objects = Codes.of(oracle.objects.ids)
        codes = self._queries.codes.tolist()
        self._matches = MatchColumns()
        self._answers = Answers(oracle, codes, tally)
        self._ranked: dict[int, list[Registration]] = defaultdict(list)
        self._states: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        self._ranges: set[int] = set()
        for q, code in zip(oracle.registrations, codes, strict=True):
            if q.lives and q.ranked:
                self._ranked[code].append(q)
            elif q.type == TYPE_RANGE and q.continuous:
                self._ranges.add(code)

    def take(self, lines: Iterable[dict[str, Any]]) -> None:
        """Sort lines; the path of matches is short, for there are millions."""
        ranges, columns, ts_column = self._ranges, self._matches, self._oracle.objects.ts
        codes: dict[Any, int] = {name: code for code, name in enumerate(self._queries.names)}
        places: dict[Any, int] = {name: code for code, name in enumerate(self._objects.names)}
        events: dict[Any, int] = {None: -1, **{word: place for place, word in enumerate(DETECTS)}}
        first, last = (int(ts_column[0]), self._oracle.last_ts or 0) if len(ts_column) else (0, -1)
        for line in lines:
            if not isinstance(line, dict):
                self._unexpected(line)
                continue
            name, ts, matched = line.get("query"), line.get("ts"), line.get("object")
            code = codes.get(name) if type(name) in _ID_TYPES else None
            if code is None or type(ts) is not int:
                self._unexpected(line)
            elif matched is None:
                self._take_list(code, ts, line)
            else:
                place = places.get(matched) if type(matched) in _ID_TYPES else None
                detect = line.get("detect")
                event = events.get(detect) if detect is None or type(detect) is str else None
                if place is None or event is None or code not in ranges or not first <= ts <= last:
                    self._unexpected(line)
                else:
                    columns.query.append(code)
                    columns.ts.append(ts)
                    columns.object.append(place)
                    columns.detect.append(event)

    def compare(self) -> None:
        """Compare what was taken with the oracle."""
        compare_matches(self._oracle, self._matches, self._queries, self._objects, self._tally)
        self._answers.compare(self._queries.names)
        for code, queries in self._ranked.items():
            compare_states(self._oracle, queries, self._states.pop(code, []), self._tally)

    def _take_list(self, code: int, ts: int, line: dict[str, Any]) -> None:
        """Take a line with a list: terms, a snapshot's objects, or the result of a query that changes."""
        if "terms" in line:
            self._answers.add(code, line["query"], ts, "terms", line["terms"])
        elif "objects" not in line:
            self._unexpected(line)
        elif code in self._ranked and not self._answers.claims(code, ts, line["objects"]):
            self._states[code].append((ts, line["objects"]))
        else:
            self._answers.add(code, line["query"], ts, "objects", line["objects"])

    def _unexpected(self, line: Any) -> None:
        """Take note of a line that no query of the input can have."""
        query, ts = (line.get("query"), line.get("ts")) if isinstance(line, dict) else (None, None)
        self._tally.found[UNKNOWN] += 1
        self._tally.add(UNKNOWN, "unexpected", query, ts, found=line)
