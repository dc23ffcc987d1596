"""What to declare of a file of objects, as far as its first records show it: for a message, never done silently.

A file that nobody has described fails one setting at a time: names of columns, then the encoding, the unit of times, their
order. This looks at all of them at once. A proposal is made only where more of the first records can be used with it.
"""

import math
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from streams.errors import DeclarationError, InputError, did_you_mean
from streams.files.file_blocks import ReadLimits, file_kind
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.files.object_files import has_longitudes, read_objects
from streams.files.object_form import ObjectForm, reached
from streams.files.remedies import lines_command
from streams.geometry import Rect
from streams.timestamps import TimeForm, read_time
from streams.vocabulary import Encoder
from topology.amendments import columns_in
from topology.first_records import FIRST_RECORDS, Records, first_json, first_records, head_made_over, leaves
from topology.likely_names import is_likely
from topology.likely_times import can_be_times, is_clock, is_days, likely_times, must_be_times, other_reading

__all__ = ["missing_columns", "proposed", "usable", "wordless"]

_DEGREES = {"lon": 180.0, "lat": 90.0}

#: A space for places in any plane.
_EVERYWHERE = Rect(-1e12, -1e12, 1e12, 1e12)

#: A column is of degrees where this share of what stands in it is.
_NEARLY_ALL = 0.9

#: A column whose texts have so many words on average is prose, whatever it is called.
_PROSE_WORDS = 4


@dataclass(frozen=True, slots=True)
class _Proposal:
    """What would be declared: a form, the words that declare it, and what a person has to decide."""

    form: ObjectForm
    words: str
    doubt: str = ""


def usable(paths: Sequence[str], space: Rect, limits: ReadLimits, form: ObjectForm) -> tuple[int, int]:
    """Return how many of the first records of some files can be used, and how many there are; (0, 0) where none has come."""
    chunks = read_objects(
        paths, space=space, encoder=Encoder(), chunk_rows=FIRST_RECORDS, limits=limits, form=form
    )  # fmt: skip
    first = next(iter(chunks), None)
    return (0, 0) if first is None else (first.records - first.refused, first.records)


def proposed(
    spout: str, paths: Sequence[Any], space: Rect, limits: ReadLimits, form: ObjectForm, *, in_python: bool = False
) -> str | None:
    """Return options with which more of the first records can be used; None where there are none.

    They are written as on the command line, or as arguments of `waterspout.run`.
    """
    first = [str(path) for path in paths[:1]]
    if not first or form.text.follow:
        return None
    if len(paths) == 1 and not in_python and (told := _proposed_made_over(spout, first[0], space, limits, form)):
        return told
    words = _python_words if in_python else _shell_words
    best, before = None, _used(first, space, limits, form)
    try:
        for found in _proposals(spout, first[0], form, words):
            after = _used(first, space, limits, found.form)
            if after > before:
                best, before = found, after
        wider = _wider_space(first, space, limits, form if best is None else best.form, before)
        if best is None and wider is None:
            return None
        best = _Proposal(form, "") if best is None else best
        after, records = usable(first, space if wider is None else wider, limits, best.form)
    except InputError:
        return None
    said, doubt = best.words, best.doubt
    if wider is not None:
        setting = f"topology.space={list(map(int, wider.as_tuple()))}"
        if in_python:
            said = f"{said[:-1]}, '{setting}']" if "settings=[" in said else f"{said}, settings={[setting]}"
        else:
            said = f"{said} --set {shlex.quote(setting)}"
        said, doubt = said.strip(", "), f"{doubt}; the space must have all places that will come"
    return f"{said} (so {after:,} of the first {records:,} records can be used{doubt})"


