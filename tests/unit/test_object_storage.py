"""Objects that leave memory: files by interval, an index that spares reading them, answers that are refused."""

import numpy as np
import pytest
from range_inputs import CONF, write_lines
from sstd_inputs import SQUARE

from operators.evaluation.kept_core import KeptCore
from operators.evaluation.object_storage import ObjectStorage
from operators.indexes.objects import OBJECT_INDEXES, make_object_index
from streams.batches import TYPE_RANGE, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.errors import InputError
from streams.geometry import REGION_RECT, Rect
from topology import load_topology
from topology.amendments import with_source
from topology.testing import run_for_test

SPACE = Rect(0, 0, 1, 1)

every_index = pytest.mark.parametrize("name", list(OBJECT_INDEXES))


def objects(first, count, place=0.5, word=3):
    """Return objects of one place with one word, a millisecond apart."""
    seq = np.arange(first, first + count)
    at = np.full(count, place)
    off = np.arange(count + 1, dtype=np.int32)
    ids = Ids("text", Ids.of([f"o{n}" for n in seq.tolist()]).values)
    return ObjectBatch(seq, seq, at, at, np.zeros(count, np.uint8), off, np.full(count, word, np.int64), ids)


def snapshot(number, ts, window, box, words=()):
    """Return a snapshot of a range query."""
    one = QueryBatch.empty().take(np.empty(0, np.int64))
    residual = {"none_off", "ring_off"}
    columns = {name: getattr(one, name) for name in QueryBatch.__dataclass_fields__ if name not in residual}
    columns |= {
        "number": np.array([number]), "target": np.array([number]), "op": np.zeros(1, np.uint8), "ts": np.array([ts]),
        "end": np.array([ts + 1]), "type": np.full(1, TYPE_RANGE, np.uint8), "continuous": np.zeros(1, np.bool_),
        "match_any": np.zeros(1, np.bool_), "region": np.full(1, REGION_RECT, np.uint8), "shape": np.array([box], float),
        "k": np.zeros(1, np.int32), "alpha": np.zeros(1), "window": np.array([window]), "slide": np.zeros(1, np.int64),
        "detect": np.zeros(1, np.uint8),
        "kw_off": np.array([0, len(words)], np.int32), "kw": np.array(words, np.int64), "ids": Ids("int", np.array([number])),
    }  # fmt: skip
    return QueryBatch(**columns)


def storage(folder, interval=10):
    return ObjectStorage(str(folder), interval, SPACE, "euclidean", lambda: make_object_index("brute", SPACE))


def core(folder):
    """Return a core that keeps ten objects in memory."""
    kept = KeptCore(SPACE, "euclidean", make_object_index("brute", SPACE), None, 10, storage(folder))
    kept.keep(objects(0, 40))
    kept.forget(40)
    kept.forget(41)
    return kept


def test_objects_are_stored_by_interval_and_found_again(tmp_path):
    """Thirty of forty objects are in files, each of which spans ten milliseconds; a window across all finds all."""
    kept = core(tmp_path)
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == ["0", "10", "20"]
    kept.insert(snapshot(1, 39, 35, (0, 0, 1, 1)))
    answer = kept.answer(np.array([1]), np.array([39]))
    assert sorted(answer.seq.tolist()) == list(range(5, 40))
    assert sorted(answer.ids.to_list(), key=lambda name: int(name[1:])) == [f"o{n}" for n in range(5, 40)]


@pytest.mark.parametrize(
    ("query", "files"),
    [
        (snapshot(1, 39, 100, (0, 0, 1, 1)), 3),
        (snapshot(1, 39, 20, (0, 0, 1, 1)), 1),
        (snapshot(1, 5, 100, (0, 0, 1, 1)), 1),
        (snapshot(1, 39, 100, (0.6, 0, 1, 1)), 0),
        (snapshot(1, 39, 100, (0, 0, 1, 1), [3]), 3),
        (snapshot(1, 39, 100, (0, 0, 1, 1), [3, 77]), 0),
    ],
)
def test_files_that_cannot_have_an_answer_are_not_read(tmp_path, query, files):
    """Times, places and keywords spare a look into files."""
    stored = storage(tmp_path)
    stored.store(objects(0, 30))
    found = list(stored.needed(query, query.ts - query.window, query.ts))
    assert len(found) == files


