"""What a topology is, said once: frozen values that the builder and TOML both make and that every runtime reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from streams.errors import DeclarationError
from streams.files.read_limits import DEFAULT_LIMITS, ReadLimits
from streams.geometry import Metric, Rect
from streams.injection import Injection
from streams.window import Window
from topology.faults import Fault

__all__ = [
    "COMPONENT_KEYS",
    "CheckpointSettings",
    "Component",
    "EpochSettings",
    "Input",
    "Limits",
    "PartitionerSettings",
    "RaySettings",
    "Settings",
    "Tick",
    "Topology",
]

UNIT_SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def _at_least(name: str, value: float | None, least: float) -> None:
    if value is not None and not value >= least:  # so that NaN is none
        raise DeclarationError(f"{name} = {value}, expected at least {least}")


@dataclass(frozen=True, slots=True)
class EpochSettings:
    """How the input is cut: an epoch has at most so many objects, query operations and milliseconds of event time.

    Attributes:
        feedback: how many epochs later the tuples of feedback edges arrive. A task waits for what was fed back, so with 1
            the tasks of a cycle take turns; with more of them as many epochs can be under way in the cycle.
    """

    objects: int = 10_000
    queries: int = 100_000
    ms: int | None = None
    feedback: int = 1

    def __post_init__(self) -> None:
        for name in ("objects", "queries", "ms", "feedback"):
            _at_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a run may hold.

    Attributes:
        frame_bytes: the largest message between two tasks.
        drain_epochs: how many epochs feedback may go on after the input has ended.
        collected: how many results a collecting sink keeps.
        state_bytes: the largest file of a checkpoint: the state of one task, or a part of it.
        piped_bytes: how much input from a pipe is kept in a temporary file.

    The others are those of `streams.files.read_limits.ReadLimits`.
    """

    frame_bytes: int = 1 << 30
    drain_epochs: int = 1_000
    collected: int = 10_000_000
    state_bytes: int = 1 << 40
    piped_bytes: int = 1 << 36
    line_bytes: int = DEFAULT_LIMITS.line_bytes
    keywords: int = DEFAULT_LIMITS.keywords
    id_bytes: int = DEFAULT_LIMITS.id_bytes
    columns: int = DEFAULT_LIMITS.columns
    row_group_values: int = DEFAULT_LIMITS.row_group_values
    live_queries: int = DEFAULT_LIMITS.live_queries
    words: int = DEFAULT_LIMITS.words
    reordered: int = DEFAULT_LIMITS.reordered

    def __post_init__(self) -> None:
        self.reading()
        _at_least("frame_bytes", self.frame_bytes, 1 << 10)
        _at_least("drain_epochs", self.drain_epochs, 1)
        _at_least("collected", self.collected, 1)
        _at_least("state_bytes", self.state_bytes, 1 << 10)
        _at_least("piped_bytes", self.piped_bytes, 1 << 10)

    def reading(self) -> ReadLimits:
        """Return the limits of the readers."""
        return ReadLimits(**{limit.name: getattr(self, limit.name) for limit in fields(ReadLimits)})


@dataclass(frozen=True, slots=True)
class PartitionerSettings:
    """The plan that a topology asks for.

    Attributes:
        kind: which partitioner.
        side: how fine a grid it looks at, in cells.
        sample: so many objects, and queries, at the start of the input are looked at.
        options: of the partitioner's own.
    """

    kind: str
    side: int = 1_000
    sample: int = 50_000
    options: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        _at_least("side", self.side, 1)
        _at_least("sample", self.sample, 1)


