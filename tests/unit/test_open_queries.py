"""The ids of open queries: who is live, what is forgotten, and what a snapshot keeps."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batches import FOREVER
from streams.errors import DeclarationError
from streams.files.open_queries import OpenQueries


def test_open_queries_forgets_what_has_ended():
    """However many queries come and go, about twice those that live are held, no more."""
    open_queries = OpenQueries()
    for number in range(50_000):
        assert open_queries.register(f"q{number}", number, number, number + 10) is None
    assert len(open_queries) < 5_000
    assert open_queries.unregister("q49999", 50_000) == 49_999
    assert open_queries.unregister("q0", 50_000) == 'id "q0" is not registered'


def test_open_queries_makes_room_in_bulk():
    """Registering many at once forgets ended queries first, and refuses ids that are known."""
    open_queries = OpenQueries(limit=2_000)
    assert open_queries.register_all(range(1_000), range(1_000), [5] * 1_000)
    open_queries.make_room(1_500, 4)
    assert len(open_queries) == 1_000
    assert not open_queries.register_all(range(1_000, 2_500), range(1_500), [9] * 1_500)
    open_queries.make_room(1_500, 5)
    assert open_queries.register_all(range(1_000, 2_500), range(1_500), [9] * 1_500)
    open_queries.make_room(10, 5)
    assert not open_queries.register_all(["new", 1_000], [1, 2], [9, 9])
    assert not open_queries.register_all(["new", "new"], [1, 2], [9, 9])
    assert len(open_queries) == 1_500
    assert str(open_queries.unregister("new", 6)).endswith("is not registered")
    assert open_queries.unregister(1_001, 6) == 1


def test_open_queries_needs_room_for_one():
    """A limit of no queries is refused."""
    with pytest.raises(DeclarationError, match="at most 0 open queries"):
        OpenQueries(limit=0)


names = st.one_of(st.integers(0, 3), st.integers(2**63, 2**70), st.sampled_from(["a", "0"]))
steps = st.lists(
    st.tuples(st.booleans(), names, st.integers(0, 2), st.one_of(st.integers(1, 5), st.none())), max_size=30
)


@given(steps, st.integers(0, 30), st.integers(1, 4))
def test_open_queries_goes_on_from_a_snapshot(operations, at, limit):
    """What is restored from a snapshot, through msgpack, answers as what was never stopped, full or not."""
    whole, open_queries, ts = OpenQueries(limit), OpenQueries(limit), 0
    for number, (registers, name, pause, ttl) in enumerate(operations):
        if number == at:
            state = msgpack.unpackb(msgpack.packb(open_queries.snapshot()))
            open_queries = OpenQueries(limit)
            open_queries.restore(state)
        ts += pause
        end = FOREVER if ttl is None else ts + ttl
        if registers:
            assert open_queries.register(name, number, ts, end) == whole.register(name, number, ts, end)
        else:
            assert open_queries.unregister(name, ts) == whole.unregister(name, ts)


def test_restored_open_queries_make_room_for_what_it_may_take():
    """What was full of ended queries when it was saved takes new ones afterwards."""
    open_queries = OpenQueries(limit=2)
    for name in (1, 2):
        assert open_queries.register(name, name, 0, 5) is None
    restored = OpenQueries(limit=2)
    restored.restore(open_queries.snapshot())
    assert restored.register(3, 3, 4, 9) == "2 queries live already, which is the limit (topology.limits.live_queries)"
    assert restored.register(3, 3, 5, 9) is None
