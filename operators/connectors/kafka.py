"""Kafka: offsets of partitions are the position; alerts of an epoch are a transaction, and the topic tells which there are."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from operators.connectors.merge import Merge
from operators.connectors.messages import (
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
from streams.errors import DeclarationError, InputError, RunError

__all__ = ["KafkaSink", "KafkaSpout"]

CONNECT_SECONDS = 10.0

#: So many messages are taken at a time, and of a partition that runs ahead of others, about so many wait at most.
BATCH, MOST_WAITING = 1_000, 10_000

#: What settings must not say, because the connector depends on it, or because it would end up in checkpoints.
_OURS = frozenset(
    "bootstrap.servers group.id enable.auto.commit enable.auto.offset.store enable.partition.eof auto.offset.reset "
    "transactional.id enable.idempotence isolation.level sasl.username sasl.password ssl.key.password".split()
)

_ID = "id"


def _configuration(servers: str, settings: Mapping[str, Any], credentials: Path | None, **ours: Any) -> dict[str, Any]:
    user, password = secret_of(credentials)
    secret = {"sasl.username": user, "sasl.password": password} if user is not None else {}
    quiet = {"log_level": 0, "socket.connection.setup.timeout.ms": int(CONNECT_SECONDS * 1e3)}
    named = {key.replace("__", "."): value for key, value in ours.items()}
    return {**quiet, **settings, **secret, "bootstrap.servers": servers, **named}


def _check(servers: str, settings: Mapping[str, Any]) -> str:
    if not servers or "://" in servers:
        raise DeclarationError(f"found {servers!r:.100}, expected HOST:PORT, or several with commas", ("servers",))
    if taken := sorted(set(settings) & _OURS):
        remedy = (
            "put 'user:password' into a file, and name that with 'credentials'"
            if "sasl" in taken[0]
            else "leave it out"
        )
        raise DeclarationError(f"'{taken[0]}' is not for settings; {remedy}", ("settings",))
    return f"kafka at {servers}"


def _kafka(path: tuple[str, ...] = ()) -> Any:
    return library("confluent_kafka", "kafka", path)


def _partitions(client: Any, topic: str, where: str) -> list[int]:
    """Return the partitions of a topic; raise where nobody answers, or there is none."""
    kafka = _kafka()
    try:
        found = client.list_topics(topic, timeout=CONNECT_SECONDS).topics[topic]
    except kafka.KafkaException as error:
        raise ConnectionLostError(_text(error)) from None
    if found.error is not None or not found.partitions:
        raise InputError(f"{where} has no topic '{topic}'; make it, say with 'kafka-topics --create --topic {topic}'")
    return sorted(found.partitions)


def _text(error: Any) -> str:
    first = error.args[0] if error.args else error
    return str(first.str() if hasattr(first, "str") else first)


def _split(part: str) -> tuple[str, int]:
    topic, _, number = part.rpartition("/")
    return topic, int(number)


class KafkaSource:
    """Reads all partitions of one or two topics, merged by the timestamps of records."""

    def __init__(self, options: "KafkaSpout") -> None:
        self._options = options
        self._consumer: Any = None
        self._kinds: dict[str, Kind] = {}
        self._merge = Merge([])
        self._paused: set[str] = set()
        self._down: str | None = None

    def open(self, position: Position | None, memory: Any) -> Position:
        """Connect, find the partitions, and begin behind a position; a partition that is new begins at its start."""
        kafka, options = _kafka(("spout", "servers")), self._options
        self._down = None
        consumer = kafka.Consumer(
            _configuration(
                options.servers,
                options.settings,
                options.credentials,
                group__id=options.group or "waterspout",
                enable__auto__commit=False,
                enable__auto__offset__store=False,
                enable__partition__eof=True,
                auto__offset__reset="error",
                isolation__level="read_committed",
                error_cb=self._on_error,
            )
        )
        self._consumer, where = consumer, options.where()
        named: list[tuple[str | None, Kind]] = [(options.queries, "queries"), (options.objects, "objects")]
        topics = [(topic, kind) for topic, kind in named if topic]
        self._kinds = {
            f"{topic}/{number}": kind for topic, kind in topics for number in _partitions(consumer, topic, where)
        }
        read: Position = {}
        for part in self._kinds:
            topic, number = _split(part)
            try:
                low, high = consumer.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=CONNECT_SECONDS)
            except kafka.KafkaException as error:
                raise ConnectionLostError(_text(error)) from None
            known = None if position is None else position.get(part, low - 1)
            if known is not None and (low > known + 1 or high < known + 1):
                raise TrimmedError(
                    f"{where}: partition {part} has the offsets {low} to {high - 1}, but was read up to {known}; keep more of "
                    "the topic, or start afresh"
                )
            read[part] = known if known is not None else (high if options.start == "new" else low) - 1
        self._merge, self._paused = Merge(list(self._kinds)), set()
        consumer.assign([kafka.TopicPartition(*_split(part), at + 1) for part, at in read.items()])
        return read

    def _on_error(self, error: Any) -> None:
        if error.code() == _kafka().KafkaError._ALL_BROKERS_DOWN:
            self._down = error.str()

    def poll(self, seconds: float) -> Sequence[Received]:
        """Take messages, and return those that no other partition has an older one to."""
        kafka = _kafka()
        messages = self._consumer.consume(BATCH, timeout=seconds)
        for message in messages:
            part = f"{message.topic()}/{message.partition()}"
            error = message.error()
            if error is None:
                _, stamp = message.timestamp()
                self._merge.add(Received(self._kinds[part], message.value() or b"", stamp, part, message.offset()))
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                self._merge.dry(part)
            elif error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:
                raise TrimmedError(f"{self._options.where()}: {error.str()}; keep more of the topic, or start afresh")
            else:
                raise ConnectionLostError(error.str())
        if not messages and self._down is not None:
            raise ConnectionLostError(self._down)
        if messages:
            self._down = None
        found = self._merge.released()
        self._pace(kafka)
        return found

    def _pace(self, kafka: Any) -> None:
        """Let partitions that run ahead wait for the others."""
        for part in self._kinds:
            waiting = self._merge.waiting(part)
            if waiting > MOST_WAITING and part not in self._paused:
                self._consumer.pause([kafka.TopicPartition(*_split(part))])
                self._paused.add(part)
            elif waiting < MOST_WAITING // 2 and part in self._paused:
                self._consumer.resume([kafka.TopicPartition(*_split(part))])
                self._paused.discard(part)

    def acknowledge(self, position: Position) -> None:
        """Commit the offsets of a group, where one is named."""
        if self._options.group:
            kafka = _kafka()
            offsets = [kafka.TopicPartition(*_split(part), at + 1) for part, at in position.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except kafka.KafkaException as error:
                raise ConnectionLostError(_text(error)) from None

    def memory(self, position: Position) -> Any:
        """Nothing: a topic can be read again."""
        return None

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class KafkaPublisher:
    """Publishes to one topic, in transactions; an older producer of the same transactional id is fenced off."""

    readable = True

    def __init__(self, options: "KafkaSink") -> None:
        self._options = options
        self._producer: Any = None
        self.position: Position = {}

    def _configuration(self, **ours: Any) -> dict[str, Any]:
        options = self._options
        return _configuration(options.servers, options.settings, options.credentials, **ours)

    def open(self) -> None:
        """Connect, and end what an older producer had begun."""
        kafka, options = _kafka(("bolt", "servers")), self._options
        name = options.transaction or f"waterspout-{options.topic}"
        self._producer = kafka.Producer(self._configuration(transactional__id=name, enable__idempotence=True))
        partitions = _partitions(self._producer, options.topic, options.where())
        try:
            self._producer.init_transactions(2 * CONNECT_SECONDS)
        except kafka.KafkaException as error:
            raise ConnectionLostError(_text(error)) from None
        if not self.position:
            self.position = {
                f"{options.topic}/{number}": high - 1 for number, (_, high) in self._ends(partitions).items()
            }

    def _ends(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        kafka, topic = _kafka(), self._options.topic
        consumer = kafka.Consumer(self._configuration(group__id="waterspout"))
        try:
            return {
                number: consumer.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=CONNECT_SECONDS)
                for number in partitions
            }
        except kafka.KafkaException as error:
            raise ConnectionLostError(_text(error)) from None
        finally:
            consumer.close()

    def publish(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts in one transaction, those of a query under one key, so that they stay in order."""
        kafka, topic = _kafka(), self._options.topic
        delivered: list[tuple[str, int]] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                delivered.append((f"{topic}/{message.partition()}", message.offset()))

        try:
            self._producer.begin_transaction()
            for alert in alerts:
                self._produce(alert, on_delivery)
            self._producer.commit_transaction(2 * CONNECT_SECONDS)
        except kafka.KafkaException as error:
            if error.args[0].code() in (kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH):
                raise RunError(
                    f"{self._options.where()}: another run publishes with the transactional id of '{topic}' now; end one of "
                    "the two, or give each a 'transaction' of its own"
                ) from None
            raise ConnectionLostError(_text(error)) from None
        for part, at in delivered:
            self.position[part] = max(at, self.position.get(part, -1))

    def _produce(self, alert: Alert, on_delivery: Any) -> None:
        until = time.monotonic() + 2 * CONNECT_SECONDS
        while True:
            try:
                self._producer.produce(
                    self._options.topic,
                    alert.body,
                    key=alert.query.encode(),
                    headers=[(_ID, alert.id.encode())],
                    on_delivery=on_delivery,
                )
            except BufferError:  # the producer's own queue is full
                if time.monotonic() > until:
                    raise ConnectionLostError("nothing is taken any more") from None
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def since(self, position: Position) -> Iterator[tuple[str, bytes]]:
        """Read the committed records of all partitions from offsets on."""
        kafka, options = _kafka(), self._options
        ends = self._ends(_partitions(self._producer, options.topic, options.where()))
        starts = {number: position.get(f"{options.topic}/{number}", low - 1) + 1 for number, (low, _) in ends.items()}
        for number, (low, high) in ends.items():
            if not low <= starts[number] <= high:
                raise TrimmedError(
                    f"{options.where()}: partition {options.topic}/{number} has the offsets {low} to {high - 1}, but was "
                    f"written up to {starts[number] - 1}"
                )
        consumer = kafka.Consumer(
            self._configuration(
                group__id="waterspout",
                enable__auto__commit=False,
                enable__partition__eof=True,
                auto__offset__reset="error",
                isolation__level="read_committed",
            )
        )
        try:
            consumer.assign([kafka.TopicPartition(options.topic, number, at) for number, at in starts.items()])
            left, until = set(starts), time.monotonic() + 2 * CONNECT_SECONDS
            while left:
                for message in consumer.consume(BATCH, timeout=1.0):
                    until = time.monotonic() + 2 * CONNECT_SECONDS
                    error = message.error()
                    if error is None:
                        yield _id_of(message), message.value()
                    elif error.code() == kafka.KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                    else:
                        raise ConnectionLostError(error.str())
                if time.monotonic() > until:
                    raise ConnectionLostError("no answer to what was published")
        finally:
            consumer.close()

    def close(self) -> None:
        """Let the producer go, with what it has not committed."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _id_of(message: Any) -> str:
    found = dict(message.headers() or ()).get(_ID)
    return found.decode() if found is not None else json.dumps([message.partition(), message.offset()])


@dataclass(kw_only=True)
class KafkaSpout(StreamSpout):
    """Reads objects and query operations from Kafka topics, all partitions, merged by the timestamps of records.

    Options:
        servers: ``127.0.0.1:9092``, or several with commas.
        objects: the topic of objects.
        queries: the topic of query operations.
        start: ``first`` begins with what the topics have, ``new`` with what comes.
        group: a consumer group for which offsets are committed that a checkpoint covers, for others to see; without, none are.
        settings: further properties of librdkafka, such as ``{ "security.protocol" = "SASL_SSL" }``.
        credentials: a file whose first line is ``user:password``, for SASL.
    """

    address_key = "servers"

    servers: str
    start: Literal["first", "new"] = "first"
    group: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    credentials: Path | None = None

    def where(self) -> str:
        """Return the servers."""
        return _check(self.servers, self.settings)

    def source(self) -> KafkaSource:
        """Return a source."""
        return KafkaSource(self)


@dataclass(kw_only=True)
class KafkaSink(StreamSink):
    """Publishes results to a Kafka topic in transactions, the query as key, the id as a header.

    Options:
        servers: ``127.0.0.1:9092``, or several with commas.
        topic: where results go.
        transaction: the transactional id, which no other run may have; by default it is made of the topic's name.
        settings: further properties of librdkafka.
        credentials: a file whose first line is ``user:password``, for SASL.
    """

    address_key = "servers"

    servers: str
    topic: str
    transaction: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    credentials: Path | None = None

    def where(self) -> str:
        """Return the servers."""
        return _check(self.servers, self.settings)

    def publisher(self) -> KafkaPublisher:
        """Return a publisher."""
        return KafkaPublisher(self)
