"""Where checkpoints are kept, what makes one count, and which are kept."""

import json
import os
import threading
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import structlog

from streams.errors import InputError, RunError
from streams.state import pack_apart
from topology.checkpoints import Checkpoint, FolderStore, StoreError, load_newest, open_store, save
from topology.checkpoints import store as stores
from topology.checkpoints.background import BackgroundWriter
from topology.checkpoints.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    Manifest,
    SavedFile,
    checksum,
    pack_manifest,
    serial_of,
    unpack_manifest,
)
from topology.checkpoints.saved_state import next_serial
from topology.checkpoints.state_files import write_file

STORES = {
    "folder": lambda path: open_store("kept", path),
    "url of a folder": lambda path: open_store(f"file://{quote(str(path))}/kept"),
    "memory": lambda path: open_store(f"memory://{path.name}/kept"),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return STORES[request.param](tmp_path)


def checkpoint(epoch, **states):
    packed = {f"{name}[0]": pack_apart({"next": epoch + 1, "operator": value}) for name, value in states.items()}
    return Checkpoint(
        epoch, {"order": ["a"]}, {"a": 1}, packed, pack_apart({"tally": epoch}), {"a[0]": {"position": 5}}
    )


def test_store_keeps_files_by_name(store):
    """What is written is read again, replaced, listed and removed; removing what is not there is no error."""
    assert store.folders() == []
    store.write("1/a", b"one")
    store.write("1/b", b"")
    store.write("2/a", b"two")
    store.write("1/a", b"three")
    assert (store.read("1/a", 5), store.read("1/b", 0), store.read("2/a", 3)) == (b"three", b"", b"two")
    assert sorted(store.folders()) == ["1", "2"]
    store.remove("1")
    store.remove("nowhere")
    assert store.folders() == ["2"]


def test_store_refuses_what_is_missing_or_too_long(store):
    """A file that is not there, or longer than it may be, is an error that names it."""
    store.write("1/a", b"12345")
    with pytest.raises(StoreError, match=r"1/a has 5 bytes, more than it may have \(4\)"):
        store.read("1/a", 4)
    with pytest.raises(StoreError, match=r"cannot read .*1/b"):
        store.read("1/b", 4)


def test_store_at_a_url_that_nobody_knows_is_refused():
    """The error says what would do."""
    with pytest.raises(StoreError, match=r"cannot use 'nowhere://x' for checkpoints.*expected a folder, or a URL"):
        open_store("nowhere://x")


def test_store_in_a_place_that_cannot_be_written_is_an_error(tmp_path):
    """A file where the folder should be is named."""
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write .*kept"):
        open_store(str(tmp_path / "kept")).write("1/a", b"")


def test_checkpoint_comes_back(store):
    """The newest is loaded, with all states and what the driver knew."""
    save(store, 0, checkpoint(4, a={"x": np.arange(3)}), keep=3)
    save(store, 1, checkpoint(9, a={"x": np.arange(4)}, b={}), keep=3)
    found = load_newest(store)
    assert (found.manifest.epoch, found.manifest.serial, found.driver) == (9, 1, {"tally": 9})
    assert found.manifest.sinks == {"a[0]": {"position": 5}}
    assert found.states["a[0]"]["operator"]["x"].tolist() == [0, 1, 2, 3]
    assert found.states["b[0]"] == {"next": 10, "operator": {}}


def test_newest_checkpoints_are_kept_and_nothing_else(store):
    """After a manifest is in place, older ones and what never got a manifest are removed; other folders are not ours."""
    store.write("mine/file", b"")
    for serial in range(5):
        save(store, serial, checkpoint(serial), keep=2)
    store.write("000000005/task-00000.state", b"begun")
    assert next_serial(store) == 6
    save(store, 6, checkpoint(6), keep=2)
    assert sorted(store.folders()) == ["000000004", "000000006", "mine"]


def test_checkpoint_counts_only_with_its_manifest(store):
    """States alone are nothing: the one before is taken, with a warning."""
    save(store, 0, checkpoint(4, a={}), keep=3)
    store.write("000000001/task-00000.state", b"begun")
    with structlog.testing.capture_logs() as logs:
        assert load_newest(store).manifest.epoch == 4
    assert [(log["event"], log["log_level"]) for log in logs] == [("checkpoint_passed_over", "warning")]
    assert logs[0]["checkpoint"].endswith("000000001")
    assert "manifest.json" in logs[0]["reason"]


DAMAGES = {
    "torn": (lambda data: data[:-1], "is torn"),
    "flipped": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "is damaged: its checksum differs"),
    "empty": (lambda _data: b"", "is torn"),
}