def _wider_space(paths: Sequence[str], space: Rect, limits: ReadLimits, form: ObjectForm, used: int) -> Rect | None:
    """Return a space in round numbers around the first places in a plane, where hardly any is in the declared one."""
    chunk = next(
        read_objects(paths, space=_EVERYWHERE, encoder=Encoder(), chunk_rows=FIRST_RECORDS, limits=limits, form=form),
        None,
    )
    enough = chunk is not None and len(chunk.batch) > 2 * max(used, 0)
    if chunk is None or not enough or has_longitudes(paths, _EVERYWHERE, form):
        return None
    x, y = chunk.batch.x, chunk.batch.y
    across = max(float(x.max() - x.min()), float(y.max() - y.min()), 1.0)
    step = 10.0 ** math.floor(math.log10(across))
    low = (step * math.floor((float(v.min()) - across / 2) / step) for v in (x, y))
    high = (step * math.ceil((float(v.max()) + across / 2) / step) for v in (x, y))
    return Rect(*low, *high)


def _proposed_made_over(spout: str, path: str, space: Rect, limits: ReadLimits, form: ObjectForm) -> str | None:
    """Return what to declare of the file that the command makes of one that is no input, so that one error says it all."""
    try:
        made_over = head_made_over(path, form.text)
    except InputError:
        return None
    if made_over is None:
        return None
    name, data = made_over
    text = ByteForm(form.text.encoding) if name.endswith(".csv") else PLAIN_BYTES
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / name
        made.write_bytes(data)
        told = proposed(spout, [made], space, limits, replace(form, text=text))
    if not _is_lines(path):
        return told and f"--objects {shlex.quote(name)} {told}"
    # All of its records are rejects, and no error has said what to do.
    return f"{lines_command(path)}, and --objects {shlex.quote(name)}{f' {told}' if told else ''}"


def _is_lines(path: str) -> bool:
    try:
        return file_kind(path).format == "jsonl"
    except InputError:
        return False


def missing_columns(paths: Sequence[Any], form: ObjectForm) -> str | None:
    """Say which declared column none of the first records has, where they are JSON; other files say so themselves."""
    path = next((str(path) for path in paths if file_kind(str(path)).format == "jsonl"), None)
    if path is None or not form.columns or form.text.follow:
        return None
    records = first_json(path, form.text.encoding)
    there = list(dict.fromkeys(name for record in records for name in dict(leaves(record))))
    for field, sources in form.columns.items():
        for source in sources:
            if records and all(reached(record, source) is None for record in records):
                return (
                    f"none of the first {len(records):,} records of {path} has '{source}', which is declared to be {field}"
                    f"{did_you_mean(source, there)}"
                )
    return None


def wordless(paths: Sequence[Any], form: ObjectForm, *, in_python: bool = False) -> str | None:
    """Say that none of the first records has words, where they are JSON, which may do without; and which column may."""
    path = next((str(path) for path in paths if file_kind(str(path)).format == "jsonl"), None)
    if path is None or form.text.follow:
        return None
    records, _ = first_records(path, form.text)
    names = list(dict.fromkeys(name for record in records for name in record))
    known = form.sources(path, names)
    if not records or known.keys() & {"text", "keywords", "keyword_ids"}:
        return None
    taken = {source for sources in known.values() for source in sources}
    free = [name for name in names if name not in taken]
    found = _words_of(free, {name: [record.get(name) for record in records] for name in free})
    words = _python_words if in_python else _shell_words
    said = f"none of the first {len(records):,} objects has a text or keywords"
    remedy = words("", found, form, form) if found else ""
    return f"{said}; try {remedy}" if remedy else said


def _used(paths: list[str], space: Rect, limits: ReadLimits, form: ObjectForm) -> int:
    try:
        return usable(paths, space, limits, form)[0]
    except InputError:
        return -1


def _proposals(
    spout: str,
    path: str,
    form: ObjectForm,
    words: Callable[[str, Mapping[str, tuple[str, ...]], ObjectForm, ObjectForm], str],
) -> Iterator[_Proposal]:
    """Yield what may be declared: what the names say, and the same with longitude and latitude exchanged."""
    records, encoding = first_records(path, form.text)
    if not records:
        return
    columns, made = _columns(path, records, form)
    text = ByteForm(encoding)
    shaped = replace(form, columns={**form.columns, **columns}, row_ids="id" in made, row_times="ts" in made, text=text)
    sources = shaped.sources(path, list(records[0])).get("ts")
    given = [_put_together(record, sources) for record in records] if sources else []
    times, lateness_ms = likely_times(given, shaped.times)
    wanted = replace(shaped, times=times, lateness_ms=max(lateness_ms, form.lateness_ms))
    known = wanted.sources(path, list(records[0]))
    exchanged = {"lon": known["lat"], "lat": known["lon"]} if {"lon", "lat"} <= known.keys() else {}
    for more in ({}, exchanged) if exchanged else ({},):
        whole = {**columns, **more}
        changed = replace(wanted, columns={**wanted.columns, **more})
        if said := words(spout, whole, changed, form):
            yield _Proposal(changed, said, _doubt(given, times))


