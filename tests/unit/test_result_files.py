"""Results and rejects in files, line by line as the contract has them."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS, TYPE_TOPK, AnswerBatch, MatchBatch, RejectBatch
from streams.columns import Ids
from streams.errors import InputError, RunError
from streams.files.result_files import JsonlWriter, ParquetWriter, RejectsWriter, open_results, read_results
from streams.files.result_lines import reject_lines, result_lines
from streams.files.result_parquet import ParquetParts
from streams.state import pack_state, unpack_state


def matches(*rows):
    """Return a batch of (query, ts, object)."""
    query, ts, found = zip(*rows, strict=True) if rows else ((), (), ())
    return MatchBatch(Ids.of(query), np.array(ts, np.int64), Ids.of(found))


def answers(*rows):
    """Return a batch of (query, ts, type, [(item, value)])."""
    items = [item for *_, listed in rows for item in listed]
    off = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(listed) for *_, listed in rows], out=off[1:])
    return AnswerBatch(
        Ids.of([row[0] for row in rows]), np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.uint8), off, Ids.of([name for name, _ in items]),
        np.array([value for _, value in items], np.float64),
    )  # fmt: skip


MATCHES = matches(("q1", 17, "o9"), ("q1", 18, 'a "b"\n'), ("é", -5, "7"))
ANSWERS = answers(
    ("q5", 900, TYPE_RANGE, [("o1", 0), ("o7", 0)]),
    ("q2", 17, TYPE_KNN, [("o9", 0.031), ("o4", 0.07)]),
    ("q3", 18, TYPE_TOPK, [("o9", 1e-7), ("o4", 0.1 + 0.2)]),
    ("q4", 5000, TYPE_TERMS, [("sushi", 12), ("ramen", 9)]),
    ("q4", 5001, TYPE_TERMS, []),
    ("q5", 901, TYPE_RANGE, []),
)


def test_match_lines_are_those_of_the_contract():
    """A match is one line: query, time, object, and nothing more."""
    assert result_lines(MATCHES).decode() == (
        '{"query":"q1","ts":17,"object":"o9"}\n{"query":"q1","ts":18,"object":"a \\"b\\"\\n"}\n'
        '{"query":"é","ts":-5,"object":"7"}\n'
    )
    assert result_lines(matches()) == b""


def test_answer_lines_are_those_of_the_contract():
    """An answer is one line with its list; numbers are as short as they can be read back."""
    assert result_lines(ANSWERS).decode().splitlines() == [
        '{"query":"q5","ts":900,"objects":["o1","o7"]}',
        '{"query":"q2","ts":17,"objects":[["o9",0.031],["o4",0.07]]}',
        '{"query":"q3","ts":18,"objects":[["o9",1e-07],["o4",0.30000000000000004]]}',
        '{"query":"q4","ts":5000,"terms":[["sushi",12],["ramen",9]]}',
        '{"query":"q4","ts":5001,"terms":[]}',
        '{"query":"q5","ts":901,"objects":[]}',
    ]


names = st.one_of(st.integers(-(2**63), 2**70), st.text(max_size=5))


@given(st.lists(st.tuples(names, st.integers(-(2**63), 2**63 - 1), names), max_size=6), st.data())
def test_match_lines_read_back(rows, data):
    """Whatever the identifiers are, lines of a batch and of a slice of it read back as they were."""
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    lines = result_lines(matches(*rows).slice(start, stop)).decode().split("\n")[:-1]
    expected = [{"query": query, "ts": ts, "object": found} for query, ts, found in rows[start:stop]]
    assert [json.loads(line) for line in lines] == expected


def test_values_that_json_cannot_say_are_refused():
    """An infinite distance is an error, not a broken line."""
    with pytest.raises(RunError, match="answer to query 'b' has a value that is not finite"):
        result_lines(answers(("a", 1, TYPE_KNN, [("o", 1.0)]), ("b", 1, TYPE_KNN, [("o", np.inf)])))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst", "parquet"])
def test_results_read_back_from_every_format(tmp_path, ending):
    """All formats hold the same results."""
    path = tmp_path / f"results.{ending}"
    writer = open_results(path)
    for batch in (MATCHES, ANSWERS, matches(), MATCHES):
        writer.write(batch)
    writer.close()
    lines = result_lines(MATCHES) + result_lines(ANSWERS) + result_lines(MATCHES)
    assert read_results(path) == [json.loads(line) for line in lines.decode().split("\n")[:-1]]


def test_parquet_identifiers_are_strings(tmp_path):
    """Parquet has one type a column, so integers are written as their digits."""
    writer = ParquetWriter(tmp_path / "r.parquet")
    writer.write(matches((7, 1, "a"), ("7", 2, 2**70)))
    writer.write(answers((3, 1, TYPE_KNN, [(5, 0.5)])))
    writer.close()
    assert read_results(tmp_path / "r.parquet") == [
        {"query": "7", "ts": 1, "object": "a"},
        {"query": "7", "ts": 2, "object": str(2**70)},
        {"query": "3", "ts": 1, "objects": [["5", 0.5]]},
    ]


def test_parquet_without_results_is_a_file(tmp_path):
    """A run without results leaves a Parquet file of no rows."""
    ParquetWriter(tmp_path / "r.parquet").close()
    assert read_results(tmp_path / "r.parquet") == []


def test_parquet_row_groups_are_bounded(tmp_path, monkeypatch):
    """Rows are written when enough of them wait, not only at the end."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 5)
    writer = ParquetWriter(tmp_path / "r.parquet")
    for _ in range(5):
        writer.write(MATCHES)
    writer.close()
    with pq.ParquetFile(tmp_path / "r.parquet") as file:
        assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [6, 6, 3]


