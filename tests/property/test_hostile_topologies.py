"""Hostile declarations: any text ends in a topology or in one clear message, in bounded time."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.errors import DeclarationError, InputError, WaterspoutError
from streams.files.prepared import Manifest, load_manifest, load_vocabulary, object_paths, save_manifest
from streams.geometry import Rect
from topology.amendments import with_injections
from topology.key_lines import KeyLines
from topology.toml import load_topology, parse_topology

CONF = Path(__file__).parents[2] / "conf"
SMALL = (CONF / "quickstart.toml").read_text("utf-8")
PIECES = (
    b"=", b"[", b"]", b"[[", b"{", b'"', b'"""', b"'", b".", b"#", b"\n", b",", b"\0", b"\xff", b"nan", b"inf", b"-1", b"0",
    b"true", b"9" * 30, b"9" * 5_000, b"0x" + b"f" * 5_000, b"[" * 3_000, b"a." * 60, b"[" + b" " * 2_000, b"topology",
    b"parallelism", b"inputs", b":", b"sys:exit", b".py:X", b"2020-01-01", b"p" * 400, b"\xe2\x80\xa8", b"\r",
)  # fmt: skip


def told(text, **options):
    """Return what is said against a text as a topology; nothing where it is one."""
    try:
        parse_topology(text, base=CONF, source="t.toml", **options)
    except WaterspoutError as error:
        return str(error)
    return ""


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.data())
@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.stem)
def test_hostile_changes_to_shipped_files_are_told(path, data):
    """A shipped file that was damaged is still a topology, or the message names the file, and a line that it has."""
    text = data.draw(damaged(path.read_bytes(), PIECES)).decode(errors="replace")
    for problem in filter(None, told(text).split("\n")):
        assert len(problem) < 3_000
        if line := re.match(r"t\.toml:([0-9]+): ", problem):
            assert 1 <= int(line[1]) <= text.count("\n") + 1


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(PIECES), max_size=9).map(lambda p: b"".join(p).decode(errors="replace")),
    )
)
def test_hostile_text_is_told_where_it_is_no_topology(text):
    """Any text that is no topology gives one message that begins with the file."""
    assert told(text).startswith("t.toml")


settings_texts = st.one_of(
    st.builds(
        "{}={}".format,
        st.sampled_from(["topology.seed", "topology.space", "bolt.evaluator.parallelism", "topology", "spout.objects.path"]),
        st.one_of(st.text(max_size=20), st.sampled_from(PIECES).map(lambda piece: piece.decode(errors="replace"))),
    ),
    st.text(max_size=20),
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(settings_texts, max_size=3))
def test_hostile_settings_are_told(overrides):
    """Any override is taken or refused with a message of bounded length."""
    assert len(told(SMALL, settings=overrides)) < 10_000


keys = st.sampled_from(["kind", "start", "duration", "strength", "share", "at", "region", "keyword", "seed", "sead"])
values = st.sampled_from(
    ['"rate"', '"queries"', '"condense"', "nan", "inf", "-1", "0", "9" * 30, "0x" + "f" * 5_000, "[0.5, 0.5]", "[inf, 0]",
     "[0, 0, 1, 1]", "[0, 0, 0, 0]", '""', "[" * 3_000, "{}", "1e308", '"0001-01-01"', '"\\u0000"', "} \n x = {"]
)  # fmt: skip


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=30), st.lists(st.builds("{} = {}".format, keys, values), max_size=4).map(", ".join)))
def test_hostile_injections_are_told(text):
    """Any injection is taken or refused with a message of bounded length."""
    topology = parse_topology(SMALL, base=CONF)
    try:
        taken, message = with_injections(topology, [text]).injections, ""
    except DeclarationError as error:
        taken, message = (), str(error)
    assert len(message) < 3_000
    assert all(injection.last_ms() > -(2**62) for injection in taken)


def test_hostile_lines_do_not_slow_the_search_for_keys():
    """Lines of dots, brackets and blanks are passed over, and line numbers count line feeds only."""
    text = "x = [\n  '" + "a." * 5_000 + "',\n]\n[" + " " * 50_000 + "\n\u2028\n[bolt.b]\nk = 1\n"
    assert KeyLines(text).of(("bolt", "b", "k")) == 7
    assert KeyLines(text).of(("bolt", "b", "other")) == 6


def test_hostile_topology_of_a_thousand_links_is_checked():
    """A chain of bolts longer than Python's stack is walked through for cycles."""
    bolt = '[bolt.b{0}]\noperator = "count"\nstreams = {{ default = ["a"] }}\ninputs = [{{ component = "b{1}" }}]\n'
    links = "".join(bolt.format(n, (n + 1) % 1_500) for n in range(1_500))
    text = told('[spout.o]\noperator = "object-file"\npath = "quickstart.toml"\n' + links)
    assert "form a cycle; mark one of these inputs with 'feedback = true'" in text


def test_hostile_topology_file_is_read_to_the_limit(monkeypatch):
    """A file that claims to be empty and never ends is refused."""
    monkeypatch.setattr("topology.extension.MAX_BYTES", 1_000)
    with pytest.raises(InputError, match="/dev/zero: more than 1,000 bytes"):
        load_topology(Path("/dev/zero"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a small prepared data set."""
    folder = tmp_path_factory.mktemp("prepared")
    pq.write_table(pa.table({"word": ["a", "b"], "df": [2, 1]}), folder / "vocabulary.parquet")
    save_manifest(folder, Manifest(1, 2, Rect(0, 0, 1, 1), 0, 5, 2, "int64", False, None, {}, ()))
    return folder


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_hostile_data_sets_are_refused(prepared, data):
    """A manifest or a vocabulary with anything in it is read or refused with its name."""
    manifest, words = prepared / "manifest.json", prepared / "vocabulary.parquet"
    good = manifest.read_bytes(), words.read_bytes()
    found = json.loads(good[0])
    odd = st.one_of(
        st.none(),
        st.just([]),
        st.just({}),
        st.just(1e400),
        st.just(10**400),
        st.text(max_size=3),
        st.just([{"path": "../x", "rows": 1}]),
    )
    changed = st.builds(
        lambda key, value: json.dumps(found | {key: value}).encode(), st.sampled_from(sorted(found)), odd
    )
    try:
        manifest.write_bytes(data.draw(st.one_of(changed, damaged(good[0]), st.just(b"[" * 5_000), st.just(good[0]))))
        words.write_bytes(data.draw(st.one_of(damaged(good[1], (b"\0", b"\xff")), st.just(good[1]))))
        for load in (load_manifest, load_vocabulary, object_paths):
            message = prepared.name
            try:
                load(prepared)
            except InputError as error:
                message = str(error)
            assert prepared.name in message
    finally:
        manifest.write_bytes(good[0])
        words.write_bytes(good[1])
