"""Hostile messages, states and plans: an error of ours, or something whole; never more memory than the bytes deserve."""

import tracemalloc

import msgpack
import numpy as np
import pytest
from hostile import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_records import object_batch, query_batch

import partitioners.builders.registry  # noqa: F401  # makes all classes of plans known
from partitioners.builders.kd_decomposition import kd_plan
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans import plan as plans
from partitioners.plans.frames import FRAME_HEAD, digest
from streams.batches import AnswerBatch, MatchBatch, ObjectBatch, QueryBatch, RejectBatch, TupleBatch, tuple_rows
from streams.codec import VERSION, decode, encode
from streams.columns import Ids
from streams.errors import CodecError, InputError
from streams.geometry import Rect
from streams.state import Part, pack_state, unpack_state

OBJECTS = object_batch([{"id": n, "ts": n, "x": 0.5, "y": 0.5, "keywords": ["a", f"b{n}"]} for n in range(3)])
QUERIES = query_batch([{"id": "q", "ts": 1, "region": {"rect": [0, 0, 1, 1]}, "keywords": ["a"]}])
MESSAGE = b"".join(encode([("objects", OBJECTS), ("queries", QUERIES)], [7, False]))
MIXED = b"".join(encode([("ids", TupleBatch(("id",), (Ids.of([1, "x", 2**70]),)))]))
STATE = pack_state(
    {
        "batch": OBJECTS,
        "ids": Ids.of(["a", "b"]),
        "grid": np.zeros((2, 3)),
        "t": (1, (2,)),
        "s": {3, 4},
        "n": 2**70,
        "p": Part.of("k", np.ones(3)),
    }
)

packed = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=9), st.binary(max_size=9)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=12,
)  # fmt: skip
names = st.sampled_from(
    ["ObjectBatch", "QueryBatch", "MatchBatch", "AnswerBatch", "RejectBatch", "TupleBatch", "ids", "ts", "kw", "kw_off"]
)
kinds = st.sampled_from(
    ["<i8", "<f8", "|u1", "<f8:4", "<f8:0", "<f8:-1", "ids:int", "ids:text", "ids:json", "any", "O", ""]
)
columns = st.one_of(
    st.tuples(st.one_of(names, packed), kinds, st.one_of(st.integers(-2, 9), packed)),
    kinds,
    st.sampled_from(["int", "text", "json"]),
)  # fmt: skip
sizes = st.lists(st.one_of(st.integers(-8, 80), st.just(0), packed), max_size=9)
batches = st.tuples(st.one_of(st.text(max_size=3), packed), names, st.lists(columns, max_size=9), sizes)
headers = st.one_of(packed, st.tuples(packed, st.lists(batches, max_size=2)))


def framed(header, body):
    """Return bytes that begin as a message does."""
    raw = msgpack.packb(header)
    return bytes([VERSION]) + len(raw).to_bytes(4, "little") + raw + body


def whole(parts):
    """Look at everything in batches; raise where something is not what it says."""
    for stream, batch in parts:
        assert isinstance(stream, str | int)
        assert isinstance(batch, ObjectBatch | QueryBatch | MatchBatch | AnswerBatch | RejectBatch | TupleBatch)
        tuple_rows(batch)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=400)
@given(
    st.one_of(
        st.binary(max_size=90),
        st.binary(max_size=90).map(lambda raw: bytes([VERSION]) + raw),
        damaged(MESSAGE),
        damaged(MIXED),
        st.builds(framed, headers, st.binary(max_size=90)),
    )
)
def test_hostile_messages_are_refused_or_whole(raw):
    """Any bytes as a message are a `CodecError`, or batches that can be looked at from end to end."""
    try:
        _, parts = decode(raw)
    except CodecError:
        return
    whole(parts)


extensions = st.builds(
    lambda code, raw: msgpack.packb(msgpack.ExtType(code, raw)), st.integers(0, 9),
    st.one_of(st.binary(max_size=20), packed.map(msgpack.packb), st.integers(0, 400).map(lambda n: n.to_bytes(8, "little"))),
)  # fmt: skip


