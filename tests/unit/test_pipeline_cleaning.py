"""Cleaning raw batches, words, rows of splits and counts by cell: the parts of the offline plane that need no Spark."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cell_counts import merged
from pipeline.cleaning import CLEAN_SCHEMA, MAX_KEYWORDS, MAX_TEXT_BYTES, Cleaner, Rules
from pipeline.query_tables import _first_numbers
from pipeline.split_rows import SplitRows
from pipeline.words import joined, listed_words, separated, split_words, word_lists
from streams.geometry import Rect
from streams.tokens import tokenise


def raw(rows, **columns):
    """Return a raw batch of plain rows, with some columns replaced."""
    made = {
        "id": [str(n).encode() for n in range(rows)],
        "id_kind": pa.nulls(rows, pa.string()),
        "ts": [b"5"] * rows,
        "x": [b"1.5"] * rows,
        "y": [b"2"] * rows,
        "words": [b"some text"] * rows,
        "broken": pa.nulls(rows, pa.binary()),
        "valid": [True] * rows,
        "path": ["file:/a"] * rows,
        "block": np.zeros(rows, np.int64),
        "place": np.arange(rows),
    } | columns
    arrays = [c if isinstance(c, pa.Array) else pa.array(c) for c in made.values()]
    return pa.RecordBatch.from_arrays(arrays, list(made))


def cleaned(batch, **rules):
    (found,) = Cleaner(Rules(**rules), {"file:/a": 0}).clean(iter([batch]))
    assert found.schema == CLEAN_SCHEMA
    return found.to_pylist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=12))
def test_words_are_those_of_the_tokeniser(texts):
    """Each row's words are the set that `tokenise` gives, also after they travelled as one string."""
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    lists = separated(joined(word_lists(texts)))
    assert [set(row) for row in lists.to_pylist()] == [set(tokenise(text)) for text in texts]
    assert all(len(row) == len(set(row)) for row in lists.to_pylist())


def test_listed_words_are_taken_whole():
    """Listed keywords are case-folded and made distinct, not tokenised; empty ones are left out."""
    column = pa.array([["New York", "new york", "THE"], None, [], ["", None, "a"], ["Straße"]])
    assert [sorted(row) for row in listed_words(column).to_pylist()] == [
        ["new york", "the"],
        [],
        [],
        ["a"],
        ["strasse"],
    ]
    assert [sorted(row) for row in split_words(["b  A b", ""]).to_pylist()] == [["a", "b"], []]


def test_cleaner_accepts_plain_rows():
    """A row without a fault has its values and no kind."""
    (row,) = cleaned(raw(1), keep_text=True)
    assert (row["id"], row["id_number"], row["ts"], row["x"], row["y"]) == ("0", True, 5, 1.5, 2.0)
    assert (sorted(row["words"].split("\0")), row["word_count"], row["text"]) == (["some", "text"], 2, "some text")
    assert (row["kind"], row["reason"], row["source"], row["block"], row["row"]) == (None, None, 0, 0, 0)


@pytest.mark.parametrize(
    ("columns", "kind", "found"),
    [
        ({"id": [None]}, "no id", "id is missing"),
        ({"id": [b""]}, "no id", "id is missing"),
        ({"id": [b"\xff"]}, "bad utf-8", "id"),
        ({"id": [b"1.5"], "id_kind": ["other"]}, "bad id", "'1.5'"),
        ({"x": pa.nulls(1, pa.binary())}, "no coordinate", "x is missing"),
        ({"y": [b""]}, "no coordinate", "y is missing"),
        ({"y": [b"north"]}, "bad coordinate", "'north'"),
        ({"x": [b"nan"]}, "bad coordinate", "'nan'"),
        ({"x": [float("inf")]}, "bad coordinate", "'inf'"),
        ({"y": [b"90.5"]}, "bad coordinate", "(1.5, 90.5)"),
        ({"x": [b"9"]}, "outside the space", "(9.0, 2.0)"),
        ({"ts": [b"soon"]}, "bad ts", "'soon'"),
        ({"ts": [b"2024-02-30"]}, "bad ts", "'2024-02-30'"),
        ({"ts": [b""]}, "no ts", "ts is missing"),
        ({"words": [b"caf\xe9"]}, "bad utf-8", "the text is not UTF-8"),
        ({"words": [b"x" * (MAX_TEXT_BYTES + 1)]}, "text too long", str(MAX_TEXT_BYTES)),
        ({"words": [[f"w{n}" for n in range(MAX_KEYWORDS + 1)]]}, "too many keywords", str(MAX_KEYWORDS)),
        ({"words": [["a\0b"]]}, "bad keyword", "U+0000"),
        ({"broken": [b"{oops"]}, "unreadable record", "'{oops'"),
        ({"valid": [False]}, "bad utf-8", "convert the file"),
    ],
)
def test_cleaner_says_what_is_wrong(columns, kind, found):
    """Every fault has a kind to count and a sentence that shows what was found."""
    (row,) = cleaned(raw(1, **columns), space=Rect(0, 0, 5, 90), geographic=True)
    assert row["kind"] == kind
    assert found in row["reason"]
    assert kind == "no ts" or (row["words"], row["word_count"]) == ("", 0) or kind == "bad ts"


