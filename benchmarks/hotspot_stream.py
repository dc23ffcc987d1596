"""A stream with a hotspot in mid-run, from memory, and a run of it looked at epoch by epoch."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.observed import Observed, observed
from benchmarks.synthetic_stream import synthetic_objects, synthetic_queries
from benchmarks.tornado_topology import SPACE, Setup, plan_from_start, tornado_topology
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from streams.batches import ObjectBatch, QueryBatch, batch_fields
from streams.injection import Injection, inject_objects
from streams.vocabulary import Encoder

__all__ = ["Hotspot", "HotspotSpout", "observe"]

#: Queries that are registered in an epoch.
BLOCK = 50_000


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A stream that is calm for some epochs and then condensed towards the centre of the space.

    Attributes:
        factor: what is left of the distance to the centre (Tornado, section 5.4: 0.4 is the strongest).
        queries: registered before the first object.
        batch: objects of an epoch.
        calm: epochs of objects before the hotspot; `hot`: epochs of it.
    """

    factor: float = 0.4
    queries: int = 100_000
    batch: int = 40_000
    calm: int = 24
    hot: int = 60
    seed: int = 1

    @property
    def start(self) -> int:
        """Return the first epoch of the hotspot."""
        return -(-self.queries // BLOCK) + self.calm


#: Batches of different objects; they come over and over.
BATCHES = 10


@lru_cache(maxsize=2)
def _objects(hotspot: Hotspot) -> ObjectBatch:
    return synthetic_objects(BATCHES * hotspot.batch, hotspot.seed)


@lru_cache(maxsize=2)
def _queries(count: int, seed: int) -> QueryBatch:
    return synthetic_queries(count, seed)


@dataclass
class HotspotSpout(Spout):
    """Registers all queries, then emits the objects of a hotspot's stream.

    Options:
        hotspot: what to make.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    timed: ClassVar = True

    hotspot: Hotspot

    def open(self, context: TaskContext) -> None:
        """Make everything."""
        self._context = context
        self._queries = _queries(self.hotspot.queries, self.hotspot.seed)
        plain = _objects(self.hotspot)
        condense = Injection("condense", at=(0.5, 0.5), strength=self.hotspot.factor)
        condensed, _ = inject_objects(plain, plain.seq, np.ones(len(plain), np.bool_), [condense], SPACE, Encoder())
        self._streams = [
            [stream.slice(i * self.hotspot.batch, (i + 1) * self.hotspot.batch) for i in range(BATCHES)]
            for stream in (plain, condensed)
        ]

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit a block of queries, or a batch of objects."""
        emit.watermark = 0
        hotspot = self.hotspot
        if epoch.number * BLOCK < hotspot.queries:
            block = self._queries.slice(epoch.number * BLOCK, (epoch.number + 1) * BLOCK)
            self._context.count("queries", len(block))
            emit.batch(block, "queries")
            return True
        if epoch.number >= hotspot.start + hotspot.hot or epoch.final:
            return False
        self._context.count("objects", hotspot.batch)
        emit.batch(self._streams[epoch.number >= hotspot.start][epoch.number % BATCHES], "objects")
        return True


def observe(setup: Setup, hotspot: Hotspot, folder: Path) -> Observed:
    """Run a setup over a hotspot on the local runtime and keep what each task says of each epoch."""
    plan = plan_from_start(setup, _objects(hotspot), _queries(hotspot.queries, hotspot.seed))
    return observed(tornado_topology(setup, HotspotSpout, {"hotspot": asdict(hotspot)}, plan, folder))
