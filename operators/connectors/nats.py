"""NATS JetStream: a stream's sequence is the position; alerts have a ``Nats-Msg-Id``, and the stream tells which there are."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

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
from streams.errors import InputError

__all__ = ["NatsSink", "NatsSpout", "subject_matches"]

PORTS = {"nats": 4222, "tls": 4222}
CONNECT_SECONDS = 5.0

#: So many messages are asked for, or published, at a time.
BATCH = 500

#: A consumer that nobody reads is dropped by the server after so many seconds.
INACTIVE_SECONDS = 300.0

_ID = "Nats-Msg-Id"
T = TypeVar("T")


def subject_matches(pattern: str, subject: str) -> bool:
    """Tell whether a subject is one of a pattern's: ``*`` is one word, ``>`` at the end one or more."""
    wanted, found = pattern.split("."), subject.split(".")
    for place, word in enumerate(wanted):
        if word == ">":
            return len(found) > place
        if place >= len(found) or word not in ("*", found[place]):
            return False
    return len(wanted) == len(found)


class _Connection:
    """A connection whose event loop runs in a thread of its own, used from outside of it."""

    def __init__(self, address: Address, credentials: Path | None, extra_path: tuple[str, ...]) -> None:
        self._nats = library("nats", "nats", extra_path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="nats")
        self._thread.start()
        user, password = secret_of(credentials)
        options = {"user": user, "password": password} if user is not None else {"token": password}
        try:
            self.client = self.call(self._connect(str(address), options))
        except BaseException:
            self._end()
            raise
        self.js = self.client.jetstream(timeout=CONNECT_SECONDS)

    async def _connect(self, url: str, options: dict[str, Any]) -> Any:
        async def ignore(_error: Exception) -> None:
            """What goes wrong is raised where it is noticed."""

        given = {key: value for key, value in options.items() if value is not None}
        # The library's own reconnection does not say what was lost between; the reader asks again behind what it has.
        return await self._nats.connect(
            url, allow_reconnect=False, connect_timeout=CONNECT_SECONDS, error_cb=ignore, ping_interval=10, **given
        )

    def call(self, work: Coroutine[Any, Any, T], seconds: float = 4 * CONNECT_SECONDS) -> T:
        """Run something in the loop and return what comes of it; a server that is gone is a `ConnectionLostError`."""
        errors = self._nats.errors
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except self._nats.js.errors.APIError:
            raise
        except (errors.Error, OSError, TimeoutError) as error:
            future.cancel()
            raise ConnectionLostError(str(error) or type(error).__name__) from None

    def close(self) -> None:
        """Close the connection and end the thread."""
        with contextlib.suppress(ConnectionLostError):
            self.call(self.client.close())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_SECONDS)
        self._loop.close()


async def _fetched(subscription: Any, most: int, seconds: float) -> list[Any]:
    try:
        found: list[Any] = await subscription.fetch(most, timeout=seconds)
    except TimeoutError:
        return []
    return found


