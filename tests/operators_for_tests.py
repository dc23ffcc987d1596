"""Small spouts and bolts for tests of the runtime."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from operators import Bolt, Spout
from streams.batches import TupleBatch


@dataclass
class Numbers(Spout):
    """Emits 0, 1, 2, ... up to `count`, `size` an epoch; task i of n emits every n-th."""

    outputs: ClassVar = {"default": ("number", "word")}

    count: int = 100
    size: int = 10

    def open(self, context):
        self.context = context
        self.next = 0
        self.heard = []

    def next_epoch(self, epoch, inputs, emit):
        stop = min(self.next + self.size, self.count)
        for number in range(self.next, stop):
            if number % self.context.parallelism == self.context.index:
                emit(number, f"w{number % 7}")
        self.next = stop
        return self.next < self.count

    def ack(self, epoch):
        self.heard.append(("ack", epoch))

    def fail(self, epoch):
        self.heard.append(("fail", epoch))

    def snapshot(self):
        return {"next": self.next}

    def restore(self, state):
        self.next = state["next"]


@dataclass
class Tagged(Bolt):
    """Passes tuples on with the index of the task that saw them."""

    outputs: ClassVar = {"default": ("number", "word", "task")}

    def open(self, context):
        self.context = context

    def execute(self, tup, emit):
        emit(tup["number"], tup["word"], self.context.index)


class Doubler(Bolt):
    """A per-batch bolt: emits each number twice over."""

    outputs: ClassVar = {"default": ("number", "word")}

    def execute_batch(self, arrival, emit):
        batch = arrival.batch
        emit.batch(TupleBatch(batch.fields, (batch.column("number") * 2, batch.column("word"))))


@dataclass
class FailsAt(Bolt):
    """Raises in its own code when it meets a number."""

    outputs: ClassVar = {"default": ("number",)}

    number: int = 55

    def execute(self, tup, emit):
        if tup["number"] == self.number:
            raise ZeroDivisionError(f"cannot digest {self.number}")


class Prints(Bolt):
    """Prints what it takes, and that it is closed."""

    outputs: ClassVar = {}

    def execute(self, tup, emit):
        print(f"number {tup['number']}")  # noqa: T201

    def close(self):
        print("[closed]", end="")  # noqa: T201


class Counts(Bolt):
    """Counts words; emits on ticks and at the end."""

    outputs: ClassVar = {"default": ("word", "count", "when")}

    def open(self, context):
        self.counts = Counter()

    def execute(self, tup, emit):
        self.counts[tup["word"]] += 1

    def tick(self, epoch, emit):
        for word, count in sorted(self.counts.items()):
            emit(word, count, "tick")
        self.counts.clear()

    def finish(self, emit):
        for word, count in sorted(self.counts.items()):
            emit(word, count, "end")

    def snapshot(self):
        return {"counts": dict(self.counts)}

    def restore(self, state):
        self.counts = Counter(state["counts"])


class Halver(Bolt):
    """Sends numbers back to itself, halved, until they are odd; then emits them."""

    outputs: ClassVar = {"again": ("number", "word"), "default": ("number", "word")}

    def execute(self, tup, emit):
        number = tup["number"]
        if number and number % 2 == 0:
            emit(number // 2, tup["word"], stream="again")
        else:
            emit(number, tup["word"])


class Echo(Bolt):
    """Never lets a feedback loop come to rest."""

    outputs: ClassVar = {"again": ("number", "word")}

    def execute(self, tup, emit):
        emit(tup["number"], tup["word"], stream="again")


class ByParity:
    """A custom grouping: even numbers to the first task, odd ones to the last."""

    def prepare(self, context):
        self.targets = context.targets

    def choose(self, batch):
        return np.where(batch.column("number") % 2 == 0, 0, self.targets - 1)


class OutOfRange:
    """A custom grouping that names a task that does not exist."""

    def prepare(self, context):
        self.targets = context.targets

    def choose(self, batch):
        return [self.targets] * len(batch)


class Director(Bolt):
    """Names the receiving task itself: number modulo the tasks of the reader."""

    outputs: ClassVar = {"default": ("number", "word")}

    def open(self, context):
        [(_, self.targets)] = context.targets["default"]

    def execute_batch(self, arrival, emit):
        numbers = arrival.batch.column("number")
        for task in range(self.targets):
            emit.direct(task, arrival.batch.take(np.flatnonzero(numbers % self.targets == task)))


class Plain(Bolt):
    """A bolt with an output and no options."""

    outputs: ClassVar = {"default": ("number",)}

    def execute(self, tup, emit):
        emit(tup.values[0])


class NotAnOperator:
    """Derives from nothing."""


class Witness(Bolt):
    """Hands over what each epoch brought, under names: number, watermark, objects, operations, names of queries."""

    names_results: ClassVar = True

    def open(self, context):
        self.context = context

    def execute_epoch(self, epoch, inputs, emit):
        objects, queries, names = (inputs.batches(stream) for stream in ("objects", "queries", "names"))
        self.context.output(
            {
                "epoch": epoch.number,
                "watermark": epoch.watermark,
                "objects": [(s, t) for b in objects for s, t in zip(b.seq.tolist(), b.ts.tolist(), strict=True)],
                "operations": [
                    (int(number), name, int(end), int(ts))
                    for b in queries
                    for number, name, end, ts in zip(b.target, b.ids.to_list(), b.end, b.ts, strict=True)
                ],
                "names": [row for batch in names for row in batch.rows()],
            }
        )


class Speechless(Spout):
    """Has no `next_epoch`."""

    outputs: ClassVar = {"default": ("number",)}


class Silent(Speechless):
    """Does not say what it emits."""

    outputs: ClassVar = {}

    def next_epoch(self, epoch, inputs, emit):
        return False


class Argued(Bolt):
    """Cannot be made without an argument."""

    def __init__(self, letters):
        self.letters = letters


@dataclass
class Unguarded(Spout):
    """Emits `size` numbers whenever it is asked, and says when `count` are reached."""

    outputs: ClassVar = {"default": ("number",)}

    count: int = 30
    size: int = 10

    def open(self, context):
        self.next = 0

    def next_epoch(self, epoch, inputs, emit):
        for number in range(self.next, self.next + self.size):
            emit(number)
        self.next += self.size
        return self.next < self.count

    def snapshot(self):
        return {"next": self.next}

    def restore(self, state):
        self.next = state["next"]