def test_cleaner_judges_each_row_of_a_mixed_batch():
    """Faults of some rows leave the others as they are."""
    ts = [b"1", b"2024-01-01T00:00:00Z", b"x", None]
    words = [b"one", b"\xe9", b"three", b"four"]
    rows = cleaned(raw(4, ts=pa.array(ts, pa.binary()), words=words))
    assert [row["kind"] for row in rows] == [None, "bad utf-8", "bad ts", "no ts"]
    assert [row["ts"] for row in rows] == [1, 1_704_067_200_000, None, None]
    assert [row["words"] for row in rows] == ["one", "", "three", "four"]


def test_cleaner_turns_latin_characters_back_to_bytes():
    """What a reader took for Latin-1 is UTF-8 again, and what was not UTF-8 is found out."""
    latin = [b"caf\xc3\xa9", b"plain", b"caf\xe9", None, "日本 x2".encode()]
    as_read = pa.array([None if v is None else v.decode("latin-1").encode() for v in latin], pa.binary())
    rows = cleaned(raw(5, words=as_read), latin=True, keep_text=True)
    assert [row["kind"] for row in rows] == [None, None, "bad utf-8", None, None]
    assert [row["text"] for row in rows] == ["café", "plain", "", "", "日本 x2"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[(text, True) for text in ("17", "-3", "0", "9223372036854775807")],
        *[(text, False) for text in ("007", "+1", "-0", "1e3", "", "9223372036854775808", "--1", "٣")],
    ],
)
def test_cleaner_takes_an_id_for_a_number_if_it_prints_back(text, number):
    """A CSV id is a number where its digits are the way that number is written."""
    (row,) = cleaned(raw(1, id=[text.encode()]))
    assert row["id_number"] is number


def test_split_rows_count_within_splits_over_batches():
    """Rows start again at each split, go on over batches, and do not care what else the task read."""
    rows = SplitRows()
    first = rows.rows(np.array([0, 0, 0]), np.array([0, 0, 64]), np.array([10, 11, 12]))
    second = rows.rows(np.array([0, 1, 1]), np.array([64, 0, 0]), np.array([13, 14, 15]))
    third = rows.rows(np.array([1]), np.array([0]), np.array([16]))
    assert (first.tolist(), second.tolist(), third.tolist()) == ([0, 1, 0], [1, 0, 1], [2])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4), st.integers(1, 9)), max_size=40))
def test_merged_counts_are_sums(pairs):
    """Counts of the same cell and keyword are added up, and come in order."""
    columns = [np.array([pair[i] for pair in pairs], np.int64) for i in range(3)]
    found = list(zip(*(column.tolist() for column in merged(*columns)), strict=True))
    sums = {}
    for cell, keyword, n in pairs:
        sums[cell, keyword] = sums.get((cell, keyword), 0) + n
    assert found == [(*key, sums[key]) for key in sorted(sums)]


def test_records_are_numbered_in_the_order_of_their_files():
    """Files as they were given, whatever their names; the splits of a file by their start, however they were counted."""
    splits = [("file:/a", 100, 3), ("file:/b", 0, 7), ("file:/a", 20, 2), ("file:/a", 0, 5)]
    given_order = {"file:/b": 0, "file:/a": 1, "file:/empty": 2}
    assert _first_numbers(given_order, splits) == {
        ("file:/b", 0): 0, ("file:/a", 0): 7, ("file:/a", 20): 12, ("file:/a", 100): 14,
    }  # fmt: skip
