"""Redis Streams: an entry's id is the position; alerts are added in transactions, and the stream tells which there are."""

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from operators.connectors.merge import Merge
from operators.connectors.messages import (
    Address,
    Alert,
    ConnectionLostError,
    Kind,
    Position,
    Received,
    TrimmedError,
    library,
    secret_of,
)
from operators.connectors.stream_sink import StreamSink
from operators.connectors.stream_spout import StreamSpout
from streams.errors import DeclarationError, RunError

__all__ = ["RedisSink", "RedisSpout"]

PORTS = {"redis": 6379, "rediss": 6379}
CONNECT_SECONDS = 5.0

#: So many entries are read, or added, at a time.
BATCH = 1_000

_START = "0-0"


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Raise `ConnectionLostError` where the server is gone."""
    errors = library("redis.exceptions", "redis")
    try:
        yield
    except (errors.ConnectionError, errors.TimeoutError, OSError) as error:
        raise ConnectionLostError(str(error) or type(error).__name__) from None


def _client(address: Address, credentials: Path | None, path: tuple[str, ...]) -> Any:
    redis = library("redis", "redis", path)
    user, password = secret_of(credentials)
    retry = library("redis.retry", "redis").Retry(library("redis.backoff", "redis").NoBackoff(), 0)
    client = redis.Redis(
        host=address.host,
        port=address.port,
        db=_database(address),
        username=user,
        password=password,
        ssl=address.scheme == "rediss",
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=2 * CONNECT_SECONDS,
        retry=retry,
    )
    with _connected():
        client.ping()
    return client


def _database(address: Address) -> int:
    text = address.path.strip("/") or "0"
    if not text.isdecimal() or len(text) > 5:
        raise DeclarationError(
            f"found the database '{text:.100}', expected a number, as in redis://HOST:6379/0", ("url",)
        )
    return int(text)


def _number(entry: str) -> tuple[int, int]:
    ms, _, seq = entry.partition("-")
    return int(ms), int(seq or 0)


def _check_reach(client: Any, stream: str, position: str, where: str) -> None:
    """Raise `TrimmedError` where entries behind a position are gone, or the stream ends before it."""
    if not client.exists(stream):
        if position != _START:
            raise TrimmedError(f"{where}: the stream '{stream}' is gone, which was at {position}; start afresh")
        return
    info = client.xinfo_stream(stream)
    last = info["last-generated-id"].decode()
    gone = info.get("max-deleted-entry-id", b"0-0").decode()
    if _number(last) < _number(position) or _number(gone) > _number(position):
        raise TrimmedError(
            f"{where}: the stream '{stream}' ends at {last} and has lost entries up to {gone}, but was at {position}; keep "
            "more of the stream, or start afresh"
        )


class RedisSource:
    """Reads one or two streams, merged by the ids of their entries."""

    def __init__(self, options: "RedisSpout", address: Address) -> None:
        self._options, self._address = options, address
        # Of one millisecond, operations come before objects.
        kinds: list[tuple[str | None, Kind]] = [(options.queries, "queries"), (options.objects, "objects")]
        self._kinds: dict[str, Kind] = {name: kind for name, kind in kinds if name}
        self._client: Any = None
        self._read: dict[str, str] = {}
        self._merge = Merge(list(self._kinds))

    def open(self, position: Position | None, memory: Any) -> Position:
        """Connect; find where the streams end, where only what comes is wanted."""
        self._client = _client(self._address, self._options.credentials, ("spout", "url"))
        self._merge = Merge(list(self._kinds))
        with _connected():
            if position is not None:
                self._read = {name: position[name] for name in self._kinds}
                for name, at in self._read.items():
                    _check_reach(self._client, name, at, str(self._address))
            else:
                self._read = {name: self._start(name) for name in self._kinds}
            if self._options.group:
                for name in self._kinds:
                    self._make_group(name)
        return dict(self._read)

    def _start(self, stream: str) -> str:
        if not self._client.exists(stream):
            return _START
        info = self._client.xinfo_stream(stream)
        if self._options.start == "new":
            return str(info["last-generated-id"].decode())
        if not info["first-entry"]:
            return str(info["last-generated-id"].decode())
        ms, seq = _number(info["first-entry"][0].decode())
        return f"{ms}-{seq - 1}" if seq else f"{ms - 1}-{2**64 - 1}" if ms else _START

    def _make_group(self, stream: str) -> None:
        errors = library("redis.exceptions", "redis")
        try:
            self._client.xgroup_create(stream, self._options.group, id=self._read[stream], mkstream=True)
        except errors.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def poll(self, seconds: float) -> Sequence[Received]:
        """Read entries; of two streams, those that nothing can come before."""
        with _connected():
            if len(self._kinds) == 1:
                self._add(self._client.xread(self._read, count=BATCH, block=max(int(seconds * 1e3), 1)))
                return self._merge.released()
            if not len(self._merge):
                self._client.xread(self._read, count=1, block=max(int(seconds * 1e3), 1))
            else:
                time.sleep(0.001)  # for the millisecond that is not over yet
            pipeline = self._client.pipeline(transaction=True)
            pipeline.xread(self._read, count=BATCH)
            pipeline.time()
            entries, (s, us) = pipeline.execute()
            read = self._add(entries)
            for name in self._kinds:
                if read.get(name, 0) < BATCH:
                    self._merge.dry(name)
            return self._merge.released(s * 1_000 + us // 1_000)

    def _add(self, answer: Any) -> dict[str, int]:
        """Take what was read, and return how many entries of each stream that were."""
        counts: dict[str, int] = {}
        pairs = answer.items() if isinstance(answer, dict) else answer or ()
        for name, entries in pairs:
            stream = name.decode()
            if isinstance(answer, dict):
                entries = [entry for part in entries for entry in part]
            for entry, fields in entries:
                at = entry.decode()
                self._read[stream] = at
                payload, fault = fields.get(self._options.field.encode()), None
                if payload is None:
                    known = b", ".join(list(fields)[:10]).decode(errors="replace")
                    fault = f"found the fields {known:.200}, expected '{self._options.field}'"
                self._merge.add(Received(self._kinds[stream], payload or b"", _number(at)[0], stream, at, fault))
            counts[stream] = len(entries)
        return counts

    def acknowledge(self, position: Position) -> None:
        """Set the group's place, where there is one."""
        if self._options.group:
            with _connected():
                for name in self._kinds:
                    self._client.xgroup_setid(name, self._options.group, position[name])

    def memory(self, position: Position) -> Any:
        """Nothing: a stream can be read again."""
        return None

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # it may be gone
                self._client.close()