def headed(head, rest=b""):
    """Return bytes that begin as a saved state does."""
    return len(head).to_bytes(8, "little") + head + bytes(-len(head) % 8) + rest


@settings(max_examples=400)
@given(
    st.one_of(
        st.binary(max_size=60),
        damaged(STATE),
        st.builds(headed, st.one_of(packed.map(msgpack.packb), extensions), st.sampled_from([b"", MESSAGE, MIXED])),
    )
)
def test_hostile_states_are_refused_or_values(raw):
    """Any bytes as a saved state are a `CodecError`, or a value that can be saved again."""
    try:
        state = unpack_state(raw)
    except CodecError:
        return
    saved = pack_state(state)
    assert pack_state(unpack_state(saved)) == saved


def bomb(levels, announced):
    """Return msgpack of lists in lists, each of which announces more items than there are bytes."""
    return (b"\xdd" + announced.to_bytes(4, "big")) * levels + b"\xc0" * (announced - 5 * levels)


@pytest.mark.parametrize(
    "unpack",
    [
        lambda raw: unpack_state(headed(raw)),
        lambda raw: decode(bytes([VERSION]) + len(raw).to_bytes(4, "little") + raw),
    ],
)
def test_hostile_lists_take_no_more_memory_than_they_have_bytes(unpack):
    """Lists that announce items which never come are refused before room is made for them."""
    raw = bomb(500, 100_000)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            unpack(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(raw)


def test_hostile_states_read_no_bytes_twice():
    """A head that asks for the same column over and over would make much of little: each is there once."""
    column = b"".join(encode([("", TupleBatch(("_",), (np.arange(4),)))], [4]))
    one = msgpack.ExtType(6, len(column).to_bytes(8, "little"))
    assert unpack_state(headed(msgpack.packb([one]), column))[0].tolist() == [0, 1, 2, 3]
    for head, rest in (([one, one], column), ([one], column * 2), ([one], column[:-8])):
        with pytest.raises(CodecError):
            unpack_state(headed(msgpack.packb(head), rest))


def test_hostile_rows_without_bytes_are_refused():
    """A column cannot announce a billion rows of no values each."""
    with pytest.raises(CodecError, match="rows of 0 values"):
        decode(framed([None, [["s", "TupleBatch", [["a", "<f8:0", 10**9]], [0]]]], bytes(8)))


def test_hostile_identifiers_are_refused():
    """A column of identifiers whose JSON is none is refused when it arrives."""
    text = "nonsense"
    off = np.array([0, len(text)], np.int32).tobytes()
    header = [None, [["s", "TupleBatch", [["id", "ids:json", 1]], [len(off), len(text)]]]]
    pad = -(5 + len(msgpack.packb(header))) % 8
    with pytest.raises(CodecError, match="neither integers nor strings"):
        decode(framed(header, bytes(pad) + off + text.encode()))


GRID = FineGrid(Rect(0, 0, 1, 1), 4, 4)
PLAN = plans.pack(kd_plan(GRID, np.arange(16, dtype=np.float64).reshape(4, 4), 3))
HEAD = PLAN[: FRAME_HEAD - 32]


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=60), damaged(PLAN)), damaged(PLAN[FRAME_HEAD:]))
def test_hostile_plans_are_refused(anything, body):
    """Any bytes as a plan, also behind a checksum that fits, are an `InputError` with the file's name, or a plan."""
    for raw in (anything, HEAD + digest(HEAD, body) + body):
        refused = "p.plan: not refused"
        try:
            plans.unpack(raw, "p.plan").check()
        except InputError as error:
            refused = str(error)
        assert refused.startswith("p.plan: ")
        assert len(refused) < 1_000


def test_hostile_plan_files_are_read_to_the_limit(tmp_path, monkeypatch):
    """A plan file longer than the limit is refused, whatever size it claims to have."""
    path = tmp_path / "long.plan"
    path.write_bytes(PLAN)
    monkeypatch.setattr(plans, "MAX_PLAN_BYTES", 100)
    with pytest.raises(InputError, match=r"long.plan: more than 100 bytes"):
        plans.load(path)
