"""The spout of a stream of messages, on a server in memory."""

import json
import time

import pytest
from fake_server import SERVERS, FakeServer, FakeSpout

from operators.connectors.merge import Merge
from operators.connectors.messages import Address, Received, library, secret_of
from operators.connectors.nats import subject_matches
from operators.connectors.reader import Reader
from operators.connectors.records import Records
from operators.operator import Emitter, Epoch, Inputs, TaskContext
from operators.spouts.entry_queue import LIVE_STREAMS
from streams.errors import DeclarationError, InputError, RunError
from streams.geometry import Rect

WORDS_WANTED = {"words": [("somebody", 1)], "names": [("sink", 1)]}


def context(**changes):
    given = {"epoch_objects": 10, "checkpoints": True, "targets": WORDS_WANTED, **changes}
    return TaskContext("input", 0, 1, Rect(0, 0, 1, 1), **given)


def line(number, ts, **more):
    return json.dumps({"id": f"o{number}", "ts": ts, "x": 0.5, "y": 0.5, "keywords": ["a"], **more}).encode()


def register(name, ts=None):
    time_of = {} if ts is None else {"ts": ts}
    query = {"op": "register", "id": name, "type": "range", "region": {"rect": [0, 0, 1, 1]}, **time_of}
    return json.dumps(query).encode()


@pytest.fixture
def server():
    SERVERS["it"] = FakeServer()
    yield SERVERS["it"]
    del SERVERS["it"]


@pytest.fixture
def spouts():
    """Make spouts, and close them at the end."""
    made = []

    def make(state=None, given=None, **options):
        spout = FakeSpout(url="it", objects="objects", queries="queries", **options)
        spout.open(given or context())
        if state is not None:
            spout.restore(state)
        made.append(spout)
        return spout

    yield make
    for spout in made:
        spout.close()


def epochs(spout, first, wanted):
    """Run epochs until so many objects have come; return their ids, those of each epoch, and the number of the next epoch."""
    found, sizes = [], []
    until = time.monotonic() + 20
    while len(found) < wanted:
        assert time.monotonic() < until, found
        emit = Emitter(LIVE_STREAMS)
        spout.next_epoch(Epoch(first), Inputs(), emit)
        first += 1
        ids = [name for batch in emit.batches("objects") for name in batch.ids.to_list()]
        sizes.append(len(ids))
        found += ids
        if not ids:
            time.sleep(0.001)
    return found, sizes, first


def test_epochs_are_bounded_and_in_order(server, spouts):
    """A spout emits all objects of a stream in order, none of its epochs more than it may have."""
    server.add("objects", *(line(number, number) for number in range(95)))
    found, sizes, _ = epochs(spouts(), 0, 95)
    assert found == [f"o{number}" for number in range(95)]
    assert max(sizes) == 10


def test_position_is_part_of_the_state(server, spouts):
    """What a spout emits that goes on from any state is what was not emitted before it, and it numbers on."""
    server.add("objects", *(b"\n".join(line(5 * n + i, n) for i in range(5)) for n in range(12)))
    spout, first, seen = spouts(given=context(epoch_objects=7)), 0, []
    for _ in range(8):
        more, _, first = epochs(spout, first, 7)
        seen += more
        rest, _, _ = epochs(spouts(spout.snapshot(), given=context(epoch_objects=7)), first, 60 - len(seen))
        assert [*seen, *rest] == [f"o{number}" for number in range(60)]


def test_acknowledged_is_what_a_checkpoint_covers(server, spouts):
    """A server is sent an acknowledgement of a message once a checkpoint with it is whole, not when it is taken."""
    server.add("objects", *(line(number, number) for number in range(40)))
    spout = spouts()
    _, _, first = epochs(spout, 0, 15)
    state = spout.snapshot()
    epochs(spout, first, 20)
    spout.ack(first - 1)
    time.sleep(0.2)
    assert server.acknowledged == []
    spout.saved(first - 1)
    spout.close()
    assert server.acknowledged == [state["read_to"]["s"]]


def test_without_checkpoints_complete_epochs_are_acknowledged(server, spouts):
    """Where there are no checkpoints, what an epoch has brought is acknowledged when it is complete."""
    server.add("objects", *(line(number, number) for number in range(10)))
    spout = spouts(given=context(checkpoints=False))
    _, _, first = epochs(spout, 0, 10)
    spout.ack(first - 1)
    spout.close()
    assert server.acknowledged == [9]