def _put_together(record: Mapping[str, Any], sources: Sequence[str]) -> Any:
    """Return what a record has in a column, or in several of texts."""
    if len(sources) == 1:
        return record.get(sources[0])
    return " ".join(str(record[source]) for source in sources if record.get(source) is not None)


def _doubt(given: Sequence[Any], times: TimeForm) -> str:
    """Say what dates may mean instead, where nothing in them tells days from months."""
    if (other := other_reading(given, times)) is None:
        return ""
    text, form = other
    day = datetime(1970, 1, 1) + timedelta(milliseconds=read_time(text, replace(form, zone="UTC")) or 0)
    return f"; if '{text}' is of {day:%Y-%m-%d}, time_format={form.pattern}"


def _options(wanted: ObjectForm, form: ObjectForm) -> Iterator[tuple[str, Any]]:
    """Yield the options in which a form differs from another."""
    for name, now, before in (
        ("id", "row" if wanted.row_ids else None, "row" if form.row_ids else None),
        ("ts", "row" if wanted.row_times else None, "row" if form.row_times else None),
        ("time_unit", wanted.times.unit, form.times.unit),
        ("time_format", wanted.times.pattern, form.times.pattern),
        ("encoding", wanted.text.encoding, form.text.encoding),
        ("lateness_ms", wanted.lateness_ms, form.lateness_ms),
    ):
        if now != before:
            yield name, now


def _shell_words(spout: str, columns: Mapping[str, tuple[str, ...]], wanted: ObjectForm, form: ObjectForm) -> str:
    """Return what is new in a form as options of the command line; nothing where a name cannot be written in one."""
    whole = {**form.columns, **columns} if columns else {}
    said = ",".join(f"{name}={'+'.join(sources)}" for name, sources in whole.items())
    if said:
        try:
            read = columns_in(said)
        except DeclarationError:
            return ""
        if {name: tuple(sources) for name, sources in read.items()} != {n: tuple(s) for n, s in whole.items()}:
            return ""
    options = [f"--columns {shlex.quote(said)}"] if said else []
    for name, value in _options(wanted, form):
        options.append(f"--set {shlex.quote(f'spout.{spout}.{name}={value}')}")
    return " ".join(options)


def _python_words(spout: str, columns: Mapping[str, tuple[str, ...]], wanted: ObjectForm, form: ObjectForm) -> str:
    """Return what is new in a form as arguments of `waterspout.run`."""
    whole = {**form.columns, **columns} if columns else {}
    said = {name: sources[0] if len(sources) == 1 else list(sources) for name, sources in whole.items()}
    settings = [f"spout.{spout}.{name}={value}" for name, value in _options(wanted, form)]
    return ", ".join([*([f"columns={said}"] if said else []), *([f"settings={settings}"] if settings else [])])


