"""``bench``: run one benchmark, print its table, and say which goals it meets."""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import BENCHMARKS, HAVE_WORKLOADS, TAKE_DATA, Options, Report
from streams.errors import DeclarationError, did_you_mean
from topology.cli.logs import configure_logs

__all__ = ["bench", "missed"]

#: Columns of a table that goes into a pipe or a file.
PIPE_WIDTH = 1_000


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; see --list.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A minute's version.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="The seed of synthetic data.")] = 1,
    data: Annotated[Path | None, typer.Option("--data", help="A real file, where the benchmark takes one.")] = None,
    queries: Annotated[
        int | None, typer.Option("--queries", min=1, help="How many queries, where there are any.")
    ] = None,
    megabytes: Annotated[
        int | None, typer.Option("--megabytes", min=1, help="How much state, where that is what is measured.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for pictures, where it draws any.")] = None,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="Other sorts of questions, where the benchmark has a list of them.")
    ] = False,
) -> None:
    """Run a benchmark and print a table, always next to a baseline in the same run."""
    if show_list:
        for known, (_, line) in BENCHMARKS.items():
            typer.echo(f"{known:16} {line}")
        return
    if name is None or name not in BENCHMARKS:
        found = f"unknown benchmark '{name}'{did_you_mean(name, BENCHMARKS)}" if name else "which benchmark?"
        raise DeclarationError(f"{found}; expected one of: {', '.join(BENCHMARKS)}")
    if data is not None and name not in TAKE_DATA:
        raise DeclarationError(
            f"--data {data}: bench {name} makes its own data and would ignore the file; leave --data out, or take one of: "
            f"{', '.join(sorted(TAKE_DATA))}"
        )
    if data is not None and not data.is_file():
        raise DeclarationError(f"--data {data}: no such file")
    if workloads and name not in HAVE_WORKLOADS:
        raise DeclarationError(
            f"--workloads: bench {name} has no list of workloads; leave it out, or take one of: "
            f"{', '.join(sorted(HAVE_WORKLOADS))} (for range queries: bench range-workloads)"
        )
    configure_logs()
    module = importlib.import_module(BENCHMARKS[name][0])
    # Some benchmarks name the file in a topology, and those are declared in another folder.
    given = None if data is None else data.absolute()
    options = Options(
        quick=quick, seed=seed, data=given, queries=queries, megabytes=megabytes, out=out, workloads=workloads
    )
    report: Report = module.run(options)
    _print(report)
    if as_json:
        typer.echo(json.dumps(report.as_json()))


def _print(report: Report) -> None:
    # In a pipe nothing knows how wide it may be, and a table that is cut says nothing.
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.print(f"bench {report.name}: {report.data}, seed {report.seed}", markup=False)
    table = Table(*report.columns, box=None, padding=(0, 3, 0, 0))
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    for note in report.notes:
        console.print(note, markup=False)
    goals = report.as_json()["goals"]
    for goal in goals:
        bound = f">= {goal['at_least']:g}" if "at_least" in goal else f"<= {goal['at_most']:g}"
        verdict = "met" if goal["met"] else "MISSED"
        console.print(f"{verdict:7} {goal['figure']} = {goal['value']:,.4g} (goal {bound})", markup=False)
    if any(not goal["met"] for goal in goals):
        console.print(missed(os.getloadavg()[0], os.cpu_count() or 1), markup=False)


def missed(load: float, cores: int) -> str:
    """Say what a missed goal means to somebody who did not set it."""
    busy = f"; right now {load:.1f} processes want its {cores} cores" if load > cores else ""
    return (
        "A goal is a bound that this project has set for itself on two free cores. One that is missed says nothing about "
        "results, which are exact all the same: figures of time depend on the machine and on what else it does"
        f"{busy}; with --quick some are out of reach by size. docs/papers.md has the figures as they were measured."
    )
