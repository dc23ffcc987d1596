"""A task as a pure state machine: messages in, messages out, `snapshot` and `restore`. No I/O, no clock, no threads.

A task works strictly in the order of epochs. It takes an epoch up when every channel into it has brought its message for
that epoch; a spout also needs leave from the conductor, which is how back-pressure works. What it does depends on these
messages alone and never on the order in which they came, so every runtime gives the same results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operators.operator import Arrival, Bolt, Emitter, Epoch, Inputs, Spout, TaskContext
from operators.spouts.tuple_objects import OBJECTS_STREAM, TupleObjects
from partitioners.plans.broadcast import HashPlan
from streams.batches import TupleBatch
from streams.errors import RunError
from streams.result_batches import counted
from topology.declaration import Topology
from topology.groupings import Grouping, GroupingContext, make_grouping
from topology.kept_objects import kept_ms_of
from topology.lens import Lens
from topology.messages import Message, Report
from topology.references import resolve
from topology.validation import make_operator
from topology.wiring import INTERNAL_STREAMS, Edge, TaskSpec, Wiring, output_streams

__all__ = ["Task"]


class Task:
    """One task of a topology.

    Attributes:
        next: the epoch it works on next.
        done: it has worked on the final epoch.
    """

    def __init__(
        self,
        wiring: Wiring,
        spec: TaskSpec,
        local_tasks: frozenset[int] | None = None,
        shown: Callable[[int], bool] = lambda _epoch: True,
    ) -> None:
        topology = wiring.topology
        component = topology.component(spec.component)
        self.spec = spec
        self.operator: Any = make_operator(component, topology)
        self.streams = output_streams(component, type(self.operator))
        self.next = 0
        self.done = False
        self._tick = component.tick
        self._tick_time: int | None = None
        self._watermark: int | None = None
        self._limit: int | None = 0 if isinstance(self.operator, Spout) else None
        self._final: int | None = None
        self._dry: int | None = None
        self._exhausted = False
        self._channels = wiring.incoming(spec)
        self._ends = isinstance(self.operator, Spout) and not (self._channels or self.operator.revives)
        self._ended = False  # what is asked of it now, it would emit behind its end
        self._pending: dict[int, dict[tuple[int, int], Message]] = {}
        self._inputs = [
            (edge, (source.id, edge.lag), source.index, edge.input.stream)
            for edge in wiring.edges
            if edge.target == spec.component
            for source in wiring.tasks_of(edge.source)
        ]
        self._outputs = [_Output(wiring, edge, spec, local_tasks) for edge in wiring.edges_from(spec.component)]
        self._outgoing = list(dict.fromkeys((target, o.edge.lag) for o in self._outputs for target in o.targets))
        self._lagged: list[Message] = []
        self._max_lag = max((edge.lag for edge in wiring.edges), default=0)
        self._counts: dict[str, float] = {}
        self._handed: list[Any] = []
        self._columns: list[Any] | None = None
        self._events: list[Mapping[str, Any]] = []
        context = self._context(topology, wiring)
        # Shipped spouts emit columns; what somebody's own emits as tuples is made into columns for those who need these.
        tuples = "ids" not in self.streams.get(OBJECTS_STREAM, ("ids",))
        wanted = tuples and any(output.takes_columns for output in self._outputs)
        self._objects = TupleObjects(context) if wanted else None
        self.operator.open(context)
        self._lens = Lens(topology.settings.space, self.operator, shown) if wiring.watched else None

    def _context(self, topology: Topology, wiring: Wiring) -> TaskContext:
        settings = topology.settings
        spouts = [component for component in topology.components if component.kind == "spout"]
        targets: dict[str, list[tuple[str, int]]] = {}
        for edge in wiring.edges_from(self.spec.component):
            targets.setdefault(edge.input.stream, []).append((edge.target, len(wiring.tasks_of(edge.target))))
        return TaskContext(
            component=self.spec.component,
            index=self.spec.index,
            parallelism=len(wiring.tasks_of(self.spec.component)),
            space=settings.space,
            metric=settings.measure,
            seed=settings.seed,
            epoch_objects=settings.epoch.objects,
            epoch_queries=settings.epoch.queries,
            epoch_ms=settings.epoch.ms,
            epoch_feedback=settings.epoch.feedback,
            vocabulary=settings.vocabulary,
            window=settings.window,
            kept_ms=kept_ms_of(topology),
            dynamic=any(getattr(make_operator(c, topology), "dynamic", False) for c in spouts),
            limits=settings.limits.reading(),
            answers=wiring.answers,
            injections=topology.injections,
            plan=wiring.plan if _follows_plan(topology, self.spec.component) else None,
            statistics=_statistics(topology),
            checkpoints=settings.checkpoint is not None,
            targets=targets,
            counted=wiring.counted(self.spec.component),
            count=self._count,
            output=self._handed.append,
            event=self._events.append,
        )

    def _count(self, name: str, by: float) -> None:
        self._counts[name] = self._counts.get(name, 0) + by

    # --- what comes in ---------------------------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Take a message; one that was taken before changes nothing."""
        if message.epoch >= self.next:
            self._pending.setdefault(message.epoch, {}).setdefault((message.source, message.lag), message)

    def grant(self, limit: int, final: int | None, dry: int | None = None) -> None:
        """Give a spout leave to work on epochs below `limit`, and tell it the final one when it is known.

        From the epoch `dry` on nothing is taken from it any more.
        """
        if self._limit is not None and limit > self._limit:
            self._limit, self._final, self._dry = limit, final, dry

    def ready(self) -> bool:
        """Tell whether everything for the next epoch is here."""
        if self.done or (self._limit is not None and self.next >= self._limit):
            return False
        come = self._pending.get(self.next, {})
        if len(come) == len(self._channels):
            return True
        return self.next < self._max_lag and all(c in come or c[1] > self.next for c in self._channels)

    # --- one epoch -------------------------------------------------------------------------------------------------

    def step(self) -> tuple[list[Message], Report]:
        """Work on the next epoch; return what to send and what to report."""
        messages = self._pending.pop(self.next, {})
        on_time = [m for (_, lag), m in messages.items() if lag == 0]
        emit, inputs = Emitter(self.streams), self._arrived(messages)
        if isinstance(self.operator, Spout):
            epoch = Epoch(self.next, self._watermark, self.next == self._final)
            stopped = self._ended or (self._dry is not None and self.next >= self._dry)
            more = not stopped and self.operator.next_epoch(epoch, inputs, emit)
            self._ended = self._ends and not more and (self._ended or not stopped)
            self._exhausted = not more
            self._make_columns(emit, more)
            self._watermark = emit.watermark if emit.watermark is not None else self._watermark
        else:
            known = [m.watermark for m in on_time if m.watermark is not None]
            self._watermark = min(known) if known else self._watermark
            epoch = Epoch(self.next, self._watermark, any(m.final for m in on_time))
            self._run_bolt(self.operator, epoch, inputs, emit)
        sent, feedback = self._send(epoch, emit)
        if self._lens is not None:
            self._events.extend(self._lens.look(epoch.number, inputs, emit))
        outputs, events = list(self._handed), list(self._events)
        report = Report(self.spec.id, self.next, self._counts, self._exhausted, feedback, outputs, events)
        self._counts = {}
        self._events.clear()
        self._handed.clear()
        self.next += 1
        self.done = epoch.final
        return sent, report

    def _make_columns(self, emit: Emitter, more: bool) -> None:
        """Make columns of tuples that are objects, and a watermark of their times where the spout gives none."""
        self._columns = None
        if self._objects is None:
            return
        sent = emit.batches(OBJECTS_STREAM)
        if any(isinstance(batch, TupleBatch) for batch in sent):
            self._columns = [self._objects.columns(b) if isinstance(b, TupleBatch) else b for b in sent]
        if emit.watermark is None and self._objects.last is not None:
            emit.watermark = self._objects.last if more else self._objects.last + 1

    def _arrived(self, messages: dict[tuple[int, int], Message]) -> Inputs:
        arrivals = []
        executed = 0
        for edge, channel, index, stream in self._inputs:
            message = messages.get(channel)
            for number, batch in message.parts if message else ():
                if number == edge.id:
                    arrivals.append(Arrival(edge.source, stream, index, batch))
                    executed += len(batch) if stream not in INTERNAL_STREAMS else 0
        if executed:
            self._count("executed", executed)
        return Inputs(tuple(arrivals))

    def _run_bolt(self, bolt: Bolt, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        bolt.execute_epoch(epoch, inputs, emit)
        if self._tick_is_due(epoch):
            bolt.tick(epoch, emit)
        if epoch.final:
            bolt.finish(emit)

    def _tick_is_due(self, epoch: Epoch) -> bool:
        if self._tick is None:
            return False
        if self._tick.epochs is not None:
            return (epoch.number + 1) % self._tick.epochs == 0
        assert self._tick.ms is not None
        if epoch.watermark is None:
            return False
        before, self._tick_time = self._tick_time, epoch.watermark // self._tick.ms
        return before is not None and self._tick_time > before

    def _send(self, epoch: Epoch, emit: Emitter) -> tuple[list[Message], int]:
        parts: dict[tuple[int, int], list[tuple[int, Any]]] = {channel: [] for channel in self._outgoing}
        feedback = transferred = 0
        for output in self._outputs:
            number, lag, rows = output.edge.id, output.edge.lag, 0
            for target, batch in output.divide(emit, self._columns):
                parts[target, lag].append((number, batch))
                rows += len(batch)
            if rows and output.counted:
                self._count(output.counted, rows)
                transferred += rows
                feedback += rows if lag else 0
        if transferred:
            self._count("transferred", transferred)
        for stream in (*emit.sent, *emit.rows):
            if stream not in INTERNAL_STREAMS and (emitted := sum(map(len, emit.batches(stream)))):
                self._count("emitted", emitted)
        if epoch.final and feedback:
            raise RunError(
                f"{self.spec.name} emitted {feedback} tuples on a feedback stream in the final epoch; nobody would see them"
            )
        sent = [
            Message(self.spec.id, target, lag, epoch.number + lag, self._watermark, epoch.final, batches)
            for (target, lag), batches in parts.items()
        ]
        if self._max_lag:
            self._lagged = [m for m in self._lagged if m.epoch > epoch.number] + [m for m in sent if m.lag]
        return sent, feedback

    # --- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return all state between two epochs: the operator's, the groupings', and messages that are still under way."""
        return {
            "next": self.next,
            "watermark": self._watermark,
            "tick_time": self._tick_time,
            "ended": self._ended,
            "operator": self.operator.snapshot(),
            "objects": self._objects.snapshot() if self._objects is not None else None,
            "groupings": [output.snapshot() for output in self._outputs],
            "lagged": [[m.target, m.lag, m.epoch, m.watermark, list(m.parts)] for m in self._lagged],
        }

    def restore(self, state: dict[str, Any]) -> list[Message]:
        """Take over a snapshot; return the messages under way, to be sent again."""
        self.next = state["next"]
        self._watermark, self._tick_time = state["watermark"], state["tick_time"]
        self._ended = state.get("ended", False)
        self.operator.restore(state["operator"])
        if self._objects is not None and state.get("objects") is not None:
            self._objects.restore(state["objects"])
        for output, kept in zip(self._outputs, state["groupings"], strict=True):
            output.restore(kept)
        self._lagged = [
            Message(self.spec.id, target, lag, epoch, watermark, False, [tuple(part) for part in parts])
            for target, lag, epoch, watermark, parts in state["lagged"]
        ]
        self._pending.clear()
        return self._lagged


def _follows_plan(topology: Topology, name: str) -> bool:
    """Tell whether what a component is sent is divided by the plan: not where its routers are of another kind."""
    routers = [
        topology.component(item.component) for item in topology.component(name).inputs if item.stream == "objects"
    ]
    bolts = [component for component in routers if component.kind == "bolt"]
    return not bolts or any(
        getattr(resolve(c.operator, (c.kind, c.name, "operator"), topology.base, c.classes), "needs_plan", False)
        for c in bolts
    )


def _statistics(topology: Topology) -> Any:
    """Return what the balancer of a topology wants evaluators to report; None where there is no balancer."""
    for component in topology.components:
        path = (component.kind, component.name, "operator")
        if hasattr(resolve(component.operator, path, topology.base, component.classes), "asks"):
            return make_operator(component, topology).asks
    return None


class _Output:
    """One edge as a sending task sees it."""

    def __init__(self, wiring: Wiring, edge: Edge, spec: TaskSpec, local_tasks: frozenset[int] | None) -> None:
        receivers = wiring.tasks_of(edge.target)
        self.edge = edge
        self.targets = [task.id for task in receivers]
        self.counted = f"to:{edge.target}" if edge.input.stream not in INTERNAL_STREAMS else None
        local = [t.index for t in receivers if local_tasks is None or t.id in local_tasks]
        target = wiring.topology.component(edge.target)
        operator = resolve(target.operator, (), wiring.topology.base, target.classes)
        by_remainder = isinstance(wiring.plan, HashPlan) and getattr(operator, "merges_by_number", False)
        context = GroupingContext(
            spec.index, len(receivers), tuple(local), edge.input.fields, wiring.topology.settings.seed, by_remainder
        )
        self.counts_only = "counts_only" in vars(operator)  # a class derived from one that counts may read more
        reads = getattr(operator, "reads", None) or {}
        from_spout = wiring.topology.component(edge.source).kind == "spout"
        self.takes_columns = from_spout and edge.input.stream == OBJECTS_STREAM and OBJECTS_STREAM in reads
        chooser = None
        if edge.input.using is not None:
            component = wiring.topology.component(edge.target)
            path = (component.kind, component.name, "inputs")
            chooser = resolve(edge.input.using, path, wiring.topology.base, component.classes)()
        self.grouping: Grouping | None = make_grouping(edge.input.grouping, context, chooser)

    def divide(self, emit: Emitter, columns: Sequence[Any] | None = None) -> list[tuple[int, Any]]:
        """Return (receiving task, batch) pairs; `columns` are the objects that were emitted as tuples."""
        stream = self.edge.input.stream
        if self.grouping is None:
            return [(self.targets[index], b) for index, b in emit.direct_batches.get(stream, ()) if len(b)]
        return [
            (target, counted(part) if self.counts_only else part)
            for batch in (columns if columns is not None and self.takes_columns else emit.batches(stream))
            for target, part in zip(self.targets, self.grouping.divide(batch), strict=True)
            if part is not None and len(part)
        ]

    def snapshot(self) -> Any:
        """Return what the grouping remembers."""
        return self.grouping.snapshot() if self.grouping is not None else None

    def restore(self, state: Any) -> None:
        """Give the grouping its memory back; None is that of one that has none, or begins."""
        if self.grouping is not None and state is not None:
            self.grouping.restore(state)
