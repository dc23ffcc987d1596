"""The main server's table of subscriptions against plain dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.routing import subscription_book
from operators.routing.subscription_book import SubscriptionBook
from streams.batches import FOREVER
from streams.state import pack_state, unpack_state

WORKERS = 3


class _Plain:
    """The same as a dictionary: number -> [worker, cost, end]."""

    def __init__(self):
        self.rows = {}

    def load(self):
        return [sum(cost for w, cost, _ in self.rows.values() if w == worker) for worker in range(WORKERS)]

    def held(self):
        return [sum(w == worker for w, *_ in self.rows.values()) for worker in range(WORKERS)]


def _filled(rng, book, plain, count, numbers):
    fresh = np.array([n for n in rng.permutation(np.unique(numbers))[:count].tolist() if n not in plain.rows], np.int64)
    workers = rng.integers(0, WORKERS, len(fresh)).astype(np.int32)
    costs = rng.integers(0, 8, len(fresh)) / 8  # sums are exact
    far = rng.choice([100, 2**40])
    ends = np.where(rng.random(len(fresh)) < 0.4, rng.integers(0, far, len(fresh)), FOREVER)
    book.add(fresh, workers, costs, ends)
    plain.rows |= {
        n: [w, c, e] for n, w, c, e in zip(*(x.tolist() for x in (fresh, workers, costs, ends)), strict=True)
    }


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), chunk=st.sampled_from([4, 16, 1 << 16]), ascending=st.booleans())
def test_book_is_a_table_of_numbers_workers_and_costs(seed, chunk, ascending):
    """Entering, moving, ending, saving, in any order of numbers: who has what, and what it costs, is as a dictionary says."""
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscription_book, "CHUNK", chunk)
        patch.setattr(subscription_book, "_LOOKED_AT", 3)
        book, plain, now, top = SubscriptionBook(WORKERS), _Plain(), 0, 0
        for _ in range(25):
            some = rng.integers(-6, 120, 12)
            what = rng.choice(["add", "add", "remove", "move", "expire", "save"])
            if what == "add":
                top += 15
                _filled(
                    rng, book, plain, 12, np.arange(top - 15, top) if ascending else np.append(some, [-(2**40), 2**40])
                )
            elif what == "remove":
                asked = np.unique(some)
                expected = [plain.rows.pop(n, [-1])[0] for n in asked.tolist()]
                assert book.workers_of(asked).tolist() == expected
                assert book.remove(asked).tolist() == expected
            elif what == "move":
                asked = np.unique(some)
                to = rng.integers(0, WORKERS, len(asked)).astype(np.int32)
                held = [(n, w) for n, w in zip(asked.tolist(), to.tolist(), strict=True) if n in plain.rows]
                assert book.move(asked, to) == sum(plain.rows[n][0] != w for n, w in held)
                for n, w in held:
                    plain.rows[n][0] = w
            elif what == "expire":
                now += int(rng.integers(0, 30))
                gone = [n for n, (_, _, end) in plain.rows.items() if end <= now]
                assert book.expire(now) == len(gone)
                for n in gone:
                    del plain.rows[n]
            else:
                state = unpack_state(pack_state(book.snapshot()))
                book = SubscriptionBook(WORKERS)
                book.restore(state)
            assert book.load.tolist() == plain.load()
            assert book.held.tolist() == plain.held()
            asked = np.arange(-8, 130)
            assert book.workers_of(asked).tolist() == [plain.rows.get(n, [-1])[0] for n in asked.tolist()]
