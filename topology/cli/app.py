"""The command's entry point: subcommands, and what each kind of error means for the exit code."""

import sys

import typer

from streams.errors import DeclarationError, InputError, WaterspoutError
from topology.cli.bench import bench
from topology.cli.offline import build, plot, prepare, workload
from topology.cli.run import run, validate, verify

__all__ = ["app", "main"]

#: The exit codes of the contract.
DONE, FAILED, UNUSABLE = 0, 1, 2

app = typer.Typer(
    name="waterspout",
    help="Location-aware publish/subscribe at stream speed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run, validate, verify, prepare, build, workload, plot, bench):
    app.command()(command)


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
