"""``run``, ``validate`` and ``verify``."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streams.comparison import explain
from streams.errors import DeclarationError, InputError
from streams.event_log import EventLog
from streams.files.file_blocks import Format
from streams.files.included_columns import include_in_file
from streams.files.input_paths import path_problem
from topology.amendments import with_columns, with_injections, with_listener, with_rejects, with_results, with_source
from topology.checkpoints.store import open_store
from topology.cli.logs import configure_logs
from topology.cli.progress import progress_line
from topology.cli.showcase import print_alerts
from topology.cli.stopping import stop_on_interrupt
from topology.cli.summary_table import print_summary, print_warnings
from topology.declaration import Topology
from topology.hotspots import hotspots_of
from topology.included import lookup_in
from topology.metric import with_metric
from topology.odd_input import nothing_matched, odd_input, warnings_of
from topology.piped_input import piped_input
from topology.run import run as run_topology
from topology.toml import load_topology, naming_file
from topology.validation import validate as validate_topology
from topology.verification import verified_run
from topology.watching import Watcher
from topology.wiring import wire

__all__ = ["run", "validate", "verify"]

log = EventLog()

#: The exit code of a run that was stopped, as shells have it for Ctrl-C.
INTERRUPTED = 130

TopologyFile = Annotated[Path, typer.Argument(metavar="TOPOLOGY.toml", help="The topology's declaration.")]
ObjectsFile = Annotated[Path | None, typer.Option("--objects", help="Read objects from this file instead.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="What columns of objects are called, e.g. lon=east,text=title+body."),
]
QueriesFile = Annotated[Path | None, typer.Option("--queries", help="Read query operations from this file instead.")]
ResultsFile = Annotated[
    str | None, typer.Option("--results", help="Write results here: JSONL, Parquet by its ending, or - for stdout.")
]
RejectsFile = Annotated[Path | None, typer.Option("--rejects", help="Write records that cannot be used here (JSONL).")]
SummaryFile = Annotated[Path | None, typer.Option("--summary", help="Write the summary here (JSON).")]
RuntimeName = Annotated[str | None, typer.Option("--runtime", help="local or ray; default: as declared.")]
RayAddress = Annotated[str | None, typer.Option("--address", help="An existing Ray cluster.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. bolt.evaluator.parallelism=8."),
]
Include = Annotated[
    str | None,
    typer.Option("--include", help="Write these columns of the objects beside the results, e.g. text,lon,lat."),
]
Injected = Annotated[
    list[str] | None,
    typer.Option(
        "--inject",
        metavar="TABLE",
        help="A hotspot in the input or a fault in the run: a TOML table, e.g. 'kind=\"rate\", strength=3'.",
    ),
]
ResumeFrom = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="DIR", help="Go on from the newest whole checkpoint in this folder (or at this URL)."
    ),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Logs as JSON lines.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but warnings, errors and what was asked for.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Show the run on a page of this machine, also when it has ended, until Ctrl-C."),
]
WatchPort = Annotated[
    int, typer.Option("--watch-port", min=0, max=65_535, help="The port of that page; 0 takes a free one.")
]
Show = Annotated[int, typer.Option("--show", min=0, help="At the end, show so many results in words.")]


def _load(
    topology: Path,
    overrides: list[str] | None,
    runtime: str | None,
    address: str | None,
    objects: Path | None,
    queries: Path | None,
    columns: str | None,
    injected: list[str] | None,
) -> Topology:
    settings = list(overrides or ())
    if runtime is not None:
        settings.append(f"topology.runtime={json.dumps(runtime)}")
    if address is not None:
        settings.append(f"topology.address={json.dumps(address)}")
    for name, path in (("--objects", objects), ("--queries", queries)):
        formats: tuple[Format, ...] = ("jsonl",) if path is queries else ("jsonl", "csv", "parquet")
        if path is not None and (problem := path_problem(path, formats, path is objects)) is not None:
            raise InputError(f"{name} {problem}")
    loaded = load_topology(topology, settings, check=objects is None and queries is None and columns is None)
    if address is not None and loaded.settings.runtime != "ray":
        raise DeclarationError(f"--address {address} is of a Ray cluster, and the runtime is local; add --runtime ray")
    if objects is not None:
        loaded = with_source(loaded, "leads", objects)
    if queries is not None:
        loaded = with_source(loaded, "follows", queries)
    if columns is not None:
        loaded = with_columns(loaded, columns)
    if objects is not None or queries is not None or columns is not None:
        validate_topology(loaded)
    if injected:
        loaded = with_injections(loaded, injected)
        validate_topology(loaded)
    return loaded


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; give the path of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: the folder {path.parent} does not exist")


def _amend(topology: Topology, results: str | None, rejects: Path | None, summary: Path | None) -> Topology:
    for path, option in ((results, "--results"), (rejects, "--rejects"), (summary, "--summary")):
        if path is not None and path != "-":
            _check_writable(Path(path), option)
    if results is not None:
        topology = with_results(topology, results)
    return with_rejects(topology, rejects) if rejects is not None else topology


def _lookup(topology: Topology, results: str | None, include: str | None) -> Callable[[set[str]], Any] | None:
    """Return what finds the columns to include; None where none are asked for."""
    if include is None:
        return None
    if results is None or results == "-":
        raise DeclarationError("--include adds columns to a file once it is whole; give --results a file")
    if topology.settings.checkpoint is not None:
        raise DeclarationError(
            "--include rewrites the results at the end, and a run with checkpoints goes on in them; leave one of both out"
        )
    return lookup_in(topology, [name.strip() for name in include.split(",")])


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _begin(topology: Topology) -> None:
    settings = topology.settings
    log.info("run_started", topology=settings.name, runtime=settings.runtime, tasks=len(wire(topology).tasks))
    for odd in odd_input(topology):
        log.warning(odd)


def _finish(
    topology: Topology, summary: dict[str, Any], path: Path | None, rejects: Path | None, console: Console, quiet: bool
) -> None:
    if path is not None:
        summary = {"topology": topology.settings.name, "hotspots": hotspots_of(topology, summary["objects"]), **summary}
        path.write_text(json.dumps(summary, indent=2) + "\n", "utf-8")
    log.info("run_finished", topology=topology.settings.name, objects=summary["objects"], results=summary["results"])
    if not quiet:
        print_summary(console, topology.settings.name, summary)
    reasons = "--rejects FILE writes each" if rejects is None else f"{rejects} has each"
    print_warnings(console, warnings_of(topology, summary, f"{reasons} with its line and reason"))


def _say_how_to_go_on(console: Console, topology: Topology, objects: int) -> None:
    """Say what an interrupted run has given, and how to get the rest."""
    checkpoint = topology.settings.checkpoint
    remedy = "with [topology.checkpoint] in the declaration a run can be resumed"
    if checkpoint is not None:
        remedy = f"go on with the same command and --resume {open_store(checkpoint.directory, topology.base).url}"
    text = f"stopped after {objects:,} objects: the results are those of the input up to here; {remedy}"
    console.print(text, style="bold yellow", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _watched(watch: bool, port: int, should_stop: Callable[[], bool]) -> Iterator[Watcher | None]:
    """Serve the live view beside what the block does, where somebody wants to watch."""
    if not watch:
        yield None
        return
    try:
        from service.view.beside import watched
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "websockets"):
            raise
        missing = "--watch needs a server, which is not installed; add it with: pip install 'waterspout[serve]'"
        raise DeclarationError(missing) from None
    with watched(port, should_stop, lambda text: typer.echo(text, err=True)) as watcher:
        yield watcher


def run(
    topology: TopologyFile,
    objects: ObjectsFile = None,
    queries: QueriesFile = None,
    columns: Columns = None,
    results: ResultsFile = None,
    rejects: RejectsFile = None,
    summary: SummaryFile = None,
    runtime: RuntimeName = None,
    address: RayAddress = None,
    overrides: Overrides = None,
    inject: Injected = None,
    include: Include = None,
    show: Show = 0,
    resume: ResumeFrom = None,
    watch: Watch = False,
    watch_port: WatchPort = 0,
    log_json: LogJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a topology to the end of its input, or until Ctrl-C, which drains and ends cleanly."""
    configure_logs(log_json, quiet=quiet)
    with naming_file(topology):
        loaded = _load(topology, overrides, runtime, address, objects, queries, columns, inject)
    with piped_input(loaded) as declared:
        with naming_file(topology):
            amended = _amend(declared, results, rejects, summary)
            lookup = _lookup(declared, results, include)
        if show:
            amended = with_listener(amended, "showcase", "sample", size=show)
        with (
            naming_file(topology),
            stop_on_interrupt() as should_stop,
            _watched(watch, watch_port, should_stop) as watcher,
        ):
            with progress_line(quiet) as progress:
                _begin(amended)
                outcome = run_topology(
                    amended, on_progress=progress, on_bytes=_write_bytes, should_stop=should_stop, resume=resume,
                    watcher=watcher,
                )  # fmt: skip
            interrupted = should_stop()
        if lookup is not None:
            include_in_file(Path(str(results)), lookup)
        console = Console(stderr=results == "-")
        if show:
            print_alerts(console, declared, outcome.collected)
        _finish(declared, outcome.summary, summary, rejects, console, quiet)
        if not interrupted and (told := nothing_matched(declared, outcome.summary)) is not None:
            print_warnings(console, [told])
    if interrupted:
        _say_how_to_go_on(console, loaded, outcome.summary["objects"])
        raise typer.Exit(INTERRUPTED)


