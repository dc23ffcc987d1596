"""Serves a topology: on loopback by default, beyond it only with a token."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from service.app import make_app
from service.ending import tidied_up
from service.guard import is_loopback
from service.listening import listening_on
from service.service import Service, ServiceSettings
from service.state_folder import StateFolder
from service.timed_heads import TimedHeads
from streams.errors import DeclarationError, InputError, WaterspoutError
from topology.given import Given, declared

__all__ = ["Address", "read_token", "serve"]

#: The port, where none is given.
PORT = 8765

#: A token must be too long to be guessed.
LEAST_TOKEN = 16

#: Connections beyond are refused.
MOST_CONNECTIONS = 12_000


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """How to reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def read_token(path: Path | None, host: str) -> str | None:
    """Return the token of a file; raise where one is needed and there is none."""
    if path is None:
        if not is_loopback(host):
            raise DeclarationError(
                f"--host {host} is beyond loopback, where every request needs a token; name a file with one: --token-file"
            )
        return None
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the token cannot be read ({error})") from None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{path}: expected a token of at least {LEAST_TOKEN} printable characters on one line")
    return token


def _server(service: Service, token: str | None, host: str, failures: list[WaterspoutError]) -> uvicorn.Server:
    """Return a server that ends when the topology's end is asked for, or with what the service cannot start for."""
    ended: list[Callable[[], None]] = []

    def fail(error: WaterspoutError) -> None:
        failures.append(error)
        ended[0]()

    app = make_app(service, token=token, loopback=is_loopback(host), end=lambda: ended[0](), fail=fail)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=TimedHeads,
            log_level="warning",
            access_log=False,  # an address may have what is nobody's business
            ws="websockets-sansio",
            ws_per_message_deflate=False,  # its windows are most of the memory of an idle client
            ws_max_size=1 << 16,
            ws_ping_interval=20.0,
            ws_ping_timeout=20.0,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            server_header=False,
            h11_max_incomplete_event_size=1 << 16,
        )
    )
    ended.append(lambda: setattr(server, "should_exit", True))
    return server


@contextlib.contextmanager
def _folder(state: Path | str | None) -> Iterator[tuple[Path, bool]]:
    """Return the folder of the state and whether it outlasts the service."""
    if state is not None:
        yield Path(state), True
        return
    with tempfile.TemporaryDirectory(prefix="waterspout-") as folder:
        yield Path(folder), False


def serve(
    topology: Given,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token_file: Path | str | None = None,
    state: Path | str | None = None,
    settings: Sequence[str] = (),
    service_settings: ServiceSettings | None = None,
    on_start: Callable[[Address], Any] = lambda _address: None,
) -> None:
    """Serve a topology until Ctrl-C, or until its end is asked for.

    Args:
        topology: a TOML file, a topology, or a builder.
        host: where to listen; beyond loopback a token is needed.
        port: 0 lets the system choose.
        token_file: a file with the token that every request must bring.
        state: a folder for all that must outlast the service; without one nothing does, and answers say so.
        settings: overrides such as ``bolt.evaluator.parallelism=8``.
        service_settings: bounds and delays.
        on_start: is called with the address when the service listens.
    """
    token = read_token(Path(token_file) if token_file is not None else None, host)
    wanted = declared(topology, settings, check=False)
    with (
        tidied_up(),
        _folder(state) as (folder, durable),
        contextlib.closing(listening_on(host, port)) as listening,
        StateFolder(folder).held(),
    ):
        chosen = dataclasses.replace(service_settings or ServiceSettings(), durable=durable)
        failures: list[WaterspoutError] = []
        server = _server(Service(wanted, folder, chosen), token, host, failures)
        on_start(Address(host, listening.getsockname()[1]))
        server.run(sockets=[listening])
        if failures:
            raise failures[0]
