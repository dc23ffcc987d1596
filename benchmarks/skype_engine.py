"""One task of Skype over a stream, and what a message takes in it: what `skype` and `skype_scale` measure.

A core has subscriptions, initialised from a full window. Then messages come in epochs: dissemination, buffers, expiry,
re-evaluation, and the whole lists that have changed, once an epoch. What is measured comes after a warm-up; times are CPU times
of the thread.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.skype_stream import SPACE, skype_messages, skype_subscriptions, skype_vocabulary
from operators.evaluation.topk_core import TopkCore
from operators.indexes.topk.buffer_rules import make_buffers
from operators.indexes.topk.message_indexes import make_message_index
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.window_log import WindowLog
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import union_of
from streams.errors import RunError
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary
from streams.window import Window

__all__ = [
    "BASELINE", "OURS", "PAPER", "Engine", "Measured", "Parts", "Scene", "Setting", "agree", "measure", "measure_scene",
]  # fmt: skip

#: Messages of an epoch, and how many epochs a window has at least.
EPOCH, EPOCHS = 4000, 25
#: Subscriptions that are registered at a time; lists that are put together at a time.
REGISTERED, LISTED = 50_000, 1 << 14
#: Messages that are made at a time.
BLOCK = 100_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What a core is made of."""

    index: str
    buffers: str
    messages: str
    index_options: Mapping[str, Any] = field(default_factory=dict)
    buffer_settings: Mapping[str, Any] = field(default_factory=dict)


OURS = Parts("balls", "rank", "keyword-grids")
PAPER = Parts("igpt", "cskyband", "keyword-grids")
BASELINE = Parts("ciq", "kmax", "keyword-grids")


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload, and how long it is looked at.

    Attributes:
        alpha: of all subscriptions, in place of one drawn for each.
        even: the words of subscriptions are drawn evenly from the vocabulary, in place of those of messages.
        by_time: a window by time; a message comes every millisecond.
        together: messages of an epoch; without, a part of the window.
        warm: turnovers of the window before it is measured, for one more.
        seconds: what is measured takes no longer; the warm-up no longer than so much a turnover.
    """

    subscriptions: int
    window: int
    k: int = 20
    most_words: int = 5
    alpha: float | None = None
    even: bool = False
    by_time: bool = False
    together: int | None = None
    seed: int = 1
    warm: float = 1.0
    seconds: float = 20.0

    @property
    def epoch(self) -> int:
        """Messages of an epoch."""
        return self.together or max(min(EPOCH, self.window // EPOCHS), 1)

    @property
    def workload(self) -> "Setting":
        """The same, however long it is looked at."""
        return replace(self, warm=0.0, seconds=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What a core is asked, of what stream, and where.

    Attributes:
        messages: the epochs of the stream from a message on.
    """

    subscriptions: QueryBatch
    messages: Callable[[int], Iterator[ObjectBatch]]
    words: Vocabulary
    space: Rect = SPACE
    metric: Metric = "euclidean"


@dataclass(frozen=True, slots=True)
class Measured:
    """One core in one setting.

    Attributes:
        initialised_us: microseconds a subscription to register and to search the window for it.
        take_us, settle_us, list_us: a message; of arrival, of expiry and re-evaluation, and of the lists that have changed.
        changed: lists a message.
        searches: re-evaluations a subscription in a turnover of the window.
        entries: messages in a buffer, on average.
        turnovers: of the window, from the start to the end of what was measured.
        prints: of each epoch from the first one on, how many lists it has changed, and the sum of the messages in them.
    """

    initialised_us: float
    take_us: float
    settle_us: float
    list_us: float
    changed: float
    searches: float
    entries: float
    bytes_per_subscription: float
    turnovers: float
    prints: tuple[tuple[int, int], ...]

    @property
    def message_us(self) -> float:
        """Microseconds a message, everything included."""
        return self.take_us + self.settle_us + self.list_us

    @property
    def messages_per_s(self) -> float:
        """Messages a second, everything included."""
        return 1e6 / self.message_us


