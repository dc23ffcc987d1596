"""Spouts and bolts: what an operator is given and what it may do.

A bolt implements the highest level that it needs: `execute` for one tuple, `execute_batch` for the batch that one task
sent on one stream, `execute_epoch` for everything of an epoch at once. Each level's default calls the one below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from operators.needs import Need
from operators.redistribution import Division
from partitioners.plans.plan import Plan
from streams.batches import Batch, TupleBatch, tuple_rows
from streams.errors import DeclarationError, did_you_mean
from streams.files.prepared import shared_vocabulary
from streams.files.read_limits import DEFAULT_LIMITS, ReadLimits
from streams.geometry import Metric, Rect
from streams.injection import Injection
from streams.vocabulary import Vocabulary
from streams.window import Window

__all__ = ["Bolt", "Emitter", "Epoch", "Inputs", "Spout", "TaskContext", "Tuple"]

DEFAULT_STREAM = "default"
Streams = Mapping[str, tuple[str, ...]]
State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch, as a task sees it.

    Attributes:
        number: 0, 1, 2, ...
        watermark: no object and no query operation with a smaller timestamp is still to come, so the input of every time
            below it is complete; None where the spouts know no time.
        final: the input has ended, and so does the run after this epoch.
    """

    number: int
    watermark: int | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch that came in: from which component and task, on which stream."""

    component: str
    stream: str
    task: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that an epoch brought to a task, in the order of the declared inputs, then of the sending tasks."""

    arrivals: tuple[Arrival, ...] = ()

    def batches(self, stream: str) -> list[Any]:
        """Return the batches that came on streams of this name."""
        return [arrival.batch for arrival in self.arrivals if arrival.stream == stream]


@dataclass(frozen=True, slots=True)
class Tuple:
    """One tuple for a per-tuple bolt: values by field name, and where they come from."""

    fields: tuple[str, ...]
    values: tuple[Any, ...]
    component: str
    stream: str
    task: int

    def __getitem__(self, name: str) -> Any:
        if name not in self.fields:
            raise LookupError(
                f"stream '{self.stream}' of '{self.component}' has no field '{name}'{did_you_mean(name, self.fields)}; "
                f"it has {', '.join(self.fields)}"
            )
        return self.values[self.fields.index(name)]


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task knows of itself and of its topology.

    Attributes:
        component: the component's name; the task is number `index` of `parallelism`.
        targets: for each output stream, the components that read it with their parallelism, for direct emitters.
        counted: the output streams of which nobody needs more than how many results there are, or whether a list is another.
        vocabulary: the folder of a prepared data set, whose word statistics the topology uses.
        window: the topology's sliding window over objects, where it has one.
        kept_ms: how far back queries that are answered at instants may look, as evaluators keep objects; None: they do not.
        dynamic: the objects have a current state, which a later record with the same id replaces or deletes.
        limits: what spouts that read files take at most.
        answers: the kinds of query that this topology answers, such as ``continuous range``; none: not known.
        injections: hotspots that the spouts put into their input.
        plan: who gets what, for routers, and for evaluators whose plan may bring a pair together twice.
        statistics: what the balancer wants evaluators to report (`operators.balancing.statistics`); None without one.
        checkpoints: the run takes checkpoints, so a sink writes what it can take up again.
        count: adds to one of the task's counters, which the summary adds up.
        output: hands bytes or a batch to whoever started the run (collected results, standard output).
        event: reports to the summary what happened, as plain values under names, such as a rebalancing.
    """

    component: str
    index: int
    parallelism: int
    space: Rect
    metric: Metric = "euclidean"
    seed: int = 0
    epoch_objects: int = 10_000
    epoch_queries: int = 100_000
    epoch_ms: int | None = None
    epoch_feedback: int = 1
    vocabulary: Path | None = None
    window: Window | None = None
    kept_ms: int | None = None
    dynamic: bool = False
    limits: ReadLimits = DEFAULT_LIMITS
    answers: frozenset[str] = frozenset()
    injections: tuple[Injection, ...] = ()
    plan: Plan | None = None
    statistics: Any = None
    checkpoints: bool = False
    targets: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    count: Callable[[str, float], None] = lambda _name, _by: None
    output: Callable[[Any], None] = lambda _value: None
    event: Callable[[Mapping[str, Any]], None] = lambda _values: None

    @property
    def name(self) -> str:
        """Return the task's name, such as ``evaluator[2]``."""
        return f"{self.component}[{self.index}]"

    @property
    def word_statistics(self) -> Vocabulary:
        """Return the topology's words with N and df, for ids and scores: read once a process, shared by its tasks."""
        return shared_vocabulary(self.vocabulary)


