"""DSkype's topologies over the stream of Skype's experiments, from memory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.skype_stream import SPACE, K, skype_messages, skype_subscriptions, skype_vocabulary
from benchmarks.tornado_topology import CONF, PLANE, over_spout
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from streams.batches import ObjectBatch, QueryBatch, batch_fields
from streams.files.prepared import VOCABULARY, Manifest, save_manifest
from streams.injection import Injection, inject_objects
from streams.vocabulary import Encoder
from topology import Topology, extended_topology
from topology.amendments import without_streams

__all__ = ["DskypeSpout", "DskypeStream", "dskype_topology", "plan_of_start"]

#: Messages that fill the window and subscriptions that are registered in an epoch; how many of both a plan is made from.
FILLED, REGISTERED, SAMPLE = 5_000, 20_000, 20_000

#: The paper has one for its 32 subscription bolts, which keep the buffers; here aggregators do.
AGGREGATORS = 8


@dataclass(frozen=True, slots=True)
class DskypeStream:
    """A workload: the window is filled, subscriptions come, then messages in epochs.

    Attributes:
        hot: from this epoch of messages on there is a hotspot; -1: never.
        burst: the hotspot is a word that every other message has; else messages are condensed towards the centre, to 0.4 of
            their distance.
    """

    subscriptions: int = 50_000
    window: int = 20_000
    epochs: int = 60
    messages: int = 500
    k: int = K
    hot: int = -1
    burst: bool = False
    seed: int = 1

    @property
    def filling(self) -> int:
        """Epochs that fill the window."""
        return -(-self.window // FILLED)

    @property
    def begin(self) -> int:
        """The first epoch with all subscriptions."""
        return self.filling + -(-self.subscriptions // REGISTERED)


#: The word of a burst: common, but not the most common.
BURST = 100


def _hot(messages: ObjectBatch, stream: DskypeStream) -> ObjectBatch:
    """Return messages in a hotspot; they keep their places in the input."""
    burst = Injection("keyword", keyword=f"w{BURST}", share=0.5)
    hotspot = burst if stream.burst else Injection("condense", at=(0.5, 0.5), strength=0.4)
    every, encoder = np.ones(len(messages), np.bool_), Encoder(skype_vocabulary(stream.seed))
    return inject_objects(messages, messages.seq, every, [hotspot], SPACE, encoder, int(messages.seq[0]))[0]


@dataclass
class DskypeSpout(Spout):
    """Emits a stream.

    Options:
        stream: what to make.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    timed: ClassVar = True

    stream: DskypeStream

    def open(self, context: TaskContext) -> None:
        """Make all of it."""
        self._context = context
        stream = self.stream
        whole = skype_messages(stream.window + stream.epochs * stream.messages, stream.seed)
        if stream.hot >= 0:
            hot = stream.window + stream.hot * stream.messages
            whole = ObjectBatch.concat([whole.slice(0, hot), _hot(whole.slice(hot, len(whole)), stream)])
        self._messages = whole
        self._subscriptions = skype_subscriptions(stream.subscriptions, stream.seed, k=stream.k)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit messages, or subscriptions."""
        stream, number = self.stream, epoch.number
        emit.watermark = number + 1
        if stream.filling <= number < stream.begin:
            start = (number - stream.filling) * REGISTERED
            new = self._subscriptions.slice(start, min(start + REGISTERED, stream.subscriptions))
            self._context.count("queries", len(new))
            emit.batch(replace(new, ts=np.full(len(new), number)), "queries")
            return True
        if number >= stream.begin + stream.epochs or epoch.final:
            return False
        if number < stream.filling:
            some = self._messages.slice(number * FILLED, min((number + 1) * FILLED, stream.window))
        else:
            start = stream.window + (number - stream.begin) * stream.messages
            some = self._messages.slice(start, start + stream.messages)
        self._context.count("objects", len(some))
        emit.batch(replace(some, ts=np.full(len(some), number)), "objects")
        return True


def save_words(stream: DskypeStream, folder: Path) -> Path:
    """Write the words of a stream, with their frequencies, as the vocabulary of a data set without objects."""
    home = folder / f"words-{stream.seed}"
    if not home.exists():
        home.mkdir()
        words = skype_vocabulary(stream.seed)
        table = pa.table({"word": pa.array(words.words, pa.string()), "df": pa.array(words.df, pa.int64())})
        pq.write_table(table, home / VOCABULARY)
        rows = words.documents
        save_manifest(home, Manifest(rows, 0, SPACE, 0, 0, len(words.words), "int64", False, None, {}, ()))
    return home


def plan_of_start(kind: str, stream: DskypeStream, workers: int, **options: Any) -> Plan:
    """Return the plan that a partitioner makes of the first messages and subscriptions."""
    statistics = Statistics.of_batches(
        skype_messages(SAMPLE, stream.seed),
        skype_subscriptions(min(stream.subscriptions, SAMPLE), stream.seed, k=stream.k),
        SPACE,
        vocabulary=skype_vocabulary(stream.seed),
    )
    return build_plan(kind, statistics, workers, **options)


def dskype_topology(
    plan: Plan, stream: DskypeStream, folder: Path, *, prefix: bool, balanced: bool = False
) -> Topology:
    """Declare DSkype over a stream, with this plan."""
    path = folder / "plan"
    save(plan, path)
    settings = {
        "plan": path,
        "vocabulary": save_words(stream, folder),
        "space": list(SPACE.as_tuple()),
        "metric": PLANE,
        "window": {"objects": stream.window},
        "epoch": {"feedback": 2},
    }
    single = {"parallelism": 1}
    bolts = {
        "evaluator": {"parallelism": plan.workers, "prefix": prefix},
        "router": single,
        "messages": {"parallelism": 3},
        "aggregator": {"parallelism": AGGREGATORS},
    }
    tables: Mapping[str, Any] = {"topology": settings, "bolt": bolts}
    without = ["topology.space", "topology.epoch", "topology.window", "topology.partitioner"]
    found = extended_topology(CONF / "dskype.toml", tables, without=without, check=False)
    if not balanced:
        found = without_streams(found, ["statistics", "replies", "orders", "transfer", "bounds"])
    return over_spout(found, DskypeSpout, {"stream": asdict(stream)})
