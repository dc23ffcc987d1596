"""What a program hands over: a topology in any form, and records in place of files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from topology.amendments import with_source
from topology.builder import TopologyBuilder
from topology.declaration import Topology
from topology.toml import load_topology, with_settings

__all__ = ["Given", "Record", "Source", "declared", "with_sources"]

Record = Mapping[str, Any]
Given = str | Path | Topology | TopologyBuilder
Source = str | Path | Iterable[Record]


def declared(given: Given, settings: Sequence[str] = (), *, check: bool = True) -> Topology:
    """Return the topology of a TOML file, of a builder, or as it is; overrides are ``bolt.evaluator.parallelism=8``."""
    if isinstance(given, str | Path):
        return load_topology(Path(given), settings, check=check)
    topology = given.build(check=check and not settings) if isinstance(given, TopologyBuilder) else given
    return with_settings(topology, settings) if settings else topology


def with_sources(topology: Topology, folder: Path, objects: Source | None, queries: Source | None) -> Topology:
    """Read these objects and query operations instead of the declared ones; records are written to files in a folder."""
    for pace, source in (("leads", objects), ("follows", queries)):
        if source is not None:
            topology = with_source(topology, pace, _file(source, folder / f"{pace}.jsonl"))
    return topology


def _file(source: Source, path: Path) -> Path:
    if isinstance(source, str | Path):
        return Path(source)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in source)
    return path
