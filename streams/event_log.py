"""Events for whoever runs the program.

A program that configures structlog gets them all, as it wants them. One that does not, such as a notebook or a worker on Ray,
gets warnings and errors on standard error: structlog's own default would print all of them, and on standard output.
"""

import logging
import sys
from typing import Any

import structlog

__all__ = ["EventLog"]


class EventLog:
    """Says what happens, by a name and values."""

    def debug(self, event: str, **values: Any) -> None:
        """Say what helps to find a fault in this project."""
        _logger().debug(event, **values)

    def info(self, event: str, **values: Any) -> None:
        """Say what happens."""
        _logger().info(event, **values)

    def warning(self, event: str, **values: Any) -> None:
        """Say what somebody should look at."""
        _logger().warning(event, **values)

    def error(self, event: str, **values: Any) -> None:
        """Say what went wrong."""
        _logger().error(event, **values)


def _logger() -> Any:
    if structlog.is_configured():
        return structlog.get_logger()
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
