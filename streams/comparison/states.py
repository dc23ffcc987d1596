"""Continuous `knn` and `topk` queries: results that change, of which a line states one.

A line with ts = t states the result after all input up to t. Two freedoms make a plain comparison of lines impossible: the
changes of an epoch may be one line, and an epoch may end between two objects of the same time, which gives a query
several lines with one ts. So each line is judged for itself: the last one of a ts must be the result after all input up to it,
an earlier one the result after some of the objects of that ts, no line may say the same as the one before, and the last
line of all must be the final result. The result of a query that has no line yet is empty.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from streams.comparison.answers import ranked_list
from streams.comparison.differences import Tally
from streams.oracle import Oracle, Ranked, Ranking, Registration

__all__ = ["compare_states"]

Listed = tuple[tuple[int | str, float], ...]


@dataclass(slots=True)
class _Course:
    """A query, all it may list, and the lines that are about it."""

    query: Registration
    ranking: Ranking
    final: Listed
    lines: list[tuple[int, Any, Listed | None]] = field(default_factory=list)

    def wants(self, listed: Listed | None) -> bool:
        """Tell whether a list is the final result, not yet said."""
        said = self.lines[-1][2] if self.lines else ()
        return listed == self.final != said


def compare_states(oracle: Oracle, queries: list[Registration], lines: list[tuple[int, Any]], tally: Tally) -> None:
    """Compare the lines of one identifier, in file order, with the queries that had it, in time order."""
    courses = [_course(oracle, q) for q in queries]
    for course in courses:
        tally.expected[course.query.result_type] += 1
    _assign(oracle, courses, lines, tally)
    for course in courses:
        _judge(oracle, course, tally)


def _course(oracle: Oracle, q: Registration) -> _Course:
    ranking = oracle.ranking(q)
    return _Course(q, ranking, _listed(oracle, ranking.final()))


def _listed(oracle: Oracle, ranked: Ranked) -> Listed:
    return tuple((name, value) for name, value in oracle.listed(ranked))


def _assign(oracle: Oracle, courses: list[_Course], lines: list[tuple[int, Any]], tally: Tally) -> None:
    """Give each line to the query that it is about.

    Queries of one identifier follow each other, but the final result of an ended one may be written at the end of its
    epoch, when the next has begun. An ended query wants at most one more line, its final result if that was not yet
    said, and it comes before all lines of the next: so the first that still wants the line has it.
    """
    begins = [course.query.ts for course in courses]
    current, latest = 0, None
    for ts, value in lines:
        begun = bisect_right(begins, ts) - 1
        kind = courses[max(begun, 0)].query.result_type
        tally.found[kind] += 1
        name = courses[0].query.id
        if latest is not None and ts < latest:
            tally.add(kind, "out_of_order", name, ts, expected=f"ts >= {latest}", found=f"ts {ts}")
        latest = ts if latest is None else max(ts, latest)
        if begun < 0 or oracle.last_ts is None or ts > oracle.last_ts:
            tally.add(kind, "unexpected", name, ts, found=value)
            continue
        listed = ranked_list(value)
        place = min(current, begun)
        while place < begun and not courses[place].wants(listed):
            place += 1
        courses[place].lines.append((ts, value, listed))
        current = max(current, place)


def _judge(oracle: Oracle, course: _Course, tally: Tally) -> None:
    """Find what is wrong with the lines of one query."""
    kind, name = course.query.result_type, course.query.id
    before: Listed | None = ()
    right: Listed = ()
    was_wrong = False
    for ts, value, listed, result, fits in _judged(oracle, course):
        was_wrong, right = not fits, result
        if not fits:
            tally.add(kind, "wrong", name, ts, expected=_as_line(result), found=value)
        elif listed == before:
            tally.add(kind, "repeated", name, ts, expected=_as_line(result), found=value)
        before = listed
    # A wrong last line has been told already, unless the result has changed once more since.
    if before != course.final and not (was_wrong and right == course.final):
        found = None if before is None else _as_line(before)
        tally.add(kind, "missing", name, course.ranking.lasts, expected=_as_line(course.final), found=found)


def _judged(oracle: Oracle, course: _Course) -> Iterator[tuple[int, Any, Listed | None, Listed, bool]]:
    """Yield each line with the result after all input up to its ts, and whether it is right."""
    for ts, group in groupby(course.lines, key=lambda line: line[0]):
        *earlier, (_, last_value, last) = group
        result = _listed(oracle, course.ranking.at(ts))
        # The results while the objects of this ts come in; each line must be one of those not yet passed.
        passing = [_listed(oracle, ranked) for ranked in course.ranking.during(ts)] if earlier else []
        place = 0
        for _, value, listed in earlier:
            at = next((i for i in range(place, len(passing)) if passing[i] == listed), None)
            place = place if at is None else at
            yield ts, value, listed, result, at is not None
        yield ts, last_value, last, result, last == result


def _as_line(listed: Listed) -> list[list[Any]]:
    return [list(item) for item in listed]
