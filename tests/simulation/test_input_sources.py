"""Where input comes from and in which order: late objects, encodings, pipes, files that grow, folders and patterns."""

import gzip
import json
import os
import random
import re
import threading
from pathlib import Path

import pytest
from range_inputs import random_objects, write_inputs, write_lines

from streams.errors import DeclarationError, InputError
from topology.amendments import with_results, with_source
from topology.odd_input import odd_input
from topology.piped_input import piped_input
from topology.run import run
from topology.toml import load_topology
from topology.validation import validate
from topology.verification import verified_run

QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.toml"
SPACE = "topology.space=[0.0, 0.0, 1.0, 1.0]"


def declared(objects, queries, *settings, results=None):
    """Return the quick start over other input."""
    topology = load_topology(QUICKSTART, [SPACE, "topology.epoch.objects=7", *settings], check=False)
    topology = with_source(with_source(topology, "leads", Path(objects)), "follows", Path(queries))
    return topology if results is None else with_results(topology, str(results))


def lines_of(path):
    return sorted(path.read_text("utf-8").splitlines())


def outcome(tmp_path, objects, queries, *settings, **options):
    """Run to the end and return the lines of results and the summary."""
    summary = run(declared(objects, queries, *settings, results=tmp_path / "r.jsonl"), **options).summary
    return lines_of(tmp_path / "r.jsonl"), summary


@pytest.fixture
def inputs(tmp_path):
    """Objects in time order and queries, and the lines of results and the summary that they give."""
    objects, queries = write_inputs(tmp_path, 5)
    return objects, queries, *outcome(tmp_path, objects, queries)


@pytest.mark.parametrize("seed", range(4))
def test_run_with_late_objects_is_exact_and_survives_kills(tmp_path, seed):
    """Objects up to lateness_ms late, later ones rejected, tasks killed in mid-buffer: the results are the oracle's."""
    rng = random.Random(seed)
    objects = random_objects(rng, 120, last_ts=60)
    late = sorted(objects, key=lambda one: one["ts"] + rng.choice([0, 0, 4, 9]))
    path = write_lines(tmp_path / "late.jsonl", late)
    _, queries = write_inputs(tmp_path, seed, last_ts=60)
    topology = declared(
        path, queries, "spout.objects.lateness_ms=5", f"spout.objects.parallelism={seed % 2 + 1}",
        f"topology.checkpoint.directory={tmp_path / 'checkpoints'}", "topology.checkpoint.epochs=2",
        'inject=[{kind="kill", task="objects[0]", epoch=4}, {kind="kill", task="evaluator[1]", epoch=9}]',
    )  # fmt: skip
    found, comparison = verified_run(topology)
    assert comparison.ok
    assert found.summary["restarts"] == 2
    assert 0 < found.summary["rejected_objects"] < 60
    assert found.summary["objects"] + found.summary["rejected_objects"] == 120


def test_late_objects_give_the_results_of_objects_in_order(tmp_path, inputs):
    """A shuffled file with enough lateness gives every line that the ordered one does, and no rejects."""
    objects, queries, expected, _ = inputs
    shuffled = Path(objects).read_text("utf-8").splitlines()
    random.Random(1).shuffle(shuffled)
    (tmp_path / "shuffled.jsonl").write_text("\n".join(shuffled) + "\n", "utf-8")
    found, summary = outcome(tmp_path, tmp_path / "shuffled.jsonl", queries, "spout.objects.lateness_ms=100000")
    assert (found, summary["rejected_objects"]) == (expected, 0)


def words(tmp_path, encoding):
    """Write objects and a query with words that are not ASCII, the objects in an encoding."""
    text = "id,ts,x,y,text\n1,5,0.5,0.5,Café fermé\n2,6,0.5,0.5,Straße\n3,7,0.5,0.5,plain\n"
    (tmp_path / "o.csv").write_bytes(text.encode(encoding))
    query = {"op": "register", "type": "range", "region": {"rect": [0, 0, 1, 1]}, "ts": 0, "match": "any"}
    asked = query | {"id": "q", "keywords": ["café", "strasse", "plain"]}
    return tmp_path / "o.csv", write_lines(tmp_path / "q.jsonl", [asked])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_text_in_a_declared_encoding_is_read(tmp_path, encoding):
    """Words with accents match whatever the file is in, once that is declared."""
    found, summary = outcome(tmp_path, *words(tmp_path, encoding), f"spout.objects.encoding={encoding}")
    assert [json.loads(line)["object"] for line in found] == [1, 2, 3]
    assert summary["rejected"] == 0


