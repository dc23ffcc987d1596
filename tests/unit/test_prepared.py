"""Manifests and vocabularies of prepared data sets, read without Spark."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.errors import InputError
from streams.files.prepared import (
    MANIFEST,
    VOCABULARY,
    Manifest,
    ObjectFile,
    load_manifest,
    load_vocabulary,
    object_paths,
    save_manifest,
    shared_vocabulary,
)
from streams.geometry import Rect

PLAIN = Manifest(
    rows=3, keywords=4, space=Rect(0, 0, 1, 2), first_ts=-5, last_ts=9, words=2, id_type="int64", text=False,
    synthetic_rate=None, rejects={"no id": 2, "bad ts": 1}, files=(ObjectFile("objects/part-00000.parquet", 3),),
)  # fmt: skip


def test_manifest_comes_back_as_it_was_saved(tmp_path):
    """Every field survives the file."""
    for manifest in (PLAIN, replace(PLAIN, id_type="string", text=True, synthetic_rate=2.5)):
        save_manifest(tmp_path, manifest)
        assert load_manifest(tmp_path) == manifest
    assert PLAIN.rejected == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 99}, "has version 99, but this program reads version 1"),
        ({"format": "something"}, "is not the manifest of a prepared data set"),
        ({"rows": None}, "is damaged"),
        ({"space": [0, 0, 0, 0]}, "is damaged"),
        ({"id_type": "float"}, "is damaged"),
        ({"files": 7}, "is damaged"),
    ],
)
def test_manifest_that_is_not_ours_is_refused(tmp_path, change, sentence):
    """Another version, another file, or nonsense: one sentence that says what to do."""
    save_manifest(tmp_path, PLAIN)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=sentence) as error:
        load_manifest(tmp_path)
    assert str(path) in str(error.value)


def test_manifest_missing_or_broken_is_told_apart(tmp_path):
    """A folder without a manifest is unfinished, one that is no JSON is broken."""
    with pytest.raises(InputError, match="did not finish"):
        load_manifest(tmp_path)
    with pytest.raises(InputError, match="did not finish"):
        load_manifest(tmp_path / "absent")
    (tmp_path / MANIFEST).write_bytes(b"\xff{")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        load_manifest(tmp_path)


def test_vocabulary_is_read_with_its_frequencies(tmp_path):
    """Words and document frequencies come in order, with the number of documents."""
    save_manifest(tmp_path, PLAIN)
    pq.write_table(pa.table({"word": ["sushi", "ramen"], "df": [3, 1]}), tmp_path / VOCABULARY)
    vocabulary = load_vocabulary(tmp_path)
    assert (vocabulary.words, vocabulary.df.tolist(), vocabulary.documents) == (("sushi", "ramen"), [3, 1], 3)


def test_vocabulary_is_shared_within_a_process_until_it_is_another(tmp_path, monkeypatch):
    """All who ask get one value, under every name of the folder; a data set prepared again is read again."""
    monkeypatch.chdir(tmp_path)
    save_manifest(tmp_path, PLAIN)
    pq.write_table(pa.table({"word": ["storm", "sushi"], "df": [3, 1]}), tmp_path / VOCABULARY)
    first = shared_vocabulary(tmp_path)
    assert first.words == ("storm", "sushi")
    assert shared_vocabulary(str(tmp_path)) is first
    assert shared_vocabulary(".") is first
    pq.write_table(pa.table({"word": ["ramen"], "df": [7]}), tmp_path / VOCABULARY)
    save_manifest(tmp_path, replace(PLAIN, words=1, rows=11))
    again = shared_vocabulary(tmp_path)
    assert (again.words, again.df.tolist(), again.documents) == (("ramen",), [7], 11)
    assert len(shared_vocabulary(None)) == 0
    with pytest.raises(InputError, match="did not finish"):
        shared_vocabulary(tmp_path / "elsewhere")


def test_vocabulary_of_another_data_set_is_refused(tmp_path):
    """A vocabulary that is missing, damaged or of another length is no vocabulary of this data set."""
    save_manifest(tmp_path, PLAIN)
    with pytest.raises(InputError, match="cannot be read"):
        load_vocabulary(tmp_path)
    (tmp_path / VOCABULARY).write_bytes(b"no Parquet")
    with pytest.raises(InputError, match="cannot be read"):
        load_vocabulary(tmp_path)
    pq.write_table(pa.table({"word": ["sushi"], "df": [3]}), tmp_path / VOCABULARY)
    with pytest.raises(InputError, match=r"has 1 words, but manifest\.json says 2"):
        load_vocabulary(tmp_path)


def test_object_paths_are_those_of_the_manifest(tmp_path):
    """Files come in the manifest's order, and a missing one is named."""
    save_manifest(tmp_path, PLAIN)
    with pytest.raises(InputError, match=r"part-00000.parquet is named in manifest.json but is missing"):
        object_paths(tmp_path)
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "part-00000.parquet").touch()
    assert object_paths(tmp_path) == [tmp_path / "objects" / "part-00000.parquet"]