@dataclass(frozen=True, slots=True)
class RaySettings:
    """How tasks sit on a Ray cluster.

    Attributes:
        workers: how many processes share the tasks, never more than there are tasks; 0: one for each CPU of the cluster.
        cpus_per_task: the share of a core that each task reserves.
        start_seconds: how long to wait for the workers to start.
        silent_seconds: workers that say nothing for so long while epochs are under way are asked whether they live.
    """

    workers: int = 0
    cpus_per_task: float = 0.05
    start_seconds: float = 120.0
    silent_seconds: float = 5.0

    def __post_init__(self) -> None:
        _at_least("workers", self.workers, 0)
        _at_least("silent_seconds", self.silent_seconds, 0.1)
        _at_least("cpus_per_task", self.cpus_per_task, 0)
        _at_least("start_seconds", self.start_seconds, 1)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Where and how often a run saves its state, so that it can go on after a full stop.

    Attributes:
        directory: a folder, relative to the topology's file, or a URL that Arrow knows (``s3://``, ``gs://``, ``hdfs://``).
        epochs: a checkpoint every so many epochs.
        seconds: a checkpoint every so many seconds; with neither, every `EVERY_SECONDS`, with both, whichever is first.
        keep: how many are kept.
        on_failure: what a checkpoint that cannot be written does: ``stop`` the run, or ``skip`` that checkpoint.
        max_restarts: how often a run goes back to the newest one by itself, because a worker or a message was lost.
    """

    EVERY_SECONDS: ClassVar[float] = 10.0

    directory: str
    epochs: int | None = None
    seconds: float | None = None
    keep: int = 3
    on_failure: Literal["stop", "skip"] = "stop"
    max_restarts: int = 10

    def __post_init__(self) -> None:
        if not self.directory:
            raise DeclarationError("directory = '', expected a folder or a URL")
        _at_least("epochs", self.epochs, 1)
        _at_least("keep", self.keep, 1)
        _at_least("max_restarts", self.max_restarts, 0)
        if self.seconds is not None and not self.seconds > 0:
            raise DeclarationError(f"seconds = {self.seconds}, expected more than 0")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the whole topology: the keys under ``[topology]``."""

    name: str = "topology"
    runtime: Literal["local", "ray"] = "local"
    address: str | None = None
    space: Rect = UNIT_SPACE
    metric: Metric | Literal["auto"] | None = None
    seed: int = 0
    max_pending: int = 8
    plan: str | None = None
    partitioner: PartitionerSettings | None = None
    vocabulary: Path | None = None
    epoch: EpochSettings = field(default_factory=EpochSettings)
    window: Window | None = None
    limits: Limits = field(default_factory=Limits)
    ray: RaySettings = field(default_factory=RaySettings)
    checkpoint: CheckpointSettings | None = None

    def __post_init__(self) -> None:
        _at_least("max_pending", self.max_pending, 1)
        _at_least("seed", self.seed, 0)

    @property
    def measure(self) -> Metric:
        """How distances are measured: Euclidean, unless something else is declared or was found (`topology.metric`)."""
        if self.metric == "auto":
            raise DeclarationError("'auto' was not settled before the run; use with_metric", ("topology", "metric"))
        return self.metric or "euclidean"


@dataclass(frozen=True, slots=True)
class Input:
    """One edge into a bolt: a stream of a component, and how its tuples are divided among the bolt's tasks.

    Attributes:
        fields: what a ``fields`` or ``partial-key`` grouping looks at.
        feedback: the tuples arrive in a later epoch (`EpochSettings.feedback`), which is what makes a cycle possible.
        using: the class of a ``custom`` grouping, as ``module:Class`` or ``file.py:Class``.
    """

    component: str
    stream: str = "default"
    grouping: str = "shuffle"
    fields: tuple[str, ...] = ()
    feedback: bool = False
    using: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """How often a bolt's `tick` is called: every so many epochs, or milliseconds of event time."""

    epochs: int | None = None
    ms: int | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.ms is None):
            raise DeclarationError("a tick has either 'epochs' or 'ms'")
        _at_least("epochs", self.epochs, 1)
        _at_least("ms", self.ms, 1)


#: What every component may declare, beside the options of its operator.
COMPONENT_KEYS = ("operator", "parallelism", "inputs", "tick", "streams")


@dataclass(frozen=True, slots=True)
class Component:
    """A spout or a bolt: an operator, how many tasks of it, and what they read.

    `streams` replaces the output streams that the operator's class declares. `classes` holds Python classes that were
    given to the builder as such (the operator under its reference, custom groupings under theirs), for programs whose
    classes cannot be imported elsewhere.
    """

    name: str
    kind: Literal["spout", "bolt"]
    operator: str
    parallelism: int = 1
    inputs: tuple[Input, ...] = ()
    tick: Tick | None = None
    streams: Mapping[str, tuple[str, ...]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: Mapping[str, type[Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Topology:
    """A whole topology.

    Attributes:
        injections: what disturbs its input.
        faults: what disturbs its run, and must not change its results.
        base: the folder from which its relative paths start.
    """

    settings: Settings
    components: tuple[Component, ...]
    injections: tuple[Injection, ...] = ()
    faults: tuple[Fault, ...] = ()
    base: Path | None = field(default=None, compare=False)

    def component(self, name: str) -> Component:
        """Return a component by name."""
        for component in self.components:
            if component.name == name:
                return component
        raise DeclarationError(
            f"there is no component '{name}'; there are {', '.join(c.name for c in self.components)}"
        )