def test_server_that_goes_away_is_asked_again(server, spouts):
    """Connections that are lost, and attempts that fail, lose and repeat nothing."""
    server.add("objects", *(line(number, number) for number in range(95)))
    server.cuts = [0, 30, 31, 90]
    found, _, _ = epochs(spouts(), 0, 95)
    assert found == [f"o{number}" for number in range(95)]
    assert server.opened == 5


def test_server_that_stays_away_ends_the_run(server, spouts):
    """After the time that it may be gone for, the run ends with the address and what to do."""
    spout = spouts(reconnect_seconds=0.1)
    epochs(spout, 0, 0)
    spout.next_epoch(Epoch(0), Inputs(), Emitter(LIVE_STREAMS))
    server.cuts, server.refusals = [0], 1_000_000
    with pytest.raises(RunError, match=r"fake://it could not be reached for 0.1 s \(refused\); .*--resume"):
        epochs(spout, 1, 1)


def test_server_that_is_not_there_is_a_clear_error(server, spouts):
    """A server that cannot be reached at the start is an error that names the address and the key."""
    server.refusals = 1
    with pytest.raises(
        DeclarationError, match=r"spout.input.url: fake://it cannot be reached: refused; start the server"
    ):
        epochs(spouts(), 0, 1)


def test_input_ends_when_nothing_comes(server, spouts):
    """With `end_after`, a spout is dry after that time, and its newest time is complete."""
    server.add("objects", line(1, 7))
    spout = spouts(end_after=0.2)
    epochs(spout, 0, 1)
    emit = Emitter(LIVE_STREAMS)
    until = time.monotonic() + 20
    while spout.next_epoch(Epoch(9), Inputs(), emit := Emitter(LIVE_STREAMS)):
        assert emit.watermark == 7
        assert time.monotonic() < until
        time.sleep(0.01)
    assert emit.watermark == 8


def test_reader_reads_ahead_within_bounds(server):
    """A reader holds as many messages, or bytes, as it may, and what one poll brings; it ends although nobody takes them."""
    server.add("objects", *(b"x" * 100 for _ in range(1_000)))
    source = FakeSpout(url="it", objects="o", queries="q").source()
    for prefetch, prefetch_bytes in ((50, 1 << 20), (1_000, 5_000)):
        reader = Reader(source, "fake", prefetch=prefetch, prefetch_bytes=prefetch_bytes, reconnect_seconds=1)
        reader.start(None, None, patient=False)
        until = time.monotonic() + 20
        while len(reader._waiting) < 50:
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(0.05)
        assert 50 <= len(reader._waiting) < 50 + max(server.batches)
        reader.close()
        assert not reader._thread.is_alive()


# --- records -----------------------------------------------------------------------------------------------------------


def messages(kind, *payloads, stamp=0):
    return [Received(kind, payload, stamp, "s", 100 + place) for place, payload in enumerate(payloads)]


def records(time_of="given", **changes):
    return Records(context(**changes), "fake://it", time_of, False)


def rejected(entries):
    return [
        (source, at, reason)
        for entry in entries
        for source, at, reason in zip(
            entry.rejects.source.to_list(), entry.rejects.line.tolist(), entry.rejects.reason.to_list(), strict=True
        )
    ]


def test_bad_records_are_rejected_with_their_position():
    """A reject names the message and the line in it; what is good beside it is taken."""
    judge = records()
    payloads = [line(1, 5), b"\n".join([line(2, 5), b"{", b"", line(3, 4), line(4, 6)]), b"\xff", b""]
    entries = list(judge.entries(messages("objects", *payloads)))
    assert [name for entry in entries for name in entry.objects.ids.to_list()] == ["o1", "o2", "o4"]
    found = rejected(entries)
    assert [(source, at) for source, at, _ in found] == [
        ("fake://it s 101", 2), ("fake://it s 101", 4), ("fake://it s 102", 1),
    ]  # fmt: skip
    assert "not JSON" in found[0][2]
    assert "ts 4 is older than 5" in found[1][2]
    faulty = Received("objects", b"", 0, "s", 7, fault="found no field")
    assert rejected(judge.entries([*messages("objects", line(5, 6)), faulty])) == [
        ("fake://it s 7", 1, "found no field")
    ]


def test_operations_come_before_objects_of_their_time():
    """An operation behind an object must be of a later time; one without a time gets such a one."""
    judge = records()
    stretch = [*messages("objects", line(1, 5)), *messages("queries", register("q", 5), register("r", 6))]
    entries = list(judge.entries(stretch))
    assert entries[1].queries.ids.to_list() == ["r"]
    assert "ts 5 is older than 6" in rejected(entries)[0][2]
    stamped = records("arrival")
    stretch = [
        *messages("objects", line(1, 5)),
        *messages("queries", register("q"), register("r", 9), register("s"), stamp=3),
        *messages("objects", b'{"id": 1, "x": 0, "y": 0}', stamp=2),
    ]
    entries = list(stamped.entries(stretch))
    assert entries[1].queries.ts.tolist() == [6, 9, 9]
    assert entries[2].objects.ts.tolist() == [9]


