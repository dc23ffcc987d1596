"""The sink that publishes alerts, on a server in memory."""

import json

import numpy as np
import pytest
from fake_server import SERVERS, FakeServer, FakeSink

from operators.connectors.alerts import AlertMaker
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from streams.batches import CrossingBatch, EventBatch, HitBatch, RankedBatch, TupleBatch
from streams.columns import Ids
from streams.errors import DeclarationError, InputError, RunError
from streams.geometry import Rect

FOREVER = np.iinfo(np.int64).max


@pytest.fixture
def server():
    SERVERS["it"] = FakeServer()
    yield SERVERS["it"]
    del SERVERS["it"]


def sink(state=None, **options):
    made = FakeSink(url="it", **options)
    made.open(TaskContext("sink", 0, 1, Rect(0, 0, 1, 1), checkpoints=True))
    if state is not None:
        made.restore(state)
    return made


def ints(*values):
    return np.array(values, np.int64)


def hits(*rows):
    """Return matches: rows of (seq, ts, object, query numbers)."""
    off = np.cumsum([0, *(len(row[3]) for row in rows)]).astype(np.int32)
    numbers = ints(*(number for row in rows for number in row[3]))
    return HitBatch(
        ints(*(row[0] for row in rows)), ints(*(row[1] for row in rows)), Ids.of([row[2] for row in rows]), off, numbers
    )


def ranked(*rows, instant=False):
    """Return lists of one object: rows of (query number, ts, object)."""
    count = len(rows)
    return RankedBatch(
        ints(*(row[0] for row in rows)), ints(*(row[1] for row in rows)), np.full(count, 1, np.uint8),
        np.full(count, 1, np.int32), np.full(count, instant), np.arange(count + 1, dtype=np.int32), np.arange(count),
        Ids.of([row[2] for row in rows]), np.zeros(count),
    )  # fmt: skip


NAMES = TupleBatch(("number", "id", "end"), (ints(0, 1), Ids.of(["q0", 1]), ints(FOREVER, FOREVER)))


def work(made, number, *batches, watermark=None):
    arrivals = [Arrival("evaluator", "results", 0, batch) for batch in batches]
    arrivals.insert(0, Arrival("queries", "names", 0, NAMES))
    made.execute_epoch(Epoch(number, watermark), Inputs(tuple(arrivals)), Emitter({}))


def test_ids_are_query_time_and_object(server):
    """A match has an id of query, time and object, a list of query and time, as JSON."""
    made = sink()
    work(made, 0, hits((0, 5, "a", [0, 1]), (1, 6, 7, [1])), ranked((0, 9, "b")))
    assert [name for name, _ in server.published] == ['["q0",5,"a"]', '[1,5,"a"]', "[1,6,7]", '["q0",9]']
    assert json.loads(server.published[0][1]) == {"query": "q0", "ts": 5, "object": "a"}


def test_same_object_twice_at_one_time_has_two_ids(server):
    """The second of two records of one object and time has a number in its id, also in the next epoch or after a restart."""
    made = sink()
    work(made, 0, hits((4, 5, "a", [0]), (2, 5, "a", [0])), watermark=5)
    assert [name for name, _ in server.published] == ['["q0",5,"a",1]', '["q0",5,"a"]']
    work(sink(made.snapshot()), 1, hits((9, 5, "a", [0])), watermark=6)
    assert server.published[-1][0] == '["q0",5,"a",2]'


def test_events_that_occur_twice_have_two_ids():
    """An event of a fence has what was detected in its id, and a number where it occurs again at the same time."""
    maker = AlertMaker()
    batch = CrossingBatch(
        ints(0, 0, 0), ints(1, 2, 3), ints(5, 5, 5), Ids.of(["a", "a", "a"]), np.array([0, 1, 0], np.uint8)
    )
    named = EventBatch(Ids.of(["q0"] * 3), batch.ts, batch.ids, batch.detect)
    assert [alert.id for alert in maker.alerts(batch, named)] == [
        '["q0",5,"a","enter"]', '["q0",5,"a","exit"]', '["q0",5,"a","enter",1]',
    ]  # fmt: skip


def test_long_ids_are_hashed(server):
    """An id that a header may not take is replaced by a hash, which differs from that of others."""
    work(sink(), 0, hits((0, 5, "é", [0]), (1, 5, "x" * 300, [0]), (2, 5, "x" * 301, [0])))
    names = [name for name, _ in server.published]
    assert [len(name) for name in names] == [32, 32, 32]
    assert len(set(names)) == 3


