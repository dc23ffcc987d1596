"""After a rehearsal nobody waits for a kernel; and what must not see made-up records does not see them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: In a process of its own, where no other test has prepared a kernel: rehearse or not, then answer real questions, and tell for
#: how many kernels somebody had to wait, compiled or loaded.
SCRIPT = """
import json, sys, traceback
from pathlib import Path
from numba.core import event
from operators.spouts.journal import pack_entry
from service.engine import runnable
from service.intake import Operation
from service.rehearsal import rehearse, write_rehearsal
from service.service import Service
from streams.segment_log import LogWriter
from topology.run import run
from topology.toml import load_topology

topology, folder, rehearsing = sys.argv[1:]
saved = [f"topology.checkpoint.directory={folder}/saved", "topology.checkpoint.epochs=2"]
service = Service(load_topology(Path(topology), saved), Path(folder))
if rehearsing == "yes":
    write_rehearsal(service._intake(service.intake.rules), service.folder.rehearsal)
live = runnable(service.folder)
rehearse(live, service.folder.declared(), service.folder.rehearsal, lambda: False)
assert not service.folder.rehearsal.exists()

QUESTIONS = [
    {"type": "range", "region": {"rect": [0, 0, 9, 9]}, "keywords": ["hail"]},
    {"type": "range", "region": {"circle": [4, 4, 3]}, "keywords": ["storm", "rain"], "match": "any"},
    {"type": "knn", "at": [3, 3], "k": 2}, {"type": "knn", "at": [3, 3], "k": 2, "keywords": ["storm"]},
    {"type": "terms", "region": {"rect": [0, 0, 9, 9]}, "k": 2, "window": 60_000},
]
waited = []

class Listener(event.Listener):
    def on_start(self, event):
        callers = [f"{one.name} {one.line}" for one in traceback.extract_stack() if "numba" not in one.filename]
        waited.append(" < ".join(callers[-2:-5:-1]))

    def on_end(self, event):
        pass

with event.install_listener("numba:compile", Listener()), event.install_listener("numba:compiler_lock", Listener()):
    intake, writer, now = service.intake, LogWriter(service.folder.journal), 5_000_000
    lines = "".join(json.dumps({"id": n, "x": n % 10, "y": n % 7, "text": "storm hail"}) + "\\n" for n in range(30))
    entries = [intake.objects(lines.encode(), now).entry]
    for n, question in enumerate(QUESTIONS):
        asked = Operation("register", f"q{n}", {"window": 60_000, **question, "continuous": False})
        entries.append(intake.operations([asked], now + n, "POST /queries:ask", at_once=True).entry)
    standing = Operation("register", "s", {"type": "range", "region": {"rect": [0, 0, 5, 5]}, "keywords": ["storm"]})
    entries += [intake.operations([standing], now + 100, "PUT").entry, intake.objects(lines.encode(), now + 200).entry]
    for entry in entries:
        writer.append(pack_entry(entry))
    writer.close()
    turns = []
    summary = run(live, should_stop=lambda: len(turns) > 6, wait=turns.append).summary
print(json.dumps({"waited": waited, "results": summary["results"], "objects": summary["objects"]}))
"""


def _waited(topology, folder, rehearsing):
    folder.mkdir()
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(topology), str(folder), rehearsing],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads(found.stdout.splitlines()[-1])


def test_after_a_rehearsal_no_question_waits_for_a_kernel(tmp_path):
    """Snapshots of every kind and a standing question find all their kernels, and answer from real objects only."""
    topology = ROOT / "conf" / "sstd.toml"
    rehearsed = _waited(topology, tmp_path / "rehearsed", "yes")
    assert rehearsed["waited"] == []
    alone = _waited(topology, tmp_path / "alone", "no")
    assert len(alone["waited"]) > 10
    assert rehearsed["results"] == alone["results"] > 10
    assert rehearsed["objects"] == 60


OWN = """
from pathlib import Path

from operators.operator import Bolt

class Writes(Bolt):
    outputs = {}
    path: Path = Path(__file__).with_name("written")

    def execute_epoch(self, epoch, inputs, emit):
        for arrival in inputs.arrivals:
            with self.path.open("a") as file:
                file.write(f"{len(arrival.batch)}\\n")
"""


@pytest.fixture
def own(tmp_path):
    """A topology with a bolt of the user's and a sink that writes a file, beside the shipped ones."""
    (tmp_path / "writes.py").write_text(OWN)
    path = tmp_path / "own.toml"
    path.write_text(
        f'''extends = "{ROOT}/conf/quickstart.toml"
[bolt.own]
operator = "writes.py:Writes"
inputs = [{{ component = "objects", stream = "objects", grouping = "global" }}]
[bolt.copy]
operator = "jsonl"
path = "{tmp_path}/copy.jsonl"
inputs = [{{ component = "evaluator", stream = "results", grouping = "global" }}]
'''
    )
    return path


def test_who_reaches_outside_takes_no_part_in_a_rehearsal(own, tmp_path):
    """A user's bolt and a sink that writes see real objects only, also where the rest is rehearsed."""
    found = _waited(own, tmp_path / "state", "yes")
    assert not any("match" in caller for caller in found["waited"])  # the evaluator was rehearsed
    seen = sum(int(line) for line in (tmp_path / "written").read_text().split())
    assert seen == found["objects"] == 60
    assert {json.loads(line)["query"] for line in (tmp_path / "copy.jsonl").read_text().splitlines()} == {"s"}