class NatsSource:
    """Reads subjects of one stream, in the stream's order."""

    def __init__(self, options: "NatsSpout", address: Address) -> None:
        self._options, self._address = options, address
        self._connection: _Connection | None = None
        self._subscription: Any = None
        self._after = 0
        self._delivered = 0
        self._unacknowledged: deque[tuple[int, Any]] = deque()

    def open(self, position: Position | None, memory: Any) -> Position:
        """Make a consumer that begins behind a position."""
        options = self._options
        self._connection = connection = _Connection(self._address, options.credentials, ("spout", "url"))
        errors = library("nats.js.errors", "nats")
        try:
            info = connection.call(connection.js.stream_info(options.stream))
        except errors.NotFoundError:
            raise InputError(
                f"{self._address} has no stream '{options.stream}'; make one, say with 'nats stream add {options.stream}'"
            ) from None
        first, last = info.state.first_seq, info.state.last_seq
        if position is None:
            self._after = last if options.start == "new" else max(first - 1, 0)
        else:
            self._after = position[options.stream]
            if info.config.retention in (None, "limits") and first > self._after + 1:
                raise TrimmedError(
                    f"{self._address}: the stream '{options.stream}' begins at {first}, but was read up to {self._after}; "
                    "what was between is gone: keep more of the stream, or start afresh"
                )
            if last < self._after:
                raise TrimmedError(
                    f"{self._address}: the stream '{options.stream}' ends at {last}, but was read up to {self._after}; "
                    "it is another one, or has lost its end: start afresh"
                )
        self._subscription = connection.call(self._subscribe(connection, info))
        self._delivered = 0
        self._unacknowledged.clear()
        return {options.stream: self._after}

    async def _subscribe(self, connection: _Connection, info: Any) -> Any:
        api, errors = library("nats.js.api", "nats"), library("nats.js.errors", "nats")
        options, js = self._options, connection.js
        subjects = [subject for subject in (options.objects, options.queries) if subject]
        config = api.ConsumerConfig(
            durable_name=options.consumer,
            ack_policy=api.AckPolicy.ALL if options.consumer else api.AckPolicy.NONE,
            inactive_threshold=None if options.consumer else INACTIVE_SECONDS,
            max_ack_pending=-1 if options.consumer else None,
            ack_wait=86_400 if options.consumer else None,
        )
        if info.config.retention == "workqueue":  # takes no other start; what is before the position is skipped
            config.deliver_policy = api.DeliverPolicy.ALL
        else:
            config.deliver_policy = api.DeliverPolicy.BY_START_SEQUENCE
            config.opt_start_seq = self._after + 1
        version = connection.client.connected_server_version
        if len(subjects) == 1:
            config.filter_subject = subjects[0]
        elif (version.major, version.minor) >= (2, 10):
            config.filter_subjects = subjects
        if options.consumer:  # where it begins is ours to say, not that of the run before
            with contextlib.suppress(errors.NotFoundError):
                await js.delete_consumer(options.stream, options.consumer)
        made = await js.add_consumer(options.stream, config)
        return await js.pull_subscribe_bind(consumer=made.name, stream=options.stream)

    def poll(self, seconds: float) -> Sequence[Received]:
        """Fetch messages."""
        assert self._connection is not None
        messages = self._connection.call(_fetched(self._subscription, BATCH, seconds))
        if not messages and not self._connection.client.is_connected:
            raise ConnectionLostError("the connection was closed")
        found: list[Received] = []
        for message in messages:
            meta = message.metadata
            if meta.sequence.consumer != self._delivered + 1:
                raise ConnectionLostError(f"delivery {self._delivered + 1} did not arrive")
            self._delivered += 1
            at = meta.sequence.stream
            kind = self._kind(message.subject)
            if kind is not None and at > self._after:
                stamp = int(meta.timestamp.timestamp() * 1e3)
                found.append(Received(kind, message.data, stamp, self._options.stream, at))
        if messages and self._options.consumer:
            self._unacknowledged.append((messages[-1].metadata.sequence.stream, messages[-1]))
        return found

    def _kind(self, subject: str) -> Kind | None:
        if self._options.queries and subject_matches(self._options.queries, subject):
            return "queries"
        return "objects" if self._options.objects and subject_matches(self._options.objects, subject) else None

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the last delivery up to a position, which stands for all before it."""
        last = None
        while self._unacknowledged and self._unacknowledged[0][0] <= position[self._options.stream]:
            last = self._unacknowledged.popleft()[1]
        if last is not None:
            assert self._connection is not None
            self._connection.call(last.ack_sync(CONNECT_SECONDS))

    def memory(self, position: Position) -> Any:
        """Nothing: a stream can be read again."""
        return None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class NatsPublisher:
    """Publishes to one subject, and reads back what the stream has of it."""

    readable = True

    def __init__(self, options: "NatsSink", address: Address) -> None:
        self._options, self._address = options, address
        self._connection: _Connection | None = None
        self._stream = ""
        self.position: Position = {}

    def _open(self) -> _Connection:
        assert self._connection is not None
        return self._connection

    def open(self) -> None:
        """Connect, and find the stream that takes the subject."""
        self._connection = connection = _Connection(self._address, self._options.credentials, ("bolt", "url"))
        errors = library("nats.js.errors", "nats")
        try:
            self._stream = connection.call(connection.js.find_stream_name_by_subject(self._options.subject))
        except errors.NotFoundError:
            raise InputError(
                f"{self._address} has no stream that takes the subject '{self._options.subject}'; make one, say with "
                f"'nats stream add --subjects {self._options.subject}'"
            ) from None
        if not self.position:
            state = connection.call(connection.js.stream_info(self._stream)).state
            self.position = {self._stream: state.last_seq}

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts, some at a time; the server drops an id that it has had within its duplicate window."""
        for at in range(0, len(alerts), BATCH):
            confirmed = self._open().call(self._publish(alerts[at : at + BATCH]))
            self.position[self._stream] = max(self.position[self._stream], confirmed)

    async def _publish(self, alerts: Sequence[Alert]) -> int:
        js, subject = self._open().js, self._options.subject
        sent = [js.publish(subject, alert.body, timeout=CONNECT_SECONDS, headers={_ID: alert.id}) for alert in alerts]
        acknowledged = await asyncio.gather(*sent)
        return int(max(one.seq for one in acknowledged))

    def since(self, position: Position) -> Iterator[tuple[str, bytes]]:
        """Read the subject from a sequence on."""
        connection, errors = self._open(), library("nats.js.errors", "nats")
        after = position[self._stream]
        state = connection.call(connection.js.stream_info(self._stream)).state
        if state.first_seq > after + 1 or state.last_seq < after:
            raise TrimmedError(
                f"{self._address}: the stream '{self._stream}' has {state.first_seq} to {state.last_seq}, but was written up "
                f"to {after}"
            )
        try:
            last = connection.call(connection.js.get_last_msg(self._stream, self._options.subject)).seq
        except errors.NotFoundError:
            return
        if last <= after:
            return
        subscription = connection.call(self._from(after + 1))
        while after < last:
            for message in connection.call(_fetched(subscription, BATCH, CONNECT_SECONDS)):
                after = message.metadata.sequence.stream
                yield (message.headers or {}).get(_ID, ""), message.data
            if not connection.client.is_connected:
                raise ConnectionLostError("the connection was closed")

    async def _from(self, sequence: int) -> Any:
        api, js = library("nats.js.api", "nats"), self._open().js
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=sequence,
            ack_policy=api.AckPolicy.NONE,
            filter_subject=self._options.subject,
            inactive_threshold=INACTIVE_SECONDS,
        )
        made = await js.add_consumer(self._stream, config)
        return await js.pull_subscribe_bind(consumer=made.name, stream=self._stream)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(kw_only=True)