def test_storing_again_changes_nothing(tmp_path):
    """After going back to a checkpoint the same objects make the same files; those that are in no index do not count."""
    first, again = storage(tmp_path), storage(tmp_path)
    first.store(objects(0, 30))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again.store(objects(0, 30))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    restored = storage(tmp_path)
    restored.restore(first.snapshot()[:1])
    query = snapshot(1, 39, 100, (0, 0, 1, 1))
    [(file, rows)] = restored.needed(query, query.ts - query.window, query.ts)
    assert restored.objects(file).log.seq.tolist() == list(range(10))
    assert rows.tolist() == [0]


@every_index
def test_of_two_that_become_one_nobody_brings_back_what_is_stored(tmp_path, name):
    """One has stored objects that are younger than some that the other keeps in memory: together each is there once."""

    def kept(most):
        return KeptCore(SPACE, "euclidean", make_object_index(name, SPACE), None, most, storage(tmp_path))

    whole, givers = objects(0, 120), []
    for start, most in enumerate((10, 30)):
        giver = kept(most)
        giver.keep(whole.take(np.arange(start, 80, 2)))
        giver.forget(80)
        giver.forget(81)
        givers.append(giver.snapshot())
    one = kept(10)
    one.restore(KeptCore.divided(givers[0], snapshot(1, 119, 500, (0, 0, 1, 1)), givers))
    for start in (80, 100):
        assert sorted(one.answer(np.array([1]), np.array([119])).seq.tolist()) == list(range(start))
        one.keep(whole.slice(start, start + 20))
        one.forget(start + 20)


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_file_is_named(tmp_path, damage):
    """A file that is missing, cut or exchanged is refused with its name, and no other."""
    kept = core(tmp_path)
    one, other = sorted(tmp_path.iterdir())[:2]
    if damage == "missing":
        one.unlink()
    else:
        one.write_bytes(one.read_bytes()[:50] if damage == "cut" else other.read_bytes())
    kept.insert(snapshot(1, 39, 100, (0, 0, 1, 1)))
    kept.insert(snapshot(2, 39, 25, (0, 0, 1, 1)))
    answer = kept.answer(np.array([1, 2]), np.array([39, 39]))
    assert answer.number[answer.k < 0].tolist() == [1]
    assert len(kept.refusals) == 1
    assert one.name in kept.refusals[0]
    with pytest.raises(InputError, match=one.name):
        kept._storage.objects(kept._storage.stored[0])


def test_a_question_into_a_damaged_interval_gets_no_line_and_the_others_do(tmp_path):
    """The run goes on; what cannot be answered is counted with the file's name, and no wrong line is written."""
    folder = tmp_path / "stored"
    lines = [{"id": n, "ts": n, "x": n % 4 / 4, "y": 0.5, "keywords": ["tea"]} for n in range(60)]
    ask = {"op": "register", "type": "range", "continuous": False, "region": {"rect": [0, 0, 1, 1]}, "keywords": []}
    asked = [ask | {"id": f"early{n}", "ts": 40, "window": 40} for n in range(2)]
    asked += [ask | {"id": "late", "ts": 59, "window": 15}, ask | {"id": "whole", "ts": 59}]
    topology = load_topology(
        CONF / "sstd.toml",
        [SQUARE, "topology.epoch.objects=5", "bolt.evaluator.parallelism=2", f"bolt.evaluator.storage={folder}",
         "bolt.evaluator.keep_objects=5", "bolt.evaluator.interval_ms=10"],
        check=False,
    )  # fmt: skip
    topology = with_source(topology, "leads", write_lines(tmp_path / "objects.jsonl", lines))
    topology = with_source(topology, "follows", write_lines(tmp_path / "queries.jsonl", asked))
    run_for_test(topology).assert_exact()
    whole = ObjectStorage.objects

    def damaged(self, file):
        if file.name.startswith("0-"):
            raise InputError(f"{file.name}: cannot be read: it is damaged")
        return whole(self, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectStorage, "objects", damaged)
        trial = run_for_test(topology)
    answered = {line["query"]: len(line["objects"]) for line in trial.lines()}
    assert answered == {"late": 15}
    reasons = " ".join(one["reason"] for one in trial.summary["reject_reasons"])
    assert "not answered, because" in reasons
    assert "it is damaged" in reasons


def test_work_behind_the_scenes_is_done_by_what_comes_or_else_in_quiet_epochs():
    """Objects bring as much of it as they are worth; an epoch does a part of its own only where no object has come."""
    kept, tended = KeptCore(SPACE, "euclidean", make_object_index("brute", SPACE)), []
    kept._here.index.tend = tended.append
    kept.forget(1)
    kept.keep(objects(0, 5))
    kept.forget(2)
    kept.keep(objects(5, 0))
    kept.forget(3)
    assert len(tended) == 2
