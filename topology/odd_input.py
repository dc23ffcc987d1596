"""What may be wrong with the input of a run, in a sentence each with what to do: before it begins, and when it has ended."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streams.errors import DeclarationError, InputError
from streams.files.file_bytes import ByteForm
from streams.files.object_files import read_objects
from streams.files.object_form import ObjectForm
from streams.vocabulary import Encoder
from topology.amendments import source_of
from topology.declaration import Topology
from topology.input_files import read_input
from topology.likely_times import USUAL_TIMES
from topology.metric import odd_distances
from topology.proposed_settings import missing_columns, proposed, usable, wordless
from topology.validation import make_operator

__all__ = ["nothing_matched", "odd_input", "warnings_of"]

#: A run that can use a smaller share of its objects, or of its queries, than this has the wrong input, or the wrong space.
ENOUGH = 0.9


def odd_input(topology: Topology, *, in_python: bool = False) -> list[str]:
    """Return what may be wrong with records, times and distances, each in a sentence with what to do.

    Remedies are options of the command line, or arguments of `waterspout.run`.

    Raises:
        InputError: the objects cannot be read at all; where their first records show what to declare, it says so.
    """
    try:
        told = odd_records(topology, in_python=in_python)
        found = (
            [told] if told is not None else [odd_times(topology, in_python=in_python)]
        )  # it has the unit of times too
        return [odd for odd in (*found, _odd_columns(topology), odd_distances(topology)) if odd is not None]
    except InputError as error:
        remedy = _proposed(topology, in_python=in_python)
        raise InputError(f"{error}\n  try {remedy}" if remedy else str(error)) from None


def odd_records(topology: Topology, *, in_python: bool = False) -> str | None:
    """Say what to declare, where many of the first records cannot be used as they are; None otherwise."""
    try:
        objects = make_operator(source_of(topology, "leads"), topology)
    except DeclarationError:
        return None
    limits = topology.settings.limits.reading()
    used, records = usable(
        [str(path) for path in objects.files()], topology.settings.space, limits, _form_so_far(objects)
    )
    if used >= ENOUGH * records or (remedy := _proposed(topology, in_python=in_python)) is None:
        return None
    return f"{used:,} of the first {records:,} records of objects can be used; try {remedy}"


def _odd_columns(topology: Topology) -> str | None:
    try:
        objects = make_operator(source_of(topology, "leads"), topology)
    except DeclarationError:
        return None
    return missing_columns(objects.files(), objects.form)


def _proposed(topology: Topology, *, in_python: bool = False) -> str | None:
    try:
        source = source_of(topology, "leads")
        objects = make_operator(source, topology)
        files = objects.files()
    except (DeclarationError, InputError):
        return None
    limits = topology.settings.limits.reading()
    told = proposed(source.name, files, topology.settings.space, limits, _form_so_far(objects), in_python=in_python)
    if told is not None and objects.form.text.end_mark is not None:
        return told.replace(f"< {files[-1]}", "< FILE")  # the copy of a pipe will be gone
    return told


def _form_so_far(objects: Any) -> ObjectForm:
    """Return how objects are spelt, the copy of a pipe as the file that it is by now: nobody waits for what comes."""
    form: ObjectForm = objects.form
    return replace(form, text=ByteForm(form.text.encoding)) if form.text.end_mark is not None else form


def nothing_matched(topology: Topology, summary: Mapping[str, Any], *, in_python: bool = False) -> str | None:
    """Say what a person may look for where a run has no results: above all whether times of queries and objects meet."""
    if summary["results"]:
        return None
    if not (summary["objects"] and summary["queries"]):
        return _nothing_came(topology, summary)
    try:
        first = [next((c.batch.ts for c in chunks if len(c.batch)), None) for chunks in read_input(topology)]
    except (DeclarationError, InputError):
        return None
    objects, queries = first
    said = "no query has a result"
    if (told := _wordless(topology, in_python=in_python)) is not None:
        return f"{said}; {told}"
    if objects is None or queries is None or queries[0] <= objects[0]:
        return f"{said}; see whether keywords and places of queries and objects can meet"
    return (
        f"{said}; the first object is of {_moment(int(objects[0]))} and the first query of {_moment(int(queries[0]))}: "
        "a standing query gets objects from its ts on"
    )


def _wordless(topology: Topology, *, in_python: bool) -> str | None:
    try:
        objects = make_operator(source_of(topology, "leads"), topology)
        return wordless(objects.files(), objects.form, in_python=in_python)
    except (DeclarationError, InputError):
        return None


def _nothing_came(topology: Topology, summary: Mapping[str, Any]) -> str | None:
    """Say which input had not one record, good or bad; what a spout of one's own emits is its own affair."""
    for pace, what, came in (
        ("leads", "objects", summary["objects"] + summary["rejected_objects"]),
        ("follows", "query operations", summary["queries"] + summary["rejected_queries"]),
    ):
        try:
            source = source_of(topology, pace)
        except DeclarationError:
            continue
        if not came:
            return f"there were no {what} at all: what '{source.name}' reads is empty, so nothing could match"
    return None


