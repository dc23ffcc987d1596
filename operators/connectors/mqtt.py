"""MQTT: there is nothing to seek, so a session keeps what is not acknowledged, and acknowledged is what a checkpoint covers.

A message that the broker sends again is known by its packet id, its digest and the broker's mark that it is a repetition.
Alerts cannot be read back, so after a crash some come twice, under the same ids.
"""

import contextlib
import hashlib
import json
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
from streams.errors import DeclarationError

__all__ = ["MqttSink", "MqttSpout"]

PORTS = {"mqtt": 1883, "mqtts": 8883}
CONNECT_SECONDS = 5.0

#: So many messages are handed on, or published, at a time.
BATCH = 500

#: So many acknowledged messages are remembered, because the broker may not have got to know.
REMEMBERED = 10_000

#: The most messages that a broker sends without an acknowledgement.
MOST_IN_FLIGHT = 65_535

#: The one part of the stream: messages are counted.
PART = "message"

Key = tuple[int, str]


class _Connection:
    """A client whose network loop runs in a thread of the library; it does not connect again by itself."""

    def __init__(self, client_id: str, address: Address, credentials: Path | None, path: tuple[str, ...]) -> None:
        mqtt = library("paho.mqtt.client", "mqtt", path)
        self._address = address
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=mqtt.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        user, password = secret_of(credentials)
        if user is not None or password is not None:
            self.client.username_pw_set(user or "", password)
        if address.scheme == "mqtts":
            self.client.tls_set()
        self.client.max_queued_messages_set(0)
        self._answered, self._subscribed = threading.Event(), threading.Event()
        self._refusal: str | None = None
        self.session_present = False
        self.lost = False
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_subscribe = self._on_subscribe

    def _on_connect(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        self._refusal = str(reason) if reason.is_failure else None
        self.session_present = bool(flags.session_present)
        self._answered.set()

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, _reason: Any, _properties: Any) -> None:
        self.lost = True
        self._answered.set()

    def _on_subscribe(self, _client: Any, _data: Any, _mid: int, reasons: Any, _properties: Any) -> None:
        failed = [str(reason) for reason in reasons if reason.is_failure]
        self._refusal = failed[0] if failed else None
        self._subscribed.set()

    def connect(self, clean: bool, session_seconds: int, in_flight: int) -> None:
        """Connect, with a new session or the old one."""
        properties = library("paho.mqtt.properties", "mqtt")
        wanted = properties.Properties(library("paho.mqtt.packettypes", "mqtt").PacketTypes.CONNECT)
        wanted.SessionExpiryInterval = session_seconds
        wanted.ReceiveMaximum = in_flight
        try:
            self.client.connect(self._address.host, self._address.port, 30, clean_start=clean, properties=wanted)
        except (OSError, ValueError) as error:
            raise ConnectionLostError(str(error) or type(error).__name__) from None
        self.client.loop_start()
        self._await(self._answered, "the broker did not answer")

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe, at least once each message."""
        self.client.subscribe(
            [
                (topic, library("paho.mqtt.subscribeoptions", "mqtt").SubscribeOptions(qos=1, retainHandling=1))
                for topic in topics
            ]
        )
        self._await(self._subscribed, "the broker did not answer to the subscription")

    def _await(self, event: threading.Event, otherwise: str) -> None:
        if not event.wait(CONNECT_SECONDS) or self._refusal is not None or self.lost:
            reason = self._refusal or ("the connection was closed" if self.lost else otherwise)
            self.close()
            raise ConnectionLostError(reason)

    def close(self) -> None:
        """Let the connection go; a session stays."""
        with contextlib.suppress(Exception):  # it may be gone
            self.client.disconnect()
            self.client.loop_stop()


class MqttSource:
    """Reads topics through a session that the broker keeps."""

    def __init__(self, options: "MqttSpout", address: Address) -> None:
        self._options, self._address = options, address
        self._connection: _Connection | None = None
        self._arrived: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._changed = threading.Lock()
        self._count = 0
        self._unacknowledged: OrderedDict[Key, int] = OrderedDict()
        self._acknowledged: OrderedDict[Key, None] = OrderedDict()

    def open(self, position: Position | None, memory: Any) -> Position:
        """Connect, and subscribe."""
        options = self._options
        if memory is not None:
            self._count = (position or {}).get(PART, 0)
            self._acknowledged = OrderedDict(((mid, digest), None) for mid, digest in memory)
        read = {PART: self._count} if position is None else dict(position)
        connection = _Connection(options.client, self._address, options.credentials, ("spout", "url"))
        connection.client.on_message = self._on_message
        self._connection = connection
        clean = position is None and options.start == "new"
        connection.connect(clean, options.session_seconds, min(options.in_flight, MOST_IN_FLIGHT))
        if position is not None and not connection.session_present and options.session_lost == "stop":
            connection.close()
            raise TrimmedError(
                f"{self._address} does not know the session '{options.client}' any more, so what came meanwhile is lost; let "
                "the broker keep sessions (persistence), start afresh, or go on with session_lost = 'go-on'"
            )
        connection.subscribe([topic for topic in (options.objects, options.queries) if topic])
        return read

    def _on_message(self, client: Any, _data: Any, message: Any) -> None:
        digest = hashlib.blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=12).hexdigest()
        key = (message.mid, digest)
        with self._changed:
            if message.qos and message.dup and key in self._unacknowledged:
                return  # it is here already, and is acknowledged when its time comes
            repeated = bool(message.qos and message.dup and key in self._acknowledged)
            if not repeated:
                self._count += 1
                if message.qos:
                    self._unacknowledged[key] = self._count
                stamp = time.time_ns() // 1_000_000
                kind = self._kind(message.topic)
                self._arrived.put(Received(kind, bytes(message.payload), stamp, PART, self._count))
        if repeated:
            client.ack(message.mid, message.qos)

    def _kind(self, topic: str) -> Kind:
        matches = library("paho.mqtt.client", "mqtt").topic_matches_sub
        return "queries" if self._options.queries and matches(self._options.queries, topic) else "objects"

    def poll(self, seconds: float) -> Sequence[Received]:
        """Return what has arrived."""
        assert self._connection is not None
        found: list[Received] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._arrived.get(timeout=seconds))
            while len(found) < BATCH:
                found.append(self._arrived.get_nowait())
        if not found and self._connection.lost:
            raise ConnectionLostError("the connection was closed")
        return found

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the messages up to a position, in order."""
        assert self._connection is not None
        with self._changed:
            covered = [key for key, count in self._unacknowledged.items() if count <= position[PART]]
            for key in covered:
                del self._unacknowledged[key]
                self._acknowledged[key] = None
            while len(self._acknowledged) > REMEMBERED:
                self._acknowledged.popitem(last=False)
        for mid, _ in covered:
            self._connection.client.ack(mid, 1)

    def memory(self, position: Position) -> Any:
        """Return what the broker may send again although the checkpoint covers it."""
        with self._changed:
            waiting = [list(key) for key, count in self._unacknowledged.items() if count <= position[PART]]
            return [*map(list, self._acknowledged), *waiting]

    def close(self) -> None:
        """Close the connection, not the session."""
        if self._connection is not None:
            self._connection.close()