def test_connection_lost_in_the_middle_repeats_nothing(server):
    """Where nobody knows what has arrived, the server is asked, and the rest is published."""
    server.torn, server.refusals = [2, 0, 1], 0
    made = sink()
    work(made, 0, hits(*((n, n, f"o{n}", [0]) for n in range(6))))
    assert [name for name, _ in server.published] == [f'["q0",{n},"o{n}"]' for n in range(6)]
    assert server.opened == 4


def test_server_that_cannot_be_asked_gets_it_again(server):
    """A server that cannot be read back gets the alerts again, under the same ids."""
    server.torn = [2]
    work(sink(readable=False), 0, hits(*((n, n, f"o{n}", [0]) for n in range(3))))
    assert [name for name, _ in server.published] == [f'["q0",{n},"o{n}"]' for n in (0, 1, 0, 1, 2)]


def test_what_was_published_behind_a_checkpoint_is_left_out(server):
    """After going back, matches and answers are published that were not, and of lists those that are newer than the last."""
    made = sink()
    work(made, 0, hits((0, 1, "a", [0])))
    state = made.snapshot()
    work(made, 1, hits((1, 2, "b", [0, 1])), ranked((0, 2, "b"), (0, 4, "c")), ranked((1, 4, "x"), instant=True))
    before = list(server.published)
    again = sink(state)
    work(again, 1, hits((1, 2, "b", [0, 1])), ranked((0, 3, "d")))
    assert server.published == before
    twice = sink(again.snapshot())  # what still may come is part of the state
    work(
        twice,
        2,
        ranked((0, 4, "c"), (0, 5, "e")),
        ranked((1, 4, "x"), (1, 5, "y"), instant=True),
        hits((2, 5, "z", [0])),
    )
    assert sorted(name for name, _ in server.published[len(before) :]) == ['["q0",5,"z"]', '["q0",5]', "[1,5]"]


def test_list_that_says_what_was_published_last_is_left_out(server):
    """Where epochs are cut otherwise a state comes under a later time; once another has come, it is new again."""
    made = sink()
    state = made.snapshot()
    work(made, 0, ranked((0, 5, "a")))
    work(made, 1, ranked((0, 6, "b")))
    again = sink(state)
    work(again, 0, ranked((0, 7, "b")))
    work(again, 1, ranked((0, 8, "a")))
    work(again, 2, ranked((0, 9, "b")))
    assert [name for name, _ in server.published] == ['["q0",5]', '["q0",6]', '["q0",8]', '["q0",9]']


def test_what_others_publish_counts_for_nothing(server):
    """Messages in the stream of alerts that are none do not keep a run from going on."""
    made = sink()
    state = made.snapshot()
    server.published += [("", b"{"), ("x", b"[]"), ("y", b'{"query": 1}'), ("z", b'{"query": 1, "ts": "soon"}')]
    work(sink(state), 0, hits((0, 1, "a", [0])))
    assert server.published[-1][0] == '["q0",1,"a"]'


def test_what_cannot_come_again_is_forgotten(server):
    """Long after its time was complete, nothing of what was published is remembered."""
    made = sink()
    state = made.snapshot()
    work(made, 0, hits((0, 1, "a", [0])))
    again = sink(state)
    for number in range(80):
        work(again, number, watermark=2)
    assert again.snapshot()["republished"] == {"ids": {}, "lists": []}


@pytest.mark.parametrize("trimmed", ["stop", "repeat"])
def test_stream_that_is_trimmed_is_no_silent_repetition(server, trimmed):
    """Where the server does not know any more what was published, the run stops, or repeats it if it was told to."""
    made = sink(trimmed=trimmed)
    state = made.snapshot()
    server.trimmed = True
    if trimmed == "stop":
        with pytest.raises(InputError, match=r"the start is gone; .*bolt.sink.trimmed = 'repeat'"):
            sink(state, trimmed=trimmed)
    else:
        work(sink(state, trimmed=trimmed), 0, hits((0, 1, "a", [0])))
        assert len(server.published) == 1


def test_server_that_is_not_there_is_a_clear_error(server):
    """At the start, the error names address and key; later, how long it was tried."""
    server.refusals = 1
    with pytest.raises(DeclarationError, match=r"bolt.sink.url: fake://it cannot be reached: refused"):
        work(sink(), 0)
    made = sink(reconnect_seconds=0.0)
    work(made, 0)
    server.torn, server.refusals = [0], 1
    with pytest.raises(RunError, match=r"fake://it could not be reached for 0 s \(refused\); .*--resume"):
        work(made, 1, hits((0, 1, "a", [0])))
