"""What the main server's table takes, in memory and in checkpoints."""

import numpy as np

from operators.routing.subscription_book import CHUNK, SubscriptionBook
from streams.batches import FOREVER
from streams.state import pack_apart, pack_part


def _book(count, ends=FOREVER):
    book = SubscriptionBook(4)
    for first in range(0, count, 50_000):
        numbers = np.arange(first, min(first + 50_000, count))
        book.add(numbers * 2, (numbers * 7 // 5 % 4).astype(np.int32), numbers / count, np.full(len(numbers), ends))
    return book


def test_a_subscription_takes_sixteen_bytes_at_most():
    """Ten bytes, sixteen with an end, also after all of them have been looked through for ends."""
    assert _book(300_000).nbytes == 300_000 * 10
    book = _book(300_000, ends=1_700_000_000_000)
    book.add(np.array([-1]), np.zeros(1, np.int32), np.ones(1), np.array([5]))
    assert book.expire(6) == 1
    assert book.nbytes <= 300_000 * 16


def test_what_has_ended_takes_no_room_for_ever():
    """When most subscriptions have ended, the rest is put together; chunks without any are gone."""
    book = _book(10 * CHUNK)
    left = np.arange(0, 10 * CHUNK, 10) * 2
    book.remove(np.setdiff1d(np.arange(10 * CHUNK) * 2, left))
    assert len(book) == len(left)
    assert book.nbytes <= 4 * 10 * len(left)
    assert (book.workers_of(left) == left // 2 * 7 // 5 % 4).all()
    book.remove(left)
    assert (book.nbytes, book.load.tolist()) == (0, [0.0] * 4)


def test_a_later_checkpoint_writes_what_has_changed():
    """Full chunks are parts: written once, then the few rows that have moved or ended; many such make a new part."""
    book = _book(5 * CHUNK + 1_000)
    first = pack_apart(book.snapshot())
    assert len(first.parts) == 10
    assert first.size < 40_000
    book.remove(np.arange(0, 5 * CHUNK, 1_001) * 2)
    book.move(np.arange(7, 5 * CHUNK, 1_001) * 2, np.full(5 * CHUNK // 1_001 + 1, 3, np.int32))
    second = pack_apart(book.snapshot())
    assert set(second.parts) == set(first.parts)
    assert second.size < first.size + 20_000
    book.remove(np.arange(CHUNK // 4) * 2)
    third = pack_apart(book.snapshot())
    (fresh,) = set(third.parts) - set(first.parts)
    assert sum(len(bytes(piece)) for piece in pack_part(third.parts[fresh])) < 3 * CHUNK