class RedisPublisher:
    """Adds entries to one stream. Whoever connected last is the stream's only writer: an older one is refused."""

    readable = True

    def __init__(self, options: "RedisSink", address: Address) -> None:
        self._options, self._address = options, address
        self._client: Any = None
        self._owner, self._token = f"{options.stream}:waterspout", secrets.token_hex(8).encode()
        self.position: Position = {}

    def open(self) -> None:
        """Connect and become the writer."""
        self._client = _client(self._address, self._options.credentials, ("bolt", "url"))
        with _connected():
            self._client.set(self._owner, self._token)
            if not self.position:
                there = self._client.exists(self._options.stream)
                last = self._client.xinfo_stream(self._options.stream)["last-generated-id"] if there else b"0-0"
                self.position = {self._options.stream: last.decode()}

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Add alerts, each lot all or none, and only as long as nobody else is the writer."""
        errors = library("redis.exceptions", "redis")
        stream, keep = self._options.stream, self._options.keep
        for at in range(0, len(alerts), BATCH):
            with _connected(), self._client.pipeline(transaction=True) as pipeline:
                pipeline.watch(self._owner)
                try:
                    if pipeline.get(self._owner) != self._token:
                        raise errors.WatchError
                    pipeline.multi()
                    for alert in alerts[at : at + BATCH]:
                        pipeline.xadd(stream, {"id": alert.id, "line": alert.body}, maxlen=keep, approximate=True)
                    added = pipeline.execute()
                except errors.WatchError:
                    # The library says so, too, where the connection breaks meanwhile.
                    if self._client.get(self._owner) == self._token:
                        raise ConnectionLostError("the connection broke in the middle of a publish") from None
                    raise RunError(
                        f"{self._address}: another run publishes to '{stream}' now; end one of the two, or give each a stream"
                    ) from None
            self.position[stream] = added[-1].decode()

    def since(self, position: Position) -> Iterator[tuple[str, bytes]]:
        """Read the stream from an id on."""
        stream = self._options.stream
        after = position[stream]
        with _connected():
            _check_reach(self._client, stream, after, str(self._address))
            while entries := self._client.xrange(stream, min=f"({after}", count=BATCH):
                for entry, fields in entries:
                    after = entry.decode()
                    if b"id" in fields and b"line" in fields:
                        yield fields[b"id"].decode(), fields[b"line"]

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # it may be gone
                self._client.close()


@dataclass(kw_only=True)
class RedisSpout(StreamSpout):
    """Reads objects and query operations from Redis streams, in the order of their entries' ids.

    Options:
        url: the server: ``redis://127.0.0.1:6379/0``.
        objects: the stream (its key) of objects.
        queries: the stream of query operations.
        field: which field of an entry has the lines.
        start: ``first`` begins with what the streams have, ``new`` with what comes.
        group: a consumer group whose place is set to what a checkpoint covers, for others to see; without, none is.
        credentials: a file whose first line is ``user:password``, or a password.
    """

    url: str
    field: str = "line"
    start: Literal["first", "new"] = "first"
    group: str | None = None
    credentials: Path | None = None

    def where(self) -> str:
        """Return the server's address."""
        return _shown(self.url)

    def source(self) -> RedisSource:
        """Return a source."""
        return RedisSource(self, Address.of(self.url, PORTS))


@dataclass(kw_only=True)
class RedisSink(StreamSink):
    """Adds results to a Redis stream: entries with the fields ``id`` and ``line``.

    Options:
        url: the server: ``redis://127.0.0.1:6379/0``.
        stream: the stream (its key).
        keep: about so many entries are kept; without, all. It must be more than there are between two checkpoints.
        credentials: a file whose first line is ``user:password``, or a password.
    """

    url: str
    stream: str
    keep: int | None = None
    credentials: Path | None = None

    def where(self) -> str:
        """Return the server's address."""
        return _shown(self.url)

    def publisher(self) -> RedisPublisher:
        """Return a publisher."""
        return RedisPublisher(self, Address.of(self.url, PORTS))


def _shown(url: str) -> str:
    address = Address.of(url, PORTS)
    _database(address)
    return str(address)