def _columns(path: str, records: Records, form: ObjectForm) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Return likely columns for the fields that were not found, and which of `id` and `ts` the records do not have at all."""
    names = list(dict.fromkeys(name for record in records for name in record))
    known = form.sources(path, names)
    clocks = [name for name in names if _named(name, "ts") and is_clock([record.get(name) for record in records])]
    if "ts" not in form.columns and known.get("ts", ("",))[0] in clocks:
        del known["ts"]  # `time` beside `date`
    free = [name for name in names if not any(name in sources for sources in known.values())]
    values = {name: [record.get(name) for record in records] for name in free}
    chosen: dict[str, tuple[str, ...]] = {}
    placed = {"x", "y"} <= known.keys() or {"lon", "lat"} <= known.keys()
    there = {
        name for name, sources in known.items() if any(r.get(one) not in (None, "") for one in sources for r in records)
    }
    for field, fits in (("ts", can_be_times), ("lon", _is_degrees("lon")), ("lat", _is_degrees("lat")), ("id", _is_id)):
        if field in known or (placed and field in _DEGREES):
            continue
        fitting = [name for name in free if _named(name, field) and fits(values[name])]
        if field == "ts" and not fitting:
            fitting = [name for name in free if not _named(name, "id") and must_be_times(values[name])]
        if (
            field == "id"
            and not fitting
            and free[:1] == names[:1]
            and _is_short(values[free[0]])
            and fits(values[free[0]])
        ):
            fitting = free[:1]  # what stands first and is never the same
        if fitting:
            clock = (
                [name for name in clocks if name in free][:1] if field == "ts" and is_days(values[fitting[0]]) else []
            )
            chosen[field] = (fitting[0], *clock)
            there.add(field)
            free = [name for name in free if name not in chosen[field]]
    if not placed and not chosen.keys() & _DEGREES.keys() and not known.keys() & {"x", "y", *_DEGREES}:
        plane = {
            field: next((name for name in free if _named(name, field) and _is_number(values[name])), None)
            for field in "xy"
        }
        if plane["x"] is not None and plane["y"] is not None:
            chosen |= {"x": (plane["x"],), "y": (plane["y"],)}
            free = [name for name in free if name not in plane.values()]
    if not known.keys() & {"text", "keywords", "keyword_ids"}:
        chosen |= _words_of(free, values)
    declared = {name for name, made in (("id", form.row_ids), ("ts", form.row_times)) if made}
    return chosen, declared | {name for name in ("id", "ts") if not there & {name}}


def _words_of(free: Sequence[str], values: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """Return likely columns of texts, or else the one that has lists of keywords, or else all that have texts."""
    written = [name for name in free if _is_text(values[name])]
    prose = [name for name in written if _is_prose(values[name])]
    named = [name for name in written if _named(name, "text")]
    texts = named if set(named) & set(prose) else [name for name in written if name in (*named, *prose)]
    if texts := texts or [name for name in written if _named(name, "name")]:
        return {"text": tuple(texts)}
    if lists := [name for name in free if _is_list(values[name])]:
        return {"keywords": (lists[0],)}
    texts = [n for n in written if not (_is_id(values[n]) and _is_short(values[n])) and not must_be_times(values[n])]
    varied = [name for name in texts if len(set(map(str, values[name]))) > 1]  # no `geometry.type`
    return {"text": tuple(varied or texts)} if texts else {}


def _named(name: str, field: str) -> bool:
    if field in _DEGREES and re.search(r"coordinates\.[01]$", name):
        return name.endswith("0") == (field == "lon")
    return is_likely(name, field)


def _is_degrees(field: str) -> Any:
    """Return what tells whether values can be degrees: nearly all that are there, for data of people has slips."""

    def fitting(value: Any) -> bool:
        try:
            return abs(float(value)) <= _DEGREES[field]
        except (TypeError, ValueError):
            return False

    def fits(values: Sequence[Any]) -> bool:
        given = [value for value in values if value not in (None, "") and value == value]  # NaN is none either
        return bool(given) and sum(map(fitting, given)) >= _NEARLY_ALL * len(given)

    return fits


def _is_number(values: Sequence[Any]) -> bool:
    given = [value for value in values if value not in (None, "")]
    try:
        return bool(given) and all(math.isfinite(float(value)) for value in given)
    except (TypeError, ValueError):
        return False


def _is_id(values: Sequence[Any]) -> bool:
    plain = all(isinstance(value, str | int) and value != "" for value in values)
    return plain and len(set(values)) == len(values)


def _is_short(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int) or (isinstance(value, str) and len(value.split()) == 1) for value in values)


def _is_text(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return bool(texts) and any(re.search(r"[^\W\d_]{2}", text) for text in texts)


def _is_prose(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return sum(len(text.split()) for text in texts) >= _PROSE_WORDS * len(texts)


def _is_list(values: Sequence[Any]) -> bool:
    lists = [value for value in values if isinstance(value, list) and value]
    return bool(lists) and all(isinstance(word, str) for words in lists for word in words)