class NatsSpout(StreamSpout):
    """Reads objects and query operations from subjects of a JetStream stream, in the stream's order.

    Options:
        url: the server: ``nats://127.0.0.1:4222``.
        stream: the stream.
        objects: the subject of objects; ``*`` and ``>`` as NATS has them.
        queries: the subject of query operations.
        start: ``first`` begins with what the stream has, ``new`` with what comes.
        consumer: the name of a durable consumer through which acknowledgements are sent, for streams that drop what all have
            acknowledged; without, none are sent.
        credentials: a file whose first line is ``user:password``, or a token.
    """

    url: str
    stream: str
    start: Literal["first", "new"] = "first"
    consumer: str | None = None
    credentials: Path | None = None

    def where(self) -> str:
        """Return the server's address."""
        return str(Address.of(self.url, PORTS))

    def source(self) -> NatsSource:
        """Return a source."""
        return NatsSource(self, Address.of(self.url, PORTS))


@dataclass(kw_only=True)
class NatsSink(StreamSink):
    """Publishes results to a subject of a JetStream stream, with their ids as ``Nats-Msg-Id``.

    Options:
        url: the server: ``nats://127.0.0.1:4222``.
        subject: where results go; a stream must take it.
        credentials: a file whose first line is ``user:password``, or a token.
    """

    url: str
    subject: str
    credentials: Path | None = None

    def where(self) -> str:
        """Return the server's address."""
        return str(Address.of(self.url, PORTS))

    def publisher(self) -> NatsPublisher:
        """Return a publisher."""
        return NatsPublisher(self, Address.of(self.url, PORTS))