def odd_times(topology: Topology, *, in_python: bool = False) -> str | None:
    """Say what may be wrong with the times of objects, where the first one is not of 1990 to 2100; None otherwise.

    Of objects that come from elsewhere than from files, nothing is known before they come.
    """
    try:
        source = source_of(topology, "leads")
    except DeclarationError:
        return None
    objects = make_operator(source, topology)
    limits = topology.settings.limits.reading()
    chunks = read_objects(
        objects.files(),
        space=topology.settings.space,
        encoder=Encoder(),
        chunk_rows=4_096,
        limits=limits,
        form=objects.form,
    )
    here = itertools.takewhile(
        lambda chunk: chunk.records or len(chunk.batch), chunks
    )  # a followed file may have nothing yet
    ts = next((int(chunk.batch.ts[0]) for chunk in here if len(chunk.batch)), None)
    if ts is None or objects.form.row_times or USUAL_TIMES.start <= ts < USUAL_TIMES.stop:
        return None
    ticks = {"s": ts // 1000, "ms": ts, "us": ts * 1000, "ns": ts * 1_000_000}[objects.form.times.unit]
    units = [
        unit
        for unit, ms in (("s", ticks * 1000), ("ms", ticks), ("us", ticks // 1000), ("ns", ticks // 1_000_000))
        if ms in USUAL_TIMES
    ]
    if not units and "time_unit" in source.options:
        return None  # whoever says what numbers count, and has none that count from 1970, counts from elsewhere
    remedy = "another column of times, or its unit (time_unit)"
    if units:
        setting = f"spout.{source.name}.time_unit={units[0]}"
        remedy = f"settings={[setting]}" if in_python else f"--set {setting}"
    said = f"the first object is of {_moment(ts)}; if that is not right, try {remedy}"
    return said if ts >= 0 else f'{said}; a query gets objects from its ts on, so with "ts": 0 none of before 1970'


def _moment(ts: int) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ts):%Y-%m-%d}"
    except OverflowError:
        return "a year beyond 9999" if ts > 0 else "a year before 1"


def warnings_of(topology: Topology, summary: Mapping[str, Any], where: str, *, in_python: bool = False) -> list[str]:
    """Return what a person should know of a run whose input was hardly used; `where` says where all reasons are."""
    remedy = where
    if summary["reject_reasons"]:
        remedy += f"; most frequent among all rejects: {summary['reject_reasons'][0]['reason']}"
    found = []
    operations = summary["queries"] + summary["rejected_queries"]
    if summary["queries"] < ENOUGH * operations:
        used = f"only {summary['queries']:,}" if summary["queries"] else "none"
        found.append(f"{used} of {operations:,} query operations could be used; {remedy}")
    records = summary["objects"] + summary["rejected_objects"]
    if summary["objects"] < ENOUGH * records:
        found.append(f"only {summary['objects']:,} of {records:,} objects could be used; {remedy}")
        found += _odd_records_again(topology, in_python)
    return found


def _odd_records_again(topology: Topology, in_python: bool) -> list[str]:
    """Return what `odd_input` has said before the run, which may be far above by now."""
    try:
        told = odd_records(topology, in_python=in_python)
    except (DeclarationError, InputError):
        return []  # it is not there any more
    return [] if told is None else [told]
