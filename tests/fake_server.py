"""A message server in memory, for the generic spout and sink of connectors: it can be cut off, and tears what is published."""

import time
from dataclasses import dataclass, field

from operators.connectors.messages import ConnectionLostError, Received, TrimmedError
from operators.connectors.stream_sink import StreamSink
from operators.connectors.stream_spout import StreamSpout

PART = "s"


@dataclass
class FakeServer:
    """What a server has, and what is wrong with it.

    Attributes:
        messages: the input, in order; a message's place is its position.
        published: the alerts, as (id, body).
        acknowledged: the positions that were acknowledged.
        refusals: so many attempts to connect fail.
        torn: after how many alerts the next attempts to publish break off, one after the other.
        cuts: after how many messages the connection is lost, one after the other.
        batches: how many messages polls return, one after the other, from the start again.
    """

    messages: list[Received] = field(default_factory=list)
    published: list[tuple[str, bytes]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    refusals: int = 0
    torn: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=lambda: [7, 1, 40])
    trimmed: bool = False
    polls: int = 0
    opened: int = 0

    def add(self, kind, *payloads, stamp=None):
        for payload in payloads:
            at = len(self.messages)
            self.messages.append(Received(kind, payload, at if stamp is None else stamp, PART, at))

    def connect(self):
        if self.refusals:
            self.refusals -= 1
            raise ConnectionLostError("refused")
        self.opened += 1


#: Servers by name, for operators that are made from options.
SERVERS: dict[str, FakeServer] = {}


class FakeSource:
    def __init__(self, server):
        self.server = server

    def open(self, position, memory):
        self.server.connect()
        self.at = -1 if position is None else position[PART]
        return {PART: self.at}

    def poll(self, seconds):
        server = self.server
        server.polls += 1
        if server.cuts and self.at + 1 >= server.cuts[0]:
            server.cuts.pop(0)
            raise ConnectionLostError("cut off")
        count = server.batches[server.polls % len(server.batches)]
        found = server.messages[self.at + 1 : self.at + 1 + count]
        self.at += len(found)
        if not found:
            time.sleep(0.002)
        return found

    def acknowledge(self, position):
        self.server.acknowledged.append(position[PART])

    def memory(self, position):
        return None

    def close(self):
        pass


class FakePublisher:
    def __init__(self, server, readable):
        self.server, self.readable, self.position = server, readable, {}

    def open(self):
        self.server.connect()
        if not self.position:
            self.position = {PART: len(self.server.published)}

    def publish(self, alerts):
        server = self.server
        kept = server.torn.pop(0) if server.torn else None
        server.published += [(alert.id, alert.body) for alert in alerts[:kept]]
        if kept is not None:
            raise ConnectionLostError("torn")
        self.position = {PART: len(server.published)}

    def since(self, position):
        if self.server.trimmed:
            raise TrimmedError("the start is gone")
        yield from self.server.published[position[PART] :]

    def close(self):
        pass


@dataclass(kw_only=True)
class FakeSpout(StreamSpout):
    """Reads a server of this process by its name."""

    url: str

    def where(self):
        return f"fake://{self.url}"

    def source(self):
        return FakeSource(SERVERS[self.url])


@dataclass(kw_only=True)
class FakeSink(StreamSink):
    """Publishes to a server of this process by its name."""

    url: str
    readable: bool = True

    def where(self):
        return f"fake://{self.url}"

    def publisher(self):
        return FakePublisher(SERVERS[self.url], self.readable)
