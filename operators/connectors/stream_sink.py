"""The sink that publishes alerts as messages, whatever server they go to.

The results of an epoch are published when it is worked on, and the task goes on when the server has them. After the run has
gone back to a checkpoint, the sink asks the server what was published behind it, and leaves that out. So it does, too, when a
connection was lost in the middle and nobody knows what has arrived. A server that cannot be asked gets it again, under the same
ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from operators.connectors.alerts import AlertMaker, Republished
from operators.connectors.messages import Alert, ConnectionLostError, Publisher, TrimmedError, backing_off
from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.sinks.sink import NamingSink, results_in
from streams.errors import DeclarationError
from streams.event_log import EventLog

__all__ = ["StreamSink"]

log = EventLog()


@dataclass(kw_only=True)
class StreamSink(NamingSink):
    """Publishes results, each as one message with a deterministic id.

    Options:
        reconnect_seconds: the server may be gone for so long before the run ends.
        trimmed: what to do on going back to a checkpoint where the stream does not tell any more what was published behind it:
            ``stop``, or ``repeat`` it.
    """

    single: ClassVar = True

    adjustable: ClassVar = frozenset(
        ("url", "servers", "credentials", "settings", "reconnect_seconds", "trimmed", "keep")
    )

    #: Which option says where the server is.
    address_key: ClassVar = "url"

    reconnect_seconds: float = 60.0
    trimmed: Literal["stop", "repeat"] = "stop"

    def __post_init__(self) -> None:
        if not self.reconnect_seconds >= 0:
            raise DeclarationError(f"found {self.reconnect_seconds}, expected 0 or more", ("reconnect_seconds",))
        self.where()

    def where(self) -> str:
        """Return what errors call the stream: its address, without secrets."""
        raise NotImplementedError

    def publisher(self) -> Publisher:
        """Return a publisher that is not connected yet."""
        raise NotImplementedError

    def open(self, context: TaskContext) -> None:
        """Start without a connection."""
        super().open(context)
        self._maker, self._republished = AlertMaker(), Republished()
        self._publisher: Publisher | None = None

    def _connected(self) -> Publisher:
        if self._publisher is None:
            publisher = self.publisher()
            try:
                publisher.open()
            except ConnectionLostError as error:
                raise DeclarationError(
                    f"{self.where()} cannot be reached: {error}; start the server, or mend the address",
                    ("bolt", self._context.component, self.address_key),
                ) from None
            self._publisher = publisher
        return self._publisher

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Publish the results of an epoch, without those that are published already."""
        self._connected()
        alerts: list[Alert] = []
        for batch in self.results_of(epoch, inputs):
            self._context.count("results", results_in(batch))
            alerts += self._maker.alerts(batch, self._names.named(batch))
        fresh = self._republished.without(alerts)
        if fresh:
            self._publish(fresh)
        self._maker.complete(epoch.watermark)
        self._republished.complete(epoch)

    def _publish(self, alerts: Sequence[Alert]) -> None:
        """Publish alerts, over as many connections as it takes."""
        publisher = self._connected()
        try:
            publisher.publish(alerts)
        except ConnectionLostError as error:
            log.warning("server_lost", server=self.where(), reason=str(error), again_in_s=0)
            left = list(alerts)

            def again() -> None:
                nonlocal left
                publisher.close()
                publisher.open()
                if publisher.readable:
                    there = {name for name, _ in publisher.since(publisher.position)}
                    left = [alert for alert in left if alert.id not in there]
                publisher.publish(left)

            self._retry(again)
            self._context.count("reconnects", 1)

    def _retry(self, attempt: Callable[[], None]) -> None:
        def retrying(reason: str, wait: float) -> None:
            log.warning("server_lost", server=self.where(), reason=reason, again_in_s=round(wait, 2))

        backing_off(attempt, self.reconnect_seconds, self.where(), on_retry=retrying)

    def snapshot(self) -> State:
        """Return the end of what was published, and what was published before that comes still."""
        return {
            **super().snapshot(),
            "published_to": dict(self._connected().position),
            "alerts": self._maker.snapshot(),
            "republished": self._republished.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Learn what was published since the checkpoint."""
        super().restore(state)
        self._maker.restore(state["alerts"])
        self._republished.restore(state["republished"])
        publisher = self.publisher()
        publisher.position = dict(state["published_to"])

        def connect() -> None:
            publisher.close()
            publisher.open()
            if publisher.readable:
                self._republished.add(publisher.since(state["published_to"]))

        try:
            self._retry(connect)
        except TrimmedError as error:
            if self.trimmed == "stop":
                raise TrimmedError(
                    f"{error}; what was published since the checkpoint is not known: keep more of the stream, or let it be "
                    f"repeated with bolt.{self._context.component}.trimmed = 'repeat'"
                ) from None
            log.warning("alerts_repeated", server=self.where(), reason=str(error))
        self._publisher = publisher

    def close(self) -> None:
        """Let the connection go."""
        if self._publisher is not None:
            self._publisher.close()

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """There is one task only."""
        return list(states)
