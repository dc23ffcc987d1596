"""The ledger of query ids: who is live, what is forgotten, and what a snapshot keeps."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batches import FOREVER
from streams.errors import DeclarationError
from streams.files.query_ledger import QueryLedger


def test_ledger_forgets_what_has_ended():
    """However many queries come and go, the ledger holds about twice those that live."""
    ledger = QueryLedger()
    for number in range(50_000):
        assert ledger.register(f"q{number}", number, number, number + 10) is None
    assert len(ledger) < 5_000
    assert ledger.unregister("q49999", 50_000) == 49_999
    assert ledger.unregister("q0", 50_000) == 'id "q0" is not registered'


def test_ledger_makes_room_in_bulk():
    """Registering many at once forgets ended queries first, and refuses ids that are known."""
    ledger = QueryLedger(limit=2_000)
    assert ledger.register_all(range(1_000), range(1_000), [5] * 1_000)
    ledger.make_room(1_500, 4)
    assert len(ledger) == 1_000
    assert not ledger.register_all(range(1_000, 2_500), range(1_500), [9] * 1_500)
    ledger.make_room(1_500, 5)
    assert ledger.register_all(range(1_000, 2_500), range(1_500), [9] * 1_500)
    assert not ledger.register_all(["new", 1_000], [1, 2], [9, 9])
    assert not ledger.register_all(["new", "new"], [1, 2], [9, 9])
    assert len(ledger) == 1_500


def test_ledger_needs_room_for_one():
    """A ledger that can take nothing is refused."""
    with pytest.raises(DeclarationError, match="at most 0 queries"):
        QueryLedger(limit=0)


names = st.one_of(st.integers(0, 3), st.integers(2**63, 2**70), st.sampled_from(["a", "0"]))
steps = st.lists(
    st.tuples(st.booleans(), names, st.integers(0, 2), st.one_of(st.integers(1, 5), st.none())), max_size=30
)


@given(steps, st.integers(0, 30), st.integers(1, 4))
def test_ledger_goes_on_from_a_snapshot(operations, at, limit):
    """A ledger restored from its snapshot, through msgpack, answers as the one that was never stopped, full or not."""
    whole, ledger, ts = QueryLedger(limit), QueryLedger(limit), 0
    for number, (registers, name, pause, ttl) in enumerate(operations):
        if number == at:
            state = msgpack.unpackb(msgpack.packb(ledger.snapshot()))
            ledger = QueryLedger(limit)
            ledger.restore(state)
        ts += pause
        end = FOREVER if ttl is None else ts + ttl
        if registers:
            assert ledger.register(name, number, ts, end) == whole.register(name, number, ts, end)
        else:
            assert ledger.unregister(name, ts) == whole.unregister(name, ts)


def test_restored_ledger_makes_room_for_what_it_may_take():
    """A ledger that was full of ended queries when it was saved takes new ones afterwards."""
    ledger = QueryLedger(limit=2)
    for name in (1, 2):
        assert ledger.register(name, name, 0, 5) is None
    restored = QueryLedger(limit=2)
    restored.restore(ledger.snapshot())
    assert restored.register(3, 3, 4, 9) == "2 queries live already, which is the limit (topology.limits.live_queries)"
    assert restored.register(3, 3, 5, 9) is None
