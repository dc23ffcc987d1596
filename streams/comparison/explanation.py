"""A comparison as a text for a person, of bounded length."""

import json
from collections import Counter
from typing import Any

from streams.comparison.differences import KINDS, Comparison, Difference

__all__ = ["MAX_SHOWN", "explain"]

#: How many differences are described of each type and kind, and how long a value may be.
MAX_SHOWN = 5
_MAX_TEXT = 120

#: Types whose lists are written whenever they have changed, so that more lines come than final lists are expected.
_LISTS = ("knn", "topk")


def explain(comparison: Comparison) -> str:
    """Return a table of all results by type and, where there are differences, the first of each type and kind."""
    types = sorted({*comparison.expected, *comparison.found, *(type_ for type_, _ in comparison.differing)})
    width = max([len("type"), *map(len, types)])
    lines = [_verdict(comparison), f"  {'type':<{width}} {'expected':>12} {'found':>12}  differences"]
    for type_ in types:
        counts = [f"{n:,} {kind}" for kind in KINDS if (n := comparison.differing.get((type_, kind), 0))]
        expected, found = comparison.expected.get(type_, 0), comparison.found.get(type_, 0)
        lines.append(f"  {type_:<{width}} {expected:>12,} {found:>12,}  {', '.join(counts) or 'none'}")
    if lists := [type_ for type_ in types if type_ in _LISTS]:
        names = ", ".join(lists)
        lines.append(
            f"  ({names}: a final list a query is expected, and each line that came is compared as of its time)"
        )
    for (type_, kind), total in sorted(comparison.differing.items()):
        same = [d for d in comparison.differences if d.type == type_ and d.kind == kind]
        lines.append(f"{type_}, {kind}: {total:,}")
        lines += [f"  {_described(difference)}" for difference in same[:MAX_SHOWN]]
    return "\n".join(lines)


def _verdict(comparison: Comparison) -> str:
    if comparison.ok and not sum(comparison.expected.values()):
        return (
            "no results were expected and none came, so nothing was shown: see whether queries and objects were accepted, "
            "and whether their places, times and keywords can meet"
        )
    if comparison.ok:
        return f"the results are right: all {sum(comparison.found.values()):,} lines agree with the definition"
    return f"the results are wrong: {comparison.total:,} differences from the definition"


def _described(difference: Difference) -> str:
    """Say what differs; of two lists, the first place where they part."""
    where = f"query {_text(difference.query)}, ts {_text(difference.ts)}"
    expected, found = difference.expected, difference.found
    if isinstance(expected, list) and isinstance(found, list) and difference.kind != "repeated":
        if difference.type == "range snapshot":
            return f"{where}: {_sets(expected, found)}"
        place = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
        place = min(len(expected), len(found)) if place is None else place
        return (
            f"{where}: place {place + 1} of {len(expected)}, expected {_item(expected, place)}, "
            f"found {_item(found, place)}"
        )
    told = [f"{word} {_text(value)}" for word, value in (("expected", expected), ("found", found)) if value is not None]
    return f"{where}: {', '.join(told)}"


def _sets(expected: list[Any], found: list[Any]) -> str:
    """Say which objects are in one set only."""
    lacks, besides = _surplus(expected, found), _surplus(found, expected)
    told = [f"{word} {_text(items)}" for word, items in (("lacks", lacks), ("has besides", besides)) if items]
    return " and ".join(told)


def _surplus(items: list[Any], others: list[Any]) -> list[Any]:
    """Return what of the first list is left when the second is taken from it, one for one."""
    left = Counter(map(json.dumps, others))
    surplus = []
    for item in items:
        if left[json.dumps(item)]:
            left[json.dumps(item)] -= 1
        else:
            surplus.append(item)
    return surplus


def _item(items: list[Any], place: int) -> str:
    return _text(items[place]) if place < len(items) else "nothing"


def _text(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
