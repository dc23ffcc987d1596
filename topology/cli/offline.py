"""``prepare``, ``build`` and ``workload``: the offline plane, on Spark."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streams.errors import DeclarationError, did_you_mean
from streams.geometry import Rect
from topology.amendments import with_source
from topology.input_files import vocabulary_of
from topology.metric import with_metric
from topology.plan_request import EVALUATOR
from topology.toml import load_topology
from topology.wiring import answers_of

__all__ = ["build", "prepare", "workload"]

Master = Annotated[str, typer.Option("--master", help="Any Spark master.")]
LOCAL = "local[*]"


@contextmanager
def _steps() -> Iterator[Callable[[str, float], None]]:
    """Yield a function that shows which step is under way, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _step, _share: None
        return
    console = Console(stderr=True)
    with console.status("") as status:
        yield lambda step, share: status.update(f"{step} ({share:.0%})")


def _pair(text: str | None, option: str, kind: Callable[[str], Any]) -> tuple[Any, Any] | None:
    """Read ``3`` or ``1-5``."""
    if text is None:
        return None
    low, _, high = text.partition("-")
    try:
        return kind(low), kind(high or low)
    except ValueError:
        raise DeclarationError(f"{option} {text}: expected a number, or two as in 1-5") from None


def prepare(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="CSV, JSONL or Parquet files, folders, patterns.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    id_column: Annotated[str | None, typer.Option("--id", help="Column of identifiers.")] = None,
    ts: Annotated[str | None, typer.Option("--ts", help="Column of event times.")] = None,
    lon: Annotated[str | None, typer.Option("--lon", help="Column of longitudes.")] = None,
    lat: Annotated[str | None, typer.Option("--lat", help="Column of latitudes.")] = None,
    x: Annotated[str | None, typer.Option("--x", help="Column of x, on a plane.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Column of y, on a plane.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Column of text to tokenise.")] = None,
    keywords: Annotated[str | None, typer.Option("--keywords", help="Column of keyword lists.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Objects a second: replaces timestamps.")] = None,
    space: Annotated[str | None, typer.Option("--space", help="MINX,MINY,MAXX,MAXY; else the data's bounds.")] = None,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Keep the text as a column.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a prepared data set.")] = False,
    master: Master = LOCAL,
) -> None:
    """Raw data to a prepared data set: clean, tokenised, by time, with vocabulary and statistics."""
    import pipeline

    with _steps() as progress:
        manifest = pipeline.prepare(
            inputs, out, id=id_column, ts=ts, lon=lon, lat=lat, x=x, y=y, text=text, keywords=keywords, rate=rate,
            space=_space(space), keep_text=keep_text, overwrite=overwrite, master=master, progress=progress,
        )  # fmt: skip
    rejected = sum(manifest.rejects.values())
    typer.echo(f"{out}: {manifest.rows:,} objects, {manifest.words:,} words, {rejected:,} rejects")
    for reason, count in sorted(manifest.rejects.items(), key=lambda item: -item[1]):
        typer.echo(f"  {count:,} rejected: {reason}")


def _space(text: str | None) -> Rect | None:
    if text is None:
        return None
    try:
        return Rect(*map(float, text.split(",")))
    except (ValueError, TypeError):
        raise DeclarationError(f"--space {text}: expected four numbers, MINX,MINY,MAXX,MAXY") from None