def test_text_in_another_encoding_says_what_to_declare(tmp_path):
    """Undeclared, records that are not UTF-8 are rejects whose reason names the setting; an unknown encoding is refused."""
    paths = words(tmp_path, "latin-1")
    _, summary = outcome(tmp_path, *paths)
    assert summary["objects"] == 1
    [reason] = summary["reject_reasons"]
    assert reason["count"] == 2
    assert 'encoding = "latin-1"' in reason["reason"]
    with pytest.raises(DeclarationError, match=r"did you mean 'latin-1'"):
        validate(declared(*paths, "spout.objects.encoding=latin1x"))


def test_bytes_that_are_nothing_in_the_declared_encoding_are_rejects(tmp_path):
    """A byte that cp1252 does not have makes its record a reject, not a guess."""
    objects, queries = words(tmp_path, "cp1252")
    objects.write_bytes(objects.read_bytes() + b"4,8,0.5,0.5,plain \x81\n5,9,0.5,0.5,plain\n")
    found, summary = outcome(tmp_path, objects, queries, "spout.objects.encoding=cp1252")
    assert [json.loads(line)["object"] for line in found] == [1, 2, 3, 5]
    assert "expected cp1252" in summary["reject_reasons"][0]["reason"]


@pytest.mark.parametrize("which", ["objects", "queries"])
def test_input_from_a_named_pipe_is_that_of_the_file(tmp_path, inputs, which):
    """A pipe without an ending, for objects or for queries, gives the lines that the file does."""
    objects, queries, expected, _ = inputs
    source = objects if which == "objects" else queries
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(Path(source).read_bytes()))
    writer.start()
    found, _ = outcome(tmp_path, *((pipe, queries) if which == "objects" else (objects, pipe)))
    writer.join()
    assert found == expected


def test_pipe_that_cannot_be_read_as_text_is_refused(tmp_path, inputs):
    """Compressed bytes, and nothing at all, in a pipe are refused with what to do."""
    _, queries, *_ = inputs
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for data, message in (
        (gzip.compress(b"id\n"), "gunzip -c"),
        (b"", "without a single byte"),
        (b' [{"id": 1}]', "is a JSON array: .* < FILE > "),
        (b"id;ts;lon;lat;text\n", "^" + re.escape(str(pipe)) + " has fields .* < FILE > commas.csv"),
    ):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        with pytest.raises(InputError, match=message):
            run(declared(pipe, queries))
        writer.join()


def test_what_comes_from_a_pipe_gets_proposals(tmp_path, inputs):
    """All of them, as a file does, before a run and when it has ended: its copy is there for so long."""
    _, queries, *_ = inputs
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"no,when,lon,lat,title\n1,1772348460,0.5,0.5,fire\n2,1772348400,0.5,0.5,fire\n"
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    named = declared(pipe, queries, 'spout.objects.columns={id="no", ts="when", text="title"}')
    with piped_input(named) as topology:
        writer.join()
        told, *_ = odd_input(topology)
    settings = "--set spout.objects.time_unit=s --set spout.objects.lateness_ms=60000"
    assert (
        told
        == f"1 of the first 2 records of objects can be used; try {settings} (so 2 of the first 2 records can be used)"
    )


class Growing:
    """Lets a file grow while a run follows it, and asks it to stop once so many objects have come."""

    def __init__(self, path, lines, enough):
        self.path, self.lines, self.enough, self.seen = path, list(lines), enough, 0

    def on_progress(self, progress):
        self.seen = progress.objects
        with self.path.open("a") as file:
            # Lines come in two pieces, so that a reader meets half of one.
            file.writelines(self.lines[:2])
            self.lines = self.lines[2:]
            if self.lines:
                head, self.lines[0] = self.lines[0][:9], self.lines[0][9:]
                file.write(head)

    def should_stop(self):
        return self.seen >= self.enough


