"""Faults put into a run on purpose, to see that it withstands them: what may happen to processes, messages and checkpoints.

They are declared where hotspots are (`[[inject]]`), but they disturb the run, never its input: results must not change, so the
oracle knows nothing of them.
"""

import math
import re
import typing
from dataclasses import dataclass
from typing import Literal

from streams.errors import DeclarationError, brief

__all__ = ["FAULT_KINDS", "NEED_CHECKPOINTS", "ON_TASKS", "Fault"]

FaultKind = Literal["kill", "pause", "slow", "drop", "duplicate", "corrupt"]
FAULT_KINDS: tuple[str, ...] = typing.get_args(FaultKind)

#: Kinds that happen to tasks, and those after which a run goes back to a checkpoint.
ON_TASKS = ("kill", "pause", "slow")
NEED_CHECKPOINTS = ("kill", "drop", "corrupt")

#: How long a pause may be, and how slow a task, in milliseconds: an hour and a minute.
MAX_PAUSE_MS = 3_600_000
MAX_SLOW_MS = 60_000.0
DEFAULT_PAUSE_MS = 1_000

_TASK = re.compile(r"(?P<component>.+)\[(?P<index>[0-9]{1,6})\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Each happens once in a run, also when the run goes back and comes to its epoch again; only `slow` is a property of
    epochs, and holds whenever they are worked on.

    Attributes:
        kind: ``kill`` ends the process of a task (the local runtime is one process, so all its memory is lost);
            ``pause`` stops it for a while; ``slow`` makes it take longer for each epoch; ``drop`` loses messages,
            ``duplicate`` delivers them twice; ``corrupt`` damages a file of the newest checkpoint.
        task: for kill, pause and slow: a component, all of whose tasks it happens to, or one task: ``evaluator[2]``.
        epoch: it happens when this epoch is complete; slow, drop and duplicate: to this epoch and those after it.
        duration: pause: milliseconds, `DEFAULT_PAUSE_MS` where it is not given; slow, drop, duplicate: epochs, one for
            drop and duplicate and all for slow where it is not given. The local runtime looks at no clock: a turn of
            its scheduler stands for a millisecond.
        strength: slow: milliseconds an epoch; drop and duplicate: the probability of a message to suffer.
        seed: which messages, or which bytes.
    """

    kind: FaultKind
    task: str | None = None
    epoch: int = 0
    duration: int | None = None
    strength: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        on_task = self.kind in ON_TASKS
        if on_task and not self.task:
            raise DeclarationError(
                f"a fault of kind '{self.kind}' needs 'task': a component, or a task: 'evaluator[2]'"
            )
        if not on_task and self.task is not None:
            raise DeclarationError(f"a fault of kind '{self.kind}' takes no 'task' (only {', '.join(ON_TASKS)} do)")
        for name in ("epoch", "seed"):
            if getattr(self, name) < 0:
                raise DeclarationError(f"{name} = {brief(getattr(self, name))}, expected at least 0")
        self._check_duration()
        self._check_strength()

    def _check_duration(self) -> None:
        if self.duration is None:
            return
        if self.kind in ("kill", "corrupt"):
            raise DeclarationError(f"a fault of kind '{self.kind}' takes no 'duration': it happens at once")
        if self.duration < 1:
            raise DeclarationError(f"duration = {brief(self.duration)}, expected at least 1")
        if self.kind == "pause" and self.duration > MAX_PAUSE_MS:
            raise DeclarationError(f"duration = {brief(self.duration)}, expected at most {MAX_PAUSE_MS} (milliseconds)")

    def _check_strength(self) -> None:
        most = {"slow": MAX_SLOW_MS, "drop": 1.0, "duplicate": 1.0}.get(self.kind)
        if most is None:
            if self.strength is not None:
                raise DeclarationError(f"a fault of kind '{self.kind}' takes no 'strength'")
            return
        what = "milliseconds an epoch" if self.kind == "slow" else "a probability"
        if self.strength is None:
            raise DeclarationError(f"a fault of kind '{self.kind}' needs 'strength': {what}")
        if not (math.isfinite(self.strength) and 0.0 < self.strength <= most):
            raise DeclarationError(f"strength = {self.strength}, expected more than 0 and at most {most:g} ({what})")

    @property
    def place(self) -> tuple[str, int | None]:
        """Return the component it happens to, and the place of one task of it; None for all."""
        assert self.task is not None
        found = _TASK.fullmatch(self.task)
        return (found["component"], int(found["index"])) if found else (self.task, None)

    @property
    def pause_ms(self) -> int:
        """Return how long a pause takes."""
        return DEFAULT_PAUSE_MS if self.duration is None else self.duration

    def holds_in(self, epoch: int) -> bool:
        """Tell whether slow, drop or duplicate apply to an epoch."""
        if epoch < self.epoch:
            return False
        duration = 1 if self.duration is None and self.kind != "slow" else self.duration
        return duration is None or epoch < self.epoch + duration