def build(
    topology: Annotated[
        Path, typer.Argument(metavar="TOPOLOGY.toml", help="Asks for the plan, in [topology.partitioner].")
    ],
    data: Annotated[Path, typer.Option("--data", help="A prepared data set.")],
    out: Annotated[Path, typer.Option("--out", help="The plan file to write.")],
    queries: Annotated[list[Path] | None, typer.Option("--queries", help="Query files like those expected.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    master: Master = LOCAL,
) -> None:
    """Build the partition plan that a topology asks for."""
    import pipeline

    declared = load_topology(topology, list(overrides or ()), check=False)
    asked = declared.settings.partitioner
    if asked is None:
        raise DeclarationError(f"{topology} asks for no plan; add [topology.partitioner] with a 'kind'")
    asking = (c.options.get("keywords") for c in declared.components if c.operator == "query-file")
    keywords = next((given for given in asking if given is not None), None)
    measured = with_metric(with_source(declared, "leads", data))
    with _steps() as progress:
        built = pipeline.build_plan(
            asked.kind, data, queries or [], out, workers=declared.component(EVALUATOR).parallelism,
            options=asked.options, side=asked.side, metric=measured.settings.measure, space=declared.settings.space,
            vocabulary=vocabulary_of(declared), answers=answers_of(declared) or None,
            tokenise=None if keywords is None else keywords == "text", master=master, progress=progress,
        )  # fmt: skip
    typer.echo(f"{out}: {asked.kind} plan for {built.plan.workers} workers")


def workload(
    data: Annotated[Path, typer.Option("--data", help="A prepared data set.")],
    out: Annotated[Path, typer.Option("--out", help="The query file to write (JSONL, .gz allowed).")],
    kind: Annotated[
        str | None, typer.Option("--type", help="range, knn, topk, terms, sstd, or moving (objects).")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", help="A paper's own workload, e.g. tornado, skype, dkm-sks.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="How many.")] = None,
    keywords: Annotated[str | None, typer.Option("--keywords", help="How many keywords: 3 or 1-5.")] = None,
    region: Annotated[
        float | None, typer.Option("--region", help="Side of a region as a share of the space's side.")
    ] = None,
    area: Annotated[float | None, typer.Option("--area", help="Its area as a share of the space's, instead.")] = None,
    k: Annotated[str | None, typer.Option("--k", help="Results: 10 or 1-10.")] = None,
    alpha: Annotated[str | None, typer.Option("--alpha", help="Weight of distance: 0.4 or 0-1.")] = None,
    match: Annotated[str | None, typer.Option("--match", help="all or any.")] = None,
    condensed: Annotated[float | None, typer.Option("--condensed", help="Shrink places towards the centre.")] = None,
    selective: Annotated[float | None, typer.Option("--selective", help="Percentile of frequency of keywords.")] = None,
    zipf: Annotated[float | None, typer.Option("--zipf", help="Draw keywords by this Zipf exponent.")] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Snapshot queries, spread over time.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of everything that is random.")] = 1,
    master: Master = LOCAL,
) -> None:
    """Make a query file from a data set as the papers do."""
    import pipeline

    if kind is not None and kind not in (kinds := (*pipeline.KINDS, "moving")):
        raise DeclarationError(f"--type {kind}: expected one of {', '.join(kinds)}{did_you_mean(kind, kinds)}")
    given = {
        "type": kind, "count": count, "keywords": _pair(keywords, "--keywords", int), "side": region, "area": area,
        "k": _pair(k, "--k", int), "alpha": _pair(alpha, "--alpha", float), "match": match, "condensed": condensed,
        "selective": selective, "zipf": zipf,
    }  # fmt: skip
    changes: dict[str, Any] = {"seed": seed, **{key: value for key, value in given.items() if value is not None}}
    if kind == "moving":
        if like is not None or snapshot or set(changes) - {"seed", "type", "count"}:
            raise DeclarationError(
                "--type moving makes objects, not queries; expected --count (of updates) and --seed, and no other option"
            )
        spec = pipeline.MovingSpec(seed=seed, **({"updates": count} if count is not None else {}))
        with _steps() as progress:
            made = pipeline.moving_workload(data, out, spec, master=master, progress=progress)
        typer.echo(f"{out}: {made:,} states of {spec.objects:,} moving objects")
        return
    if snapshot:
        changes |= {"continuous": False, "spread": True}
    chosen = pipeline.preset(like, **changes) if like is not None else pipeline.WorkloadSpec(**changes)
    with _steps() as progress:
        made = pipeline.workload(data, out, chosen, master=master, progress=progress)
    typer.echo(f"{out}: {made:,} queries")