def test_growing_file_is_followed_and_resumed(tmp_path, inputs):
    """What is appended, also in halves of lines, is read; stopped and resumed, the results are those of the whole file."""
    objects, queries, expected, summary = inputs
    lines = Path(objects).read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_text("")
    settings = (
        "spout.objects.follow=true", f"topology.checkpoint.directory={tmp_path / 'checkpoints'}",
        "topology.checkpoint.epochs=1", "spout.objects.lateness_ms=1",
    )  # fmt: skip
    growing = Growing(path, lines, summary["objects"] // 2)
    topology = declared(path, queries, *settings, results=tmp_path / "r.jsonl")
    first = run(topology, on_progress=growing.on_progress, should_stop=growing.should_stop)
    assert summary["objects"] // 2 <= first.summary["objects"] < summary["objects"]
    # Much later ones, so that nothing waits for a newer one at the end.
    last = json.dumps(json.loads(lines[-1]) | {"id": "last", "ts": 10**9, "keywords": []}) + "\n"
    growing = Growing(path, [*growing.lines, last], summary["objects"])
    run(
        topology,
        on_progress=growing.on_progress,
        should_stop=growing.should_stop,
        resume=tmp_path / "checkpoints",
    )
    found = [line for line in lines_of(tmp_path / "r.jsonl") if '"last"' not in line]
    assert found == expected


def test_followed_file_that_is_replaced_or_cut_ends_the_run(tmp_path, inputs):
    """Another file under the name, or a shorter one, is no continuation: the run says so."""
    objects, queries, *_ = inputs

    def replace(path):
        other = tmp_path / "other.jsonl"
        other.write_text("")
        other.replace(path)

    for change, message in ((replace, "replaced"), (lambda path: os.truncate(path, 3), "was cut to 3 bytes")):
        path = tmp_path / "followed.jsonl"
        path.write_bytes(Path(objects).read_bytes())
        topology = declared(path, queries, "spout.objects.follow=true")
        with pytest.raises(InputError, match=message):
            run(topology, on_progress=lambda _, path=path, change=change: change(path))


def test_only_plain_text_files_with_one_reader_are_followed(tmp_path, inputs):
    """A compressed file, or several readers, cannot follow, and are told so."""
    objects, queries, *_ = inputs
    with pytest.raises(DeclarationError, match="tasks could not agree"):
        validate(declared(objects, queries, "spout.objects.follow=true", "spout.objects.parallelism=2"))
    packed = tmp_path / "o.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(objects).read_bytes()))
    with pytest.raises(InputError, match="cannot be followed"):
        run(declared(packed, queries, "spout.objects.follow=true"))


def test_folder_and_pattern_are_read_in_the_order_of_names(tmp_path, inputs):
    """Files of several formats in a folder, or that a pattern matches, give the lines of one file; other files are left out."""
    objects, queries, expected, _ = inputs
    lines = Path(objects).read_text("utf-8").splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        text = "".join(lines[part * len(lines) // 3 : (part + 1) * len(lines) // 3]).encode()
        name, data = (f"part-{part}.jsonl", text) if part != 1 else (f"part-{part}.jsonl.gz", gzip.compress(text))
        (folder / name).write_bytes(data)
    (folder / "README.md").write_text("not data")
    for path in (folder, folder / "part-*.jsonl*"):
        assert outcome(tmp_path, path, queries)[0] == expected
    for path, message in ((tmp_path / "no-*.csv", "no file matches"), (tmp_path / "none.csv", "no such file")):
        with pytest.raises(DeclarationError, match=message):
            validate(declared(path, queries))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DeclarationError, match="neither a prepared data set nor"):
        validate(declared(tmp_path / "empty", queries))


def test_resumed_folder_must_still_have_what_was_read(tmp_path, inputs):
    """Files may come behind those that were read; one that is gone is refused."""
    objects, queries, *_ = inputs
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(Path(objects).read_bytes())
    keep = (f"topology.checkpoint.directory={tmp_path / 'checkpoints'}", "topology.checkpoint.epochs=1")
    before = run(declared(folder, queries, *keep)).summary["objects"]
    (folder / "b.jsonl").write_text(json.dumps({"id": "b", "ts": 10**9, "x": 0.5, "y": 0.5, "keywords": []}) + "\n")
    assert run(declared(folder, queries, *keep), resume=tmp_path / "checkpoints").summary["objects"] == before + 1
    (folder / "a.jsonl").rename(folder / "c.jsonl")
    with pytest.raises(InputError, match=r"taken of a\.jsonl, which is b\.jsonl now"):
        run(declared(folder, queries, *keep), resume=tmp_path / "checkpoints")
