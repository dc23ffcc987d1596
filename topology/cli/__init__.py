"""The one command, ``waterspout``: parses, calls, prints, and turns errors into exit codes."""

from topology.cli.app import main

__all__ = ["main"]