class MqttPublisher:
    """Publishes to one topic, at least once."""

    readable = False

    def __init__(self, options: "MqttSink", address: Address) -> None:
        self._options, self._address = options, address
        self._connection: _Connection | None = None
        self.position: Position = {}

    def open(self) -> None:
        """Connect."""
        self._connection = _Connection("", self._address, self._options.credentials, ("bolt", "url"))
        self._connection.connect(True, 0, MOST_IN_FLIGHT)

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts, some at a time, and wait until the broker has them."""
        assert self._connection is not None
        client = self._connection.client
        for at in range(0, len(alerts), BATCH):
            sent = [client.publish(self._options.topic, _payload(alert), qos=1) for alert in alerts[at : at + BATCH]]
            until = time.monotonic() + 4 * CONNECT_SECONDS
            try:
                for info in sent:
                    while not info.is_published():
                        if self._connection.lost or time.monotonic() > until:
                            raise ConnectionLostError("the broker did not confirm what was published")
                        info.wait_for_publish(0.1)
            except (RuntimeError, ValueError) as error:  # it was handed over while the connection was gone
                raise ConnectionLostError(str(error)) from None

    def since(self, position: Position) -> Iterator[tuple[str, bytes]]:
        """Nothing: what was published cannot be read back."""
        return iter(())

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _payload(alert: Alert) -> bytes:
    """Return the line of an alert with its id."""
    return b'{"id":' + json.dumps(alert.id).encode() + b"," + alert.body[1:]


@dataclass(kw_only=True)
class MqttSpout(StreamSpout):
    """Reads objects and query operations from MQTT topics, through a session that the broker keeps (MQTT 5).

    Options:
        url: the broker: ``mqtt://127.0.0.1:1883``.
        objects: the topic of objects; ``+`` and ``#`` as MQTT has them.
        queries: the topic of query operations.
        client: the session's name; no other client may have it.
        start: ``first`` begins with what the broker has kept for a session of this name, ``new`` with what comes.
        session_seconds: the broker keeps the session for so long while nobody is connected.
        in_flight: so many messages may wait for their acknowledgement, that is, for a checkpoint; the broker may allow less.
        session_lost: what to do where the broker has lost the session, and messages with it: ``stop``, or ``go-on``.
        credentials: a file whose first line is ``user:password``.
    """

    url: str
    client: str
    start: Literal["first", "new"] = "first"
    session_seconds: int = 86_400
    in_flight: int = MOST_IN_FLIGHT
    session_lost: Literal["stop", "go-on"] = "stop"
    credentials: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, most in (("session_seconds", 2**32 - 1), ("in_flight", MOST_IN_FLIGHT)):
            if not 1 <= getattr(self, key) <= most:
                raise DeclarationError(f"found {getattr(self, key)}, expected 1 to {most}", (key,))
        if not self.client:
            raise DeclarationError("is empty; the session needs a name", ("client",))

    def where(self) -> str:
        """Return the broker's address."""
        return str(Address.of(self.url, PORTS))

    def source(self) -> MqttSource:
        """Return a source."""
        return MqttSource(self, Address.of(self.url, PORTS))


@dataclass(kw_only=True)
class MqttSink(StreamSink):
    """Publishes results to an MQTT topic, at least once; each has its id in the payload.

    Options:
        url: the broker: ``mqtt://127.0.0.1:1883``.
        topic: where results go.
        credentials: a file whose first line is ``user:password``.
    """

    url: str
    topic: str
    credentials: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.topic or any(sign in self.topic for sign in "+#"):
            raise DeclarationError(f"found {self.topic!r:.100}, expected a topic without + and #", ("topic",))

    def where(self) -> str:
        """Return the broker's address."""
        return str(Address.of(self.url, PORTS))

    def publisher(self) -> MqttPublisher:
        """Return a publisher."""
        return MqttPublisher(self, Address.of(self.url, PORTS))