@pytest.mark.parametrize("name", ["task-00000.state", "task-00001.state", "driver.state"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_found_and_named(store, name, damage):
    """Any file of the newest checkpoint that is not as it was written makes it be passed over."""
    for serial in range(2):
        save(store, serial, checkpoint(serial, a={"x": 1}, b={"y": 2}), keep=3)
    change, reason = DAMAGES[damage]
    store.write(f"000000001/{name}", change(store.read(f"000000001/{name}", 1000)))
    with structlog.testing.capture_logs() as logs:
        assert load_newest(store).manifest.epoch == 0
    assert name in logs[0]["reason"]
    assert reason in logs[0]["reason"]


def test_store_without_a_whole_checkpoint_is_an_error(store):
    """There is nothing to go on from, and the error says so."""
    with pytest.raises(InputError, match="there are no checkpoints here"):
        load_newest(store)
    save(store, 0, checkpoint(4), keep=3)
    store.write(f"000000000/{MANIFEST}", b"{}")
    with pytest.raises(InputError, match="none of the 1 checkpoints here is whole"):
        load_newest(store)


def test_states_beyond_the_limit_are_refused(store):
    """A file larger than it may be is neither written nor read."""
    with pytest.raises(StoreError, match=r"more than a checkpoint may hold \(10\); .*topology\.limits\.state_bytes"):
        save(store, 0, checkpoint(0, a={"x": "long enough"}), keep=1, most=10)
    assert store.folders() == []
    save(store, 0, checkpoint(0, a={"x": "long enough"}), keep=1)
    with pytest.raises(StoreError, match=r"more than topology\.limits\.state_bytes \(10\)"):
        load_newest(store, most=10)


MADE = Manifest(
    7, 3, {"é": [1]}, {"a": 2}, {"a[0]": SavedFile("f", 1, "c")}, SavedFile("d", 2, "e"), {"s": {"position": 1}}
)


def test_manifest_reads_back():
    """A manifest is the same after writing."""
    assert unpack_manifest(pack_manifest(MADE)) == MADE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole | {"format": 9}, f"has format 9, expected {FORMAT_VERSION}"),
        (lambda whole: whole | {"checksum": checksum(b"")}, "is damaged: its checksum differs"),
        (lambda whole: whole | {"checkpoint": whole["checkpoint"] | {"epoch": 4}}, "is damaged: its checksum differs"),
        (lambda whole: {"format": FORMAT_VERSION}, "is no manifest of ours"),
        (lambda whole: [], "is no manifest of ours"),
    ],
)
def test_manifest_of_another_make_is_refused(change, message):
    """Another format, another content or no manifest at all: each is told."""
    with pytest.raises(InputError, match=message):
        unpack_manifest(json.dumps(change(json.loads(pack_manifest(MADE)))).encode())


def test_folders_of_others_are_not_checkpoints():
    """Only folders named by a number of nine digits or more count."""
    names = ["000000012", "1234567890", "12", "٠٠٠٠٠٠٠٠٠", "00000001x", "manifest"]
    assert [serial_of(name) for name in names] == [12, 1234567890, None, None, None, None]


class Failing(FolderStore):
    """A store in which the n-th write fails."""

    def __init__(self, folder: Path, nth: int):
        super().__init__(folder)
        self.left = nth

    def write(self, name, data):
        self.left -= 1
        if self.left == 0:
            raise StoreError(f"cannot write {name}: No space left on device")
        super().write(name, data)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_failing_store_ends_the_run_where_so_configured(tmp_path, nth):
    """Whatever file could not be written, the next check raises, and the checkpoint before is still the newest."""
    writer = BackgroundWriter(Failing(tmp_path, nth + 3), keep=2)
    writer.submit(checkpoint(0, a={}))
    writer.wait()
    writer.submit(checkpoint(1, a={}))
    with pytest.raises(RunError, match=r"the checkpoint of epoch 1 could not be written .* No space left on device"):
        writer.wait()
    writer.close()
    assert load_newest(FolderStore(tmp_path)).manifest.epoch == 0


def test_failing_store_is_passed_over_where_so_configured(tmp_path):
    """The checkpoint is skipped with a warning, the next one counts."""
    with structlog.testing.capture_logs() as logs:
        writer = BackgroundWriter(Failing(tmp_path, 2), keep=2, on_failure="skip")
        writer.submit(checkpoint(0, a={}))
        writer.wait()
        writer.submit(checkpoint(1, a={}))
        writer.wait()
        writer.close()
    assert [log["event"] for log in logs] == ["checkpoint_skipped", "checkpoint_written"]
    assert load_newest(FolderStore(tmp_path)).manifest.epoch == 1


