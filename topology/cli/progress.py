"""The live line on a terminal: how many kernels are compiled, how far the run is and how fast. In a pipe there is none."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from topology.cli.logs import say_compiling
from topology.kernel_notice import kernel_notice
from topology.run import Progress

__all__ = ["ProgressLine", "compiling", "progress_line"]

REFRESH_SECONDS = 0.1


class ProgressLine:
    """Takes progress as it comes and shows it ten times a second."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._shown_at = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show progress, if it is time to."""
        if self._due():
            self._show(describe(progress))

    def compiling(self, count: int, seconds: float) -> None:
        """Show how many kernels were compiled, if it is time to."""
        if self._due():
            self._show(compiling(count, seconds))

    def _due(self) -> bool:
        return self._live is not None and time.monotonic() - self._shown_at >= REFRESH_SECONDS

    def _show(self, text: str) -> None:
        assert self._live is not None
        self._shown_at = time.monotonic()
        self._live.update(Text(text, overflow="ellipsis", no_wrap=True), refresh=True)


def describe(progress: Progress) -> str:
    """Put progress into a line."""
    rate = progress.objects / progress.seconds if progress.seconds else 0.0
    return (
        f"{progress.objects:,} objects   {rate:,.0f}/s   {progress.results:,} results   "
        f"latency {progress.latency_ms:.1f} ms   epoch {progress.epochs:,}, {progress.pending} pending"
    )


def compiling(count: int, seconds: float, about: int | None = None) -> str:
    """Say how many kernels were compiled, and of how many where that is known, as far as it can be."""
    of_all = f" of about {about}" if about is not None and count <= about else ""
    return f"compiling kernels, once on this machine: {count}{of_all}, {seconds:.0f} s"


@contextmanager
def progress_line(quiet: bool = False) -> Iterator[ProgressLine]:
    """Show a live line while the block runs, if standard error is a terminal and nobody asked for quiet.

    In a pipe one line of the log says that kernels are compiled.
    """
    if quiet:
        yield ProgressLine(None)
        return
    if not sys.stderr.isatty():
        with kernel_notice(say_compiling):
            yield ProgressLine(None)
        return
    with Live(Text("starting ..."), console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        line = ProgressLine(live)
        with kernel_notice(line.compiling):
            yield line
