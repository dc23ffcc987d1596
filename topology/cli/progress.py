"""The live line on a terminal: how far the run is and how fast. In a pipe there is none."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from topology.run import Progress

__all__ = ["ProgressLine", "progress_line"]

REFRESH_SECONDS = 0.1


class ProgressLine:
    """Takes progress as it comes and shows it ten times a second."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._shown_at = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show progress, if it is time to."""
        now = time.monotonic()
        if self._live is not None and now - self._shown_at >= REFRESH_SECONDS:
            self._shown_at = now
            self._live.update(Text(describe(progress)), refresh=True)


def describe(progress: Progress) -> str:
    """Put progress into a line."""
    rate = progress.objects / progress.seconds if progress.seconds else 0.0
    return (
        f"epoch {progress.epochs:,}   {progress.objects:,} objects   {rate:,.0f} objects/s   "
        f"{progress.results:,} results   latency {progress.latency_ms:.1f} ms   {progress.pending} pending"
    )


@contextmanager
def progress_line(quiet: bool = False) -> Iterator[ProgressLine]:
    """Show a live line while the block runs, if standard error is a terminal and nobody asked for quiet."""
    if quiet or not sys.stderr.isatty():
        yield ProgressLine(None)
        return
    with Live(Text("starting ..."), console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield ProgressLine(live)
