"""Real servers for connectors, on loopback and a free port, each in a folder of its own; and what tests do with them.

They are found on the PATH, or beside the interpreter, where a package from PyPI puts them. Where a server cannot be had,
`server_of` says so, and the test is skipped.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

SERVERS = ("nats", "redis", "mqtt", "kafka")

#: How long a server may take to start.
START_SECONDS = 30


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def program(name):
    """Return the path of a program: on the PATH, where Debian puts servers, or beside the interpreter; None otherwise."""
    places = os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", str(Path(sys.executable).parent)]
    )
    return shutil.which(name, path=places)


class Server:
    """A process that listens on a port; `restart` ends it without warning and starts it on the same data."""

    name = library = program = ""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.process = None
        folder.mkdir(parents=True, exist_ok=True)

    def command(self):
        raise NotImplementedError

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, f"{self.program} does not listen"
            time.sleep(0.02)
        self.ready()
        return self

    def ready(self):
        """Wait until the server answers."""

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(START_SECONDS)

    def restart(self):
        self.kill()
        self.start()


class Nats(Server):
    name, library, program = "nats", "nats", "nats-server"

    def command(self):
        return [program(self.program), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "js")]

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def _call(self, work):
        import nats

        async def connected():
            client = await nats.connect(self.url)
            try:
                return await work(client.jetstream(timeout=10))
            finally:
                await client.close()

        return asyncio.run(connected())

    def prepare(self):
        async def streams(js):
            await js.add_stream(name="INPUT", subjects=["in.>"])
            await js.add_stream(name="ALERTS", subjects=["alerts"])

        self._call(streams)

    def publish(self, kind, messages):
        async def send(js):
            await asyncio.gather(*[js.publish(f"in.{kind}.x", message) for message in messages])

        self._call(send)

    def count(self):
        async def count(js):
            return (await js.stream_info("ALERTS")).state.messages

        return self._call(count)

    def alerts(self):
        async def read(js):
            last = (await js.stream_info("ALERTS")).state.last_seq
            found = [await js.get_msg("ALERTS", seq) for seq in range(1, last + 1)]
            return [(message.headers["Nats-Msg-Id"], json.loads(message.data)) for message in found]

        return self._call(read)

    def spout(self):
        return "nats-spout", {"url": self.url, "stream": "INPUT", "objects": "in.objects.*", "queries": "in.queries.>"}

    def sink(self):
        return "nats-sink", {"url": self.url, "subject": "alerts"}


class Redis(Server):
    name, library, program = "redis", "redis", "redis-server"

    def command(self):
        given = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "always",
        }
        options = [part for key, value in given.items() for part in (f"--{key}", str(value))]
        return [program(self.program), *options, "--save", ""]

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self):
        import redis

        return redis.Redis(port=self.port)

    def ready(self):
        import redis

        for _ in range(500):
            try:
                self.client.ping()
            except redis.exceptions.ConnectionError:  # it reads its data
                time.sleep(0.02)
            else:
                return

    def prepare(self):
        """Streams come into being by themselves."""

    def publish(self, kind, messages):
        with self.client.pipeline() as pipeline:
            for message in messages:
                pipeline.xadd(kind, {"line": message})
            pipeline.execute()
        time.sleep(0.002)  # the next ones are of a later millisecond

    def count(self):
        return self.client.xlen("alerts")

    def alerts(self):
        return [(fields[b"id"].decode(), json.loads(fields[b"line"])) for _, fields in self.client.xrange("alerts")]

    def spout(self):
        return "redis-spout", {"url": self.url, "objects": "objects", "queries": "queries", "group": "seen"}

    def sink(self):
        return "redis-sink", {"url": self.url, "stream": "alerts"}


class Mqtt(Server):
    name, library, program = "mqtt", "paho", "mosquitto"

    def command(self):
        lines = [
            f"listener {self.port} 127.0.0.1", "allow_anonymous true", "persistence true",
            f"persistence_location {self.folder}/", "max_inflight_messages 0",
            "max_queued_messages 0", "user root" if os.geteuid() == 0 else "",
        ]  # fmt: skip
        path = self.folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return [program(self.program), "-c", str(path)]

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def _client(self, name, **options):
        from paho.mqtt import client as mqtt

        found = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5, **options)
        found.max_queued_messages_set(0)
        return found

    def prepare(self):
        """Subscribe to alerts, so that none is missed, and make the spout's session, so that it need not run yet."""
        self.got = []
        self.listener = self._listen()
        session = self._client("spout")
        session.on_subscribe = lambda *_: session.disconnect()
        session.on_connect = lambda *_: session.subscribe([("in/objects", 1), ("in/queries", 1)])
        session.connect("127.0.0.1", self.port, clean_start=True, properties=self._kept())
        session.loop_forever()

    def _kept(self):
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 3_600
        return kept

    def _listen(self):
        """Collect alerts through a session that outlives the broker."""
        client, subscribed = self._client("listener"), threading.Event()
        client.on_message = lambda _c, _d, message: self.got.append(json.loads(message.payload))
        client.on_connect = lambda *_: client.subscribe("alerts", qos=1)
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect("127.0.0.1", self.port, clean_start=False, properties=self._kept())
        client.loop_start()
        assert subscribed.wait(START_SECONDS)
        return client

    def restart(self):
        """End the broker as an administrator does: it writes sessions down now and then, and at its end."""
        self.listener.loop_stop()
        self.process.terminate()
        self.process.wait(START_SECONDS)
        self.start()
        self.listener = self._listen()

    def publish(self, kind, messages):
        client = self._client("")
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for info in [client.publish(f"in/{kind}", message, qos=1) for message in messages]:
            info.wait_for_publish(START_SECONDS)
        client.disconnect()
        client.loop_stop()

    def count(self):
        return len(self.got)

    def alerts(self):
        time.sleep(0.2)  # the broker confirms before it has delivered
        return [(line.pop("id"), line) for line in map(dict, self.got)]

    def spout(self):
        return "mqtt-spout", {"url": self.url, "client": "spout", "objects": "in/objects", "queries": "in/queries"}

    def sink(self):
        return "mqtt-sink", {"url": self.url, "topic": "alerts"}

    def kill(self):
        if getattr(self, "listener", None) is not None:
            self.listener.loop_stop()
        super().kill()