@pytest.mark.parametrize("durable", [False, True])
def test_jsonl_goes_on_at_a_position(tmp_path, durable):
    """A file taken up again at a checkpoint loses what was written after it, and only that."""
    path = tmp_path / "r.jsonl"
    writer = JsonlWriter(path)
    writer.write(MATCHES)
    position = writer.position(durable=durable)
    assert position == path.stat().st_size == len(result_lines(MATCHES))
    writer.write(ANSWERS)
    writer.close()
    again = JsonlWriter(path, position)
    again.write(MATCHES)
    assert again.position() == 2 * position
    again.close()
    assert path.read_bytes() == result_lines(MATCHES) * 2


def test_jsonl_starts_afresh_without_a_position(tmp_path):
    """A new run replaces an old file."""
    path = tmp_path / "r.jsonl"
    path.write_text("old\n")
    JsonlWriter(path).close()
    assert path.read_bytes() == b""


def test_jsonl_shorter_than_its_checkpoint_is_refused(tmp_path):
    """A file that was cut or replaced since the checkpoint cannot be taken up again."""
    path = tmp_path / "r.jsonl"
    path.write_text("{}\n")
    with pytest.raises(InputError, match="has 3 bytes, but the checkpoint was taken at 10"):
        JsonlWriter(path, 10)
    with pytest.raises(InputError, match="cannot write"):
        JsonlWriter(tmp_path / "none.jsonl", 0)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_jsonl_goes_on_at_a_position(tmp_path, ending):
    """A compressed file is cut between its members, whatever was written behind; nothing at all is a readable file too."""
    path = tmp_path / f"r.jsonl.{ending}"
    JsonlWriter(path).close()
    assert read_results(path) == []
    writer = JsonlWriter(path)
    writer.write(MATCHES)
    position = writer.position(durable=True)
    assert writer.position() == position == path.stat().st_size
    writer.write(ANSWERS)
    writer.close()
    with path.open("ab") as file:
        file.write(b"torn")
    again = JsonlWriter(path, position)
    again.write(MATCHES)
    again.close()
    assert read_results(path) == [json.loads(line) for line in (result_lines(MATCHES) * 2).decode().split("\n")[:-1]]


def parts_after(path, batches, state=None):
    """Write batches by parts, closing nothing; return the state behind them."""
    writer = ParquetParts(path, state)
    for batch in batches:
        writer.write(batch)
    return writer, writer.snapshot()