class Emitter:
    """Collects what an operator emits in one epoch, by stream."""

    __slots__ = ("direct_batches", "rows", "sent", "streams", "watermark")

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.sent: dict[str, list[Batch]] = {}
        self.rows: dict[str, list[Sequence[Any]]] = {}
        self.direct_batches: dict[str, list[tuple[int, Batch]]] = {}
        self.watermark: int | None = None

    def __call__(self, *values: Any, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple: its values in the order of the fields, or a dictionary; what that does not have is None."""
        names = self._fields(stream)
        if len(values) == 1 and isinstance(values[0], Mapping) and len(names) > 1:
            if unknown := [name for name in values[0] if name not in names]:
                raise ValueError(
                    f"stream '{stream}' has the fields {', '.join(names)}, but '{unknown[0]}'"
                    f"{did_you_mean(str(unknown[0]), names)} was emitted"
                )
            values = tuple(values[0].get(name) for name in names)
        if len(values) != len(names):
            said = (
                f"stream '{stream}' has the fields {', '.join(names)}, but a tuple of {len(values)} values was emitted"
            )
            one = len(values) == 1 and isinstance(values[0], tuple | list) and len(values[0]) == len(names)
            raise ValueError(f"{said}; emit the values of a tuple one by one, as in emit(*record)" if one else said)
        self.rows.setdefault(stream, []).append(values)

    def batch(self, batch: Batch, stream: str = DEFAULT_STREAM) -> None:
        """Emit a batch, to be divided by the groupings of its readers."""
        self._fields(stream)
        self._flush(stream)
        self.sent.setdefault(stream, []).append(batch)

    def direct(self, task: int, batch: Batch, stream: str = DEFAULT_STREAM) -> None:
        """Emit a batch to task number `task` of each component that reads the stream with a direct grouping."""
        self._fields(stream)
        self.direct_batches.setdefault(stream, []).append((task, batch))

    def _fields(self, stream: str) -> tuple[str, ...]:
        if stream not in self.streams:
            raise ValueError(f"emitted on stream '{stream}', but declared are: {', '.join(self.streams) or 'none'}")
        return self.streams[stream]

    def _flush(self, stream: str) -> None:
        if rows := self.rows.pop(stream, None):
            self.sent.setdefault(stream, []).append(TupleBatch.of(self.streams[stream], rows))

    def batches(self, stream: str) -> list[Batch]:
        """Return what was emitted on a stream for its groupings to divide, in order."""
        if stream in self.rows:
            self._flush(stream)
        return self.sent.get(stream, [])


class _Operator:
    """What spouts and bolts share."""

    #: Output streams with their fields.
    outputs: ClassVar[Streams] = {}

    #: Output streams whose tuples mean something under one plan only: with another one, what is under way is dropped.
    plan_streams: ClassVar[frozenset[str]] = frozenset()

    #: Output streams on which it names the task of each tuple (`Emitter.direct`); None: it does not say.
    addressed: ClassVar[frozenset[str] | None] = None

    #: Options that may be others when a run goes on from a checkpoint: neither results nor states depend on them.
    adjustable: ClassVar[frozenset[str]] = frozenset()

    def open(self, context: TaskContext) -> None:
        """Start: called once, before the first epoch or before `restore`."""

    def close(self) -> None:
        """End: called once, however the run ends."""

    def snapshot(self) -> State:
        """Return all state, as numbers, strings, lists, dicts, arrays and batches; an operator without any has none."""
        return {}

    def restore(self, state: State) -> None:
        """Take over the state of a snapshot."""

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Divide the states of all tasks among another number of tasks, as a pure function.

        It is asked for every component when a run goes on from a checkpoint with another parallelism anywhere. An operator
        without state can have any; one that holds state says here how it is divided.
        """
        if len(states) == division.tasks:
            return list(states)
        if not any(states):
            return [{} for _ in range(division.tasks)]
        raise DeclarationError(
            f"'{division.component}' had {len(states)} tasks at the checkpoint and has {division.tasks} now, but its operator "
            f"{cls.__name__} does not say how to divide its state; give it a class method 'redistribute(states, division)', "
            f"or set its parallelism to {len(states)}"
        )


class Spout(_Operator):
    """A source of tuples."""

    #: Whether its tuples have event time, which drives watermarks and ticks by time.
    timed: ClassVar[bool] = False

    #: "leads" for a spout of objects, "follows" for one whose tuples must not come later than objects of their time.
    pace: ClassVar[str | None] = None

    #: Whether one that reads nothing is asked again after it has returned False: it tells others the time, or more may come.
    revives: ClassVar[bool] = False

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit the tuples of one epoch; return whether there may be more.

        A spout that reads no stream is not asked again once it has returned False.
        """
        raise NotImplementedError

    def ack(self, epoch: int) -> None:
        """Learn that an epoch and all that came of it is done."""

    def saved(self, epoch: int) -> None:
        """Learn that a checkpoint of the state after an epoch is whole: the run never needs again what came before it."""

    def fail(self, epoch: int) -> None:
        """Learn that an epoch was under way when the run failed."""


class Bolt(_Operator):
    """A processing step."""

    #: The streams that it understands, and what it needs of each; None: it does not say, and any will do.
    reads: ClassVar[Mapping[str, Need] | None] = None

    #: Whether it follows the topology's plan.
    needs_plan: ClassVar[bool] = False

    #: The kinds of query that it answers, such as ``continuous range``.
    answers: ClassVar[frozenset[str]] = frozenset()

    #: Whether it writes results under the users' identifiers, so that it reads the ``names`` of all spouts of queries.
    names_results: ClassVar[bool] = False

    #: Whether there may be one task only, because it writes one output.
    single: ClassVar[bool] = False

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Process everything of an epoch."""
        for arrival in inputs.arrivals:
            self.execute_batch(arrival, emit)

    def execute_batch(self, arrival: Arrival, emit: Emitter) -> None:
        """Process the batch that one task sent on one stream."""
        names, rows = tuple_rows(arrival.batch)
        for values in rows:
            self.execute(Tuple(names, values, arrival.component, arrival.stream, arrival.task), emit)

    def execute(self, tup: Tuple, emit: Emitter) -> None:
        """Process one tuple."""
        raise NotImplementedError

    def tick(self, epoch: Epoch, emit: Emitter) -> None:
        """Do what is done from time to time: called after the tuples of the epochs that the declared tick names."""

    def finish(self, emit: Emitter) -> None:
        """Emit what is left: called after the tuples of the final epoch."""
