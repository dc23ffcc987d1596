"""``live``: the shipped demo of the live view, in a browser."""

from typing import Annotated

import typer

from streams.errors import DeclarationError
from topology.cli.logs import configure_logs
from waterspout.shipped import shipped_folder

__all__ = ["live"]

#: The port, where none is given: the one of a service.
PORT = 8765


def live(
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Of loopback; 0 takes a free one.")] = PORT,
    lap: Annotated[
        float, typer.Option("--lap", min=5.0, max=86_400.0, help="Seconds in which the recorded day goes by.")
    ] = 120.0,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of conf/tornado.toml.")
    ] = None,
) -> None:
    """Show a running topology on a map: flights and earthquakes, three thousand questions, hotspots to put anywhere."""
    configure_logs(quiet=True)
    try:
        from service.demo.demo import run_demo
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "msgspec", "prometheus_client", "websockets"):
            raise
        raise DeclarationError("'live' needs a server; add it with: pip install 'waterspout[serve]'") from None

    def say(address: str) -> None:
        typer.echo(f"\n  The map is at {address}  (Ctrl-C ends it)\n")
        typer.echo(
            "  Click on the map to put a hotspot there, and watch how the load moves. Kill an evaluator: nothing is lost."
        )

    run_demo(shipped_folder(), port, lap, list(overrides or ()), say)
