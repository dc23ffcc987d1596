"""What a program hands over: a topology in any form, and records in place of files."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from streams.errors import DeclarationError, InputError, brief
from topology.amendments import with_source
from topology.builder import TopologyBuilder
from topology.declaration import Topology
from topology.toml import load_topology, with_settings
from topology.validation import validate as validate_topology

__all__ = ["Given", "Record", "Source", "declared", "validate", "with_sources"]

Record = Mapping[str, Any]
Given = str | Path | Topology | TopologyBuilder
Source = str | Path | Iterable[Record]


def declared(given: Given, settings: Sequence[str] = (), *, check: bool = True) -> Topology:
    """Return the topology of a TOML file, of a builder, or as it is; overrides are ``bolt.evaluator.parallelism=8``."""
    settings = [settings] if isinstance(settings, str) else settings
    if isinstance(given, str | Path):
        return load_topology(Path(given), settings, check=check)
    if not isinstance(given, Topology | TopologyBuilder):
        raise DeclarationError(f"topology: found {brief(given)}, expected a TOML file, a topology or a builder")
    topology = given.build(check=check and not settings) if isinstance(given, TopologyBuilder) else given
    return with_settings(topology, settings) if settings else topology


def validate(given: Given) -> None:
    """Raise `InvalidTopologyError` with everything that is wrong with a TOML file, a topology or a builder."""
    validate_topology(declared(given, check=False))


def with_sources(topology: Topology, folder: Path, objects: Source | None, queries: Source | None) -> Topology:
    """Read these objects and query operations instead of the declared ones; records are written to files in a folder."""
    if objects is not None:
        topology = with_source(topology, "leads", _file(objects, folder / "objects.jsonl", _OF_OBJECTS))
    if queries is not None:
        records = _rows(queries) if hasattr(queries, "__arrow_c_stream__") else queries
        topology = with_source(topology, "follows", _file(records, folder / "queries.jsonl", _OF_QUERIES))
    return topology


#: What dictionaries are expected to have.
_OF_OBJECTS, _OF_QUERIES = "an object (id, ts, lon, lat, text)", "a query (id, type, region or at, keywords)"


def _file(source: Source, path: Path, of: str) -> Path:
    if isinstance(source, str | Path):
        return Path(source)
    if isinstance(source, Mapping):
        raise InputError(f"{path.stem}: found one dictionary, {brief(source)}; give a list of them")
    if hasattr(
        source, "__arrow_c_stream__"
    ):  # pandas, Polars, Arrow: a table, whose times and numbers keep their types
        table = path.with_suffix(".parquet")
        pq.write_table(_table(path.stem, source), table)
        return table
    with path.open("w", encoding="utf-8") as file:
        for place, record in enumerate(source):
            if not isinstance(record, Mapping):
                raise InputError(
                    f"{path.stem}: record {place} is {brief(record)}, a {type(record).__name__}; expected dictionaries with "
                    f"the fields of {of}, a table, or the path of a file"
                )
            file.write(_line(place, record))
    return path


def _table(name: str, source: Any) -> pa.Table:
    try:
        return pa.table(_with_places(name, source))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        said = "; ".join(map(str, error.args))
        raise InputError(
            f"{name}: the table cannot be read: {said}; expected one type in a column: numbers, strings, datetimes or "
            "lists of them; of points make columns lon and lat"
        ) from None


def _with_places(name: str, source: Any) -> Any:
    """Return a frame of GeoPandas with the coordinates of its points as columns; any other table as it is."""
    if not (hasattr(source, "geometry") and hasattr(source, "crs")):
        return source
    named = ("x", "y") if source.crs is not None and source.crs.is_projected else ("lon", "lat")
    try:
        places = dict(zip(named, (source.geometry.x, source.geometry.y), strict=True))
    except ValueError as error:
        raise InputError(
            f"{name}: {error}; give points, as frame.set_geometry(frame.representative_point()) does"
        ) from None
    return source.drop(columns=[source.geometry.name]).assign(**places)


def _rows(table: Any) -> Iterable[Record]:
    """Return the rows of a table of queries, each without what it has not: columns are of all kinds of query."""
    rows = table.to_dict("records") if hasattr(table, "iterrows") else pa.table(table).to_pylist()
    return [_there(row) for row in rows]


def _there(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    return {name: _there(value) for name, value in row.items() if not _is_missing(value)}


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # pandas has NaN where there is nothing


def _line(place: int, record: Record) -> str:
    try:
        return json.dumps(dict(record), default=_plain) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(
            f"record {place} is {brief(record)}: {error}; expected numbers, strings, datetimes and lists of them"
        ) from None


def _plain(value: Any) -> Any:
    """Return what JSON has for a value of Python that it does not know."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(shape := getattr(value, "__geo_interface__", None), Mapping):
        return dict(shape)  # a geometry of Shapely
    if hasattr(value, "tolist"):
        return value.tolist()  # of numpy: a number, or a list of them
    raise TypeError(f"a {type(value).__name__} is not plain data")
