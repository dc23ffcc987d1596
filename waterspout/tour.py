"""``tour``: each kind of standing question that Waterspout answers, on shipped data, in words; and one picture to look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from reports.alert_picture import alerts_of
from reports.plotting import plot_alerts
from streams.batches import TYPE_TERMS, AnswerBatch, Batch, MatchBatch
from streams.errors import InputError
from topology.amendments import with_listener
from topology.cli.logs import configure_logs
from topology.cli.progress import compiling
from topology.cli.showcase import print_alerts
from topology.declaration import Topology
from topology.kernel_notice import WORTH_A_WORD, kernel_notice
from topology.run import run
from topology.toml import load_topology
from topology.verification import listening
from waterspout.shipped import shipped_folder

__all__ = ["STOPS", "tour"]

#: Results that a stop chooses from, and shows.
SAMPLE, SHOWN = 200, 2

PICTURE = "waterspout-alerts.png"


@dataclass(frozen=True, slots=True)
class Stop:
    """One kind of question: the topology that answers it, how much of the data is read, and which results are shown.

    Attributes:
        kernels: how many it compiles, about, on a machine that has compiled those of the stops before it.
    """

    title: str
    asked: str
    topology: str
    kernels: int
    limit: int | None = None
    only: int | None = None


STOPS = (
    Stop("Alerts", "everything with these words, in this region, as it happens", "quickstart", 205),
    Stop("Nearest", "the k nearest with any of these words, kept up to date", "dkm", 195, limit=6_000),
    Stop("Best", "the k best by distance and words among the latest 2,000", "skype", 175, limit=6_000),
    Stop("Trending", "the most frequent words in a region, every so often", "sstd", 195, limit=3_000, only=TYPE_TERMS),
    Stop("Moving", "the k best couriers for a kitchen, while they ride and load other things", "dynamic", 80),
)


def tour(
    out: Annotated[Path, typer.Option("--out", help="The folder for the picture; it is made.")] = Path(),
) -> None:
    """Show each kind of standing question on shipped data, and draw the alerts on a map."""
    configure_logs(quiet=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be made a folder: {error.strerror}; name another") from None
    console = Console(soft_wrap=True)
    conf = shipped_folder() / "conf"
    console.print(
        "Five kinds of standing question over streams of places and words, on shipped data.\n", highlight=False
    )
    for number, stop in enumerate(STOPS, 1):
        _show(console, number, stop, conf)
    picture = out / PICTURE
    _draw(load_topology(conf / f"{STOPS[0].topology}.toml"), picture)
    console.print(f"The alerts of the first, on a map: {picture}", style="bold")
    console.print(
        f"""
Next, try
  waterspout verify {_shown(conf / "quickstart.toml")}              every result against brute force
  waterspout run {_shown(conf / "dkm.toml")} --results near.jsonl   results as lines of JSON
  waterspout compare {_shown(conf / "tornado-static.toml")} {_shown(conf / "tornado.toml")} --out report.html
  waterspout live                                         the same data, live, on a map in your browser
  waterspout init mine                                    topologies and data of your own to change""",
        highlight=False,
        markup=False,
    )


def _show(console: Console, number: int, stop: Stop, conf: Path) -> None:
    console.print(f"{number}. {stop.title}: {stop.asked}", style="bold", highlight=False)
    settings = [] if stop.limit is None else [f"spout.objects.limit={stop.limit}"]
    with _compiling(console, stop.kernels):
        topology = load_topology(conf / f"{stop.topology}.toml", settings)
        outcome = run(with_listener(topology, "showcase", "sample", size=SAMPLE))
    chosen = [batch for batch in outcome.collected if _wanted(batch, stop.only)][:SHOWN]
    print_alerts(console, topology, chosen)
    told = outcome.summary
    console.print(
        f"  {told['objects']:,} objects, {told['queries']:,} questions, {told['results']:,} results; "
        f"{told['objects_per_s']:,.0f} objects/s, p95 latency {told['latency_ms']['p95']:.0f} ms   "
        f"({_shown(conf / f'{stop.topology}.toml')})\n",
        style="dim",
        highlight=False,
    )


@contextmanager
def _compiling(console: Console, kernels: int) -> Iterator[None]:
    """Say how many kernels of how many are compiled, on one line that is renewed; in a pipe it is said once."""
    if not console.is_terminal:

        def say(count: int, _seconds: float) -> None:
            if count == WORTH_A_WORD:
                console.print(
                    f"  compiling about {kernels} kernels, once on this machine; some 20 seconds ...", style="dim"
                )

        with kernel_notice(say):
            yield
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(count: int, seconds: float) -> None:
            live.update(Text(f"  {compiling(count, seconds, kernels)}", style="dim", overflow="ellipsis", no_wrap=True))

        with kernel_notice(show):
            yield


def _wanted(batch: Batch, only: int | None) -> bool:
    """Tell whether a result is worth showing: of the type that the stop is about, and not an empty list."""
    if not isinstance(batch, AnswerBatch):
        return only is None
    return bool(len(batch.item)) and only in (None, int(batch.type[0]))


def _draw(topology: Topology, path: Path) -> None:
    plot_alerts(alerts_of(_lines(run(listening(topology)).collected)), topology, path)


def _lines(batches: list[Batch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        if isinstance(batch, MatchBatch):
            for query, thing in zip(batch.query.to_list(), batch.object.to_list(), strict=True):
                yield {"query": query, "object": thing}


def _shown(path: Path) -> str:
    """Return a path from where one stands, if it leads down."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
