"""A few results in words: who asked for what, and what they were told."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from streams.batches import DETECTS, TYPE_KNN, TYPE_RANGE, TYPE_TERMS, AnswerBatch, Batch, EventBatch, MatchBatch
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import file_kind
from streams.files.file_bytes import ByteForm, read_bytes
from streams.files.object_form import ObjectForm
from streams.files.object_lookup import columns_of
from topology.amendments import source_of
from topology.declaration import Topology
from topology.metric import unit_of
from topology.validation import make_operator

__all__ = ["print_alerts"]


#: So many items of a list are shown.
MOST_ITEMS = 3

#: Times that are all within a year of zero count from the start of something, not from 1970.
_A_YEAR = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class _Told:
    """One result: when, to whom, of which type, and its items with their values; an object that matched has none."""

    ts: int
    query: Any
    type: int
    items: list[Any]
    values: list[float | None]
    detect: str = ""


def print_alerts(console: Console, topology: Topology, sample: Iterable[Batch]) -> None:
    """Print sampled results, matches and lists, as sentences, in the order of time."""
    told = sorted((one for batch in sample for one in _told(batch)), key=lambda one: (one.ts, str(one.query)))
    things = {str(item) for one in told if one.type != TYPE_TERMS for item in one.items[:MOST_ITEMS]}
    objects, queries = (_source(topology, pace) for pace in ("leads", "follows"))
    texts = _texts(objects.files(), objects.form, things) if objects is not None else {}
    asked = _questions(queries.files(), queries.form, {str(one.query) for one in told}) if queries is not None else {}
    console.print("Some of the results" if told else "There are no results to show", style="bold")
    unit, clock = unit_of(topology), _clock([one.ts for one in told], objects is not None and objects.form.row_times)
    for one in told:
        when = f"  {clock(one.ts)}  "
        first, *others = _items(one, {} if one.type == TYPE_TERMS else texts, unit)
        asks = f"{'':{len(when)}}for {one.query}: {_question(asked.get(str(one.query)), unit)}"
        for line in (f"{when}{first}", *(f"{'':{len(when)}}{other}" for other in others)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print(asks, style="dim", highlight=False, markup=False, soft_wrap=True)
    console.print()


def _told(batch: Batch) -> Iterator[_Told]:
    """Yield the results of a batch; what is no result is passed over."""
    if isinstance(batch, MatchBatch):
        for query, ts, thing in zip(batch.query.to_list(), batch.ts.tolist(), batch.object.to_list(), strict=True):
            yield _Told(ts, query, TYPE_RANGE, [thing], [None])
    if isinstance(batch, EventBatch):
        columns = batch.query.to_list(), batch.ts.tolist(), batch.object.to_list(), batch.detect.tolist()
        for query, ts, thing, detect in zip(*columns, strict=True):
            yield _Told(ts, query, TYPE_RANGE, [thing], [None], DETECTS[detect])
    if isinstance(batch, AnswerBatch):
        items, values = batch.item.to_list(), batch.value.tolist()
        for row, query in enumerate(batch.query.to_list()):
            part, type_ = slice(batch.off[row], batch.off[row + 1]), int(batch.type[row])
            shown = [None] * len(items[part]) if type_ == TYPE_RANGE else values[part]
            yield _Told(int(batch.ts[row]), query, type_, items[part], shown)


def _items(one: _Told, texts: Mapping[str, str], unit: str) -> Iterator[str]:
    """Yield a line for each of the first items, and one for the rest; distances have a unit."""
    figures = [_figure(one.type, value, unit) for value in one.values[:MOST_ITEMS]]
    for item, figure in zip(one.items, figures, strict=False):
        text = f"{item}: {one.detect}" if one.detect else texts.get(str(item), item)
        yield f"{figure:>{max(map(len, figures))}}{text}"
    if not one.items:
        yield "nothing"
    if len(one.items) > MOST_ITEMS:
        yield f"and {len(one.items) - MOST_ITEMS:,} more"


def _figure(type_: int, value: float | None, unit: str) -> str:
    """Return a distance, a score or a count, and the space behind it; nothing where an item has none."""
    if value is None:
        return ""
    if type_ == TYPE_TERMS:
        return f"{value:,.0f}  "
    return f"{_length(value, unit) if type_ == TYPE_KNN else f'{value:,.3f}'}  "


def _length(value: float, unit: str) -> str:
    """Return a distance with its unit; what is far is in kilometres."""
    if unit == "m":
        return f"{value / 1000:,.1f} km" if value >= 1000 else f"{value:,.3g} m"
    return f"{value:,.3f} {unit}"


def _clock(times: list[int], of_rows: bool) -> Callable[[int], str]:
    """Return how times are written: as dates, or as what has gone by where they do not count from 1970; rows as numbers."""
    if of_rows:
        return lambda ts: f"record {ts:,}"
    if all(0 <= ts < _A_YEAR for ts in times):
        return _gone_by
    return lambda ts: datetime.fromtimestamp(ts / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _gone_by(ms: int) -> str:
    days, seconds = divmod(ms // 1000, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"day {days + 1} {clock}" if days else clock


def _source(topology: Topology, pace: str) -> Any:
    """Return the operator that reads objects, or queries; None where they come from elsewhere than from files."""
    try:
        return make_operator(source_of(topology, pace), topology)
    except DeclarationError:
        return None


def _texts(paths: list[Path], form: ObjectForm, wanted: set[str]) -> dict[str, str]:
    """Return what the objects say, by id as text; of a dynamic one, what it said last."""
    form = replace(form, text=replace(form.text, follow=False))
    for field in ("text", "keywords"):
        try:
            found = columns_of(paths, form, wanted, [field], last=True)
        except InputError:
            continue  # the files have no such column
        return {name: _text(columns[field]) for name, columns in found.items() if columns[field]}
    return {}


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _questions(paths: list[Path], form: ByteForm, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Return the registrations of some queries, by id as text."""
    return {
        str(line["id"]): line
        for path in paths
        for line in _lines(path, form)
        if line.get("op", "register") == "register" and str(line.get("id")) in wanted
    }