def validate(topology: TopologyFile, overrides: Overrides = None) -> None:
    """Check a declaration without starting anything."""
    checked = load_topology(topology, list(overrides or ()))
    with naming_file(topology):
        validate_topology(with_metric(checked))
    wiring = wire(checked)
    typer.echo(
        f"{topology}: valid; {len(checked.components)} components, {len(wiring.tasks)} tasks, {len(wiring.edges)} streams"
    )


def verify(
    topology: TopologyFile,
    objects: ObjectsFile = None,
    queries: QueriesFile = None,
    columns: Columns = None,
    results: ResultsFile = None,
    rejects: RejectsFile = None,
    summary: SummaryFile = None,
    runtime: RuntimeName = None,
    address: RayAddress = None,
    overrides: Overrides = None,
    inject: Injected = None,
    log_json: LogJson = False,
    quiet: Quiet = False,
) -> None:
    """Run, then compare every result with the brute-force oracle; exit 1 where there is a difference."""
    configure_logs(log_json, quiet=quiet)
    with naming_file(topology):
        loaded = _load(topology, overrides, runtime, address, objects, queries, columns, inject)
        _check_ends(loaded)
    with piped_input(loaded, whole=True) as declared:
        with naming_file(topology):
            amended = _amend(declared, results, rejects, summary)
        if results is None and any(c.options.get("path") == "-" for c in amended.components if c.kind == "bolt"):
            raise DeclarationError("verify prints its findings on standard output; give --results a file")
        with naming_file(topology), stop_on_interrupt() as should_stop, progress_line(quiet) as progress:
            _begin(amended)
            outcome, comparison = verified_run(
                amended, on_progress=progress, on_bytes=_write_bytes, should_stop=should_stop
            )
            interrupted = should_stop()
    console = Console(stderr=results == "-", highlight=False, soft_wrap=True)
    _finish(declared, outcome.summary, summary, rejects, console, quiet)
    if interrupted:
        raise InputError("the run was interrupted, so its results cannot be compared with those of the whole input")
    console.print(explain(comparison), markup=False)
    if comparison.ok and not sum(comparison.expected.values()):
        console.print("warning: verify compared no results at all", style="bold yellow")
    if not comparison.ok:
        raise typer.Exit(1)


def _check_ends(topology: Topology) -> None:
    for component in topology.components:
        if component.kind == "spout" and component.options.get("follow"):
            raise DeclarationError(
                "verify reads the input to its end, which a followed file does not have; set it to false",
                ("spout", component.name, "follow"),
            )
