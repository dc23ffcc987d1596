"""Logs of the command line: readable on a terminal, JSON lines where asked for; always on standard error."""

import sys

import structlog

from topology.kernel_notice import WORTH_A_WORD

__all__ = ["configure_logs", "say_compiling"]


def configure_logs(as_json: bool = False, *, quiet: bool = False) -> None:
    """Send structlog's events to standard error, but for what only helps to find a fault in this project.

    Args:
        as_json: as JSON lines.
        quiet: nothing below a warning.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            _without_info if quiet else _without_debug,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        # Standard error as it is when something is said: a program may replace it after this.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _without_info(_logger: object, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop what is no warning."""
    if level in ("debug", "info"):
        raise structlog.DropEvent
    return event


def _without_debug(_logger: object, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop events of the level debug; as a processor, so that a test or a benchmark can still capture them."""
    if level == "debug":
        raise structlog.DropEvent
    return event


def say_compiling(count: int, _seconds: float) -> None:
    """Say why nothing seems to happen, once."""
    if count == WORTH_A_WORD:
        structlog.get_logger().info(
            "compiling kernels, once on this machine: up to a minute; the clock of the run stands still meanwhile"
        )
