"""The one command, ``waterspout``: its subcommands, and what each kind of error means for the exit code.

A subcommand's module is imported when it is called, so that ``--help`` and a typo are answered at once.
"""

import errno
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from streams.errors import DeclarationError, InputError, WaterspoutError, did_you_mean

__all__ = ["COMMANDS", "app", "main"]

#: The exit codes of the contract.
DONE, FAILED, UNUSABLE = 0, 1, 2

#: What is wrong with a disk, and not with the program that writes to it.
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)

#: Name -> module with a function of that name, and the first line of its help.
COMMANDS = {
    "run": (
        "topology.cli.run",
        "Run a topology to the end of its input, or until Ctrl-C, which drains and ends cleanly.",
    ),
    "validate": ("topology.cli.run", "Check a declaration without starting anything."),
    "verify": (
        "topology.cli.run",
        "Run, then compare every result with the brute-force oracle; exit 1 where there is a difference.",
    ),
    "serve": (
        "service.command",
        "Run a topology as a service: objects and queries arrive over HTTP, results are pushed.",
    ),
    "live": (
        "waterspout.live",
        "Show a running topology on a map: flights and earthquakes, three thousand questions, hotspots to put anywhere.",
    ),
    "prepare": (
        "topology.cli.offline",
        "Raw data to a prepared data set: clean, tokenised, by time, with vocabulary and statistics.",
    ),
    "build": ("topology.cli.offline", "Build the partition plan that a topology asks for."),
    "workload": ("topology.cli.offline", "Make a query file from a data set as the papers do."),
    "plot": (
        "reports.plotting",
        "Draw a plan over its data, alerts on a map, or the load and throughput of runs over their stream.",
    ),
    "compare": (
        "reports.commands",
        "Run topologies on the same input and injections, repeated with seeds, and write one page that compares them.",
    ),
    "report": ("reports.commands", "Write one page about one run, from its summary."),
    "tour": ("waterspout.tour", "Show each kind of standing question on shipped data, and draw the alerts on a map."),
    "init": ("waterspout.shipped", "Copy the shipped topologies and sample data into a folder."),
    "bench": ("topology.cli.bench", "Run a benchmark and print a table, always next to a baseline in the same run."),
}


class Commands(TyperGroup):
    """The subcommands, each imported when it is asked for."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Import a subcommand."""
        if cmd_name not in COMMANDS:
            raise DeclarationError(
                f"no command '{cmd_name}'{did_you_mean(cmd_name, COMMANDS)}; expected one of: {', '.join(COMMANDS)}"
            )
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(cmd_name)(getattr(import_module(COMMANDS[cmd_name][0]), cmd_name))
        return typer.main.get_command(alone)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """List the subcommands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


app = typer.Typer(
    name="waterspout",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # slow to import, and hardly ever asked for

        typer.echo(f"waterspout {version('waterspout')}")
        raise typer.Exit


@app.callback()
def waterspout(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Location-aware publish/subscribe at stream speed."""


def main() -> None:
    """Run the command line."""
    try:
        app()
    except (DeclarationError, InputError) as error:
        sys.stderr.write(f"waterspout: {error}\n")
        sys.exit(UNUSABLE)
    except WaterspoutError as error:
        sys.stderr.write(f"waterspout: {error}\n")
        sys.exit(FAILED)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        sys.exit(FAILED)
    except OSError as error:
        if error.errno not in _OF_DISKS:
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"waterspout: {where}{error.strerror}; make room, or write to another place\n")
        sys.exit(FAILED)
