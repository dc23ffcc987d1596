"""What connectors and servers have to do with each other: messages, positions, addresses, and what may go wrong."""

import importlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from streams.errors import DeclarationError, InputError, RunError

__all__ = [
    "Address",
    "Alert",
    "ConnectionLostError",
    "Kind",
    "Position",
    "Publisher",
    "Received",
    "Source",
    "TrimmedError",
    "backing_off",
    "library",
    "secret_of",
]

Kind = Literal["objects", "queries"]

#: How far a stream was read or written: for each of its parts (a stream, a partition) what the server calls the place.
Position = dict[str, Any]

#: How long to wait before the first attempt to connect again, and at most.
FIRST_WAIT, MOST_WAIT = 0.05, 5.0


@dataclass(frozen=True, slots=True)
class Received:
    """A message.

    Attributes:
        kind: whether its lines are objects or query operations.
        payload: one or more lines of a file of these.
        stamp: when the server took it, in milliseconds since 1970; of a server that does not say, when it arrived.
        part: which part of the stream it is of.
        at: its place there.
        fault: why it cannot be used, whatever its payload.
    """

    kind: Kind
    payload: bytes
    stamp: int
    part: str
    at: Any
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """A result as a message.

    Attributes:
        id: the same whenever this result is found: ``[query, ts]``, with the object (and what was detected) where there is one.
        query: the query's identifier, as JSON.
        ts: its time.
        body: the line of a results file.
        standing: a state of a standing list, which a later one replaces.
    """

    id: str
    query: str
    ts: int
    body: bytes
    standing: bool = False


class ConnectionLostError(Exception):
    """A server is not there, or not any more: trying again may help."""


class TrimmedError(InputError):
    """A stream does not reach back any more to where it has to be read from."""


class Source(Protocol):
    """Messages of a server. All methods but `memory` are called by one thread."""

    def open(self, position: Position | None, memory: Any) -> Position:
        """Connect, and go on behind a position (None: at the start); return it, with all parts of the stream in it.

        Raises `ConnectionLostError`, and `TrimmedError` where messages behind the position are gone.
        """

    def poll(self, seconds: float) -> Sequence[Received]:
        """Return the next messages, none where none come within some seconds; raise `ConnectionLostError`."""

    def acknowledge(self, position: Position) -> None:
        """Tell the server that everything up to a position is in a checkpoint."""

    def memory(self, position: Position) -> Any:
        """Return what `open` must know besides the position to go on there, as plain values."""

    def close(self) -> None:
        """Let the connection go."""


class Publisher(Protocol):
    """Takes alerts to a server.

    Attributes:
        position: the end of what was published, as far as the server has confirmed it.
        readable: what was published can be read back; otherwise `since` is never called.
    """

    position: Position
    readable: bool

    def open(self) -> None:
        """Connect; where there is no position yet, it is the end of the stream. Raises `ConnectionLostError`."""

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Publish, and return when the server has all of it; raise `ConnectionLostError` where that is not known."""

    def since(self, position: Position) -> Iterator[tuple[str, bytes]]:
        """Yield id and body of what is published behind a position; raise `TrimmedError` where that is not known."""

    def close(self) -> None:
        """Let the connection go."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: scheme, host, port, and what follows them. It has no password, so it may be shown."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def of(cls, url: str, ports: Mapping[str, int]) -> "Address":
        """Read an address; `ports` are the schemes that it may have, with their usual ports."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = parts = None
        expected = " or ".join(f"{scheme}://HOST:{usual}" for scheme, usual in ports.items())
        if parts is None or parts.scheme not in ports or not host:
            shown = url if "@" not in url else "an address that cannot be read"
            raise DeclarationError(f"found {shown!r:.100}, expected {expected}", ("url",))
        if parts.username is not None or parts.password is not None:
            raise DeclarationError(
                "has a user or a password in it, which would end up in checkpoints and logs; put 'user:password' "
                "into a file, and name that with 'credentials'",
                ("url",),
            )
        return cls(parts.scheme, host, port or ports[parts.scheme], parts.path)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def secret_of(path: Path | None) -> tuple[str | None, str | None]:
    """Return user and password from the first line of a file; a line without a colon is a password alone."""
    if path is None:
        return None, None
    try:
        line = path.read_text().split("\n", 1)[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InputError(f"{path}: {reason}; expected a file whose first line is 'user:password'") from None
    user, colon, password = line.partition(":")
    return (user or None, password) if colon else (None, user)


def library(module: str, extra: str, path: tuple[str, ...] = ()) -> Any:
    """Import the library of a server, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise DeclarationError(
            f"'{extra}' needs {module.partition('.')[0]}, which is not installed; add it with: "
            f"pip install 'waterspout[{extra}]'",
            path,
        ) from None


def backing_off(
    attempt: Callable[[], None],
    seconds: float,
    where: str,
    *,
    stopped: Callable[[float], object] = time.sleep,
    on_retry: Callable[[str, float], None] = lambda _reason, _wait: None,
) -> None:
    """Try until it works, with growing pauses; raise `RunError` when it has not for some seconds.

    `stopped` waits for some seconds, and returns whether to give up silently, because nobody needs it any more.
    """
    until = time.monotonic() + seconds
    wait = FIRST_WAIT
    while True:
        try:
            attempt()
        except ConnectionLostError as error:
            if time.monotonic() >= until:
                raise RunError(
                    f"{where} could not be reached for {seconds:g} s ({error}); start it, and go on with --resume"
                ) from None
            on_retry(str(error), wait)
            if stopped(wait * random.uniform(0.5, 1.0)):
                return
            wait = min(wait * 2, MOST_WAIT)
        else:
            return