def _lines(path: Path, form: ByteForm) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; what is none has been rejected."""
    data = b"".join(read_bytes(str(path), file_kind(str(path), ("jsonl",)).compression, form))
    for line in data.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


#: What a query whose result is a list asks for, by its type.
_LISTS = {"knn": "nearest with", "topk": "best for", "terms": "most frequent words of"}


#: Milliseconds of the units that times are told in.
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond"))


def _time(ms: int) -> str:
    """Return a time in words, as in "hour" or "3 hours"."""
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return unit if ms == size else f"{ms // size:,} {unit}s"


def _question(line: dict[str, Any] | None, unit: str) -> str:
    """Return what was asked for, and of which time: a standing question is about what comes."""
    if line is None:
        return "a standing question"
    times = [f"in the last {_time(line['window'])}"] if "window" in line else []
    times += [f"every {_time(line['slide'])}"] if "slide" in line else []
    times += ["asked once"] if line.get("continuous") is False else []
    return ", ".join([_wanted(line, unit), *times])


def _wanted(line: dict[str, Any], unit: str) -> str:
    joint = " or " if line.get("match") == "any" else " and "
    words = joint.join(f"'{word}'" for word in line.get("keywords") or ()) or "anything"
    if line.get("none"):
        words += f" without {' or '.join(repr(word) for word in line['none'])}"
    if (lists := _LISTS.get(line.get("type", "range"))) is not None:
        words = f"the {line.get('k')} {lists} {words}"
    if "at" in line:
        x, y = line["at"]
        return f"{words} from ({x:g}, {y:g})"
    region = line.get("region", {})
    if "circle" in region:
        x, y, radius = region["circle"]
        return f"{words} within {_length(radius, unit)} of ({x:g}, {y:g})"
    if "rect" in region:
        a, b, c, d = region["rect"]
        return f"{words} in the rectangle from ({a:g}, {b:g}) to ({c:g}, {d:g})"
    if "polygon" in region or "type" in region:
        return f"{words} in {'several polygons' if region.get('type') == 'MultiPolygon' else 'a polygon'}"
    return words
