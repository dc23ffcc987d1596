"""The classic: sentences to words, words to counts, with per-tuple bolts, a fields grouping and a tick.

    python examples/word_count.py [local|ray]

The sentences are the descriptions of a week of earthquakes.
"""

import csv
import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from operators import Bolt, Emitter, Epoch, Inputs, Spout, TaskContext, Tuple
from topology import Topology, TopologyBuilder, run

DATA = Path(__file__).parent / "data" / "earthquakes_week.csv.gz"


class Sentences(Spout):
    """Emits the descriptions, a hundred an epoch."""

    outputs: ClassVar = {"default": ("sentence",)}

    def open(self, context: TaskContext) -> None:
        """Read the file."""
        with gzip.open(DATA, "rt", encoding="utf-8") as file:
            self.sentences = [row["text"] for row in csv.DictReader(file)]

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit the next hundred."""
        for sentence in self.sentences[epoch.number * 100 : (epoch.number + 1) * 100]:
            emit(sentence)
        return (epoch.number + 1) * 100 < len(self.sentences)


class Split(Bolt):
    """Emits the words of each sentence."""

    outputs: ClassVar = {"default": ("word",)}

    def execute(self, tup: Tuple, emit: Emitter) -> None:
        """Split one sentence."""
        for word in tup["sentence"].lower().split():
            if word.isalpha():
                emit(word)


class Count(Bolt):
    """Counts words; on each tick, and at the end, it says what it has counted since the last time."""

    outputs: ClassVar = {"default": ("word", "count")}

    def open(self, context: TaskContext) -> None:
        """Start at nothing."""
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple, emit: Emitter) -> None:
        """Count one word."""
        self.counts[tup["word"]] += 1

    def tick(self, epoch: Epoch, emit: Emitter) -> None:
        """Emit and start afresh."""
        for word, count in self.counts.items():
            emit(word, count)
        self.counts.clear()

    def finish(self, emit: Emitter) -> None:
        """Emit what is left."""
        self.tick(Epoch(0), emit)

    def snapshot(self) -> dict[str, Any]:
        """Return the counts."""
        return {"counts": dict(self.counts)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the counts."""
        self.counts = Counter(state["counts"])


def word_count() -> Topology:
    """Declare the topology."""
    builder = TopologyBuilder("word-count")
    builder.spout("sentences", Sentences)
    builder.bolt("split", Split, parallelism=2).shuffle("sentences")
    builder.bolt("count", Count, parallelism=3, tick={"epochs": 5}).fields("split", ["word"])
    builder.bolt("sink", "collect").global_("count")
    return builder.build()


def main(runtime: str = "local") -> Counter[str]:
    """Run it and return the counts."""
    outcome = run(word_count(), runtime=runtime)
    total: Counter[str] = Counter()
    for batch in outcome.collected:
        for word, count in batch.rows():  # type: ignore[union-attr]
            total[word] += count
    return total


if __name__ == "__main__":
    for word, count in main(*sys.argv[1:]).most_common(10):
        print(f"{count:5}  {word}")
