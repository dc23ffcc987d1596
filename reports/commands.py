"""``compare`` and ``report``: runs as a page that one can send to a colleague."""

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from reports.comparison import Comparison
from reports.comparison import compare as compare_topologies
from reports.page import compared_page, run_page
from reports.summary_files import read_summary
from streams.errors import DeclarationError, InputError
from topology.amendments import with_columns, with_injections, with_source
from topology.cli.logs import configure_logs, say_compiling
from topology.declaration import Topology
from topology.kernel_notice import kernel_notice
from topology.toml import load_topology
from topology.validation import validate

__all__ = ["compare", "report"]


def compare(
    topologies: Annotated[list[Path], typer.Argument(metavar="TOPOLOGY.toml...", help="Two or more declarations.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write (.html).")],
    objects: Annotated[
        Path | None, typer.Option("--objects", help="Read objects from this file instead, in all.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="Read queries from this file instead, in all.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="What columns of objects are called, as of 'run'.")
    ] = None,
    inject: Annotated[
        list[str] | None, typer.Option("--inject", metavar="TABLE", help="A hotspot in the input of all, as of 'run'.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key in all of them.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How often each runs, with another seed each time.")] = 3,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but warnings and errors.")] = False,
) -> None:
    """Run topologies on the same input and injections, repeated with seeds, and write one page that compares them."""
    configure_logs(quiet=quiet)
    _check_page(out)
    if len(topologies) < 2:
        raise DeclarationError("compare needs two or more topologies; for one run, see 'waterspout report'")
    for name, path in (("--objects", objects), ("--queries", queries)):
        if path is not None and not path.exists():
            raise InputError(f"{name} {path}: no such file")
    declared = {
        name: _declared(path, overrides or (), objects, queries, columns, inject or ())
        for name, path in zip(_names(topologies), topologies, strict=True)
    }

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    with kernel_notice(say_compiling):
        found = compare_topologies(declared, seeds, say)
    out.write_text(compared_page(found, _command(), _machine()), "utf-8")
    if not quiet:
        _print(found)
    typer.echo(f"{out}")


def report(
    summary: Annotated[Path, typer.Argument(metavar="SUMMARY", help="What 'run --summary' has written.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write (.html).")],
) -> None:
    """Write one page about one run, from its summary."""
    _check_page(out)
    told = read_summary(summary)
    out.write_text(run_page(told, str(told.get("topology", summary.stem)), _command(), _machine()), "utf-8")
    typer.echo(f"{out}")


def _check_page(out: Path) -> None:
    if out.suffix.lower() not in (".html", ".htm"):
        raise DeclarationError(f"--out {out}: no name for a page; expected an ending .html")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist; make it first")


def _names(paths: Sequence[Path]) -> list[str]:
    """Return names to tell topologies apart: their files', with as much of the path as that needs."""
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path.with_suffix("")) for path in paths]
    if len(set(names)) < len(names):
        raise DeclarationError(f"{paths[0]} is given twice; repeats of one topology are what --seeds is for")
    return names


def _declared(
    path: Path,
    overrides: Sequence[str],
    objects: Path | None,
    queries: Path | None,
    columns: str | None,
    inject: Sequence[str],
) -> Topology:
    topology = load_topology(path, list(overrides), check=objects is None and queries is None and columns is None)
    for pace, file in (("leads", objects), ("follows", queries)):
        if file is not None:
            topology = with_source(topology, pace, file)
    if columns is not None:
        topology = with_columns(topology, columns)
    topology = with_injections(topology, inject)
    validate(topology)
    return topology


def _print(found: Comparison) -> None:
    typer.echo("all answers are equal" if found.equal else "THE ANSWERS DIFFER: the figures are not of the same work")
    wide = max(len(one.name) for one in found.contenders)
    for one in found.contenders:
        rate, efficiency = one.spread("objects_per_s"), one.spread("parallel_efficiency")
        typer.echo(
            f"  {one.name:{wide}}  {rate.median:10,.0f} objects/s ({rate.low:,.0f} to {rate.high:,.0f})   "
            f"efficiency {efficiency.median:.2f} ({efficiency.low:.2f} to {efficiency.high:.2f})"
        )


def _command() -> str:
    return shlex.join(["waterspout", *sys.argv[1:]])


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
