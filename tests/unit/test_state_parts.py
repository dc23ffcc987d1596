"""Parts of states: written once, referred to afterwards, shared by all tasks of a process, removed with the last checkpoint."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
import structlog

from streams.errors import CodecError
from streams.state import Part, pack_apart, pack_state, read_state, unpack_state
from topology.checkpoints import Checkpoint, FolderStore, StoreError, load_newest, open_store, save
from topology.checkpoints import part_files as part_files_module
from topology.checkpoints.manifest import PARTS
from topology.checkpoints.part_files import PartError, PartFiles, part_name


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path):
    return open_store(str(tmp_path)) if request.param == "folder" else open_store(f"memory://{tmp_path.name}")


def made(key, value, calls):
    """Return a part that notes when its value is made."""

    def make():
        calls.append(key)
        return value

    return Part(key, make)


def checkpoint(epoch, **states):
    packed = {name: pack_apart(state) for name, state in states.items()}
    return Checkpoint(epoch, {}, {}, packed, pack_apart({}), {})


def bytes_of(store):
    return sum(store.sizes(PARTS).values())


def test_value_of_a_part_is_made_once():
    """Whoever asks first, and from however many threads."""
    calls = []
    part = made("a", [1], calls)
    threads = [threading.Thread(target=lambda: part.value) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert part.value is part.value
    assert calls == ["a"]


@pytest.mark.parametrize("key", ["", "x" * 1001, 7])
def test_part_without_a_usable_key_is_refused(key):
    """A key is a text that is not too long."""
    with pytest.raises(CodecError, match="expected a text of 1 to 1,000 characters"):
        Part(key, list)


def test_state_that_needs_nothing_else_holds_the_values_of_its_parts():
    """A part that a state has twice is in it once, and comes back as one."""
    part = Part.of("a", np.arange(1000))
    packed = pack_state({"one": part, "more": [part, (Part.of("b", "x"),)]})
    assert len(packed) < 2 * 8000
    back = unpack_state(packed)
    assert back["one"] is back["more"][0]
    assert back["one"].value.tolist() == list(range(1000))
    assert (back["more"][1][0].key, back["more"][1][0].value) == ("b", "x")


def test_state_packed_apart_does_not_ask_for_the_values_of_parts():
    """Nor does it see what changes later in arrays of its own."""
    calls, array = [], np.arange(10_000)
    packed = pack_apart({"part": made("a", 1, calls), "array": array})
    array[:] = 0
    assert (calls, list(packed.parts)) == ([], ["a"])
    back = unpack_state(b"".join(packed.pieces), lambda key: Part.of(key, "found"))
    assert back["array"].tolist() == list(range(10_000))
    assert back["part"].value == "found"


def test_state_that_refers_to_a_part_that_is_not_there_is_refused():
    """The error names the part."""
    with pytest.raises(CodecError, match="refers to the part 'a', which is not there"):
        unpack_state(b"".join(pack_apart([Part.of("a", 1)]).pieces))


def test_part_is_written_once_for_all_checkpoints_and_tasks(store):
    """Its value is made when it is first written, and never again; each checkpoint finds it."""
    calls, parts = [], PartFiles(store)
    for serial in range(3):
        both = {"t": {"plan": made("plan", np.arange(5000), calls)}, "u": [made("plan", np.arange(5000), calls)]}
        save(store, serial, checkpoint(serial, **both), 2, parts)
    assert calls == ["plan"]
    assert len(store.sizes(PARTS)) == 1
    assert parts.written == bytes_of(store) > 5000 * 8
    found = load_newest(store)
    assert found.states["t"]["plan"].value.tolist() == list(range(5000))
    assert found.states["t"]["plan"] is found.states["u"][0]


def test_part_of_a_checkpoint_is_read_once_and_not_before_it_is_needed(store, monkeypatch):
    """All that refer to it share one object, whichever checkpoint they came from; it goes when nobody has it any more."""
    reads = []
    read_file = part_files_module.read_file
    monkeypatch.setattr(part_files_module, "read_file", lambda *args: reads.append(1) or read_file(*args))
    save(store, 0, checkpoint(0, t=[Part.of("p", "value")]), 2)
    one, other = (load_newest(store).states["t"][0] for _ in range(2))
    assert one is other
    assert reads == []
    assert (one.value, other.value, len(reads)) == ("value", "value", 1)
    del one, other
    gc.collect()
    assert load_newest(store).states["t"][0].value == "value"
    assert len(reads) == 2


def test_parts_stay_as_long_as_a_kept_checkpoint_refers_to_them(store):
    """Those of the checkpoint that was removed go with it, and so do those that no checkpoint ever had."""
    store.write(f"{PARTS}/left-by-a-crash.part", b"")
    keys = [["a"], ["a", "b"], ["b"], ["c"], ["a"]]
    there = []
    parts = PartFiles(store)
    for serial, some in enumerate(keys):
        save(store, serial, checkpoint(serial, t=[Part.of(key, key * 9) for key in some]), 2, parts)
        there.append(sorted(name[0] for name in store.sizes(PARTS)))
    assert there == [["a"], ["a", "b"], ["a", "b"], ["b", "c"], ["a", "c"]]
    assert [part.value for part in load_newest(store).states["t"]] == ["a" * 9]


def test_parts_of_a_checkpoint_that_could_not_be_written_do_no_harm(tmp_path, monkeypatch):
    """The next one writes what is missing and removes what is left over."""
    store, parts = FolderStore(tmp_path), PartFiles(FolderStore(tmp_path))
    save(store, 0, checkpoint(0, t=[Part.of("a", 1)]), 1, parts)
    write = FolderStore.write

    def broken(self, name, data):
        if name.endswith("manifest.json"):
            raise StoreError("full")
        write(self, name, data)

    monkeypatch.setattr(FolderStore, "write", broken)
    with pytest.raises(StoreError):
        save(store, 1, checkpoint(1, t=[Part.of("b", 2)]), 1, parts)
    monkeypatch.undo()
    assert [part.value for part in load_newest(store).states["t"]] == [1]
    save(store, 2, checkpoint(2, t=[Part.of("b", 2), Part.of("a", 1)]), 1, parts)
    assert [part.value for part in load_newest(store).states["t"]] == [2, 1]
    assert sorted(store.folders()) == ["000000002", PARTS]
    assert len(store.sizes(PARTS)) == 2


DAMAGES = {
    "flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "torn": lambda data: data[:-1],
    "gone": None,
}


@pytest.mark.parametrize("reading", ["kept", "checked", "sized"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_checkpoint_with_a_damaged_part_is_passed_over(store, damage, reading):
    """The one before, which does not need the part, is taken; where only sizes are looked at, reading the value finds it."""
    save(store, 0, checkpoint(0, t=[Part.of("a", "one")]), 2)
    save(store, 1, checkpoint(1, t=[Part.of("b", "two")]), 2)
    name = next(name for name in store.sizes(PARTS) if name.startswith("b"))
    if damage == "gone":
        store.remove(f"{PARTS}/{name}")
    else:
        store.write(f"{PARTS}/{name}", DAMAGES[damage](store.read(f"{PARTS}/{name}", 1000)))
    with structlog.testing.capture_logs() as logs:
        found = load_newest(store, reading)
    if (damage, reading) == ("flipped", "sized"):
        assert found.manifest.epoch == 1
        return
    assert found.manifest.epoch == 0
    assert name in logs[0]["reason"]


def test_part_that_is_damaged_when_it_is_read_is_an_error_of_its_own(tmp_path):
    """So that a worker can tell it from what an operator says of its input."""
    store = FolderStore(tmp_path)
    save(store, 0, checkpoint(0, t=[Part.of("a", "one")]), 2)
    part = load_newest(store).states["t"][0]
    for path in (tmp_path / PARTS).iterdir():
        path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(PartError, match="is damaged: its checksum differs"):
        _ = part.value


@pytest.mark.parametrize("key", ["../../etc/passwd", "a/b", ".", "..", "\0", "ä" * 500, "con", "A", "a", " "])
def test_any_key_is_a_file_of_the_parts_folder(tmp_path, key):
    """No key leads elsewhere, is too long for a file system, or is taken for another one."""
    store = FolderStore(tmp_path / "kept")
    save(store, 0, checkpoint(0, t=[Part.of("a-b", 1), Part.of(key, "value"), Part.of(key + "x", 2)]), 2)
    assert [part.value for part in load_newest(store).states["t"]] == [1, "value", 2]
    files = {path.relative_to(tmp_path).parts[:-1] for path in tmp_path.rglob("*.part")}
    assert files == {("kept", PARTS)}
    assert len(part_name(key, "0" * 64)) < 100


def test_parts_with_one_key_and_other_bytes_do_not_replace_each_other(tmp_path):
    """A file is named by its content too: what a checkpoint refers to is never overwritten."""
    store = FolderStore(tmp_path)
    save(store, 0, checkpoint(0, t=[Part.of("a", "one")]), 2)
    before = {path: path.read_bytes() for path in Path(tmp_path, PARTS).iterdir()}
    save(store, 1, checkpoint(1, t=[Part.of("a", "two")]), 2)
    assert all(path.read_bytes() == data for path, data in before.items())
    assert load_newest(store).states["t"][0].value == "two"


def test_part_known_from_an_earlier_checkpoint_is_not_made_again(store):
    """Unless its file is gone from the store."""
    calls = []
    manifest = save(store, 0, checkpoint(0, t=[Part.of("a", 1)]), 2)
    parts = PartFiles(store)
    parts.know(manifest.parts)
    save(store, 1, checkpoint(1, t=[made("a", 1, calls)]), 2, parts)
    assert calls == []
    store.remove(PARTS)
    save(store, 2, checkpoint(2, t=[made("a", 1, calls)]), 1, parts)
    assert calls == ["a"]
    assert load_newest(store).states["t"][0].value == 1


def test_state_that_is_cut_off_asks_for_no_more_than_is_there():
    """Memory is not made for bytes that a damaged head announces."""
    packed = pack_state({"array": np.arange(50)})
    for size in range(0, len(packed), 8):
        left, asked = memoryview(packed)[:size], []

        def read(count, left=left, asked=asked):
            asked.append(count)
            start = sum(asked) - count
            return bytes(left[start : start + count])

        with pytest.raises(CodecError, match="cut off"):
            read_state(read, size)
        assert sum(asked) <= size