def test_writer_is_busy_while_it_writes(tmp_path, monkeypatch):
    """One checkpoint at a time: a second one is not taken before the first is in place."""
    go_on = threading.Event()
    write = FolderStore.write
    monkeypatch.setattr(FolderStore, "write", lambda *args: go_on.wait(60) and write(*args))
    writer = BackgroundWriter(FolderStore(tmp_path), keep=1)
    writer.submit(checkpoint(0))
    assert writer.busy
    with pytest.raises(AssertionError, match="one checkpoint at a time"):
        writer.submit(checkpoint(1))
    go_on.set()
    writer.wait()
    assert not writer.busy
    writer.close()
    assert load_newest(FolderStore(tmp_path)).manifest.epoch == 0


class Recorded(FolderStore):
    """A store that notes what happens in which order."""

    def __init__(self, folder, calls):
        super().__init__(folder)
        self.calls = calls

    def write(self, name, data):
        super().write(name, data)
        self.calls.append(("write", name))

    def remove(self, name):
        self.calls.append(("remove", name))
        super().remove(name)


def test_new_checkpoint_is_on_the_disk_before_an_older_one_is_removed(tmp_path, monkeypatch):
    """Its manifest, then the name of its folder in the root; a loss of power never takes both."""
    calls = []
    synced = stores._sync_folder
    monkeypatch.setattr(stores, "_sync_folder", lambda folder: calls.append(("sync", folder)) or synced(folder))
    store = Recorded(tmp_path, calls)
    for serial in range(2):
        save(store, serial, checkpoint(serial, a={}), keep=1)
    manifest, gone = (calls.index(one) for one in (("write", f"000000001/{MANIFEST}"), ("remove", "000000000")))
    assert manifest < gone
    assert ("sync", tmp_path) in calls[manifest:gone]


def test_folder_is_synced_by_the_system(tmp_path, monkeypatch):
    """The root itself is brought to the disk, not a file in it."""
    folders = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: folders.append(os.fstat(handle).st_ino) or fsync(handle))
    FolderStore(tmp_path).sync()
    assert folders == [tmp_path.stat().st_ino]


def test_store_reads_a_file_in_pieces_and_writes_one_from_pieces(store):
    """As a state is: nobody joins them."""
    store.write("1/a", iter([b"one", memoryview(b"two"), b""]))
    with store.opened("1/a") as file:
        assert (file.size, file.read(2), file.read(10), file.read(1)) == (6, b"on", b"etwo", b"")
    assert store.sizes("1") == {"a": 6}
    assert store.sizes("nowhere") == {}
    store.remove("1/a")
    assert store.sizes("1") == {}
    with pytest.raises(StoreError, match="cannot read"), store.opened("1/a"):
        pass


def test_writers_of_one_name_do_not_disturb_each_other(tmp_path):
    """While one is writing, another writes the same name: the file is always one of the two, whole."""
    store = FolderStore(tmp_path)

    def interrupted():
        yield b"one"
        store.write("1/a", b"another")
        yield b"more"

    store.write("1/a", interrupted())
    assert store.read("1/a", 100) == b"onemore"
    assert store.sizes("1") == {"a": 7}


def test_checkpoints_of_an_older_format_are_refused_with_the_reason(store):
    """The error itself says which format was found, and what to do."""
    save(store, 0, checkpoint(4), keep=3)
    name = f"000000000/{MANIFEST}"
    store.write(name, store.read(name, 10_000).replace(f'"format": {FORMAT_VERSION}'.encode(), b'"format": 2'))
    with pytest.raises(
        StoreError,
        match=rf"is whole \(the newest: manifest.json has format 2, expected {FORMAT_VERSION}; use the release",
    ):
        load_newest(store)


def test_pieces_of_a_state_are_forgotten_as_they_are_written(tmp_path):
    """Memory for a state is free again piece by piece; those of a part stay, because they are its value."""
    packed = pack_apart({"a": np.arange(10_000), "b": np.arange(10_000)})
    written = write_file(FolderStore(tmp_path), "1", "a", packed.pieces, reuse=False)
    assert packed.pieces == []
    assert (written.size > 160_000, tmp_path.joinpath("1/a").stat().st_size) == (True, written.size)