@pytest.mark.parametrize("kept", range(8))
@pytest.mark.parametrize("ended", [False, True])
def test_parquet_parts_go_on_at_a_snapshot(tmp_path, monkeypatch, kept, ended):
    """Cut anywhere, before or after the parts were joined, the file in the end is that of a writer that was never cut."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 5)
    batches = [MATCHES, ANSWERS, MATCHES, matches(), MATCHES, ANSWERS, MATCHES]
    plain = ParquetWriter(tmp_path / "plain.parquet")
    for batch in batches:
        plain.write(batch)
    plain.close()
    path = tmp_path / "r.parquet"
    _, state = parts_after(path, batches[:kept])
    first, _ = parts_after(path, [*batches[kept:], MATCHES], state)
    if ended:
        first.close()
        assert not path.with_name("r.parquet.parts").exists()
    again, _ = parts_after(path, batches[kept:], unpack_state(pack_state(state)))
    again.close()
    assert path.read_bytes() == (tmp_path / "plain.parquet").read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("r.")] == ["r.parquet"]


def test_parquet_parts_that_are_gone_are_refused(tmp_path, monkeypatch):
    """Parts that a checkpoint counts and nobody has any more are an error that says what to do."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 2)
    path = tmp_path / "r.parquet"
    writer, state = parts_after(path, [MATCHES, MATCHES])
    (tmp_path / "r.parquet.parts" / "00000001.parquet").unlink()
    with pytest.raises(InputError, match=r"parts of r\.parquet that the checkpoint counts \(2\) are missing"):
        ParquetParts(path, state)
    del writer
    ParquetParts(path).close()
    with pytest.raises(InputError, match="has 0 row groups, but the checkpoint was taken after 2"):
        ParquetParts(path, state)


@pytest.mark.parametrize("writer", [JsonlWriter, ParquetWriter, RejectsWriter])
def test_files_that_cannot_be_written_raise(tmp_path, writer):
    """A folder that does not exist is named at once."""
    with pytest.raises(InputError, match=r"cannot write .*none"):
        writer(tmp_path / "none" / "r.out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_full_disk_is_an_error_of_the_run():
    """Where bytes can no longer be written, the error says so."""
    writer = JsonlWriter("/dev/full")
    writer.write(MATCHES)
    with pytest.raises(RunError, match="cannot write /dev/full: No space left on device; make room"):
        writer.position()


def test_rejects_are_lines_too(tmp_path):
    """A reject is one line: source, line, reason; the file goes on as results do."""
    path = tmp_path / "rejects.jsonl"
    batch = RejectBatch.of("objects.csv", [3, 9], ["no id", 'op is "x", expected upsert'])
    writer = RejectsWriter(path)
    writer.write(batch)
    position = writer.position()
    writer.write(batch)
    writer.close()
    RejectsWriter(path, position).close()
    assert path.read_bytes() == reject_lines(batch)
    assert reject_lines(batch).decode().splitlines() == [
        '{"source":"objects.csv","line":3,"reason":"no id"}',
        '{"source":"objects.csv","line":9,"reason":"op is \\"x\\", expected upsert"}',
    ]


def test_results_of_an_unknown_ending_are_refused(tmp_path):
    """A results file must say by its ending what it is to be."""
    with pytest.raises(InputError, match=r"ends in '.csv'.*; expected .jsonl, .ndjson, .parquet"):
        open_results(tmp_path / "r.csv")


@pytest.mark.parametrize("names", [[7, -1, 2**62], ["a", 'q"\\\n\x7fé', ""], [2**70, "x", 3]])
def test_few_matches_are_written_as_many_are(names, monkeypatch):
    """A few rows, made one by one, are the same bytes as columns make of them, whatever the identifiers are."""
    batch = MatchBatch(Ids.of(names), np.array([0, -5, 2**61]), Ids.of(names[::-1]))
    few = result_lines(batch)
    monkeypatch.setattr("streams.files.result_lines.FEW_ROWS", 0)
    assert result_lines(batch) == few
    assert [json.loads(line)["query"] for line in few.splitlines()] == names