_MOCK = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
for topic in sys.argv[1:]:
    producer.list_topics(topic, timeout=10)
broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
print(broker.port, flush=True)
while True:
    producer.poll(1)
"""


class Kafka(Server):
    """The cluster that librdkafka brings for tests: it speaks the protocol, and keeps its data in memory."""

    name, library, program = "kafka", "confluent_kafka", sys.executable

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MOCK, "objects", "queries", "alerts"], stdout=subprocess.PIPE
        )
        self.port = int(self.process.stdout.readline())
        return self

    @property
    def servers(self):
        return f"127.0.0.1:{self.port}"

    def prepare(self):
        self.clock = 1_700_000_000_000

    def publish(self, kind, messages):
        """Publish with timestamps that grow, over all partitions."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        partitions = len(producer.list_topics(kind, timeout=10).topics[kind].partitions)
        for message in messages:
            self.clock += 1
            producer.produce(kind, message, partition=self.clock % partitions, timestamp=self.clock)
        assert producer.flush(START_SECONDS) == 0

    def alerts(self):
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True})
        partitions = list(consumer.list_topics("alerts", timeout=10).topics["alerts"].partitions)
        consumer.assign([TopicPartition("alerts", number, 0) for number in partitions])
        found = []
        while partitions:
            for message in consumer.consume(1_000, timeout=10):
                if message.error() is None:
                    found.append((dict(message.headers())["id"].decode(), json.loads(message.value())))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF
                    partitions.remove(message.partition())
        consumer.close()
        return found

    def spout(self):
        return "kafka-spout", {"servers": self.servers, "objects": "objects", "queries": "queries", "group": "seen"}

    def sink(self):
        return "kafka-sink", {"servers": self.servers, "topic": "alerts"}


_CLASSES = {cls.name: cls for cls in (Nats, Redis, Mqtt, Kafka)}


@contextlib.contextmanager
def server_of(name, folder):
    """Start a server, or skip the test with the reason why there is none."""
    cls = _CLASSES[name]
    if importlib.util.find_spec(cls.library) is None:
        pytest.skip(f"the library '{cls.library}' is not installed; pip install 'waterspout[{name}]'")
    if program(cls.program) is None:
        pytest.skip(f"there is no {cls.program} on this machine; install it, say with apt-get install {cls.program}")
    server = cls(folder / name).start()
    try:
        server.prepare()
        yield server
    finally:
        server.kill()
