"""Records of text files: cut, counted, measured, whatever the pieces they come in."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import InputError
from streams.files import file_bytes
from streams.files.file_blocks import ReadLimits, as_paths, file_kind, read_records


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a path that each example writes anew."""
    return tmp_path_factory.mktemp("blocks") / "records.txt"


def naive_lines(content, limit):
    """Return (line, bytes or None for one that is too long, size) of all lines that are not white space."""
    found = []
    for number, line in enumerate(content.split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if line.strip(b" \t\r"):
            found.append((number, None if len(line) > limit else line, len(line)))
    return found


@given(
    st.lists(st.sampled_from([b"a", b"bb", b" ", b"\t", b"\r\n", b"\n", b'"', b"cccccccc"]), max_size=40).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 12),
)
def test_lines_are_those_of_the_file(path, content, piece, rows, limit):
    """However a file is read, its lines, their numbers and their lengths are the same; none too long is held."""
    path.write_bytes(content)
    with mock.patch.object(file_bytes, "READ_BYTES", piece):
        blocks = list(read_records(str(path), None, quoted=False, rows=rows, limits=ReadLimits(line_bytes=limit)))
    found = [
        (int(block.line[row]), None if block.too_long[row] else block.record(row), int(block.size[row]))
        for block in blocks
        for row in range(len(block))
    ]
    assert found == naive_lines(content, limit)
    assert all(0 < len(block) <= rows for block in blocks)


@given(
    st.lists(st.sampled_from([b"a", b",", b'"', b"\n", b'""', b"\r\n", b"xxxx"]), max_size=30).map(b"".join),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(3, 20),
)
def test_csv_records_do_not_depend_on_the_pieces(path, content, piece, rows, limit):
    """CSV records are the same whether the file comes at once or a few bytes at a time."""
    path.write_bytes(content)

    def read(piece, rows):
        with mock.patch.object(file_bytes, "READ_BYTES", piece):
            blocks = list(read_records(str(path), None, quoted=True, rows=rows, limits=ReadLimits(line_bytes=limit)))
        cut = [(b.line[r], b.record(r), b.too_long[r], b.size[r]) for b in blocks for r in range(len(b))]
        return cut, bool(blocks) and blocks[-1].unclosed

    assert read(piece, rows) == read(1_000, 1_000)


def test_tail_drops_the_first_records(path):
    """The rest of a block has the same records as before."""
    path.write_bytes(b"a\nbb\n\nccc\n")
    [block] = read_records(str(path), None, quoted=False, rows=9)
    rest = block.tail(1)
    assert [rest.record(row) for row in range(len(rest))] == [b"bb", b"ccc"]
    assert rest.line.tolist() == [2, 4]


def test_not_utf8_finds_the_records(path):
    """Only the records with bytes that are no text are found."""
    path.write_bytes("é\n".encode() + b"\xff\nplain\n")
    [block] = read_records(str(path), None, quoted=False, rows=9)
    assert block.not_utf8().tolist() == [False, True, False]


def test_paths_are_one_or_many(tmp_path):
    """A path, a string and lists of both are lists of strings."""
    assert as_paths("a") == ["a"]
    assert as_paths(tmp_path) == [str(tmp_path)]
    assert as_paths(["a", tmp_path]) == ["a", str(tmp_path)]


@pytest.mark.parametrize(
    ("name", "format_", "compression"),
    [
        ("a.b.jsonl", "jsonl", None),
        ("A.CSV.GZ", "csv", "gzip"),
        ("x/y.parquet", "parquet", None),
        ("o.ndjson.zst", "jsonl", "zstd"),
    ],
)
def test_file_kind_is_told_by_the_ending(name, format_, compression):
    """The last endings count, in any case."""
    kind = file_kind(name)
    assert (kind.format, kind.compression) == (format_, compression)


def test_file_kind_of_a_wrong_format_says_what_is_expected():
    """An ending that is known but not wanted here is refused as well."""
    with pytest.raises(InputError, match=r"o.csv.gz ends in '.csv'; expected .jsonl, .ndjson, for text also with .gz"):
        file_kind("o.csv.gz", ("jsonl",))


def test_unreadable_files_raise(tmp_path):
    """A file that fails while it is read raises an error of ours, with its name."""
    path = tmp_path / "o.jsonl"
    path.write_text("{}\n")
    with (
        mock.patch.object(file_bytes.pa, "input_stream", side_effect=OSError("Input/output error")),
        pytest.raises(InputError, match=r"o.jsonl cannot be read to its end: Input/output error"),
    ):
        list(read_records(str(path), None, quoted=False, rows=9))
