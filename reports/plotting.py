"""``plot``: a plan, the results of a run, or summaries, as a picture."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from partitioners.columns import Points
from reports.alert_picture import Alerts, alerts_of, draw_alerts, read_lines
from reports.load_picture import draw_loads
from reports.map_outlines import looks_geographic
from reports.plan_picture import draw_plan, prepared_points
from reports.summary_files import read_summary
from streams.batches import OP_UPSERT, ObjectBatch
from streams.errors import DeclarationError, InputError
from topology.amendments import source_of, with_columns, with_source
from topology.declaration import Topology
from topology.input_files import read_input
from topology.metric import with_metric
from topology.planning import plan_of
from topology.toml import load_topology
from topology.validation import make_operator

__all__ = ["plot", "plot_alerts"]

_RESULTS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst", ".parquet")


def plot(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="A plan, a topology (its plan is built from its input), results of a run, or summaries (JSON; several are "
            "drawn on shared axes).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The PNG file to write.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="The prepared data set that a plan is drawn over.")
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option("--topology", help="The topology that results are of; its objects and queries are drawn."),
    ] = None,
    objects: Annotated[Path | None, typer.Option("--objects", help="Read objects from this file instead.")] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="Read query operations from this file instead.")
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="As of 'run'.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the topology, as of 'run'."),
    ] = None,
    on_map: Annotated[
        bool | None,
        typer.Option("--map/--no-map", help="Coastlines or none; by default where places look like degrees."),
    ] = None,
) -> None:
    """Draw a plan over its data, alerts on a map, or the load and throughput of runs over their stream."""
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: no such file; give a plan, a topology, results or a summary")
    first = files[0]
    if all(file.suffix == ".json" for file in files):
        names = [file.stem for file in files]
        told = names if len(set(names)) == len(names) else [str(file) for file in files]
        draw_loads(dict(zip(told, map(read_summary, files), strict=True)), out)
    elif len(files) > 1:
        raise DeclarationError(f"{files[1]}: only summaries (.json) can be drawn together; give one file")
    elif first.name.endswith(_RESULTS):
        if topology is None:
            raise DeclarationError(
                f"--topology is needed: {first} has identifiers only, and the topology says what was read"
            )
        read = _read_from(topology, overrides, objects, queries, columns)
        plot_alerts(alerts_of(read_lines(first)), read, out, on_map)
    elif first.suffix == ".toml":
        _plot_topology(_read_from(first, overrides, objects, queries, columns), out, on_map)
    else:
        draw_plan(first, prepared_points(data) if data is not None else None, out, on_map=on_map)
    typer.echo(f"{out}")


def _read_from(
    path: Path, overrides: list[str] | None, objects: Path | None, queries: Path | None, columns: str | None
) -> Topology:
    topology = load_topology(path, overrides or (), check=objects is None and queries is None and columns is None)
    for pace, file in (("leads", objects), ("follows", queries)):
        if file is not None:
            topology = with_source(topology, pace, file)
    return with_columns(topology, columns) if columns is not None else topology


def _plot_topology(topology: Topology, out: Path, on_map: bool | None) -> None:
    plan = plan_of(topology)
    if plan is None:
        raise InputError(
            f"the topology '{topology.settings.name}' has no plan: its routers send objects everywhere; give one with "
            "[topology.partitioner], such as conf/tornado.toml"
        )
    draw_plan(plan, map(_points, _batches(topology)), out, on_map=_on_map(topology, on_map))


def plot_alerts(alerts: Alerts, topology: Topology, out: Path, on_map: bool | None = None) -> None:
    """Draw the alerts of a topology over its objects, with its questions."""
    places: dict[str, tuple[float, float]] = {}
    for batch in _batches(topology):
        places.update(
            zip(map(str, batch.ids.to_list()), zip(batch.x.tolist(), batch.y.tolist(), strict=True), strict=True)
        )
    asked = {str(line["id"]): line for line in _registrations(topology)}
    settings = with_metric(topology).settings
    draw_alerts(alerts, places, asked, settings.space, out, on_map=_on_map(topology, on_map), metric=settings.measure)


def _on_map(topology: Topology, said: bool | None) -> bool:
    if said is not None:
        return said
    settings = with_metric(topology).settings
    return settings.measure == "haversine" or looks_geographic(settings.space)


def _batches(topology: Topology) -> Iterator[ObjectBatch]:
    """Yield the objects of a topology; deletions, which have no place, are left out."""
    objects, _ = read_input(topology)
    for chunk in objects:
        yield chunk.batch.take(np.flatnonzero(chunk.batch.op == OP_UPSERT))


def _points(batch: ObjectBatch) -> Points:
    return Points.of(batch.x, batch.y, batch.kw_off, batch.kw)


def _registrations(topology: Topology) -> Iterator[dict[str, Any]]:
    """Yield the registrations of a topology's query files, as they are written."""
    for path in make_operator(source_of(topology, "follows"), topology).files():
        for line in read_lines(path, strict=False):
            if isinstance(line, dict) and line.get("op", "register") == "register" and "id" in line:
                yield line