class Engine:
    """A core over a stream."""

    def __init__(self, parts: Parts, setting: Setting, scene: Scene) -> None:
        words, space = scene.words, scene.space
        window = Window(ms=setting.window) if setting.by_time else Window(objects=setting.window)
        self.table = ScoredSubscriptions(parts.index, space, scene.metric, words, **parts.index_options)
        self.buffers = make_buffers(parts.buffers, **parts.buffer_settings)
        log = WindowLog(window)
        messages = make_message_index(parts.messages, space, scene.metric)
        self.core = TopkCore(self.table, self.buffers, messages, log, words)

    def fill(self, batch: ObjectBatch) -> None:
        """Take messages in, with nobody to ask for their lists."""
        self.core.take(batch)
        self.core.settle(int(batch.ts[-1]), None)

    def register(self, subscriptions: QueryBatch, now: int) -> None:
        """Take subscriptions in, and search the window for them."""
        for start in range(0, len(subscriptions), REGISTERED):
            self.core.insert(subscriptions.slice(start, min(start + REGISTERED, len(subscriptions))))
            self.core.settle(now, None)

    def step(self, batch: ObjectBatch) -> tuple[NDArray[np.float64], tuple[int, int]]:
        """Do an epoch; return seconds of arrival, of expiry with re-evaluation and of lists, and the print of the lists."""
        moments = [time.thread_time()]
        found = self.core.take(batch)
        moments.append(time.thread_time())
        more = self.core.settle(int(batch.ts[-1]), None)
        moments.append(time.thread_time())
        changed = union_of(found.changed, more.changed)
        took, listed = np.diff([*moments, time.thread_time()]), 0
        for start in range(0, len(changed), LISTED):
            began = time.thread_time()
            lists = self.core.results(changed[start : start + LISTED])
            took[2] += time.thread_time() - began
            listed += int(lists.seq.sum())
        return took, (len(changed), listed)

    @property
    def nbytes(self) -> int:
        """Bytes of subscriptions and buffers; the window is apart."""
        return self.table.nbytes + self.buffers.nbytes

    @property
    def entries(self) -> float:
        """Messages in a buffer, on average over some."""
        numbers = self.core.numbers()[:10_000]
        return float(np.diff(self.buffers.whole(self.table.slots(numbers)).off).mean())


@lru_cache(maxsize=6)
def _block(block: int, seed: int) -> ObjectBatch:
    return skype_messages(BLOCK, seed, block)


def epochs_of(setting: Setting, first: int = 0) -> Iterator[ObjectBatch]:
    """Yield the messages of the stream from one on, for ever, in epochs."""
    while True:
        block, start = divmod(first, BLOCK)
        stop = min(start + setting.epoch, BLOCK)
        yield _block(block, setting.seed).slice(start, stop)
        first += stop - start


def scene_of(setting: Setting, subscriptions: QueryBatch) -> Scene:
    """Return the synthetic stream with some subscriptions."""
    return Scene(subscriptions, lambda first: epochs_of(setting, first), skype_vocabulary(setting.seed))


def filled(parts: Parts, setting: Setting, scene: Scene) -> tuple[Engine, float]:
    """Return an engine with a full window and subscriptions, and the seconds that these have taken."""
    engine, held, now = Engine(parts, setting, scene), 0, 0
    for batch in scene.messages(0):
        engine.fill(batch.slice(0, min(len(batch), setting.window - held)))
        held, now = held + len(batch), int(batch.ts[-1])
        if held >= setting.window:
            break
    start = time.thread_time()
    engine.register(scene.subscriptions, now)
    return engine, time.thread_time() - start


def measure(parts: Parts, setting: Setting) -> Measured:
    """Fill the window, register, warm up, and look at what a message of the synthetic stream takes."""
    drawn = skype_subscriptions(
        setting.subscriptions, setting.seed, k=setting.k, most_words=setting.most_words, alpha=setting.alpha,
        even=setting.even,
    )  # fmt: skip
    return measure_scene(parts, setting, scene_of(setting, drawn))


def measure_scene(parts: Parts, setting: Setting, scene: Scene) -> Measured:
    """Measure a core on any stream; it has more messages than the window holds and the warm-up takes."""
    engine, initialised = filled(parts, setting, scene)
    spent, counted, seen, searched, changed = np.zeros(3), 0, 0, 0, 0
    warm, prints = round(setting.warm * setting.window), []
    began, until = time.thread_time(), 0.0
    for batch in scene.messages(setting.window):
        measuring = seen >= warm or time.thread_time() - began > setting.warm * setting.seconds
        if measuring and not counted:
            searched, until = engine.core.searches, time.thread_time() + setting.seconds
        took, print_ = engine.step(batch)
        prints.append(print_)
        seen += len(batch)
        if measuring:
            spent += took
            counted, changed = counted + len(batch), changed + print_[0]
            if counted >= setting.window or time.thread_time() > until:
                break
    us = spent / counted * 1e6
    return Measured(
        initialised_us=initialised / setting.subscriptions * 1e6,
        take_us=us[0], settle_us=us[1], list_us=us[2], changed=changed / counted,
        searches=(engine.core.searches - searched) / setting.subscriptions * setting.window / counted,
        entries=engine.entries, bytes_per_subscription=engine.nbytes / setting.subscriptions,
        turnovers=seen / setting.window, prints=tuple(prints),
    )  # fmt: skip


def agree(found: Mapping[str, Measured]) -> None:
    """Raise `RunError` where cores of one workload have changed other lists in an epoch that both have seen."""
    longest = max(found.values(), key=lambda one: len(one.prints)).prints
    for name, one in found.items():
        for epoch, (lists, expected) in enumerate(zip(one.prints, longest, strict=False)):
            if lists != expected:
                raise RunError(f"epoch {epoch} has changed {lists} (lists, messages) of '{name}', not {expected}")
