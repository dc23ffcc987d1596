"""Workers that divide keywords among them: together they find the hits of the definition, whatever moves between them."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topk_model import Drawn, PlainSubscriptions, messages_batch, topk_batch, vocabulary

from operators.indexes.core import standing_queries
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.batches import FOREVER
from streams.geometry import Rect
from streams.state import pack_state, unpack_state

SPACE = Rect(0.0, -1.0, 1.0, 3.0)
WORKERS = 3


class Divided:
    """Some workers and the model of all; a keyword leads to a worker by its remainder, which a change of plan shifts."""

    def __init__(self, name, seed, *, prefix):
        self.name, self.prefix, self.shift, self.words = name, prefix, 0, vocabulary()
        self.rng = Random(seed)
        self.drawn, self.model = Drawn(self.rng, SPACE), PlainSubscriptions(SPACE, "euclidean", self.words)
        self.workers = [self.worker(i) for i in range(WORKERS)]

    def worker(self, number):
        def leads(queries):
            return (queries.kw % 7 + self.shift) % WORKERS == number

        return ScoredSubscriptions(self.name, SPACE, "euclidean", self.words, leads=leads, prefix=self.prefix)

    def insert(self, queries=None):
        queries = queries or [self.drawn.query() for _ in range(self.rng.randrange(1, 12))]
        self.model.insert(queries)
        for one in self.workers:
            one.insert(topk_batch(queries))

    def retune(self):
        chosen = [n for n in self.model.rows if self.rng.random() < 0.6]
        bounds = []
        for n in chosen:
            q = self.model.rows[n]
            same = {"x": q["x"], "y": q["y"], "keywords": q["keywords"]}
            near = self.model.score(q, self.rng.choice([same, self.drawn.message()]))
            bounds.append(self.rng.choice([-np.inf, near, near, self.rng.random(), 0.9]))
            q["theta"] = bounds[-1]
        for one in self.workers:
            one.bind(np.array(chosen, np.int64), np.array(bounds, np.float64))

    def remove(self):
        gone = [n for n in self.model.rows if self.rng.random() < 0.3]
        self.model.remove(gone)
        for one in self.workers:
            one.remove(np.array(gone, np.int64))

    def move(self):
        self.shift = self.rng.randrange(WORKERS)
        for one in self.workers:
            one.refile()

    def save(self):
        states = [unpack_state(pack_state(one.snapshot())) for one in self.workers]
        self.workers = [self.worker(i) for i in range(WORKERS)]
        for one, state in zip(self.workers, states, strict=True):
            one.restore(state)

    def hits(self, messages=None):
        """Compare the hits of all; return how often each is found."""
        messages = messages or [self.drawn.message() for _ in range(self.rng.randrange(1, 12))]
        batch, pairs = messages_batch(messages, self.words), []
        for one in self.workers:
            found = one.hits(batch, np.array([m["ts"] for m in messages], np.int64))
            numbers = one.numbers_of(found.slot).tolist()
            pairs += zip(found.row.tolist(), numbers, found.score.tolist(), strict=True)
        assert sorted(set(pairs)) == self.model.hits(messages)
        if self.name == "balls":  # others file a subscription under all of its keywords, if under any
            assert len(pairs) == len(set(pairs))


STEPS = ("insert",) * 2 + ("hits",) * 4 + ("retune",) * 3 + ("remove", "move", "move", "save")


@pytest.mark.parametrize("prefix", [False, True], ids=["words", "prefixes"])
@pytest.mark.parametrize("name", list(DISSEMINATIONS))
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_workers_find_together_what_one_would(monkeypatch, name, prefix, seed):
    """Whatever comes, goes, moves and is saved in between; balls find each pair at one worker only."""
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)
    divided = Divided(name, seed, prefix=prefix)
    for _ in range(25):
        getattr(divided, divided.rng.choice(STEPS))()
    divided.hits()


def test_each_keyword_is_filed_by_one_worker():
    """What is tested by all workers together is what one worker with all keywords would test."""
    divided = Divided("balls", 4, prefix=False)
    divided.insert([divided.drawn.query() for _ in range(200)])
    alone = ScoredSubscriptions("balls", SPACE, "euclidean", divided.words)
    alone.insert(topk_batch(list(divided.model.rows.values())))
    messages = messages_batch([divided.drawn.message() for _ in range(50)], divided.words)
    for one in (*divided.workers, alone):
        one.hits(messages, np.zeros(50, np.int64))
    tested = [one.cost().candidates for one in divided.workers]
    assert min(tested) > 0
    assert sum(tested) <= alone.cost().candidates
    divided.move()
    assert sum(one.filed for one in divided.workers) < 3 * len(divided.model.rows)


def test_loose_prefixes_leave_frequent_keywords_out():
    """Above what the frequent keyword alone can bring, a subscription is filed under the rare one, by its worker only."""
    divided = Divided("balls", 1, prefix=True)
    query = divided.drawn.query() | {"alpha": 0.2, "end": FOREVER, "keywords": frozenset([0, 43])}  # 43 is 1 modulo 7
    divided.insert([query])
    assert [one.filed for one in divided.workers] == [1, 1, 0]
    for one in divided.workers:
        one.bind(np.array([query["number"]]), np.array([0.9]))
    divided.model.rows[query["number"]]["theta"] = 0.9
    assert [one.filed for one in divided.workers] == [0, 1, 0]
    divided.hits([{"x": query["x"], "y": query["y"], "ts": 0, "keywords": words} for words in ({0}, {43}, {0, 43})])
    divided.shift = 1
    for one in divided.workers:
        one.refile()
    assert [one.filed for one in divided.workers] == [0, 0, 1]


def test_more_keywords_than_bits_are_all_filed():
    """A subscription with more keywords than can be told apart is filed under each of them by every worker."""
    divided = Divided("balls", 1, prefix=True)
    many = frozenset(range(60)) | frozenset(range(2**62, 2**62 + 40))
    divided.insert([divided.drawn.query() | {"end": FOREVER, "keywords": many}])
    assert [one.filed for one in divided.workers] == [1, 1, 1]
    message = divided.drawn.message() | {"ts": 0}
    for word in (0, 59, 2**62, 2**62 + 39):
        batch = messages_batch([message | {"keywords": frozenset([word])}], divided.words)
        assert [len(one.hits(batch, np.zeros(1, np.int64)).slot) for one in divided.workers] == [1, 1, 1]


def test_work_is_known_by_keyword():
    """Which keyword a subscription was looked at for is told, and saved."""
    divided = Divided("balls", 2, prefix=False)
    divided.insert([divided.drawn.query() for _ in range(60)])
    divided.hits([divided.drawn.message() for _ in range(40)])
    for number, one in enumerate(divided.workers):
        owners, words, counts = one.weights_by_word()
        assert len(owners) > 0
        assert ((words % 7) % WORKERS == number).all()
        for owner, word in zip(owners.tolist(), words.tolist(), strict=True):
            assert word in divided.model.rows[owner]["keywords"]
        assert counts.sum() == one.weights()[1].sum()
    told = [[part.tolist() for part in one.weights_by_word()] for one in divided.workers]
    divided.save()
    assert [[part.tolist() for part in one.weights_by_word()] for one in divided.workers] == told