def test_stamps_are_those_of_messages():
    """A record without a time gets that of its own message, never one before the record in front of it."""
    bare = b'{"id": 1, "x": 0, "y": 0}'
    stretch = [Received("objects", bare + b"\n" + bare, stamp, "s", stamp) for stamp in (10, 12, 11, 15)]
    (entry,) = records("arrival").entries(stretch)
    assert entry.objects.ts.tolist() == [10, 10, 12, 12, 12, 12, 15, 15]
    (entry,) = records("given").entries(stretch)
    assert len(entry.rejects) == 8


def test_time_goes_by_where_it_is_stamped():
    """While nothing comes, time goes by as on the server, a little behind; not where records bring their own times."""
    judge = records("arrival")
    bare = [Received("objects", b'{"id": 1, "x": 0, "y": 0}', 1_000, "s", 1)]
    list(judge.entries(bare))
    assert judge.passing(10) is None
    assert [entry.floor for entry in (judge.passing(60), judge.passing(500)) if entry] == [1_010, 1_450]
    assert judge.passing(400) is None
    given = records("arrival")
    list(given.entries(messages("objects", line(1, 5))))
    assert given.passing(10_000) is None
    assert given.ending().floor == 6


def test_ids_that_are_taken_are_part_of_the_state():
    """Records that are judged after a restart are judged as without one."""
    judge = records()
    list(judge.entries(messages("queries", register("q", 1))))
    again = records()
    again.restore(judge.snapshot())
    both = [list(one.entries(messages("queries", register("q", 2), register("r", 3)))) for one in (judge, again)]
    assert rejected(both[0]) == rejected(both[1]) != []
    assert both[1][0].queries.number.tolist() == [2]


# --- parts of streams, addresses ---------------------------------------------------------------------------------------


def test_parts_are_merged_by_stamp():
    """Messages of parts come in the order of stamps, and wait for a part that may have an older one."""
    merge = Merge(["a", "b"])
    for part, stamp in (("a", 1), ("a", 4), ("b", 1)):
        merge.add(Received("objects", b"", stamp, part, 0))
    assert [(m.part, m.stamp) for m in merge.released()] == [("a", 1), ("b", 1)]
    assert merge.released() == []
    merge.dry("b")
    assert merge.released(until=4) == []
    assert [m.stamp for m in merge.released(until=5)] == [4]


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("a.b", "a.b", True), ("a.b", "a.b.c", False), ("a.*", "a.b", True), ("a.*", "a", False), ("a.>", "a.b.c", True),
        ("a.>", "a", False), ("*.b", "a.b", True), ("*.b", "a.c", False), (">", "a", True),
    ],
)  # fmt: skip
def test_subjects_match_as_in_nats(pattern, subject, matches):
    """A star is one word, an arrow at the end is one or more."""
    assert subject_matches(pattern, subject) is matches


def test_address_has_no_password():
    """An address with a secret is refused without repeating it, and one without a port has the usual one."""
    assert str(Address.of("redis://h/3", {"redis": 6379})) == "redis://h:6379/3"
    for url in ("redis://me:secret@h", "http://me:secret@h", "redis://me:secret@h:x"):
        with pytest.raises(DeclarationError) as found:
            Address.of(url, {"redis": 6379})
        assert "secret" not in str(found.value)
    with pytest.raises(DeclarationError, match=r"url: found 'h:1', expected redis://HOST:6379"):
        Address.of("h:1", {"redis": 6379})


def test_secrets_come_from_files(tmp_path):
    """The first line of a file is user and password, or a password alone."""
    path = tmp_path / "secret"
    for text, expected in (("me:pass:word\n", ("me", "pass:word")), ("token\nmore", (None, "token"))):
        path.write_text(text)
        assert secret_of(path) == expected
    with pytest.raises(InputError, match="No such file"):
        secret_of(tmp_path / "none")


def test_library_that_is_missing_is_named_with_its_extra():
    """Where the library of a server is not installed, the error says what to install."""
    with pytest.raises(DeclarationError, match=r"'nats' needs nowhere_natz.*pip install 'waterspout\[nats\]'"):
        library("nowhere_natz.client", "nats")
