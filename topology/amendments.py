"""What the command line changes in a topology: its sources, its sink, a file for rejects, a listener for results."""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from streams.errors import DeclarationError, brief
from topology.declaration import Component, Input, Topology
from topology.disturbances import with_disturbances
from topology.references import resolve
from topology.wiring import output_streams

__all__ = [
    "columns_in",
    "result_sink",
    "source_of",
    "with_columns",
    "with_injections",
    "with_listener",
    "with_options",
    "with_rejects",
    "with_results",
    "with_source",
    "without_streams",
]

REJECTS = "rejects"

_NEXT_FIELD = re.compile(r",(?=\s*\w+\s*=)")

#: How files of JSON lines end, compressed or not.
LINE_ENDINGS = tuple(f".{kind}{packed}" for kind in ("jsonl", "ndjson") for packed in ("", ".gz", ".zst"))


def _replace(topology: Topology, change: Callable[[Component], Component]) -> Topology:
    return dataclasses.replace(topology, components=tuple(change(component) for component in topology.components))


def source_of(topology: Topology, pace: str) -> Component:
    """Return the spout of objects (``leads``) or of queries (``follows``)."""
    what = {"leads": "objects", "follows": "queries"}[pace]
    for component in topology.components:
        if component.kind == "spout":
            path = (component.kind, component.name, "operator")
            operator = resolve(component.operator, path, topology.base, component.classes)
            if getattr(operator, "pace", None) == pace:
                return component
    raise DeclarationError(f"the topology '{topology.settings.name}' has no spout that reads {what} from a file")


def with_source(topology: Topology, pace: str, path: Path) -> Topology:
    """Read objects or queries from another file."""
    return with_options(topology, source_of(topology, pace).name, {"path": str(path.absolute())})


def with_columns(topology: Topology, text: str) -> Topology:
    """Say what columns of objects are called: ``lon=east,text=title+body``."""
    columns = {name: sources[0] if len(sources) == 1 else sources for name, sources in columns_in(text).items()}
    return with_options(topology, source_of(topology, "leads").name, {"columns": columns})


def columns_in(text: str) -> dict[str, list[str]]:
    """Return for each field the columns that it is said to have; a comma that no field follows is one in a name."""
    columns = {}
    for part in _NEXT_FIELD.split(text):
        name, equals, sources = (piece.strip() for piece in part.partition("="))
        if not (name and equals and sources):
            raise DeclarationError(f"--columns {brief(text)}: expected FIELD=COLUMN, as in lon=east,text=title+body")
        columns[name] = [source.strip() for source in sources.split("+")]
    return columns


def with_options(topology: Topology, name: str, options: Mapping[str, Any]) -> Topology:
    """Set options of one component."""
    return _replace(
        topology,
        lambda c: dataclasses.replace(c, options={**c.options, **options}) if c.name == name else c,
    )


def result_sink(topology: Topology) -> Component:
    """Return the bolt at which results end: the one named 'sink', or the only one that nobody reads."""
    read = {i.component for component in topology.components for i in component.inputs}
    ends = [c for c in topology.components if c.kind == "bolt" and c.name not in read]
    named = [c for c in ends if c.name == "sink"] or ends
    if len(named) != 1:
        found = ", ".join(c.name for c in ends) or "none"
        raise DeclarationError(f"which bolt do results end at? Name one 'sink'; candidates: {found}")
    return named[0]


def with_results(topology: Topology, path: str) -> Topology:
    """Write results to a file (Parquet or JSON lines by its ending), or to standard output for ``-``."""
    name = result_sink(topology).name
    operator = "parquet" if path.endswith(".parquet") else "jsonl"
    if path != "-" and Path(path).suffix and operator == "jsonl" and not path.endswith(LINE_ENDINGS):
        raise DeclarationError(
            f"--results {path}: results are not written as '{Path(path).suffix}'; expected an ending of .parquet, "
            f"{', '.join(LINE_ENDINGS)}, or - for standard output"
        )
    options = {"path": path if path == "-" else str(Path(path).absolute())}
    return _replace(
        topology,
        lambda c: dataclasses.replace(c, operator=operator, parallelism=1, options=options) if c.name == name else c,
    )


def with_rejects(topology: Topology, path: Path) -> Topology:
    """Write records that could not be used to a file."""
    inputs = []
    for component in topology.components:
        key = (component.kind, component.name, "operator")
        operator = resolve(component.operator, key, topology.base, component.classes)
        if REJECTS in output_streams(component, operator):
            inputs.append(Input(component.name, REJECTS, "global"))
    if not inputs:
        raise DeclarationError("no component of this topology has a stream of rejects, so none can be written")
    bolt = Component(
        _free_name(topology, REJECTS), "bolt", "rejects", inputs=tuple(inputs), options={"path": str(path.absolute())}
    )
    return dataclasses.replace(topology, components=(*topology.components, bolt))


def with_injections(topology: Topology, tables: Sequence[str]) -> Topology:
    """Add hotspots and faults, each given as the keys of a TOML table, with or without its braces."""
    added = []
    for text in tables:
        try:
            found = tomllib.loads(f"inject = {{ {text.strip().removeprefix('{').removesuffix('}')} }}")
        except (ValueError, RecursionError) as error:
            raise DeclarationError(f"--inject {brief(text)}: not the keys of a TOML table ({error})") from None
        if list(found) != ["inject"]:
            raise DeclarationError(f"--inject {brief(text)}: more than the keys of one TOML table")
        added.append(found["inject"])
    return with_disturbances(topology, added)


def with_listener(topology: Topology, name: str, operator: str, **options: object) -> Topology:
    """Add a bolt that reads what the sink reads."""
    sink = result_sink(topology)
    inputs = tuple(dataclasses.replace(item, grouping="global", fields=(), using=None) for item in sink.inputs)
    bolt = Component(_free_name(topology, name), "bolt", operator, inputs=inputs, options=options)
    return dataclasses.replace(topology, components=(*topology.components, bolt))


def without_streams(topology: Topology, streams: Collection[str]) -> Topology:
    """Return a topology in which nobody reads streams of these names; bolts that then read nothing are not in it."""
    gone: set[str] = set()
    components = topology.components
    while True:
        components = tuple(
            dataclasses.replace(
                c, inputs=tuple(i for i in c.inputs if i.stream not in streams and i.component not in gone)
            )
            for c in components
            if c.name not in gone
        )
        idle = {c.name for c in components if c.kind == "bolt" and not c.inputs}
        if not idle:
            return dataclasses.replace(topology, components=components)
        gone |= idle


def _free_name(topology: Topology, name: str) -> str:
    taken = {component.name for component in topology.components}
    while name in taken:
        name += "_"
    return name
