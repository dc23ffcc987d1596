"""Which faults of a run are still to happen, and to whom: a pure state machine that both runtimes ask, and then act."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

from streams.event_log import EventLog
from topology.faults import Fault
from topology.messages import Message
from topology.wiring import Wiring

__all__ = ["FaultSchedule", "slow_faults", "slow_ms"]

log = EventLog()


class FaultSchedule:
    """The faults of one run.

    Attributes:
        lost: the first message that was lost since the run began or went back; None where none was.
    """

    def __init__(self, wiring: Wiring) -> None:
        faults = wiring.topology.faults
        self._wiring = wiring
        self._waiting = [fault for fault in faults if fault.kind in ("kill", "pause", "corrupt")]
        self._on_messages = [fault for fault in faults if fault.kind in ("drop", "duplicate")]
        self._touched: set[Fault] = set()
        self.lost: Message | None = None

    def begin(self, start: int) -> None:
        """Start a run, or go on with one that was resumed: what was to happen before has happened."""
        self._waiting = [fault for fault in self._waiting if fault.epoch >= start]

    def add(self, faults: Iterable[Fault]) -> None:
        """Take what is to happen beyond what was declared: kills and pauses."""
        self._waiting.extend(fault for fault in faults if fault.kind in ("kill", "pause"))

    def due(self, acked: int, damage: Callable[[int], bool]) -> list[Fault]:
        """Return who is killed or paused now that so many epochs are complete; nobody will be returned again.

        `damage` does to the newest checkpoint what ``corrupt`` asks for, by its seed; where it cannot yet, it is asked
        again after the next epoch.
        """
        waiting, found = [], []
        for fault in self._waiting:
            if fault.epoch >= acked or (fault.kind == "corrupt" and not damage(fault.seed)):
                waiting.append(fault)
                continue
            log.info("fault_injected", kind=fault.kind, task=fault.task, epoch=fault.epoch)
            if fault.kind != "corrupt":
                found.append(fault)
        self._waiting = waiting
        return found

    def tasks_of(self, fault: Fault) -> list[int]:
        """Return the tasks that a fault happens to."""
        return _tasks_of(self._wiring, fault)

    def sent(self, messages: list[Message]) -> list[Message]:
        """Return what of some messages arrives: less where one is lost, more where one comes twice."""
        if not self._on_messages:
            return messages
        arriving: list[Message] = []
        for message in messages:
            copies = 1
            for fault in self._on_messages:
                if fault.holds_in(message.epoch) and _chance(fault, message) < (fault.strength or 0.0):
                    self._touched.add(fault)
                    copies = 0 if fault.kind == "drop" else copies * 2
            if not copies and self.lost is None:
                self.lost = message
            arriving += [message] * copies
        return arriving

    def told_lost(self) -> str:
        """Say which message was lost first."""
        assert self.lost is not None
        source, target = (self._wiring.tasks[id_].name for id_ in (self.lost.source, self.lost.target))
        return f"{target} waits for a message of {source} for epoch {self.lost.epoch} that was lost"

    def restart(self) -> None:
        """Note that the run goes back: a fault that has touched messages is over, so that it happens once."""
        self._on_messages = [fault for fault in self._on_messages if fault not in self._touched]
        self.lost = None

    def end(self) -> None:
        """Log faults that never happened: their epoch did not come, or no message was hit."""
        untouched = [fault for fault in self._on_messages if fault not in self._touched]
        for fault in (*self._waiting, *untouched):
            log.warning("fault_never_happened", kind=fault.kind, task=fault.task, epoch=fault.epoch)


def _tasks_of(wiring: Wiring, fault: Fault) -> list[int]:
    component, index = fault.place
    return [
        task.id
        for task in wiring.tasks
        if task.component == fault.task or (task.component == component and index in (None, task.index))
    ]


def slow_faults(wiring: Wiring) -> dict[int, tuple[Fault, ...]]:
    """Return what slows each task that is slow in some epoch."""
    found: dict[int, tuple[Fault, ...]] = {}
    for fault in wiring.topology.faults:
        for task in _tasks_of(wiring, fault) if fault.kind == "slow" else ():
            found[task] = (*found.get(task, ()), fault)
    return found


def slow_ms(faults: Sequence[Fault], epoch: int) -> float:
    """Return how much longer a task takes for an epoch."""
    return sum(fault.strength or 0.0 for fault in faults if fault.holds_in(epoch))


def _chance(fault: Fault, message: Message) -> float:
    """Return a number in [0, 1) for a message: a hash, so that it does not depend on the schedule."""
    key = f"{fault.kind} {fault.seed} {message.source} {message.target} {message.lag} {message.epoch}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest()) / 2.0**56
