"""``serve``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from streams.errors import DeclarationError
from topology.cli.logs import configure_logs
from topology.cli.run import Overrides, RuntimeName, TopologyFile

__all__ = ["serve"]

Host = Annotated[str, typer.Option("--host", help="Where to listen; beyond loopback a token is needed.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 lets the system choose.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="A file with the token that every request must bring.")
]
StateFolder = Annotated[
    Path | None,
    typer.Option("--state", help="A folder for all that must outlast the service; without one nothing does."),
]
TimeOfRecords = Annotated[
    str,
    typer.Option(
        "--time",
        help="What time records without one get: that of their 'arrival', or the stream's where objects bring it ('event').",
    ),
]
Ahead = Annotated[
    float,
    typer.Option(
        "--ahead",
        min=0,
        help="With times of arrival: so many seconds ahead of the clock a record's own time may be; later ones are rejected.",
    ),
]
RetainedBytes = Annotated[
    int, typer.Option("--retain-bytes", min=1, help="So much of the results is kept for clients that come back.")
]


def serve(
    topology: TopologyFile,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token_file: TokenFile = None,
    state: StateFolder = None,
    time: TimeOfRecords = "arrival",
    ahead: Ahead = 600.0,
    retain_bytes: RetainedBytes = 1 << 30,
    runtime: RuntimeName = None,
    settings: Overrides = None,
) -> None:
    """Run a topology as a service: objects and queries arrive over HTTP, results are pushed."""
    try:
        from service import serving
        from service.promptness import prompt_threads
        from service.service import ServiceSettings
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "msgspec", "prometheus_client", "websockets"):
            raise
        raise DeclarationError(f"'serve' needs {error.name}; add it with: pip install 'waterspout[serve]'") from None
    configure_logs()
    if time not in ("arrival", "event"):
        raise DeclarationError(f"--time {time}: expected arrival or event")
    chosen = dataclasses.replace(
        ServiceSettings(),
        time="event" if time == "event" else "arrival",
        ahead_ms=min(round(ahead * 1_000), 2**62),
        retain_bytes=retain_bytes,
    )
    overrides = [*(settings or ()), *([f"topology.runtime={runtime}"] if runtime is not None else [])]
    prompt_threads()
    serving.serve(
        topology,
        host=host,
        port=port,
        token_file=token_file,
        state=state,
        settings=overrides,
        service_settings=chosen,
        on_start=lambda address: typer.echo(f"serving {topology} on {address.url} (Ctrl-C ends)", err=True),
    )
