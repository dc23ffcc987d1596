"""What a run may go back to: a checkpoint of its own, never that of an older run in the same place."""

import json
from typing import ClassVar

import pytest
from operators_for_tests import Numbers
from range_inputs import range_topology, write_inputs

from streams.errors import RunError
from streams.state import pack_apart
from topology import TopologyBuilder, run
from topology.checkpoints import Checkpoints, FolderStore, RunRecord
from topology.checkpoints import background as background_module
from topology.declaration import CheckpointSettings
from topology.messages import Report
from topology.summary import Tally
from topology.wiring import wire


def checkpoints_in(folder, **options):
    """Checkpoints of a fresh run, and its tasks; the folder may have those of a run before."""
    topology = range_topology(*write_inputs(folder, 5), checkpoint={"directory": str(folder / "saved")})
    if options.pop("used", False):
        run(topology)
    wiring = wire(topology, None)
    record = RunRecord(Tally(wiring, lambda: 0.0), 10)
    settings = CheckpointSettings(str(folder / "saved"))
    return Checkpoints(wiring, settings, FolderStore(folder / "saved"), record, **options), wiring.tasks


@pytest.mark.parametrize("used", [False, True])
def test_run_has_nothing_to_go_back_to_before_its_start_is_saved(tmp_path, used):
    """Whatever else is in the store."""
    checkpoints, tasks = checkpoints_in(tmp_path, used=used)
    checkpoints.begin_elsewhere(0)
    checkpoints.hand_over(tasks[0].id, pack_apart({}), {})
    assert not checkpoints.abandon()
    assert checkpoints.mark is None
    checkpoints.close()


def test_run_can_go_back_once_all_tasks_have_handed_over_its_start(tmp_path):
    """What is being written when a worker is lost is written first."""
    checkpoints, tasks = checkpoints_in(tmp_path)
    checkpoints.begin_elsewhere(0)
    for task in tasks:
        checkpoints.hand_over(task.id, pack_apart({}), {})
    assert checkpoints.abandon()
    checkpoints.close()


class Told(Numbers):
    """Remembers for each checkpoint that it was told of whether it was in the store by then; ends when it has heard of some."""

    folder = None
    told: ClassVar = []

    def next_epoch(self, epoch, inputs, emit):
        return super().next_epoch(epoch, inputs, emit) and len(self.told) < 4

    def saved(self, epoch):
        manifests = [json.loads(path.read_text()) for path in self.folder.glob("*/manifest.json")]
        self.told.append((epoch, epoch in {manifest["checkpoint"]["epoch"] for manifest in manifests}))


def test_spouts_learn_of_checkpoints_that_are_whole(tmp_path, monkeypatch):
    """Of the start and of some of those behind it, each once, when its manifest is there."""
    monkeypatch.setattr(Told, "folder", tmp_path)
    monkeypatch.setattr(Told, "told", [])
    builder = TopologyBuilder(
        "told", checkpoint={"directory": str(tmp_path), "epochs": 1, "keep": 1_000}, max_pending=2
    )
    builder.spout("numbers", Told, count=1_000_000, size=1)
    builder.bolt("sink", "count").global_("numbers")
    run(builder.build())
    epochs = [epoch for epoch, _ in Told.told]
    assert epochs[0] == -1
    assert len(epochs) >= 4
    assert epochs == sorted(set(epochs))
    assert all(there for _, there in Told.told)


def test_resumed_run_can_go_back_at_once(tmp_path):
    """The checkpoint that it came from is its own."""
    checkpoints, _ = checkpoints_in(tmp_path, used=True, resumed_from={})
    assert checkpoints.abandon()
    checkpoints.close()


def test_store_that_never_answers_ends_the_run(tmp_path, monkeypatch):
    """With what it waited for, instead of waiting on."""
    checkpoints, _ = checkpoints_in(tmp_path)
    monkeypatch.setattr(background_module, "CLOSE_SECONDS", 0.01)
    checkpoints._writer._free.clear()
    with pytest.raises(RunError, match=r"was not written to .*saved within 0.01 s"):
        checkpoints.abandon()


def test_bytes_for_standard_output_are_passed_on_once_each(tmp_path):
    """A run that goes back works on epochs again whose lines were printed: also on the last of these."""
    printed = []
    wiring = wire(range_topology(*write_inputs(tmp_path, 5)), None)
    record = RunRecord(Tally(wiring, lambda: 0.0), 10, printed.append)

    def said(epoch, task=3):
        record.report(Report(task, epoch, {}, False, 0, [b"%d:%d" % (task, epoch), b"and %d" % epoch]))

    record.begin_cut(1)
    said(0)
    said(1)
    state = record.snapshot()
    said(2)
    said(3)
    record.go_back(Tally(wiring, lambda: 0.0), state)
    for epoch in (2, 3, 4):
        said(epoch)
    said(2, task=4)
    assert printed == [
        one
        for task, epoch in ((3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 2))
        for one in (b"%d:%d" % (task, epoch), b"and %d" % epoch)
    ]
